//! Reads benchmark results back: printed blocks anywhere in a log, published markdown tables, and
//! the tools' JSON.
//!
//! Every generation of both tools is accepted. What cannot be read is told with its line; nothing
//! is dropped silently.

mod blocks;
mod json;
mod table;

pub(crate) use json::quote_non_finite;

use super::keys::MetricKey;
use super::keys::Tool;
use super::sglang::RequestRate;
use super::sglang::SglangGeneration;
use super::vllm::VllmGeneration;

/// Which form of a tool's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// One of SGLang's.
    Sglang(SglangGeneration),
    /// One of vLLM's.
    Vllm(VllmGeneration),
}

/// Where a measurement was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A printed block.
    Block,
    /// A row of a markdown table.
    TableRow,
    /// A JSON object.
    Json,
}

/// One measured run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Where it was found.
    pub origin: Origin,
    /// The line it begins on, from 1.
    pub line: usize,
    /// The tool; nothing when a table does not tell.
    pub tool: Option<Tool>,
    /// The nearest known form of the output; nothing for tables.
    pub generation: Option<Generation>,
    /// `Backend:`.
    pub backend: Option<String>,
    /// The configured rate.
    pub request_rate: Option<RequestRate>,
    /// The configured limit of concurrent requests.
    pub max_concurrency: Option<u64>,
    /// Whether it was told that there is no such limit.
    pub is_unlimited: bool,
    /// What names the run: label columns of a table, the markdown heading above a block.
    pub labels: Vec<(String, String)>,
    /// The figures in the order they were found, in the units of the tools' JSON: milliseconds,
    /// seconds, tokens, shares.
    pub metrics: Vec<(MetricKey, f64)>,
    /// Everything else that was told: label or JSON key, and value as written.
    pub facts: Vec<(String, String)>,
    /// The lines before a block that tell its flags, as they were: `Namespace(…)` and commands.
    pub context: Vec<String>,
}

impl Measured {
    fn new(origin: Origin, line: usize) -> Self {
        Self {
            origin,
            line,
            tool: None,
            generation: None,
            backend: None,
            request_rate: None,
            max_concurrency: None,
            is_unlimited: false,
            labels: Vec::new(),
            metrics: Vec::new(),
            facts: Vec::new(),
            context: Vec::new(),
        }
    }

    /// The figure under this key.
    pub fn get(&self, key: MetricKey) -> Option<f64> {
        self.metrics.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// The figure under this JSON key of either tool, such as `mean_ttft_ms`.
    pub fn get_named(&self, name: &str) -> Option<f64> {
        self.get(MetricKey::parse(name)?)
    }

    /// The figures under the JSON keys of the tool that measured them (vLLM's where unknown).
    pub fn named_metrics(&self) -> impl Iterator<Item = (String, f64)> {
        let tool = self.tool.unwrap_or(Tool::Vllm);
        self.metrics.iter().map(move |(key, value)| (key.name(tool), *value))
    }

    fn set_limit(&mut self, value: &str) {
        let is_count = |n: &f64| n.fract() == 0.0 && (1.0..9e15).contains(n);
        self.max_concurrency = parse_number(value).filter(is_count).map(|count| count as u64);
        self.is_unlimited = ["not set", "None", "null", "inf"].contains(&value.trim());
        if self.max_concurrency.is_none() && !self.is_unlimited {
            self.facts.push(("max_concurrency".to_owned(), value.to_owned()));
        }
    }

    fn set_rate(&mut self, value: &str) {
        self.request_rate = match value {
            "trace" => Some(RequestRate::Trace),
            _ => parse_number(value).map(RequestRate::PerSecond),
        };
    }
}

/// What cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ReadProblem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// Everything found in a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The runs, in the order of the text.
    pub measured: Vec<Measured>,
    /// What could not be read.
    pub problems: Vec<ReadProblem>,
}

impl Found {
    fn problem(&mut self, line: usize, problem: impl Into<String>) {
        self.problems.push(ReadProblem { line, problem: problem.into() });
    }
}

/// Reads any text: JSON when it begins with a brace or bracket, else blocks and tables.
pub fn read(text: &str) -> Found {
    match text.trim_start_matches('\u{feff}').trim_start().chars().next() {
        Some('{' | '[') => read_json(text),
        _ => read_text(text),
    }
}

/// Reads every printed block and every result table of a text; lines may end in LF, CRLF or, as
/// progress bars do, CR.
pub fn read_text(text: &str) -> Found {
    let mut found = blocks::read(text);
    found.measured.extend(table::read(text));
    found.measured.sort_by_key(|measured| measured.line);
    found
}

/// Reads SGLang's JSON lines, vLLM's JSON objects (one, several after one another, or an array),
/// compact or indented, with or without `Infinity` and `NaN`. A line that cannot be read is told
/// and the others are kept.
pub fn read_json(text: &str) -> Found {
    json::read(text)
}

/// A number as the tools print it: `13.52`, `inf`, `-0.00`, `nan`.
fn parse_number(text: &str) -> Option<f64> {
    let text = text.trim();
    match text {
        "inf" | "Infinity" => Some(f64::INFINITY),
        "-inf" | "-Infinity" => Some(f64::NEG_INFINITY),
        "nan" | "NaN" => Some(f64::NAN),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') => {
            text.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;

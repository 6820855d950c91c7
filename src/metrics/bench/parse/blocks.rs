//! Finds printed blocks in logs, among progress bars, fences and log prefixes.

use crate::metrics::bench::block::TITLE;
use crate::metrics::bench::keys::Figure;
use crate::metrics::bench::keys::Latency;
use crate::metrics::bench::keys::MetricKey;
use crate::metrics::bench::keys::Statistic;
use crate::metrics::bench::keys::Tool;
use crate::metrics::bench::sglang::SglangGeneration;
use crate::metrics::bench::vllm::VllmGeneration;

use super::Found;
use super::Generation;
use super::Measured;
use super::Origin;
use super::parse_number;

/// What marks a line that tells the flags of a run.
const FLAG_MARKS: [&str; 5] =
    ["Namespace(", "bench_serving", "benchmark_serving", "vllm bench serve", "sglang.benchmark"];

/// What vLLM tells before its block.
const ANNOUNCED: [&str; 3] =
    ["Traffic request rate", "Burstiness factor", "Maximum request concurrency"];

/// A block that is being read.
struct Open {
    measured: Measured,
    /// What a logger puts before every line.
    prefix: String,
    /// Labels seen, in lower case.
    labels: Vec<String>,
}

pub(super) fn read(text: &str) -> Found {
    let mut found = Found::default();
    let mut open: Option<Open> = None;
    let mut context: Vec<String> = Vec::new();
    let mut announced: Vec<(&str, &str)> = Vec::new();
    let mut heading: Option<String> = None;
    for (number, whole) in text.split('\n').enumerate() {
        let number = number + 1;
        for line in whole.split('\r') {
            if let Some(start) = title_at(line) {
                finish(open.take(), Ending::Cut(number), &mut found);
                let mut measured = Measured::new(Origin::Block, number);
                measured.context = std::mem::take(&mut context);
                for (label, value) in announced.drain(..) {
                    measured.set_header(label, value);
                }
                measured.labels.extend(heading.clone().map(|text| ("heading".to_owned(), text)));
                let prefix = line[..start].to_owned();
                open = Some(Open { measured, prefix, labels: Vec::new() });
            } else if let Some(block) = &mut open {
                let line = line.strip_prefix(block.prefix.as_str()).unwrap_or(line);
                if is_last_rule(line) {
                    finish(open.take(), Ending::Rule, &mut found);
                } else if line.trim_start().starts_with("```") {
                    finish(open.take(), Ending::Cut(number), &mut found);
                } else {
                    block.read_line(line, number, &mut found);
                }
            } else if FLAG_MARKS.iter().any(|mark| line.contains(mark)) {
                context.push(line.trim().to_owned());
            } else if let Some(text) = heading_of(line) {
                heading = Some(text.to_owned());
            } else if let Some((label, value)) = line.split_once(": ") {
                let label = label.trim();
                if ANNOUNCED.contains(&label) {
                    announced.push((label, value.trim()));
                }
            }
        }
    }
    finish(open.take(), Ending::Cut(text.lines().count()), &mut found);
    found
}

/// How a block ends: with its last rule, or cut off on this line.
#[derive(Clone, Copy)]
enum Ending {
    Rule,
    Cut(usize),
}

/// Closes a block: names its tool and generation, or tells that it has no figures.
fn finish(open: Option<Open>, ending: Ending, found: &mut Found) {
    let Some(mut block) = open else { return };
    let line = block.measured.line;
    if let Ending::Cut(at) = ending {
        found.problem(
            at,
            format!(
                "the block of line {line} ends without its last rule of 50 `=`: is it cut off?"
            ),
        );
    }
    if block.measured.metrics.is_empty() {
        found.problem(
            line,
            "a block without figures: expected lines such as `Mean TTFT (ms): 12.3`",
        );
        return;
    }
    let generation = block.generation();
    block.measured.tool = Some(match generation {
        Generation::Sglang(_) => Tool::Sglang,
        Generation::Vllm(_) => Tool::Vllm,
    });
    block.measured.generation = Some(generation);
    found.measured.push(block.measured);
}

/// Where the title rule of a block begins.
fn title_at(line: &str) -> Option<usize> {
    let at = line.find(TITLE)?;
    let before = &line[..at];
    let rule = before.len() - before.trim_end_matches('=').len();
    let closed = line[at + TITLE.len()..].starts_with("====");
    (rule >= 4 && closed).then_some(at - rule)
}

fn is_last_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 40 && line.bytes().all(|byte| byte == b'=')
}

/// The text of a markdown heading.
fn heading_of(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim())
}

/// Whether a label belongs to the head of a run.
#[derive(PartialEq)]
enum Header {
    Taken,
    Other,
}

impl Measured {
    /// Takes the rate, limit and backend, which vLLM tells before its block and both tell in it.
    fn set_header(&mut self, label: &str, value: &str) -> Header {
        match label {
            "Backend" => self.backend = Some(value.to_owned()),
            "Traffic request rate" | "Request rate configured (RPS)" => self.set_rate(value),
            // `1.0 (Poisson process)`, under the key of the JSON
            "Burstiness factor" => {
                let number = value.split_whitespace().next().unwrap_or_default();
                self.facts.push(("burstiness".to_owned(), number.to_owned()));
            }
            "Max request concurrency" | "Maximum request concurrency" => {
                self.set_limit(value);
            }
            _ => return Header::Other,
        }
        Header::Taken
    }
}

/// What is wrong with a line whose figure would be lost: it has no value, or another unit than the tools
/// print.
fn unread(label: &str, value: &str) -> Option<String> {
    if value.is_empty() {
        return MetricKey::of_label(label).map(|_| format!("{label}: has no value"));
    }
    let in_ms = label.strip_suffix("(s)").map(|quantity| format!("{quantity}(ms)"));
    let is_other = MetricKey::of_label(label).is_none();
    let known = in_ms.filter(|label| is_other && MetricKey::of_label(label).is_some())?;
    Some(format!("{label}: must be in milliseconds, as in `{known}: 12.34`"))
}

impl Open {
    fn read_line(&mut self, line: &str, number: usize, found: &mut Found) {
        // section rules have no label; labels end in a colon, the only one but in the SLOs
        let told = line.split_once(": ").or_else(|| Some((line.trim_end().strip_suffix(':')?, "")));
        let Some((label, value)) = told else { return };
        let (label, value) = (label.trim(), value.trim());
        if let Some(problem) = unread(label, value) {
            found.problem(number, problem);
        }
        if label.is_empty() || value.is_empty() {
            return;
        }
        self.labels.push(label.to_lowercase());
        if self.measured.set_header(label, value) == Header::Taken {
            return;
        }
        match MetricKey::of_label(label) {
            Some(key) => self.read_figure(label, key, value, number, found),
            None => self.measured.facts.push((label.to_owned(), value.to_owned())),
        }
    }

    fn read_figure(
        &mut self,
        label: &str,
        key: MetricKey,
        value: &str,
        number: usize,
        found: &mut Found,
    ) {
        let Some(value) = parse_number(value.trim_end_matches('%')) else {
            found.problem(number, format!("{label}: `{value}` must be a number, such as 12.34"));
            return;
        };
        // printed in percent, written as shares
        let value = match key {
            MetricKey::Figure(Figure::SloAttainment | Figure::MetricAttainment(_)) => value / 100.0,
            _ => value,
        };
        self.measured.metrics.push((key, value));
    }

    fn has(&self, label: &str) -> bool {
        self.labels.iter().any(|known| known == label)
    }

    fn has_figure(&self, figure: Figure) -> bool {
        self.measured.get(MetricKey::Figure(figure)).is_some()
    }

    fn generation(&self) -> Generation {
        let tells = |latency, p| {
            let key = MetricKey::Latency(latency, Statistic::Percentile(p));
            self.measured.get(key).is_some()
        };
        let peaks = self.has_figure(Figure::PeakRequests);
        let is_sglang = self.measured.backend.is_some()
            || self.has_figure(Figure::RetokenizedTokens)
            || self.has("mean e2e latency (ms)");
        if !is_sglang {
            let is_current = peaks || self.has_figure(Figure::Failed);
            return Generation::Vllm(if is_current {
                VllmGeneration::V0_33
            } else {
                VllmGeneration::Late2024
            });
        }
        Generation::Sglang(match () {
            () if tells(Latency::E2e, 95.0) || tells(Latency::Ttft, 90.0) => {
                SglangGeneration::V0_5_23
            }
            () if tells(Latency::E2e, 90.0) => SglangGeneration::V0_5_9,
            () if peaks || self.has_figure(Figure::InputTextTokens) => SglangGeneration::V0_5_8,
            () if self.has("total throughput (tok/s)") => SglangGeneration::Early2025,
            () => SglangGeneration::V0_4_10,
        })
    }
}

//! Runs of a real server and its benchmark client on a GPU of known step time.
//!
//! The server's processes are real, the GPU is replaced by an exact law, so that such a run tells what
//! everything but the GPU takes. A folder holds `meta.json` with the flags of both sides and the law, and
//! `requests.csv.gz` (or `.csv`) with every request. The law prices the steps; arrivals and lengths are those of
//! the run.
//!
//! * `flags.rs`: flags that are known, and what they say
//! * `sglang.rs`, `vllm.rs`: the folders of each engine

mod flags;
mod sglang;
#[cfg(test)]
mod tests;
mod vllm;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::case::{Case, Limits};
use super::experiment::{Times, figures, scenario_file};
use crate::io::columns::{self, Table};
use crate::io::text;
use crate::load::{self, Listener, LoadError, Note, Override, fail};
use crate::request::Request;
use crate::scenario::{
    ClientConfig, ClusterConfig, EngineConfig, ScenarioFile, ServerHost, ServerHostConfig,
    StepTimeConfig,
};
use crate::units::{SimDuration, SimTime};

/// The file that makes a folder one of a run.
const META: &str = "meta.json";
/// Any model will do: the law prices the steps, and the memory is stated.
const MODEL: &str = "meta-llama/Llama-3.1-8B";
const GPU: &str = "H100-SXM5-80GB";
/// The CPU of the runs, against that of the profiles: one scale for each engine, chosen on the runs that are given
/// (0.05 apart; the medians of their errors of mean TTFT are least).
const CPU: f64 = 1.1;
/// Measured: bytes of a token of the text that both tools sent.
const TEXT_BYTES: f64 = 4.4;
/// A longer load is no measurement; three years.
const LONGEST_S: f64 = 1e8;

/// What the folder of a run says.
#[derive(Debug)]
struct HostRun {
    engine: EngineConfig,
    law: StepTimeConfig,
    host: ServerHostConfig,
    max_concurrency: Option<u32>,
    /// The columns of its table, in the order of [`Row`], and how many seconds their unit has.
    columns: [&'static str; 5],
    unit_s: f64,
}

/// A request as the client saw it.
#[derive(Debug, Clone, Copy)]
struct Row {
    send_s: f64,
    ttft_s: f64,
    e2e_s: f64,
    prompt_tokens: u32,
    output_tokens: u32,
}

/// The runs of a folder: its own, or those of the folders in it.
///
/// Of several the listener hears which cannot be simulated, and why.
///
/// # Errors
/// When there is none, or why none can be simulated.
pub fn host_runs(
    path: &Path,
    overrides: &[Override],
    listener: &Listener,
) -> Result<Vec<Case>, LoadError> {
    let name = path.display().to_string();
    if path.join(META).is_file() {
        return Ok(vec![case(path, overrides)?]);
    }
    let inside = std::fs::read_dir(path).map_err(|error| fail(&name, error))?;
    let inside = inside.collect::<Result<Vec<_>, _>>().map_err(|error| fail(&name, error))?;
    let mut folders: Vec<PathBuf> = inside.into_iter().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join(META).is_file());
    folders.sort();
    if folders.is_empty() {
        return Err(fail(&name, format_args!("neither it nor a folder in it has a {META}")));
    }
    let (mut cases, mut last) = (Vec::new(), None);
    for folder in &folders {
        match case(folder, overrides) {
            Ok(case) => cases.push(case),
            Err(error) => {
                listener.tell(&Note::Remark(format!("not simulated: {}", error.told())));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if cases.is_empty() => Err(error),
        _ => Ok(cases),
    }
}

fn case(folder: &Path, overrides: &[Override]) -> Result<Case, LoadError> {
    let id =
        folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let meta = folder.join(META);
    let name = meta.display().to_string();
    let text = text::whole(&meta, text::RESULTS_MIB_MAX).map_err(|error| fail(&name, error))?;
    let meta: Value = crate::json::parse(&text).map_err(|error| fail(&name, error))?;
    let (family, run) = HostRun::of(&meta).map_err(|problem| fail(&name, problem))?;
    let packed = folder.join("requests.csv.gz");
    let table = if packed.exists() { packed } else { folder.join("requests.csv") };
    let table = columns::read(&table).map_err(|error| fail(&error.path, &error.problem))?;
    let rows = run.rows(&table).map_err(|problem| fail(&table.name, problem))?;
    let file = load::overridden(run.scenario(&id, &rows), overrides)?;
    let sent = run.sent(&rows);
    Ok(Case {
        id,
        family: family.to_owned(),
        scenario: load::resolved(file, folder)?,
        measured: figures(&sent, &FIGURES),
        requests: Some(sent.into_iter().map(|(request, _)| request).collect()),
        limits: Limits::default(),
        assumed: Vec::new(),
    })
}

/// What is compared.
const FIGURES: [&str; 15] = [
    "duration",
    "request_throughput",
    "output_throughput",
    "mean_ttft_ms",
    "median_ttft_ms",
    "p90_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "p90_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "median_e2el_ms",
    "p90_e2el_ms",
    "p99_e2el_ms",
];

impl HostRun {
    fn of(meta: &Value) -> Result<(&'static str, Self), String> {
        if meta.get("server_flags").is_some() {
            return Ok(("host-runs/vllm", vllm::run(meta)?));
        }
        if meta.get("server_args").is_some() {
            return Ok(("host-runs/sglang", sglang::run(meta)?));
        }
        Err("has neither server_flags (of vLLM) nor server_args (of SGLang)".to_owned())
    }

    fn rows(&self, table: &Table) -> Result<Vec<Row>, String> {
        let places = self.columns.map(|name| {
            let place = table.columns.iter().position(|column| column == name);
            place.ok_or_else(|| format!("has no column `{name}`"))
        });
        let [send, ttft, e2e, prompt, output] = places;
        let (send, ttft, e2e) = (send?, ttft?, e2e?);
        let (prompt, output) = (prompt?, output?);
        let mut rows = Vec::with_capacity(table.rows.len());
        for (index, cells) in table.rows.iter().enumerate() {
            let wrong = |place: usize, rule: &str| {
                let (at, column, text) = (table.place(index), &table.columns[place], &cells[place]);
                format!("{at}: {column}: must be {rule}, got `{text}`")
            };
            let seconds = |place: usize| {
                let number: Option<f64> = cells[place].trim().parse().ok();
                let number = number.map(|number| number * self.unit_s);
                let number = number.filter(|number| (0.0..=LONGEST_S).contains(number));
                number.ok_or_else(|| wrong(place, "a time from 0"))
            };
            let tokens = |place: usize| {
                let number: Option<u32> = cells[place].trim().parse().ok();
                number.filter(|n| *n > 0).ok_or_else(|| wrong(place, "a whole number above 0"))
            };
            let row = Row {
                send_s: seconds(send)?,
                ttft_s: seconds(ttft)?,
                e2e_s: seconds(e2e)?,
                prompt_tokens: tokens(prompt)?,
                output_tokens: tokens(output)?,
            };
            if row.ttft_s > row.e2e_s {
                return Err(wrong(ttft, "at most the time of the whole answer"));
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Err("holds no request".to_owned());
        }
        Ok(rows)
    }

    /// The requests in order, as the client had them ready: in a closed loop all at once, else as they were sent.
    fn sent(&self, rows: &[Row]) -> Vec<(Request, Times)> {
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| a.send_s.total_cmp(&b.send_s));
        let origin = rows.first().map_or(0.0, |row| row.send_s);
        let sent = |row: &Row| {
            let start_s = row.send_s - origin;
            let after_s = if self.max_concurrency.is_some() { 0.0 } else { start_s };
            let arrival = SimTime::ZERO + SimDuration::from_secs_f64(after_s);
            let request = Request::new(arrival, row.prompt_tokens, row.output_tokens);
            (request, Times { start_s, ttft_s: Some(row.ttft_s), e2e_s: row.e2e_s })
        };
        rows.iter().map(sent).collect()
    }

    fn scenario(&self, name: &str, rows: &[Row]) -> ScenarioFile {
        let client =
            ClientConfig { max_concurrency: self.max_concurrency, ..ClientConfig::default() };
        let cluster = ClusterConfig {
            host: Some(ServerHost::Measured(self.host)),
            engine: self.engine.clone(),
            step_time: self.law.clone(),
            ..ClusterConfig::new(MODEL, GPU)
        };
        scenario_file(name, (rows.len(), client), cluster)
    }
}

//! The JSON that the tool itself would have written, under the name it would have chosen.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::args::BenchArguments;
use crate::cli::failure::Failure;
use crate::io::output::{self, OutputFile};
use crate::metrics::bench::{JsonLayout, NonFinite, Tool, VllmHeader};
use crate::metrics::{BenchReport, BenchWriter};

/// Where the tool's JSON goes.
#[derive(Debug)]
pub(super) struct ResultFile {
    path: PathBuf,
    mode: Mode,
    now: DateTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One more line (SGLang).
    AppendLine,
    /// One more object, separated by a line break (vLLM).
    AppendObject,
    /// The file anew (vLLM).
    Replace,
}

impl ResultFile {
    /// The file that the flags ask for, if any; its folder exists or, as by the tool, is made.
    pub(super) fn of(arguments: &BenchArguments, tool: Tool) -> Result<Option<Self>, Failure> {
        let now = Offset::UTC.to_datetime(Timestamp::now());
        let report = &arguments.report;
        let (path, mode) = match tool {
            Tool::Sglang => match &report.output_file {
                None => return Ok(None),
                Some(unnamed) if unnamed.is_empty() => {
                    (sglang_name(arguments, now).into(), Mode::AppendLine)
                }
                Some(path) => (path.into(), Mode::AppendLine),
            },
            Tool::Vllm if report.save_result || report.append_result => {
                let default = || vllm_name(arguments, now).into();
                let name = report.result_filename.clone().unwrap_or_else(default);
                let folder = report.result_dir.clone().unwrap_or_default();
                let mode = if report.append_result { Mode::AppendObject } else { Mode::Replace };
                (folder.join(name), mode)
            }
            Tool::Vllm => return Ok(None),
        };
        let file = Self { path, mode, now };
        // Before anything is simulated.
        let checked = match file.mode {
            Mode::AppendLine | Mode::AppendObject => output::check_append(&file.path),
            Mode::Replace => output::check(&file.path),
        };
        checked.map(|()| Some(file)).map_err(|error| Failure::Input(error.into()))
    }

    /// Writes the JSON; the file is as before when that fails.
    pub(super) fn write(
        &self,
        (arguments, tool): (&BenchArguments, Tool),
        report: &BenchReport,
    ) -> Result<(), Failure> {
        let (summary, place) = (&report.summary, self.path.display());
        let json = match &report.writer {
            BenchWriter::Sglang(run) => run.json(summary, NonFinite::Python),
            BenchWriter::Vllm(run) => {
                let mut run = run.clone();
                run.header = Some(header(arguments, tool, self.now)?);
                run.json(summary, JsonLayout::Line, NonFinite::Python)
            }
        };
        let written = match self.mode {
            Mode::AppendLine => output::append(&self.path, |_| format!("{json}\n")),
            Mode::AppendObject => {
                output::append(
                    &self.path,
                    |follows| {
                        if follows { format!("\n{json}") } else { json }
                    },
                )
            }
            Mode::Replace => replace(&self.path, &json),
        };
        written.map_err(|error| {
            Failure::Run(anyhow::anyhow!("{place}: the tool's JSON cannot be written: {error}"))
        })?;
        crate::cli::terminal::say(&format!("JSON of the tool in {place}"));
        Ok(())
    }
}

/// `sglang.bench_serving`: `{backend}_{MMDD}_{prompts}_{input}_{output}.jsonl`, or with the name of
/// the data set.
fn sglang_name(arguments: &BenchArguments, now: DateTime) -> String {
    let workload = &arguments.workload;
    let lengths = match workload.dataset(Tool::Sglang) {
        random if random.starts_with("random") => {
            format!("{}_{}", workload.input_len(), workload.output_len(Tool::Sglang))
        }
        other => other.to_owned(),
    };
    let (backend, prompts) = (workload.backend_of(Tool::Sglang).name(), workload.prompts());
    format!("{backend}_{:02}{:02}_{prompts}_{lengths}.jsonl", now.month(), now.day())
}

/// `vllm bench serve`: `{label}-{rate}qps[-concurrency{n}]-{model}-{date}.json`.
fn vllm_name(arguments: &BenchArguments, now: DateTime) -> String {
    let workload = &arguments.workload;
    let label = arguments.report.label.as_deref().unwrap_or(workload.backend_of(Tool::Vllm).name());
    let rate = match (workload.ramp_up_strategy, workload.request_rate) {
        (Some(strategy), _) => format!(
            "ramp-up-{}-{}qps-{}qps",
            strategy.name(),
            workload.ramp_up_start_rps.unwrap_or(0),
            workload.ramp_up_end_rps.unwrap_or(0)
        ),
        (None, rate) => format!("{:?}qps", rate.unwrap_or(f64::INFINITY)),
    };
    let limit = workload.max_concurrency.map_or_else(String::new, |n| format!("-concurrency{n}"));
    let model = arguments.server.model.rsplit('/').next().unwrap_or_default();
    format!("{label}-{rate}{limit}-{model}-{}.json", date(now))
}

fn date(now: DateTime) -> String {
    now.strftime("%Y%m%d-%H%M%S").to_string()
}

fn header(arguments: &BenchArguments, tool: Tool, now: DateTime) -> Result<VllmHeader, Failure> {
    let (workload, report) = (&arguments.workload, &arguments.report);
    let ramp_up = workload.ramp_up_strategy.map(|strategy| {
        let rate = |rps: Option<u32>| u64::from(rps.unwrap_or(0));
        let (start, end) = (workload.ramp_up_start_rps, workload.ramp_up_end_rps);
        (strategy.name().to_owned(), rate(start), rate(end))
    });
    Ok(VllmHeader {
        date: date(now),
        backend: workload.backend_of(tool).name().to_owned(),
        label: report.label.clone(),
        model_id: arguments.server.model.clone(),
        tokenizer_id: arguments.server.model.clone(),
        num_prompts: u64::from(workload.prompts()),
        metadata: metadata(&report.metadata)?,
        burstiness: workload.burstiness.unwrap_or(1.0),
        ramp_up,
    })
}

/// The pairs of `--metadata`.
pub(super) fn metadata(words: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let pair = |word: &String| {
        let pair = word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| {
            Failure::input(format!("--metadata: `{word}` has no `=`; write KEY=VALUE"))
        })
    };
    words.iter().map(pair).collect()
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OutputFile::create(path).map_err(io::Error::other)?;
    file.write_all(text.as_bytes())?;
    file.commit()
}

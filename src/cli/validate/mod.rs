//! `servecast validate`: measured runs, simulated again and compared.

#[cfg(feature = "calibrate")]
mod alike;
#[cfg(feature = "calibrate")]
mod calibrated;
mod reference;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::experiment::{self, DataArguments};
use super::{Failure, print, print_text, say};
use crate::cli::overrides;
use crate::io::text;
use crate::load::{self, Changes, Draft, Override};
use crate::scenario::ScenarioFile;
use crate::validate::{Case, Plan, Record, RecordError, Validation, judge, validate as simulate};
#[cfg(feature = "calibrate")]
use calibrated::Calibrated;

/// `servecast validate`.
#[derive(Debug, Args)]
#[command(after_help = "Without arguments, the built-in reference runs.\n\
    Exit codes: 0 within the limits, 1 not, 2 bad arguments or input.\n\n\
    Examples:\n  \
    servecast validate\n  \
    servecast validate my-experiment.toml\n  \
    servecast validate my-experiment.toml --calibration my-gpu.toml\n  \
    servecast validate --runs runs.jsonl --family 'gpustack/*'\n  \
    servecast validate --runs runs.jsonl --calibrate-on others.jsonl\n  \
    servecast validate --runs runs.jsonl --engine vllm --format json")]
pub(super) struct ValidateArguments {
    /// Experiment file: an engine, its requests and their measured times
    #[arg(conflicts_with = "runs")]
    experiment: Option<PathBuf>,
    /// Published runs, one JSON record a line
    #[arg(long, value_name = "FILE")]
    runs: Option<PathBuf>,
    /// Only runs of these families; `*` stands for any text, `?` for one letter
    #[arg(long, value_name = "GLOB", requires = "runs")]
    family: Option<String>,
    /// Only runs of this engine, as the records name it, in any capitals
    #[arg(long, value_name = "NAME", requires = "runs")]
    engine: Option<String>,
    /// Published runs to calibrate on: what differs between servers is fitted to those of this
    /// file with the same engine, source, GPU and model, from far to near
    #[cfg(feature = "calibrate")]
    #[arg(long, value_name = "FILE", requires = "runs")]
    calibrate_on: Option<PathBuf>,
    /// Parameters that `servecast calibrate --output` wrote, for the experiment
    #[arg(long, value_name = "FILE", requires = "experiment")]
    calibration: Option<PathBuf>,
    #[command(flatten)]
    data: DataArguments,
    /// Override a value of every scenario, as in `cluster.api_delay_ms=7`; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
    /// Threads; all processors if absent. The result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    /// Errors by family, or of every case
    #[default]
    Table,
    /// Errors by family, and every run
    Json,
    /// Every run and metric
    Csv,
}

pub(super) fn validate(arguments: &ValidateArguments) -> Result<(), Failure> {
    set_threads(arguments.threads)?;
    match (&arguments.runs, &arguments.experiment) {
        (Some(runs), _) => validate_runs(runs, arguments),
        (None, Some(path)) => validate_cases(&experiments(path, arguments)?, arguments),
        (None, None) => {
            validate_cases(&reference::cases(&overrides(&arguments.overrides)?)?, arguments)
        }
    }
}

fn validate_runs(path: &Path, arguments: &ValidateArguments) -> Result<(), Failure> {
    let (records, broken) = read(path)?;
    let records = chosen(records, path, arguments)?;
    let overrides = overrides(&arguments.overrides)?;
    check_overrides(&records, &overrides)?;
    #[cfg(feature = "calibrate")]
    let calibrated = match &arguments.calibrate_on {
        Some(path) => Calibrated::on(&read(path)?.0, &records, &overrides, say)?,
        None => Calibrated::default(),
    };
    let adjust = |record: &Record, file: ScenarioFile| {
        #[cfg(feature = "calibrate")]
        let file = calibrated.adjusted(file, &record.family)?;
        #[cfg(not(feature = "calibrate"))]
        let _ = record;
        load::overridden(file, &overrides).map_err(|error| Failure::from(error).to_string())
    };
    let mut validation = simulate(&records, &adjust);
    validation.add_broken(&broken);
    print_as(arguments.format, &validation, &validation.text())?;
    let all = &validation.all;
    say(&format!("{} of {} runs simulated", all.ran, all.total));
    Ok(())
}

/// Simulates cases; an error beyond its limit is a failure.
fn validate_cases(cases: &[Case], arguments: &ValidateArguments) -> Result<(), Failure> {
    let verdict = judge(cases);
    print_as(arguments.format, &verdict.validation, &verdict.text())?;
    if verdict.is_positive() {
        return Ok(());
    }
    let (held, limits) = verdict.held;
    let missed = limits - held;
    Err(Failure::Run(anyhow::anyhow!("{missed} of {limits} errors are beyond their limits")))
}

/// Reads an experiment and its variants.
fn experiments(path: &Path, arguments: &ValidateArguments) -> Result<Vec<Case>, Failure> {
    let calibration = arguments.calibration.as_deref();
    let overrides = overrides(&arguments.overrides)?;
    let changes =
        Changes { calibration: calibration.map(Path::to_path_buf), overrides, seed: None };
    let drafts = changes.load(Some(path))?;
    let case = |draft: &Draft| {
        let loaded = experiment::load(draft, &arguments.data)?;
        let scenario = loaded.draft.resolve()?.scenario;
        Ok(loaded.experiment.case(loaded.sent, scenario))
    };
    drafts.each.iter().map(case).collect()
}

fn print_as(format: Format, validation: &Validation, table: &str) -> Result<(), Failure> {
    match format {
        Format::Table => print_text(table),
        Format::Json => print(&validation.json()),
        Format::Csv => print(&validation.csv()),
    }
}

/// The records of a file, and the lines that are none; only such lines are an error.
fn read(path: &Path) -> Result<(Vec<Record>, Vec<RecordError>), Failure> {
    let name = path.display();
    let text = text::whole(path, text::RESULTS_MIB_MAX)
        .map_err(|error| Failure::input(format!("{name}: {error}")))?;
    let (records, broken) = Record::read_all(&text);
    match broken.first() {
        _ if !records.is_empty() => {
            for line in &broken {
                say(&format!("{name}: {line}"));
            }
            Ok((records, broken))
        }
        Some(error) => Err(Failure::input(format!("{name}: {error}"))),
        None => Err(Failure::input(format!("{name}: holds no run"))),
    }
}

/// Refuses overrides that no record can take: a misspelt path is an error, one of another engine
/// than some records have is a reason to leave those out.
fn check_overrides(records: &[Record], overrides: &[Override]) -> Result<(), Failure> {
    if overrides.is_empty() {
        return Ok(());
    }
    let mut refused = None;
    for plan in records.iter().filter_map(|record| Plan::of(record).ok()) {
        match load::overridden(plan.scenario, overrides) {
            Ok(_) => return Ok(()),
            Err(problem) => refused = Some(problem),
        }
    }
    refused.map_or(Ok(()), |error| Err(error.into()))
}

/// The records that were asked for; none is an error.
fn chosen(
    records: Vec<Record>,
    path: &Path,
    arguments: &ValidateArguments,
) -> Result<Vec<Record>, Failure> {
    let wanted = |record: &Record| {
        let family = arguments.family.as_ref().is_none_or(|glob| matches(glob, &record.family));
        let engine = arguments.engine.as_ref();
        family && engine.is_none_or(|name| record.engine().eq_ignore_ascii_case(name))
    };
    let chosen: Vec<Record> = records.into_iter().filter(wanted).collect();
    if chosen.is_empty() {
        let file = path.display();
        return Err(Failure::input(format!("{file}: no run of this family and engine")));
    }
    Ok(chosen)
}

#[cfg(feature = "parallel")]
fn set_threads(threads: Option<usize>) -> Result<(), Failure> {
    let Some(threads) = threads else { return Ok(()) };
    if threads == 0 {
        return Err(Failure::input("--threads: must be at least 1, got 0"));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|error| Failure::Run(error.into()))
}

#[cfg(not(feature = "parallel"))]
fn set_threads(threads: Option<usize>) -> Result<(), Failure> {
    match threads {
        None | Some(1) => Ok(()),
        Some(threads) => Err(Failure::input(format!(
            "--threads: this build has no threads (feature `parallel`), got {threads}"
        ))),
    }
}

/// Whether a text has the shape of a pattern with `*` and `?`. When a letter does not fit, the last
/// star takes one more: time is the product of both lengths at most.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, read));
                at += 1;
            }
            (Some(letter), _) if *letter == '?' || *letter == text[read] => {
                at += 1;
                read += 1;
            }
            (_, Some((after, taken))) => {
                star = Some((after, taken + 1));
                (at, read) = (after + 1, taken + 1);
            }
            _ => return false,
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_a_question_mark_for_one_letter() {
        assert!(matches("gpustack/*", "gpustack/glm-4.5-air/a100"));
        assert!(matches("*a100", "gpustack/glm-4.5-air/a100"));
        assert!(matches("a?00", "a100"));
        assert!(!matches("a?00", "a00"));
        assert!(!matches("gpustack", "gpustack/x"));
        assert!(matches("*", "") && matches("a*b*c", "axbxbxc") && !matches("a*b*c", "axbxb"));
    }

    #[test]
    fn many_stars_do_not_take_long() {
        assert!(!matches(&("*a".repeat(30) + "*b"), &"a".repeat(2000)));
    }
}

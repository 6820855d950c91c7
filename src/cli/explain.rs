//! `servecast explain`: why a request was slow.

#[cfg(feature = "plot")]
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::args::{ChangeArguments, Format};
use super::failure::Failure;
use super::progress::RunBar;
use super::replace;
use super::run::remove_on_interrupt;
use super::servers::ServersArgument;
use super::terminal::{print, say};
use crate::explain::{Explain, ExplainError, Explained, Metric, Shown};
use crate::load::{Draft, only};

/// `servecast explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast explain scenarios/qwen3-14b-h100.toml\n  \
    servecast explain runs/my-scenario 812 --output why.svg\n  \
    servecast explain my.toml --metric ttft --percentile 50 --seeds 5\n  \
    servecast explain scenarios/faults.toml --only crashes --seeds 0 --format json")]
#[expect(clippy::struct_excessive_bools, reason = "the command's own switches")]
pub(super) struct ExplainArguments {
    /// Scenario file, or a folder that `servecast run` wrote
    run: PathBuf,
    /// Number of the request, as tables of requests give it; the one at the percentile if absent
    request: Option<u32>,
    #[command(flatten)]
    changes: ChangeArguments,
    #[command(flatten)]
    servers: ServersArgument,
    /// The scenario or variant of this name, in which `*` stands for any text; the scenario itself if absent
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// The latency that picks the request and judges changes; the one whose SLO most requests miss if absent, or e2e
    /// without SLOs
    #[arg(long, value_enum)]
    metric: Option<MetricArgument>,
    /// The percentile of it, 1 to 100, that picks the request (nearest rank) and judges changes
    #[arg(long, value_name = "P", default_value_t = 99.0)]
    percentile: f64,
    /// Seeds of each change, at least 3; those that the first ones show to be no remedy get no more; 0 tries no changes
    #[arg(long, value_name = "N", default_value_t = 8)]
    seeds: u32,
    /// How often an interval holds the truth, and how often none of all verdicts is chance
    #[arg(long, default_value_t = 0.95)]
    confidence: f64,
    /// Under every seed, replay a trace as it was recorded, instead of stretches resampled from it
    #[arg(long)]
    point: bool,
    /// Try changes on all requests and with all seeds, also where fewer seem to tell; takes several times as long
    #[arg(long)]
    full: bool,
    /// Show all changes: also those without a difference, and those that break a rule of the scenario
    #[arg(long)]
    all: bool,
    /// Write the figure there (SVG)
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MetricArgument {
    /// Time to first token
    Ttft,
    /// Mean time per output token after the first
    Tpot,
    /// From sending to the last token
    #[value(alias = "e2el")]
    E2e,
}

impl From<MetricArgument> for Metric {
    fn from(metric: MetricArgument) -> Self {
        match metric {
            MetricArgument::Ttft => Self::Ttft,
            MetricArgument::Tpot => Self::Tpot,
            MetricArgument::E2e => Self::E2e,
        }
    }
}

pub(super) fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    if let Some(target) = &arguments.output {
        replace::check(target)?;
    }
    let mut explain = Explain::new(draft(arguments)?);
    explain.request = arguments.request;
    explain.metric = arguments.metric.map(Into::into);
    explain.percentile = arguments.percentile;
    explain.seeds = arguments.seeds;
    explain.confidence = arguments.confidence;
    explain.point = arguments.point;
    explain.full = arguments.full;
    let bar = Arc::new(RunBar::unless(arguments.quiet));
    explain.listener = bar.listener();
    remove_on_interrupt()?;
    let found = explain.run_telling(|account| tell(arguments, account));
    bar.finish();
    let found = found?;
    let shown = if arguments.all { Shown::All } else { Shown::Notable };
    print(&match arguments.format {
        Format::Json => format!("{:#}\n", serde_json::json!(found)),
        Format::Table => found.ranking_text(shown),
    })
}

/// Shows where the time of the request went, which need not wait for the changes; JSON is one document, and waits.
fn tell(arguments: &ExplainArguments, account: &Explained) -> Result<(), Failure> {
    if let Some(target) = &arguments.output {
        write(target, account)?;
    }
    if matches!(arguments.format, Format::Table) {
        print(&account.account_text())?;
    }
    if let Some(target) = &arguments.output {
        say(&format!("figure in {}", target.display()));
    }
    Ok(())
}

fn draft(arguments: &ExplainArguments) -> Result<Draft, Failure> {
    let drafts = arguments.changes.changes()?.load(Some(&arguments.run))?.each;
    let names: Vec<String> = arguments.only.iter().cloned().collect();
    arguments.servers.of(only(drafts, &names)?.swap_remove(0))
}

#[cfg(feature = "plot")]
fn write(target: &Path, found: &Explained) -> Result<(), Failure> {
    use crate::explain::PartKind;
    use crate::plot::{Span, SpanRow, Tone, span_figure};
    let tone = |kind: PartKind| match kind {
        PartKind::Retries | PartKind::PreemptedBefore | PartKind::PreemptedAfter => Tone::Lost,
        PartKind::Gateway
        | PartKind::Queued
        | PartKind::AdapterSlot
        | PartKind::AdapterLoad
        | PartKind::FirstStepWait => Tone::Waiting,
        PartKind::Api | PartKind::Transfer | PartKind::FirstDelivery | PartKind::LastDelivery => {
            Tone::Moving
        }
        PartKind::Prefill => Tone::Prefill,
        PartKind::Decode => Tone::Decode,
        PartKind::Stalled => Tone::HeldUp,
    };
    let subjects = [("", Some(&found.request)), (" (median)", found.median.as_ref())];
    let rows = subjects.into_iter().filter_map(|(what, one)| Some((what, one?)));
    let rows = rows.map(|(what, one)| SpanRow {
        label: format!("request {}{what}", one.request),
        first_token_s: one.ttft_ms / 1e3,
        spans: one
            .account
            .parts
            .iter()
            .map(|part| Span { tone: tone(part.kind), seconds: part.span.as_secs_f64() })
            .collect(),
    });
    let subtitle = if found.is_at_percentile {
        format!("{}  ·  P{} of {}", found.scenario, found.percentile, found.metric.title())
    } else {
        found.scenario.clone()
    };
    let figure = span_figure(&subtitle, &rows.collect::<Vec<_>>());
    replace::replace(target, |file| Ok(file.write_all(figure.svg.as_bytes())?))
}

#[cfg(not(feature = "plot"))]
fn write(_: &Path, _: &Explained) -> Result<(), Failure> {
    Err(Failure::input("--output: needs a build with the feature `plot`"))
}

impl From<ExplainError> for Failure {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Load(error) => error.into(),
            error @ ExplainError::NoAnswer(_) => Self::Run(error.into()),
            error => Self::Input(error.into()),
        }
    }
}

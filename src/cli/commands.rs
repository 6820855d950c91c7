//! The commands as clap reads them.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, printed as they are")]

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::args::{ConformanceArguments, RunArguments};
use super::bench::BenchArguments;
#[cfg(feature = "calibrate")]
use super::calibrate::CalibrateArguments;
use super::check::CheckArguments;
use super::compare::CompareArguments;
use super::explain::ExplainArguments;
use super::init::InitArguments;
use super::man::ManArguments;
use super::plan::PlanArguments;
use super::profile::ProfileArguments;
use super::report::ReportArguments;
#[cfg(feature = "serve")]
use super::serve::ServeArguments;
use super::sweep::{MergeArguments, SweepArguments};
use super::trace::TraceArguments;
use super::validate::ValidateArguments;

/// Simulate LLM serving: real schedulers, real workloads, the benchmark block you know.
#[derive(Debug, Parser)]
#[command(
    name = "servecast",
    version,
    after_help = "Without a command, `servecast run` simulates a built-in scenario.\n\
                  Exit codes: 0 ok, 1 the run failed, 2 bad arguments or input, 130 interrupted."
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write a first scenario from a few answers
    Init(InitArguments),
    /// Simulate a scenario and report it like a benchmark tool
    Run(RunArguments),
    /// Serve a scenario over HTTP as if it were a cluster of vLLM or SGLang
    #[cfg(feature = "serve")]
    Serve(ServeArguments),
    /// Simulate a scenario at many points with several seeds; continues an interrupted sweep
    Sweep(SweepArguments),
    /// Join the parts of a sweep that several machines computed
    Merge(MergeArguments),
    /// Simulate a command of sglang.bench_serving or vllm bench serve
    Bench(Box<BenchArguments>),
    /// Fit parameters to measured runs
    #[cfg(feature = "calibrate")]
    Calibrate(CalibrateArguments),
    /// Find the cheapest layout that meets latency SLOs
    Plan(Box<PlanArguments>),
    /// Compare scenarios over many seeds: which is better, and by how much
    Compare(CompareArguments),
    /// Say why a request was slow, and which setting would change that most
    Explain(ExplainArguments),
    /// Make an HTML page of the results of a command, with figures
    Report(ReportArguments),
    /// Simulate recorded scenarios again and fail if a figure is worse
    Check(CheckArguments),
    /// Describe, convert and generate traces
    Trace(TraceArguments),
    /// List and show models and GPUs
    Profile(ProfileArguments),
    /// Simulate measured runs again and compare
    Validate(ValidateArguments),
    /// Replay recorded schedules of real engines and compare every step
    Conformance(ConformanceArguments),
    /// Print the JSON schema of scenario files
    Schema,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a page of the manual
    Man(ManArguments),
}

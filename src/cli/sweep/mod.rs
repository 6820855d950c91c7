//! `servecast sweep` and `servecast merge`: many runs of a scenario, on one machine or several.

mod args;
mod text;

pub(super) use args::{MergeArguments, SweepArguments};

use std::path::Path;

use self::args::ReportArguments;
use super::args::Format;
use super::failure::Failure;
use super::progress::RunBar;
use super::run;
use super::terminal::{hear, listener, print, say};
use crate::load::only;
use crate::problem::Problem;
use crate::profiles;
use crate::study::Figures;
use crate::sweep::{self, Missing, Results, Sweep, SweepError, USUAL, Watch};

pub(super) fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    arguments.report.check()?;
    let mut read = arguments.changes.changes()?.load_study(Some(&arguments.scenario))?;
    read.each = only(read.each, &arguments.only)?;
    let sweep = Sweep::of(read, &arguments.vary()?)?;
    run::remove_on_interrupt()?;
    let bar = RunBar::default();
    let progress = |ended, of| bar.show(ended, of);
    let watch = Watch {
        listener: listener(),
        progress: Some(&progress),
        words: Some(|error| Failure::from(error).to_string()),
    };
    let folder = &arguments.output_dir;
    let results = sweep.run_in(folder, arguments.shard, &watch);
    bar.finish();
    let results = results?;
    let (runs, reused) = (results.runs().len(), results.reused());
    let done = format!("{runs} runs, {reused} of them known before");
    tell(&results, &arguments.report, folder, &done)
}

pub(super) fn merge(arguments: &MergeArguments) -> Result<(), Failure> {
    arguments.report.check()?;
    run::remove_on_interrupt()?;
    let missing = if arguments.partial { Missing::LeftOut } else { Missing::Refused };
    let folder = &arguments.output_dir;
    let results = sweep::merge(&arguments.parts, folder, missing, &listener())?;
    let done = format!("{} of {} runs", results.runs().len(), results.planned());
    tell(&results, &arguments.report, folder, &done)
}

/// Prints what the points have in common, and says what was done. A sweep of which every run failed has failed.
fn tell(
    results: &Results,
    arguments: &ReportArguments,
    folder: &Path,
    done: &str,
) -> Result<(), Failure> {
    let figures = match (arguments.metrics.as_slice(), arguments.format) {
        ([], Format::Json) => results.figures(),
        ([], Format::Table) => USUAL.map(str::to_owned).to_vec(),
        (asked, _) => asked.to_vec(),
    };
    let report = results.report_of(figures);
    print(&match arguments.format {
        Format::Table => text::text(&report),
        Format::Json => format!("{:#}\n", report.json()),
    })?;
    say(&format!("{done}; results in {}", folder.display()));
    results.warnings().iter().for_each(hear);
    Ok(results.verdict()?)
}

impl ReportArguments {
    /// Refuses figures that no run has.
    fn check(&self) -> Result<(), Failure> {
        let known: Vec<String> = Figures::names().collect();
        // Those of a class have its name before them.
        let is_known = |name: &String| {
            let of_all = name.rsplit('.').next().unwrap_or(name);
            known.iter().any(|known| known == of_all)
        };
        let Some(name) = self.metrics.iter().find(|name| !is_known(name)) else { return Ok(()) };
        let near = profiles::closest(name, known.iter().map(String::as_str));
        let problem = Problem::new(format!("--metric {name}"), "is not a figure of a run");
        Err(problem.or_near(near).into())
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Load(error) => error.into(),
            error if error.is_bad_input() => Self::Input(error.into()),
            error => Self::Run(error.into()),
        }
    }
}

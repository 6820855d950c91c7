//! `servecast calibrate`: parameters from measured runs.

mod args;
mod text;

pub(super) use args::CalibrateArguments;
#[cfg(feature = "probe")]
pub(super) use text::parameter_table;

use std::io::Write;

use super::args::Format;
use super::failure::Failure;
use super::replace;
use super::terminal::{listener, print, say};
use crate::calibrate::{Calibration, Verdict};

pub(super) fn calibrate(arguments: &CalibrateArguments) -> Result<(), Failure> {
    if !(arguments.within > 0.0 && arguments.within.is_finite()) {
        let within = arguments.within;
        return Err(Failure::input(format!("--within: must be above 0 (percent), got {within}")));
    }
    if let Some(path) = &arguments.output {
        replace::check(path)?;
    }
    let answer = Calibration::of(&arguments.question()?, &listener())?.fit()?;
    let verdict = answer.verdict(arguments.within);
    print(&match arguments.format {
        Format::Table => text::text(&answer, &verdict),
        Format::Json => format!("{:#}\n", answer.json(&verdict)),
    })?;
    if let Some(path) = &arguments.output {
        let text = answer.file.text();
        replace::replace(path, |file| Ok(file.write_all(text.as_bytes())?))?;
        say(&format!("parameters in {}", path.display()));
    }
    say(&format!("{} simulations", answer.fit.simulations));
    judge(&verdict)
}

fn judge(verdict: &Verdict) -> Result<(), Failure> {
    let Verdict { within_pct, judged, misses, .. } = verdict;
    if *judged == 0 {
        return Err(Failure::Run(anyhow::anyhow!(
            "nothing to judge: no run tells a duration, a mean or a median"
        )));
    }
    match misses {
        0 => Ok(()),
        misses => Err(Failure::Run(anyhow::anyhow!(
            "{misses} durations, means or medians err by more than {within_pct} %"
        ))),
    }
}

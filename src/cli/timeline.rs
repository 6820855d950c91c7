//! `--timeline`: a trace of the run for ui.perfetto.dev.

use super::args::OutputArguments;
use super::failure::Failure;
use super::terminal::say;
use crate::io::rundir::Existing;
use crate::io::timeline::{TimelineFile, TimelineWriter, Window};
use crate::load::Loaded;
use crate::resolved::Scenario;

/// Above this the viewer becomes slow.
const BYTES_COMFORTABLE: u64 = 100_000_000;

/// Finds what is wrong with the flags before anything is simulated.
pub(super) fn check(loaded: &[Loaded], output: &OutputArguments) -> Result<(), Failure> {
    let Some(path) = &output.timeline else { return Ok(()) };
    if loaded.len() > 1 {
        return Err(Failure::input(format!(
            "--timeline: {} shows one run, but the scenario has variants: {} runs",
            path.display(),
            loaded.len()
        )));
    }
    TimelineFile::check(path, existing(output)).map_err(wrong)
}

/// Begins the timeline that the flags ask for.
pub(super) fn open(
    scenario: &Scenario,
    output: &OutputArguments,
) -> Result<Option<TimelineWriter<TimelineFile>>, Failure> {
    let Some(path) = &output.timeline else { return Ok(None) };
    let file = TimelineFile::create(path, existing(output)).map_err(wrong)?;
    let window = output.timeline_window.unwrap_or(Window::ALL);
    let mut gpus: Vec<&str> = scenario.groups.iter().map(|group| group.gpu.name.as_str()).collect();
    gpus.dedup();
    let label = format!("{} on {}", scenario.models.join(", "), gpus.join(", "));
    Ok(Some(TimelineWriter::new(file, window, scenario.replicas(), &label)))
}

/// Ends the timeline and puts it in its place.
pub(super) fn commit(timeline: TimelineWriter<TimelineFile>) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| Failure::Run(error.context("--timeline"));
    let (file, bytes) = timeline.finish().map_err(|error| failed(error.into()))?;
    let path = file.commit().map_err(|error| failed(error.into()))?;
    say(&format!("timeline in {}, for ui.perfetto.dev", path.display()));
    if bytes > BYTES_COMFORTABLE {
        say(&format!(
            "notice: the timeline holds {} MB, which the viewer is slow with; \
             --timeline-window START..END shows a part",
            bytes / 1_000_000
        ));
    }
    Ok(())
}

fn existing(output: &OutputArguments) -> Existing {
    if output.overwrite { Existing::Overwrite } else { Existing::Refuse }
}

fn wrong(error: crate::io::timeline::TimelineError) -> Failure {
    Failure::Input(anyhow::Error::new(error).context("--timeline"))
}

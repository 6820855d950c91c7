//! What a plan leaves behind.

use std::path::PathBuf;

use crate::cli::failure::Failure;
use crate::cli::results::run_json;
use crate::io::rundir::{RunDir, RunDirError};
use crate::plan::Answer;

/// Writes the plan as JSON, and its figure. Returns the folder.
pub(super) fn write(answer: &Answer, mut dir: RunDir) -> Result<PathBuf, Failure> {
    let failed = |error: RunDirError| Failure::Run(error.into());
    let plan = format!("{:#}\n", answer.json());
    dir.write("plan.json", plan.as_bytes()).map_err(failed)?;
    let run = run_json(answer.study.seed, std::iter::once(answer.study.name.as_str()));
    dir.write("run.json", format!("{run:#}\n").as_bytes()).map_err(failed)?;
    draw(answer, &mut dir).map_err(failed)?;
    dir.commit().map_err(failed)
}

#[cfg(not(feature = "plot"))]
#[expect(clippy::unnecessary_wraps, reason = "as fallible as its twin with the feature")]
fn draw(_: &Answer, _: &mut RunDir) -> Result<(), RunDirError> {
    crate::cli::terminal::say("notice: built without the feature `plot`, no figure is written");
    Ok(())
}

#[cfg(feature = "plot")]
fn draw(answer: &Answer, dir: &mut RunDir) -> Result<(), RunDirError> {
    use crate::plan::Front;
    use crate::plot::{FrontPanel, FrontPoint};

    if answer.tried.is_empty() {
        return Ok(());
    }
    let panel = |[heading, x, y]: [&str; 3], front: &Front| {
        let point = |place: usize, is_best: bool| {
            let (tried, at) = front.points[place];
            let (name, keeps) = (answer.tried_name(tried), answer.tried[tried].1.trial.is_kept);
            FrontPoint { at, name, is_best, keeps }
        };
        let named = |place: &usize| point(*place, true);
        let others = (0..front.points.len()).filter(|place| !front.best.contains(place));
        let others = others.map(|place| point(place, false));
        let (heading, x, y) = (heading.to_owned(), x.to_owned(), y.to_owned());
        FrontPanel { heading, x, y, points: front.best.iter().map(named).chain(others).collect() }
    };
    let speed = "Speed of an answer against what a GPU does";
    let mut panels =
        vec![panel([speed, "tokens/s per user", "tokens/s per GPU"], &answer.speeds())];
    if answer.has_prices() {
        let titles = ["Price against waiting", "USD per hour", "P99 TTFT (ms)"];
        panels.push(panel(titles, &answer.costs()));
    }
    if panels.iter().all(|panel| panel.points.is_empty()) {
        return Ok(());
    }
    let study = &answer.study;
    let rate_per_s = study.traffic.rate_per_s();
    let subtitle = format!("{}  ·  {}, {rate_per_s:.2} requests/s", study.name, study.model);
    let figure = crate::plot::front_figure(&subtitle, &panels);
    dir.write(&format!("figures/{}", figure.file_name), figure.svg.as_bytes())
}

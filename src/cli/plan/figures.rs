//! What a plan leaves behind.

use std::path::Path;

use super::answer::Answer;
use crate::cli::results::run_json;
use crate::cli::{Failure, run};
use crate::io::rundir::{RunDir, RunDirError};
use crate::rng::Seed;

/// Writes the plan as JSON, and its figure.
pub(super) fn write(
    answer: &Answer,
    seed: Seed,
    target: &Path,
    overwrite: bool,
) -> Result<(), Failure> {
    let mut dir = run::results_dir(target, overwrite)?;
    run::remove_on_interrupt()?;
    let failed = |error: RunDirError| Failure::Run(error.into());
    let plan = format!("{:#}\n", answer.json());
    dir.write("plan.json", plan.as_bytes()).map_err(failed)?;
    let run = run_json(seed, std::iter::once(answer.name.as_str()));
    dir.write("run.json", format!("{run:#}\n").as_bytes()).map_err(failed)?;
    draw(answer, &mut dir).map_err(failed)?;
    dir.commit().map_err(failed)?;
    Ok(())
}

#[cfg(not(feature = "plot"))]
#[expect(clippy::unnecessary_wraps, reason = "as fallible as its twin with the feature")]
fn draw(_: &Answer, _: &mut RunDir) -> Result<(), RunDirError> {
    crate::cli::say("notice: built without the feature `plot`, no figure is written");
    Ok(())
}

#[cfg(feature = "plot")]
fn draw(answer: &Answer, dir: &mut RunDir) -> Result<(), RunDirError> {
    use crate::plan::pareto;
    use crate::plot::{FrontPanel, FrontPoint};

    if answer.tried.is_empty() {
        return Ok(());
    }
    let panel = |heading: &str, x: &str, y: &str, points: Vec<(usize, (f64, f64))>, sign: f64| {
        // Smaller first coordinates and larger second ones are better.
        let better: Vec<(f64, f64)> =
            points.iter().map(|(_, (x, y))| (sign * x, -sign * y)).collect();
        let front = pareto(&better);
        let named = |place: &usize| {
            let (tried, at) = points[*place];
            FrontPoint { at, name: Some(answer.tried_name(tried)) }
        };
        let others = (0..points.len()).filter(|place| !front.contains(place));
        let others = others.map(|place| FrontPoint { at: points[place].1, name: None });
        let (heading, x, y) = (heading.to_owned(), x.to_owned(), y.to_owned());
        FrontPanel { heading, x, y, points: front.iter().map(named).chain(others).collect() }
    };
    let mut panels = vec![panel(
        "Speed of an answer against what a GPU does",
        "tokens/s per user",
        "tokens/s per GPU",
        answer.speeds(),
        -1.0,
    )];
    if answer.has_prices() {
        panels.push(panel(
            "Price against waiting",
            "USD per hour",
            "P99 TTFT (ms)",
            answer.costs(),
            1.0,
        ));
    }
    let figure = crate::plot::front_figure(&answer.title(), &panels);
    dir.write(&format!("figures/{}", figure.file_name), figure.svg.as_bytes())
}

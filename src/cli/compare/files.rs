//! What a comparison leaves behind.

use anyhow::Context;

use crate::cli::results::run_json;
use crate::compare::{Compared, Contestant};
use crate::io::rundir::RunDir;

/// Writes all files.
pub(super) fn write(dir: &mut RunDir, compared: &Compared) -> anyhow::Result<()> {
    let all = &compared.contestants;
    let run = run_json(compared.seed(), all.iter().map(Contestant::name));
    dir.write("run.json", format!("{run:#}\n").as_bytes())?;
    dir.write("compare.json", format!("{:#}\n", compared.json()).as_bytes())?;
    dir.write("seeds.csv", compared.seeds_csv().as_bytes())?;
    for one in all {
        let resolved = crate::erased::text(&one.file).context("the resolved scenario")?;
        dir.write(&format!("{}.resolved.toml", one.letter), resolved.as_bytes())?;
    }
    figures(dir, compared)
}

/// All scenarios in one figure.
#[cfg(feature = "plot")]
fn side_by_side(found: &Compared) -> crate::plot::Figure {
    use crate::compare::title;
    use crate::plot::{Judgement, Mark, SideBySide, side_by_side_figure};
    use crate::stats::mean;
    let (runs, findings) = (&found.runs, &found.findings);
    let figures = runs.judged.iter().map(|name| {
        let first = runs.values(0, name).map(|values| Mark {
            mean: mean(&values),
            half_width: 0.0,
            judgement: Judgement::Neither,
        });
        let others = findings.each.iter().map(|one| {
            let finding = one.judged.iter().find(|finding| finding.name == *name)?;
            Some(Mark {
                mean: finding.found.mean_b,
                half_width: finding.found.half_width,
                judgement: judgement(finding.verdict),
            })
        });
        let title = title(name);
        let (heading, unit) = title.split_once(" (").unwrap_or((&title, ""));
        SideBySide {
            heading: heading.to_owned(),
            unit: unit.trim_end_matches(')').to_owned(),
            marks: [first].into_iter().chain(others).collect(),
        }
    });
    let figures: Vec<SideBySide> = figures.collect();
    let names: Vec<String> = found.contestants.iter().map(|one| one.name().to_owned()).collect();
    side_by_side_figure(&names, &figures, runs.seeds(), runs.basis.confidence)
}

#[cfg(feature = "plot")]
fn judgement(verdict: crate::compare::Verdict) -> crate::plot::Judgement {
    use crate::compare::Verdict;
    use crate::plot::Judgement;
    match verdict {
        Verdict::Better => Judgement::Better,
        Verdict::Worse => Judgement::Worse,
        _ => Judgement::Neither,
    }
}

#[cfg(feature = "plot")]
fn figures(dir: &mut RunDir, compared: &Compared) -> anyhow::Result<()> {
    use crate::compare::plain;
    use crate::plot::{Interval, Overlay, comparison_figures};
    let all = &compared.contestants;
    let (runs, findings) = (&compared.runs, &compared.findings);
    let label = |one: &Contestant| format!("{}  {}", one.letter, one.name());
    let overlays = all.iter().zip(&runs.of).filter_map(|(contestant, each)| {
        Some(Overlay { name: label(contestant), seconds: each.first()?.latencies.clone()? })
    });
    let intervals = findings.each.iter().flat_map(|one| {
        let name = label(&all[one.other]);
        one.judged.iter().filter_map(move |finding| {
            let relative = finding.found.relative?;
            Some(Interval {
                scenario: name.clone(),
                figure: plain(&finding.name),
                change: relative.change,
                half_width: relative.half_width,
                judgement: judgement(finding.verdict),
            })
        })
    });
    if all.len() > 2 {
        let figure = side_by_side(compared);
        dir.write(&format!("figures/{}", figure.file_name), figure.svg.as_bytes())?;
    }
    let overlays: Vec<Overlay> = overlays.collect();
    let intervals: Vec<Interval> = intervals.collect();
    for figure in comparison_figures(&overlays, &intervals, runs.seeds(), runs.basis.confidence) {
        dir.write(&format!("figures/{}", figure.file_name), figure.svg.as_bytes())?;
    }
    Ok(())
}

#[cfg(not(feature = "plot"))]
#[expect(clippy::unnecessary_wraps, reason = "as fallible as its twin with the feature")]
fn figures(_: &mut RunDir, _: &Compared) -> anyhow::Result<()> {
    crate::cli::terminal::say("notice: built without the feature `plot`, no figures are written");
    Ok(())
}

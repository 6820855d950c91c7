//! What a comparison leaves behind.

use anyhow::Context;

use super::contestant::Contestant;
use super::findings::Findings;
use super::json;
use super::runs::Runs;
use crate::cli::results::run_json;
use crate::io::rundir::RunDir;

/// Writes all files.
pub(super) fn write(
    dir: &mut RunDir,
    all: &[Contestant],
    runs: &Runs,
    findings: &Findings,
) -> anyhow::Result<()> {
    let run = run_json(all[0].file.seed, all.iter().map(Contestant::name));
    dir.write("run.json", format!("{run:#}\n").as_bytes())?;
    let found = format!("{:#}\n", json::value(all, runs, findings));
    dir.write("compare.json", found.as_bytes())?;
    dir.write("seeds.csv", seeds(all, runs).as_bytes())?;
    for one in all {
        let resolved = toml::to_string(&one.file).context("the resolved scenario")?;
        dir.write(&format!("{}.resolved.toml", one.letter), resolved.as_bytes())?;
    }
    figures(dir, all, runs, findings)
}

/// The figures of every run: a row for each.
fn seeds(all: &[Contestant], runs: &Runs) -> String {
    let names: Vec<&str> = runs.of[0][0].figures.iter().map(|(name, _)| name).collect();
    let mut rows = vec![format!("scenario,seed_number,{}\n", names.join(","))];
    for (of, (contestant, each)) in all.iter().zip(&runs.of).enumerate() {
        for (place, one) in each.iter().enumerate() {
            let values = names.iter().map(|name| {
                one.figures.get(name).map(|value| value.to_string()).unwrap_or_default()
            });
            let values = values.collect::<Vec<_>>().join(",");
            let number = runs.seed_number(of, place);
            rows.push(format!("{},{number},{values}\n", contestant.letter));
        }
    }
    rows.concat()
}

#[cfg(feature = "plot")]
fn figures(
    dir: &mut RunDir,
    all: &[Contestant],
    runs: &Runs,
    findings: &Findings,
) -> anyhow::Result<()> {
    use super::findings::plain;
    use crate::compare::Verdict;
    use crate::plot::{Interval, Judgement, Overlay, comparison_figures};
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
                judgement: match finding.verdict {
                    Verdict::Better => Judgement::Better,
                    Verdict::Worse => Judgement::Worse,
                    _ => Judgement::Neither,
                },
            })
        })
    });
    let overlays: Vec<Overlay> = overlays.collect();
    let intervals: Vec<Interval> = intervals.collect();
    for figure in comparison_figures(&overlays, &intervals, runs.seeds(), runs.basis.confidence) {
        dir.write(&format!("figures/{}", figure.file_name), figure.svg.as_bytes())?;
    }
    Ok(())
}

#[cfg(not(feature = "plot"))]
#[expect(clippy::unnecessary_wraps, reason = "as fallible as its twin with the feature")]
fn figures(_: &mut RunDir, _: &[Contestant], _: &Runs, _: &Findings) -> anyhow::Result<()> {
    crate::cli::say("notice: built without the feature `plot`, no figures are written");
    Ok(())
}

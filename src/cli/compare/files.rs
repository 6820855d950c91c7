//! What a comparison leaves behind.

use anyhow::Context;

use crate::cli::results::run_json;
use crate::compare::{Compared, Contest, Contestant};
use crate::io::rundir::RunDir;

/// Writes all files.
pub(super) fn write(
    dir: &mut RunDir,
    contest: &Contest,
    compared: &Compared<'_>,
) -> anyhow::Result<()> {
    let all = &contest.contestants;
    let run = run_json(contest.seed(), all.iter().map(Contestant::name));
    dir.write("run.json", format!("{run:#}\n").as_bytes())?;
    dir.write("compare.json", format!("{:#}\n", compared.json()).as_bytes())?;
    dir.write("seeds.csv", compared.seeds_csv().as_bytes())?;
    for one in all {
        let resolved = toml::to_string(&one.file).context("the resolved scenario")?;
        dir.write(&format!("{}.resolved.toml", one.letter), resolved.as_bytes())?;
    }
    figures(dir, all, compared)
}

#[cfg(feature = "plot")]
fn figures(dir: &mut RunDir, all: &[Contestant], compared: &Compared<'_>) -> anyhow::Result<()> {
    use crate::compare::{Verdict, plain};
    use crate::plot::{Interval, Judgement, Overlay, comparison_figures};
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
fn figures(_: &mut RunDir, _: &[Contestant], _: &Compared<'_>) -> anyhow::Result<()> {
    crate::cli::say("notice: built without the feature `plot`, no figures are written");
    Ok(())
}

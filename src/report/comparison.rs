//! The page of a comparison.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::folder::{self, json};
use super::html::Html;
use super::page::{Page, Section, details, listing, section, statement};
use super::table::{Cell, Judgement, column, decimals, table, written};
use super::{ReportError, facts, figures};
use crate::compare::{is_told, title};
use crate::load::Listener;

/// What the page takes from `compare.json`.
#[derive(Debug, Deserialize)]
struct Comparison {
    scenarios: Vec<Contestant>,
    pairing: String,
    confidence: f64,
    seeds: u32,
    cautions: Vec<String>,
    /// Whether nothing was drawn; absent in folders of earlier versions.
    #[serde(default)]
    is_without_chance: bool,
    /// Whether requests are stretches resampled from a trace.
    #[serde(default)]
    is_resampled: bool,
    together: Vec<String>,
    comparisons: Vec<Against>,
}

#[derive(Debug, Deserialize)]
struct Contestant {
    letter: String,
    name: String,
    changed: Vec<String>,
}

/// A scenario beside the first one.
#[derive(Debug, Deserialize)]
struct Against {
    baseline: String,
    scenario: String,
    figures: Vec<Finding>,
    other_figures: Vec<Finding>,
    mean_e2e_parts: BTreeMap<String, Part>,
}

/// A figure of both.
#[derive(Debug, Deserialize)]
struct Finding {
    metric: String,
    a: Option<f64>,
    b: Option<f64>,
    relative: Option<f64>,
    relative_half_width: Option<f64>,
    verdict: String,
    verdict_of_all_together: Option<String>,
    #[serde(default)]
    sentence: String,
}

/// A part of the mean end-to-end time, in ms.
#[derive(Debug, Deserialize)]
struct Part {
    a: Option<f64>,
    b: Option<f64>,
    difference: Option<f64>,
}

pub(super) fn page(folder: &Path, listener: &Listener) -> Result<Page, ReportError> {
    let found: Comparison = json(&folder.join("compare.json"))?;
    let names: Vec<&str> = found.scenarios.iter().map(|one| one.name.as_str()).collect();
    let mut page = Page { kind: "servecast compare", title: heading(&names), ..Page::default() };
    folder::asked(folder, &mut page)?;
    let pairing =
        if found.pairing == "paired" { "the same requests" } else { "requests of their own" };
    let percent = found.confidence * 100.0;
    let percent = written(percent, decimals([percent].into_iter()));
    page.asked.push(("Seeds", format!("{} for each scenario, with {pairing}", found.seeds)));
    if found.is_resampled {
        page.asked
            .push(("Requests", "stretches resampled from the trace, one for each seed".into()));
    }
    let drawn = !found.is_without_chance;
    page.asked.push((
        "Intervals",
        if drawn {
            format!("hold the truth in {percent} %")
        } else {
            "none: nothing in these runs is drawn".to_owned()
        },
    ));
    page.verdict = match (&found.together[..], drawn) {
        ([line], true) => statement(line, &[]),
        (lines, true) => statement("All differences together, against A", lines),
        (lines, false) => statement("Of these requests alone", lines),
    };
    page.warnings = found.cautions;
    page.sections.push(section("Scenarios", contestants(&found.scenarios)));
    page.sections.extend(figures::section_of(folder, listener)?);
    page.sections.extend(found.comparisons.iter().map(|one| against(one, drawn)));
    for Contestant { letter, .. } in &found.scenarios {
        if let Some(text) = folder::text(&folder.join(format!("{letter}.resolved.toml")))? {
            page.sections.push(listing(&format!("Scenario {letter} with all defaults"), &text));
        }
    }
    Ok(page)
}

fn heading(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, other] => format!("{other} against {one}"),
        [one, others @ ..] => format!("{} scenarios against {one}", others.len()),
    }
}

/// Settings in which a scenario differs that the table names; the others are folded below it.
const CHANGED_MAX: usize = 6;

fn contestants(scenarios: &[Contestant]) -> Vec<Html> {
    let rows = scenarios.iter().enumerate().map(|(place, one)| {
        let shown = &one.changed[..one.changed.len().min(CHANGED_MAX)];
        let rest = one.changed.len() - shown.len();
        let what = match (place, shown) {
            (0, _) => "the baseline".to_owned(),
            (_, []) => "nothing".to_owned(),
            (_, shown) if rest == 0 => shown.join(", "),
            (_, shown) => format!("{} and {rest} more", shown.join(", ")),
        };
        [one.letter.clone(), one.name.clone(), what].map(Cell::Text).to_vec()
    });
    let titles = ["", "scenario", "differs from A in"].map(str::to_owned);
    let mut parts = vec![table(&titles, &rows.collect::<Vec<_>>())];
    let long = scenarios.iter().skip(1).filter(|one| one.changed.len() > CHANGED_MAX);
    parts.extend(long.map(|one| {
        let all = one.changed.iter().map(|path| Html::element("li", [Html::words("code", path)]));
        let what =
            format!("All {} settings in which {} differs from A", one.changed.len(), one.letter);
        details(&what, [Html::element("ul", all)])
    }));
    parts
}

fn against(one: &Against, drawn: bool) -> Section {
    let both = (one.baseline.as_str(), one.scenario.as_str());
    let is_told = |figure: &&Finding| {
        figure.a.zip(figure.b).is_some_and(|(a, b)| is_told(&figure.metric, [a, b]))
    };
    let (told, others): (Vec<&Finding>, Vec<&Finding>) =
        one.other_figures.iter().partition(is_told);
    let figures: Vec<&Finding> = one.figures.iter().chain(told).collect();
    let sentences = one.figures.iter().map(|figure| Html::words("li", &figure.sentence));
    let parts = [
        differences(both, &figures, drawn),
        details("In sentences", [Html::element("ul", sentences)]),
        Html::words("h3", "Where the mean end-to-end time went (ms)"),
        time_parts(both, &one.mean_e2e_parts),
        details("All other figures", [differences(both, &others, drawn)]),
    ];
    section(&format!("{} against {}", both.1, both.0), parts)
}

/// What figures differ by. Where nothing is drawn, there is one verdict: of these requests.
fn differences((a, b): (&str, &str), figures: &[&Finding], drawn: bool) -> Html {
    let is_judged = drawn && figures.iter().any(|figure| figure.verdict_of_all_together.is_some());
    let rows = figures.iter().map(|figure| {
        let decimals = decimals([figure.a, figure.b].into_iter().flatten());
        let cell = |value: Option<f64>| {
            value.map_or(Cell::Empty, |value| Cell::Number(written(value, decimals)))
        };
        let relative = figure.relative.zip(figure.relative_half_width);
        // A figure that is not judged among all others is judged by itself.
        let verdict = figure.verdict_of_all_together.as_ref().unwrap_or(&figure.verdict);
        let change = relative.map_or(Cell::Empty, |(change, half)| {
            let sign = if change > 0.0 { "+" } else { "" };
            // Of what is not drawn there is no interval.
            let half = if half > 0.0 {
                format!(" ± {}", written(100.0 * half, 1))
            } else {
                String::new()
            };
            let text = format!("{sign}{}{half} %", written(100.0 * change, 1));
            match verdict.as_str() {
                "better" => Cell::Judged(text, Judgement::Better),
                "worse" => Cell::Judged(text, Judgement::Worse),
                _ => Cell::Number(text),
            }
        });
        let metric = Cell::Text(title(&figure.metric));
        let alone = Cell::Text(figure.verdict.clone());
        let mut row = vec![metric, cell(figure.a), cell(figure.b), change, alone];
        let among_all = figure.verdict_of_all_together.clone().map_or(Cell::Empty, Cell::Text);
        row.extend(is_judged.then_some(among_all));
        row
    });
    let alone = if drawn { "by itself" } else { "for these requests" };
    let titles = ["", a, b, "difference", alone].map(str::to_owned).into_iter();
    let titles: Vec<String> = titles.chain(is_judged.then(|| "among all".to_owned())).collect();
    table(&titles, &rows.collect::<Vec<_>>())
}

fn time_parts((a, b): (&str, &str), parts: &BTreeMap<String, Part>) -> Html {
    let is_there =
        |part: &Part| [part.a, part.b].iter().any(|side| side.is_some_and(|ms| ms != 0.0));
    let there: Vec<(&String, &Part)> = parts.iter().filter(|(_, part)| is_there(part)).collect();
    let of = |side: fn(&Part) -> Option<f64>| {
        let mut values: Vec<Option<f64>> = there.iter().map(|(_, part)| side(part)).collect();
        values.push(Some(values.iter().flatten().sum()));
        column(&values)
    };
    let (left, right, change) = (of(|part| part.a), of(|part| part.b), of(|part| part.difference));
    let names = there
        .iter()
        .map(|(key, _)| facts::title(key.trim_start_matches("mean_").trim_end_matches("_ms")));
    let names = names.chain(["Total".to_owned()]);
    let rows = names.enumerate().map(|(row, name)| {
        vec![Cell::Text(name), left[row].clone(), right[row].clone(), change[row].clone()]
    });
    let titles = ["", a, b, "difference"].map(str::to_owned);
    table(&titles, &rows.collect::<Vec<_>>())
}

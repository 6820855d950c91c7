//! The page of a comparison.

use std::path::Path;

use serde_json::Value;

use super::folder::{self, json, list, name, texts};
use super::html::Html;
use super::page::{Page, details, listing, section, statement};
use super::table::{Cell, Judgement, column, decimals, table, written};
use super::{ReportError, facts, figures};
use crate::load::Listener;
use crate::compare::title;

pub(super) fn page(folder: &Path, listener: &Listener) -> Result<Page, ReportError> {
    let found = json(&folder.join("compare.json"))?;
    let scenarios = list(&found["scenarios"]);
    let names: Vec<String> = scenarios.iter().map(|one| name(&one["name"])).collect();
    let mut page = Page { kind: "servecast compare", title: heading(&names), ..Page::default() };
    folder::asked(folder, &mut page)?;
    let pairing =
        if found["pairing"] == "paired" { "the same requests" } else { "requests of their own" };
    let percent = found["confidence"].as_f64().unwrap_or_default() * 100.0;
    let percent = written(percent, decimals([percent].into_iter()));
    page.asked.push(("Seeds", format!("{} for each scenario, with {pairing}", found["seeds"])));
    page.asked.push(("Intervals", format!("hold the truth in {percent} %")));
    let lines = texts(&found["together"]);
    page.verdict = match &lines[..] {
        [line] => statement(line, &[]),
        lines => statement("All differences together, against A", lines),
    };
    page.warnings = texts(&found["cautions"]);
    page.sections.push(section("Scenarios", [contestants(&scenarios)]));
    page.sections.extend(figures::section_of(folder, listener)?);
    page.sections.extend(list(&found["comparisons"]).into_iter().map(against));
    for one in &scenarios {
        let letter = name(&one["letter"]);
        if let Some(text) = folder::text(&folder.join(format!("{letter}.resolved.toml")))? {
            page.sections.push(listing(&format!("Scenario {letter} with all defaults"), &text));
        }
    }
    Ok(page)
}

fn heading(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, other] => format!("{other} against {one}"),
        [one, others @ ..] => format!("{} scenarios against {one}", others.len()),
    }
}

fn contestants(scenarios: &[&Value]) -> Html {
    let rows = scenarios.iter().enumerate().map(|(place, one)| {
        let changed = texts(&one["changed"]);
        let what = match (place, &changed[..]) {
            (0, _) => "the baseline".to_owned(),
            (_, []) => "nothing".to_owned(),
            (_, changed) => changed.join(", "),
        };
        [name(&one["letter"]), name(&one["name"]), what].map(Cell::Text).to_vec()
    });
    let titles = ["", "scenario", "differs from A in"].map(str::to_owned);
    table(&titles, &rows.collect::<Vec<_>>())
}

fn against(one: &Value) -> Html {
    let (a, b) = (name(&one["baseline"]), name(&one["scenario"]));
    let (judged, beside) = (list(&one["figures"]), list(&one["other_figures"]));
    let sentences = judged.iter().map(|figure| Html::words("li", &name(&figure["sentence"])));
    let parts = [
        differences((&a, &b), &judged),
        details("In sentences", [Html::element("ul", sentences)]),
        Html::words("h3", "Where the mean end-to-end time went (ms)"),
        time_parts((&a, &b), &one["mean_e2e_parts"]),
        details("All other figures", [differences((&a, &b), &beside)]),
    ];
    section(&format!("{b} against {a}"), parts)
}

fn differences((a, b): (&str, &str), figures: &[&Value]) -> Html {
    let is_judged = figures.iter().any(|figure| !figure["verdict_of_all_together"].is_null());
    let rows = figures.iter().map(|figure| {
        let number = |key: &str| figure[key].as_f64();
        let decimals = decimals(["a", "b"].iter().filter_map(|key| number(key)));
        let cell = |value: Option<f64>| {
            value.map_or(Cell::Empty, |value| Cell::Number(written(value, decimals)))
        };
        let relative = number("relative").zip(number("relative_half_width"));
        // A figure that is not judged among all others is judged by itself.
        let together = &figure["verdict_of_all_together"];
        let verdict = name(if together.is_null() { &figure["verdict"] } else { together });
        let change = relative.map_or(Cell::Empty, |(change, half)| {
            let sign = if change > 0.0 { "+" } else { "" };
            let text =
                format!("{sign}{} ± {} %", written(100.0 * change, 1), written(100.0 * half, 1));
            match verdict.as_str() {
                "better" => Cell::Judged(text, Judgement::Better),
                "worse" => Cell::Judged(text, Judgement::Worse),
                _ => Cell::Number(text),
            }
        });
        let metric = title(&name(&figure["metric"]));
        let alone = Cell::Text(name(&figure["verdict"]));
        let mut row = vec![Cell::Text(metric), cell(number("a")), cell(number("b")), change, alone];
        row.extend(is_judged.then_some(Cell::Text(verdict)));
        row
    });
    let titles = ["", a, b, "difference", "by itself"].map(str::to_owned).into_iter();
    let titles: Vec<String> = titles.chain(is_judged.then(|| "among all".to_owned())).collect();
    table(&titles, &rows.collect::<Vec<_>>())
}

fn time_parts((a, b): (&str, &str), parts: &Value) -> Html {
    let parts = parts.as_object().into_iter().flatten();
    let there: Vec<(&String, &Value)> = parts
        .filter(|(_, part)| {
            ["a", "b"].iter().any(|side| part[*side].as_f64().unwrap_or_default() != 0.0)
        })
        .collect();
    let of = |key: &str| {
        let mut values: Vec<Option<f64>> =
            there.iter().map(|(_, part)| part[key].as_f64()).collect();
        values.push(Some(values.iter().flatten().sum()));
        column(&values)
    };
    let (left, right, change) = (of("a"), of("b"), of("difference"));
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

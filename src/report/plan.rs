//! The page of a plan.

use std::path::Path;

use serde_json::Value;

use super::facts::facts;
use super::folder::{self, json, list, name, texts};
use super::html::Html;
use super::page::{Page, details, section, statement};
use super::table::{Cell, alone, column, table_of};
use super::{ReportError, figures};
use crate::load::Listener;

pub(super) fn page(folder: &Path, listener: &Listener) -> Result<Page, ReportError> {
    let plan = json(&folder.join("plan.json"))?;
    let mut page = Page { kind: "servecast plan", title: name(&plan["name"]), ..Page::default() };
    folder::asked(folder, &mut page)?;
    page.asked.push(("Model", name(&plan["model"])));
    if let (Some(requests), Some(rate)) =
        (plan["requests"].as_f64(), plan["requests_per_s"].as_f64())
    {
        page.asked.push(("Traffic", format!("{} requests, {}/s", alone(requests), alone(rate))));
    }
    page.asked.push(("SLOs", texts(&plan["slos"]).join(", ")));
    let verdict = texts(&plan["verdict"]);
    page.verdict = verdict.split_first().map_or_else(
        || statement("See the layouts below.", &[]),
        |(first, rest)| statement(first, rest),
    );
    page.sections.push(section("Layouts", [layouts(&plan)]));
    page.sections.extend(figures::section_of(folder, listener)?);
    if !plan["perfect_autoscaler"].is_null() {
        let windows = facts(&plan["perfect_autoscaler"]);
        page.sections.push(section("If replicas followed the load", [windows]));
    }
    let tried = plan["tried"].as_array().map_or(0, Vec::len);
    if tried > 0 {
        let what = format!("All {tried} clusters that were simulated");
        page.sections.push(details(&what, [tried_table(&plan)]));
    }
    Ok(page)
}

/// A title and its cells.
type Column = (String, Vec<Cell>);

/// Replicas as people write them: `12`, or `4P8D` of prefill and decode.
fn size(replicas: &Value) -> Option<String> {
    match &replicas.as_array()?[..] {
        [all] => Some(all.to_string()),
        [prefill, decode] => Some(format!("{prefill}P{decode}D")),
        _ => None,
    }
}

/// What a layout keeps of each SLO, in the order of the SLOs.
fn kept<'a>(row: &'a Value, slo: &str) -> Option<&'a Value> {
    row["slos"].as_array()?.iter().find(|one| one["slo"] == slo)
}

fn layouts(plan: &Value) -> Html {
    let rows = list(&plan["layouts"]);
    let mut columns = sizes(&rows);
    if rows.iter().any(|row| !row["requests_per_s"].is_null()) {
        columns.push(numbers(&rows, "requests_per_s", "requests/s"));
    }
    columns.extend(costs(&rows));
    columns.extend(slos(plan, &rows));
    let remarks = rows.iter().map(|row| Cell::Text(remark(row)));
    columns.push(("binding".to_owned(), remarks.collect()));
    table_of(columns)
}

/// Names of layouts, and replicas.
fn sizes(rows: &[&Value]) -> Vec<Column> {
    let names = rows.iter().map(|row| Cell::Text(name(&row["layout"])));
    let replicas = rows.iter().map(|row| size(&row["replicas"]).map_or(Cell::Empty, Cell::Number));
    vec![("layout".to_owned(), names.collect()), ("replicas".to_owned(), replicas.collect())]
}

fn costs(rows: &[&Value]) -> [Column; 2] {
    [("gpus", "GPUs"), ("usd_per_hour", "USD/h")].map(|(key, title)| numbers(rows, key, title))
}

fn numbers(rows: &[&Value], key: &str, title: &str) -> Column {
    let values: Vec<Option<f64>> = rows.iter().map(|row| row[key].as_f64()).collect();
    (title.to_owned(), column(&values))
}

fn slos(plan: &Value, rows: &[&Value]) -> Vec<Column> {
    let of = |slo: String| {
        let value = |row: &&Value| kept(row, &slo)?["value"].as_f64();
        let values = column(&rows.iter().map(value).collect::<Vec<_>>());
        (slo, values)
    };
    texts(&plan["slos"]).into_iter().map(of).collect()
}

/// What decides about a layout, or why there is none of it.
fn remark(row: &Value) -> String {
    let binding = name(&row["binding"]);
    if !binding.is_empty() {
        return binding;
    }
    if let Some(reason) = row["impossible"].as_str() {
        return reason.lines().next().unwrap_or_default().to_owned();
    }
    if let Some(most) = size(&row["dearer"]["replicas_above"]) {
        return format!("{most} replicas are too few, and more are dearer than the runner-up");
    }
    if row["keeps"] == false {
        "meets the SLOs in no number that may be".to_owned()
    } else {
        String::new()
    }
}

fn tried_table(plan: &Value) -> Html {
    let rows = list(&plan["tried"]);
    let mut columns = sizes(&rows);
    columns.extend(costs(&rows));
    columns.extend(slos(plan, &rows));
    let keeps = |row: &&Value| match row["broken_off_for"].as_str() {
        Some(slo) => Cell::Text(format!("no, broken off for {slo}")),
        None if row["requests_pile_up"] == true => Cell::Text("no, requests pile up".to_owned()),
        None => Cell::Text(if row["keeps"] == true { "yes" } else { "no" }.to_owned()),
    };
    columns.push(("keeps them".to_owned(), rows.iter().map(keeps).collect()));
    table_of(columns)
}

//! The page of a plan.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::facts::facts;
use super::folder::{self, json};
use super::html::Html;
use super::page::{Page, folded, section, statement};
use super::table::{Cell, alone, column, table_of, written};
use super::{ReportError, figures};
use crate::load::Listener;

/// What the page takes from `plan.json`.
#[derive(Debug, Deserialize)]
struct Plan {
    name: String,
    model: String,
    requests: Option<f64>,
    requests_per_s: Option<f64>,
    slos: Vec<String>,
    verdict: Vec<String>,
    layouts: Vec<Row>,
    #[serde(default)]
    assumptions: Vec<Assumed>,
    #[serde(default)]
    prices: Vec<Price>,
    perfect_autoscaler: Option<Value>,
    tried: Vec<Row>,
}

/// What an hour of a GPU costs.
#[derive(Debug, Deserialize)]
struct Price {
    gpu: String,
    usd_per_hour: Option<f64>,
    from: String,
}

/// What the plan assumes.
#[derive(Debug, Deserialize)]
struct Assumed {
    title: String,
    of: Vec<String>,
    text: String,
}

/// A layout with what was found of it, or a cluster that was simulated.
#[derive(Debug, Deserialize)]
struct Row {
    layout: String,
    replicas: Option<Vec<u64>>,
    gpus: Option<f64>,
    usd_per_hour: Option<f64>,
    usd_per_month: Option<f64>,
    requests_per_s: Option<f64>,
    slos: Option<Vec<Kept>>,
    keeps: Option<bool>,
    binding: Option<String>,
    limited_by: Option<String>,
    impossible: Option<String>,
    dearer: Option<Dearer>,
    largest_tried: Option<Largest>,
    broken_off_for: Option<String>,
    requests_pile_up: Option<bool>,
}

/// The largest cluster of a layout that never meets the SLOs.
#[derive(Debug, Deserialize)]
struct Largest {
    replicas: Vec<u64>,
    misses: String,
}

/// What a cluster keeps of an SLO.
#[derive(Debug, Deserialize)]
struct Kept {
    slo: String,
    value: Option<f64>,
}

/// Why larger clusters were not simulated.
#[derive(Debug, Deserialize)]
struct Dearer {
    replicas_above: Vec<u64>,
}

pub(super) fn page(folder: &Path, listener: &Listener) -> Result<Page, ReportError> {
    let plan: Plan = json(&folder.join("plan.json"))?;
    let mut page = Page { kind: "servecast plan", title: plan.name.clone(), ..Page::default() };
    folder::asked(folder, &mut page)?;
    page.asked.push(("Model", plan.model.clone()));
    if let (Some(requests), Some(rate)) = (plan.requests, plan.requests_per_s) {
        page.asked.push(("Traffic", format!("{} requests, {}/s", alone(requests), alone(rate))));
    }
    page.asked.push(("SLOs", plan.slos.join(", ")));
    page.verdict = plan.verdict.split_first().map_or_else(
        || statement("See the layouts below.", &[]),
        |(first, rest)| statement(first, rest),
    );
    page.sections.push(section("Layouts", [layouts(&plan)]));
    if !plan.prices.is_empty() {
        page.sections.push(section("Prices", [prices(&plan)]));
    }
    if !plan.assumptions.is_empty() {
        page.sections.push(section("Assumptions", [assumptions(&plan)]));
    }
    page.sections.extend(figures::section_of(folder, listener)?);
    if let Some(windows) = &plan.perfect_autoscaler {
        page.sections.push(section("If replicas followed the load", [facts(windows)]));
    }
    let tried = plan.tried.len();
    if tried > 0 {
        let what = format!("All {tried} clusters that were simulated");
        page.sections.push(folded(&what, [tried_table(&plan)]));
    }
    Ok(page)
}

/// A title and its cells.
type Column = (String, Vec<Cell>);

/// Replicas as people write them: `12`, or `4P8D` of prefill and decode.
fn size(replicas: &[u64]) -> Option<String> {
    match replicas {
        [all] => Some(all.to_string()),
        [prefill, decode] => Some(format!("{prefill}P{decode}D")),
        _ => None,
    }
}

fn prices(plan: &Plan) -> Html {
    let text = |title: &str, text: fn(&Price) -> &String| {
        let cells = plan.prices.iter().map(|one| Cell::Text(text(one).clone()));
        (title.to_owned(), cells.collect())
    };
    let usd = plan.prices.iter().map(|one| one.usd_per_hour).collect::<Vec<_>>();
    let usd = ("USD/h".to_owned(), column(&usd));
    table_of(vec![text("GPU", |one| &one.gpu), usd, text("price from", |one| &one.from)])
}

fn assumptions(plan: &Plan) -> Html {
    let column = |title: &str, text: fn(&Assumed) -> String| {
        let cells = plan.assumptions.iter().map(|one| Cell::Text(text(one)));
        (title.to_owned(), cells.collect())
    };
    table_of(vec![
        column("what", |one| one.title.clone()),
        column("of", |one| one.of.join(", ")),
        // A page shows names as they are.
        column("assumed", |one| one.text.replace('`', "")),
    ])
}

fn layouts(plan: &Plan) -> Html {
    let rows = &plan.layouts;
    let mut columns = sizes(rows);
    if rows.iter().any(|row| row.requests_per_s.is_some()) {
        columns.push(numbers(rows, "requests/s", |row| row.requests_per_s));
    }
    columns.extend(costs(rows));
    columns.extend(slos(plan, rows));
    let remarks = rows.iter().map(|row| Cell::Text(remark(row)));
    columns.push(("what limits it".to_owned(), remarks.collect()));
    table_of(columns)
}

/// Names of layouts, and replicas.
fn sizes(rows: &[Row]) -> Vec<Column> {
    let names = rows.iter().map(|row| Cell::Text(row.layout.clone()));
    let size = |row: &Row| row.replicas.as_deref().and_then(size);
    let replicas = rows.iter().map(|row| size(row).map_or(Cell::Empty, Cell::Number));
    vec![("layout".to_owned(), names.collect()), ("replicas".to_owned(), replicas.collect())]
}

/// Prices of an hour have cents, however large the largest is, and those of a month have none.
fn costs(rows: &[Row]) -> Vec<Column> {
    let usd = |title: &str, decimals, of: fn(&Row) -> Option<f64>| {
        let cell = |row| of(row).map_or(Cell::Empty, |usd| Cell::Number(written(usd, decimals)));
        (title.to_owned(), rows.iter().map(cell).collect())
    };
    let per_hour = usd("USD/h", 2, |row| row.usd_per_hour);
    let per_month = usd("USD/month", 0, |row| row.usd_per_month);
    let has_months = rows.iter().any(|row| row.usd_per_month.is_some());
    let per_month = has_months.then_some(per_month);
    let gpus = numbers(rows, "GPUs", |row| row.gpus);
    [gpus, per_hour].into_iter().chain(per_month).collect()
}

fn numbers(rows: &[Row], title: &str, of: fn(&Row) -> Option<f64>) -> Column {
    (title.to_owned(), column(&rows.iter().map(of).collect::<Vec<_>>()))
}

fn slos(plan: &Plan, rows: &[Row]) -> Vec<Column> {
    let of = |slo: &String| {
        let value = |row: &Row| row.slos.as_ref()?.iter().find(|one| one.slo == *slo)?.value;
        (slo.clone(), column(&rows.iter().map(value).collect::<Vec<_>>()))
    };
    plan.slos.iter().map(of).collect()
}

/// What decides about a layout, or why there is none of it.
fn remark(row: &Row) -> String {
    // Folders of earlier versions say the SLO that takes most of what is allowed.
    if let Some(limit) = row.limited_by.as_ref().or(row.binding.as_ref()) {
        return limit.clone();
    }
    if let Some(reason) = &row.impossible {
        return reason.lines().next().unwrap_or_default().to_owned();
    }
    if let Some(most) = row.dearer.as_ref().and_then(|dearer| size(&dearer.replicas_above)) {
        let few = if most == "1" { "1 replica is" } else { &format!("{most} replicas are") };
        return format!("{few} too few; more are dearer than the runner-up");
    }
    if row.keeps == Some(false) {
        let largest = row.largest_tried.as_ref();
        let told = largest.and_then(|one| Some((size(&one.replicas)?, &one.misses)));
        told.map_or_else(
            || "misses the SLOs in every number that was tried".to_owned(),
            |(size, misses)| format!("misses {misses} even with {size} replicas"),
        )
    } else {
        String::new()
    }
}

fn tried_table(plan: &Plan) -> Html {
    let rows = &plan.tried;
    let mut columns = sizes(rows);
    columns.extend(costs(rows));
    columns.extend(slos(plan, rows));
    let keeps = |row: &Row| match &row.broken_off_for {
        Some(slo) => Cell::Text(format!("no, broken off for {slo}")),
        None if row.requests_pile_up == Some(true) => Cell::Text("no, requests pile up".to_owned()),
        None => Cell::Text(if row.keeps == Some(true) { "yes" } else { "no" }.to_owned()),
    };
    columns.push(("keeps them".to_owned(), rows.iter().map(keeps).collect()));
    table_of(columns)
}

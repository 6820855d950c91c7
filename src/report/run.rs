//! The page of a run, or of several beside each other.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::facts::{self, facts};
use super::folder::{self, json, name, texts};
use super::html::Html;
use super::page::{Page, details, listing, section};
use super::table::{Cell, alone, column, table};
use super::{ReportError, figures};
use crate::io::rundir::slug;
use crate::load::Listener;
use crate::metrics::bench::{MetricKey, Tool};
use crate::study::LOSSES;

/// A run of the folder.
struct One {
    folder: PathBuf,
    name: String,
    summary: Value,
}

/// Figures that are told first, by their places in a summary: title, unit, keys of both tools.
const HEADLINE: [(&str, &str, &[&str]); 9] = [
    ("Output throughput", "tokens/s", &["/benchmark/output_throughput"]),
    ("Requests", "per s", &["/benchmark/request_throughput"]),
    ("Median TTFT", "ms", &["/benchmark/median_ttft_ms"]),
    ("P99 TTFT", "ms", &["/benchmark/p99_ttft_ms"]),
    ("Median TPOT", "ms", &["/benchmark/median_tpot_ms"]),
    ("P99 TPOT", "ms", &["/benchmark/p99_tpot_ms"]),
    ("Requests finished", "", &["/requests/finished"]),
    ("GPU time", "hours", &["/bill/gpu_hours"]),
    ("Cost", "USD", &["/bill/cost/usd"]),
];

/// Parts of a summary that have tables of their own, in their order, and what they are.
const PARTS: [(&str, &str); 13] = [
    ("classes", "Classes of requests"),
    ("fairness", "Fairness"),
    ("models", "Models"),
    ("gateway", "Gateway"),
    ("faults", "Faults"),
    ("autoscaler", "Autoscaler"),
    ("cluster", "Replicas"),
    ("transfers", "KV caches that travelled"),
    ("kv_tiers", "KV tiers"),
    ("adapters", "Adapters"),
    ("bill", "Cost"),
    ("engine", "Engine"),
    ("seeds", "Other seeds"),
];

pub(super) fn page(folder: &Path, listener: &Listener) -> Result<Page, ReportError> {
    let mut page = Page { kind: "servecast run", ..Page::default() };
    let run = folder::asked(folder, &mut page)?;
    let names = texts(&run["runs"]);
    let folders: Vec<PathBuf> = match &names[..] {
        [] | [_] => vec![folder.to_owned()],
        names => names.iter().map(|name| folder.join(slug(name))).collect(),
    };
    let read = |folder: PathBuf| -> Result<One, ReportError> {
        let summary = json(&folder.join("summary.json"))?;
        Ok(One { name: name(&summary["name"]), folder, summary })
    };
    let all = folders.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    page.title = match &all[1..] {
        [] => all[0].name.clone(),
        [other] => format!("{} / {}", all[0].name, other.name),
        others => format!("{} and {} variants", all[0].name, others.len()),
    };
    page.verdict = headline(&all);
    for one in &all {
        let before = if all.len() > 1 { format!("{}: ", one.name) } else { String::new() };
        let warnings = texts(&one.summary["warnings"]["texts"]);
        page.warnings.extend(warnings.iter().map(|text| format!("{before}{text}")));
        let lost = Some(&one.summary).filter(|summary| !tells_losses(summary)).and_then(lost);
        page.warnings.extend(lost.map(|text| format!("{before}{text}")));
    }
    for one in &all {
        if all.len() > 1 {
            page.sections.push(Html::class("h2", "one", [Html::text(&one.name)]));
        }
        page.sections.extend(sections(one, listener)?);
    }
    Ok(page)
}

/// Whether its own warnings say what became of requests without an answer.
fn tells_losses(summary: &Value) -> bool {
    !summary["warnings"]["figures"]["losses"].is_null()
}

/// Requests that got no answer.
fn lost(summary: &Value) -> Option<String> {
    let requests = &summary["requests"];
    let arrived = requests["arrived"].as_u64()?;
    let lost = LOSSES.iter().filter_map(|fate| {
        let count = requests[*fate].as_u64().filter(|count| *count > 0)?;
        Some(format!("{count} {}", fate.replace('_', " ")))
    });
    let lost: Vec<String> = lost.collect();
    (!lost.is_empty()).then(|| format!("of {arrived} requests {}", lost.join(", ")))
}

/// The figures that matter most: of one run large, of several in a table.
fn headline(all: &[One]) -> Html {
    let value = |one: &One, keys: &[&str]| {
        keys.iter().find_map(|key| one.summary.pointer(key).and_then(Value::as_f64))
    };
    let mut rows: Vec<(&str, &str, Vec<Option<f64>>)> = HEADLINE
        .iter()
        .map(|(title, unit, keys)| {
            (*title, *unit, all.iter().map(|one| value(one, keys)).collect())
        })
        .collect();
    let percent = |one: &One| one.summary["slo"]["attainment"].as_f64().map(|share| 100.0 * share);
    rows.push(("Within all limits", "% of requests", all.iter().map(percent).collect()));
    rows.retain(|(_, _, values)| values.iter().any(Option::is_some));
    if let [_] = all {
        let tile = |(title, unit, values): &(&str, &str, Vec<Option<f64>>)| {
            let number = values[0].map_or_else(|| "–".to_owned(), alone);
            let number = Html::text(&format!("{number} "));
            let value = Html::element("dd", [number, Html::words("small", unit)]);
            Html::element("div", [Html::words("dt", title), value])
        };
        return Html::class("dl", "tiles", rows.iter().map(tile));
    }
    let titles = std::iter::once(String::new()).chain(all.iter().map(|one| one.name.clone()));
    let cells = rows.iter().map(|(title, unit, values)| {
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        std::iter::once(Cell::Text(format!("{title}{unit}"))).chain(column(values)).collect()
    });
    table(&titles.collect::<Vec<_>>(), &cells.collect::<Vec<_>>())
}

fn sections(one: &One, listener: &Listener) -> Result<Vec<Html>, ReportError> {
    let summary = &one.summary;
    let mut parts = vec![section("Latencies and throughput", benchmark(&summary["benchmark"]))];
    if !summary["requests"].is_null() {
        parts.push(section("Requests", [fates(&summary["requests"])]));
    }
    if let Some(limits) = slo(&summary["slo"]) {
        parts.push(section("SLOs", [limits]));
    }
    parts.extend(measured(one, listener));
    parts.extend(figures::section_of(&one.folder, listener)?);
    for (key, heading) in PARTS {
        let part = &summary[key];
        if !part.is_null() {
            parts.push(section(heading, [facts(part)]));
        }
    }
    if let Some(resolved) = folder::text(&one.folder.join("scenario.resolved.toml"))? {
        parts.push(listing("The scenario with all defaults", &resolved));
    }
    Ok(parts)
}

/// Latencies as a table with a row for each, other figures below it.
fn benchmark(figures: &Value) -> Vec<Html> {
    let mut statistics: Vec<String> = Vec::new();
    let mut latencies: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    let mut others: Vec<Vec<Cell>> = Vec::new();
    for (key, value) in figures.as_object().into_iter().flatten() {
        let Some(value) = value.as_f64() else { continue };
        let known = MetricKey::parse(key);
        let title = known.map_or_else(|| facts::title(key), |known| known.title(Tool::Vllm));
        match (known, title.split_once(' ')) {
            (Some(MetricKey::Latency(..)), Some((statistic, latency))) => {
                if !statistics.iter().any(|one| one == statistic) {
                    statistics.push(statistic.to_owned());
                }
                let row = latencies.iter().position(|(name, _)| name == latency);
                let row = row.unwrap_or_else(|| {
                    latencies.push((latency.to_owned(), Vec::new()));
                    latencies.len() - 1
                });
                latencies[row].1.push((statistic.to_owned(), value));
            }
            // Of what the program does not know, and which is nothing.
            (None, _) if value == 0.0 => {}
            _ => others.push(vec![Cell::Text(title), Cell::Number(alone(value))]),
        }
    }
    statistics.sort_by_key(|name| statistic_rank(name));
    latencies.sort_by_key(|(name, _)| {
        let order = ["TTFT", "TPOT", "ITL", "E2EL"];
        order.iter().position(|known| name.starts_with(known)).unwrap_or(order.len())
    });
    // Each latency with the digits that it needs: they are of different sizes.
    let rows = latencies.iter().map(|(name, values)| {
        let of = |statistic: &String| {
            values.iter().find(|(known, _)| known == statistic).map(|(_, value)| *value)
        };
        let cells = column(&statistics.iter().map(of).collect::<Vec<_>>());
        std::iter::once(Cell::Text(name.clone())).chain(cells).collect()
    });
    let titles = std::iter::once(String::new()).chain(statistics.iter().cloned());
    let mut parts = Vec::new();
    if !latencies.is_empty() {
        parts.push(table(&titles.collect::<Vec<_>>(), &rows.collect::<Vec<_>>()));
    }
    if !others.is_empty() {
        parts.push(table(&[String::new(), String::new()], &others));
    }
    parts
}

/// Mean, deviation, median, percentiles, most.
fn statistic_rank(name: &str) -> (u32, u32) {
    match name {
        "Mean" => (0, 0),
        "Std" => (1, 0),
        "Median" => (2, 0),
        percentile if percentile.starts_with('P') => {
            let digits = percentile[1..].parse::<f64>().unwrap_or_default();
            (3, (digits * 1000.0) as u32)
        }
        _ => (4, 0),
    }
}

/// What became of requests; what happened to none is left out.
fn fates(requests: &Value) -> Html {
    let order = ["arrived", "finished"].into_iter().chain(LOSSES).chain(["displaced", "retried"]);
    let rows = order.filter_map(|fate| {
        let count = requests[fate].as_f64()?;
        let is_told = count > 0.0 || matches!(fate, "arrived" | "finished");
        is_told.then(|| vec![Cell::Text(facts::title(fate)), Cell::Number(alone(count))])
    });
    table(&[String::new(), "requests".to_owned()], &rows.collect::<Vec<_>>())
}

/// Each limit with the share of requests that keep it.
fn slo(slo: &Value) -> Option<Html> {
    let percent = |share: &Value| share.as_f64().map(|share| 100.0 * share);
    let limits = slo["limits"].as_object()?;
    let mut names: Vec<Cell> =
        limits.keys().map(|name| Cell::Text(format!("{} (ms)", name.to_uppercase()))).collect();
    names.push(Cell::Text("all of them".to_owned()));
    let mut most: Vec<Option<f64>> =
        limits.values().map(|limit| limit["limit_ms"].as_f64()).collect();
    most.push(None);
    let mut kept: Vec<Option<f64>> =
        limits.values().map(|limit| percent(&limit["attainment"])).collect();
    kept.push(percent(&slo["attainment"]));
    let cells = names.into_iter().zip(column(&most)).zip(column(&kept));
    let rows: Vec<Vec<Cell>> = cells.map(|((name, most), kept)| vec![name, most, kept]).collect();
    let titles = ["", "at most", "kept by (% of requests)"].map(str::to_owned);
    let goodput = slo["goodput_per_s"].as_f64().map_or_else(Html::default, |goodput| {
        Html::words("p", &format!("Goodput: {} requests/s that keep all of them.", alone(goodput)))
    });
    Some(Html::all([table(&titles, &rows), goodput]))
}

/// Measured figures beside simulated ones.
fn measured(one: &One, listener: &Listener) -> Option<Html> {
    let rows = one.summary["comparison"].as_array()?;
    let get = |key: &str| rows.iter().map(|row| row[key].as_f64()).collect::<Vec<Option<f64>>>();
    let (measured, simulated, errors) = (get("measured"), get("simulated"), get("error_pct"));
    let names = rows.iter().map(|row| {
        let key = name(&row["metric"]);
        MetricKey::parse(&key).map_or_else(|| facts::title(&key), |key| key.title(Tool::Vllm))
    });
    let names: Vec<String> = names.collect();
    let cells = names.iter().enumerate().map(|(row, name)| {
        let pair = column(&[measured[row], simulated[row]]);
        let error = errors[row].map_or(Cell::Empty, |error| {
            let sign = if error > 0.0 { "+" } else { "" };
            Cell::Number(format!("{sign}{} %", super::table::written(error, 1)))
        });
        std::iter::once(Cell::Text(name.clone())).chain(pair).chain([error]).collect()
    });
    let titles = ["", "measured", "simulated", "error"].map(str::to_owned);
    let shown = table(&titles, &cells.collect::<Vec<_>>());
    let source = name(&one.summary["measured"]["source"]);
    let source = Html::words("p", &format!("Measured: {source}"));
    let drawn = errors_figure(one, &names, (&measured, &simulated, &errors), listener);
    let parts = match drawn {
        Some(figure) => vec![source, figure, details("The same in numbers", [shown])],
        None => vec![source, shown],
    };
    Some(section("Measured beside simulated", parts))
}

#[cfg(not(feature = "plot"))]
fn errors_figure(_: &One, _: &[String], _: Three<'_>, _: &Listener) -> Option<Html> {
    None
}

/// Measured, simulated, error.
type Three<'a> = (&'a [Option<f64>], &'a [Option<f64>], &'a [Option<f64>]);

#[cfg(feature = "plot")]
fn errors_figure(
    one: &One,
    names: &[String],
    (measured, simulated, errors): Three<'_>,
    listener: &Listener,
) -> Option<Html> {
    use crate::plot::{MeasuredFigure, measured_figure};
    let rows = names.iter().enumerate().filter_map(|(row, name)| {
        let (measured, simulated) = (measured[row]?, simulated[row]?);
        Some(MeasuredFigure { name: name.clone(), measured, simulated, error_pct: errors[row]? })
    });
    let rows: Vec<MeasuredFigure> = rows.collect();
    if rows.is_empty() {
        return None;
    }
    let figure = measured_figure(&one.name, &rows);
    Some(figures::figure("measured", &figure.svg, Path::new(figure.file_name), listener))
}

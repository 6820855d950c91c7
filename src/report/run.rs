//! The page of a run, or of several beside each other.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::facts::{self, facts};
use super::folder;
use super::html::Html;
use super::page::{Page, Section, details, folded, listing, section};
use super::table::{Cell, alone, column, table};
use super::{ReportError, figures};
use crate::io::rundir::slug;
use crate::load::Listener;
use crate::metrics::bench::{ComparedFigure, MetricKey, Tool};
use crate::metrics::{ExpectedFigures, KeptSlos, Summary};
use crate::sim::Counts;
use crate::study::LOSSES;

/// A run of the folder.
struct One {
    folder: PathBuf,
    summary: Summary,
}

/// A figure of a summary; nothing where it has none.
type Figure = fn(&Summary) -> Option<f64>;

/// Figures that are told first: title, unit, and where they are.
const HEADLINE: [(&str, &str, Figure); 10] = [
    ("Output throughput", "tokens/s", |summary| summary.figure("output_throughput")),
    ("Requests", "per s", |summary| summary.figure("request_throughput")),
    ("Median TTFT", "ms", |summary| summary.figure("median_ttft_ms")),
    ("P99 TTFT", "ms", |summary| summary.figure("p99_ttft_ms")),
    ("Median TPOT", "ms", |summary| summary.figure("median_tpot_ms")),
    ("P99 TPOT", "ms", |summary| summary.figure("p99_tpot_ms")),
    ("Requests finished", "", |summary| Some(summary.requests.finished as f64)),
    ("GPU time", "hours", |summary| Some(summary.bill.gpu_hours)),
    ("Cost", "USD", |summary| Some(summary.bill.cost.as_ref()?.usd)),
    ("Within all limits", "% of requests", |summary| {
        Some(100.0 * summary.slo.as_ref()?.attainment?)
    }),
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
    page.kind = match run.command.get(1).map(String::as_str) {
        Some("serve") => "servecast serve",
        Some("bench") => "servecast bench",
        _ => page.kind,
    };
    let folders: Vec<PathBuf> = match &run.runs[..] {
        [] | [_] => vec![folder.to_owned()],
        names => names.iter().map(|name| folder.join(slug(name))).collect(),
    };
    let read = |folder: PathBuf| -> Result<One, ReportError> {
        let summary = folder::json(&folder.join("summary.json"))?;
        Ok(One { folder, summary })
    };
    let all = folders.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    page.title = match &all[1..] {
        [] => all[0].name().to_owned(),
        [other] => format!("{} / {}", all[0].name(), other.name()),
        others => format!("{} and {} variants", all[0].name(), others.len()),
    };
    page.verdict = headline(&all);
    for one in &all {
        let before = if all.len() > 1 { format!("{}: ", one.name()) } else { String::new() };
        let texts = one.summary.warnings.texts.iter().cloned().chain(lost(&one.summary));
        page.warnings.extend(texts.map(|text| format!("{before}{text}")));
    }
    if let [one] = &all[..] {
        page.sections = sections(one, true, listener)?;
    } else {
        for one in &all {
            page.sections.push(super::page::run(one.name(), sections(one, false, listener)?));
        }
    }
    Ok(page)
}

impl One {
    fn name(&self) -> &str {
        &self.summary.name
    }
}

/// Requests that got no answer, where no warning says what became of them.
fn lost(summary: &Summary) -> Option<String> {
    if summary.warnings.figures.get("losses").is_some_and(|losses| !losses.is_null()) {
        return None;
    }
    let fates = fates(&summary.requests);
    let lost = fates.iter().filter(|(fate, count)| *count > 0 && LOSSES.contains(&fate.as_str()));
    let lost: Vec<String> =
        lost.map(|(fate, count)| format!("{count} {}", fate.replace('_', " "))).collect();
    let arrived = summary.requests.arrived;
    (!lost.is_empty()).then(|| format!("of {arrived} requests {}", lost.join(", ")))
}

/// The figures that matter most: of one run large, of several in a table.
fn headline(all: &[One]) -> Html {
    let row = |(title, unit, of): (&'static str, &'static str, Figure)| {
        (title, unit, all.iter().map(|one| of(&one.summary)).collect())
    };
    let mut rows: Vec<(&str, &str, Vec<Option<f64>>)> = HEADLINE.into_iter().map(row).collect();
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
    let titles = std::iter::once(String::new()).chain(all.iter().map(|one| one.name().to_owned()));
    let cells = rows.iter().map(|(title, unit, values)| {
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        std::iter::once(Cell::Text(format!("{title}{unit}"))).chain(column(values)).collect()
    });
    table(&titles.collect::<Vec<_>>(), &cells.collect::<Vec<_>>())
}

/// What there is of a run. Of one that is `alone` on its page more is open at first than of one of several.
fn sections(one: &One, alone: bool, listener: &Listener) -> Result<Vec<Section>, ReportError> {
    let summary = &one.summary;
    let second = if alone { section } else { folded };
    let mut parts = Vec::new();
    let [latencies, others] = benchmark(&summary.benchmark);
    parts.extend(latencies.map(|table| section("Latencies", [table])));
    parts.extend(expected(summary));
    parts.extend(summary.slo.as_ref().map(|kept| section("SLOs", [slo(kept)])));
    let compared = summary.comparison.as_ref();
    parts.extend(compared.map(|rows| measured(one, rows, listener)));
    parts.extend(others.map(|table| second("Throughput and totals", vec![table])));
    parts.push(second("Requests", vec![requests(&summary.requests)]));
    let figures = figures::all(&one.folder, listener)?;
    parts.extend((!figures.is_empty()).then(|| second("Figures", figures)));
    let bill = json!(summary.bill);
    for (key, heading) in PARTS {
        let part = if key == "bill" { Some(&bill) } else { summary.parts.get(key) };
        parts.extend(part.map(|part| folded(heading, [facts(part)])));
    }
    if let Some(resolved) = folder::text(&one.folder.join("scenario.resolved.toml"))? {
        parts.push(listing("The scenario with all defaults", &resolved));
    }
    Ok(parts)
}

/// Latencies as a table with a row for each, and the other figures; nothing of what there is none.
fn benchmark(figures: &Map<String, Value>) -> [Option<Html>; 2] {
    let mut statistics: Vec<String> = Vec::new();
    let mut latencies: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    let mut others: Vec<Vec<Cell>> = Vec::new();
    for (key, value) in figures {
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
    let rows = rows.collect::<Vec<_>>();
    let latencies = (!rows.is_empty()).then(|| table(&titles.collect::<Vec<_>>(), &rows));
    let others = (!others.is_empty()).then(|| table(&[String::new(), String::new()], &others));
    [latencies, others]
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

/// What became of requests, in the order in which it is told.
fn fates(requests: &Counts) -> Vec<(String, u64)> {
    let counts = json!(requests);
    let order = ["arrived", "finished"].into_iter().chain(LOSSES).chain(["displaced", "retried"]);
    order.filter_map(|fate| Some((fate.to_owned(), counts[fate].as_u64()?))).collect()
}

/// What happened to none is left out.
fn requests(requests: &Counts) -> Html {
    let fates = fates(requests).into_iter();
    let told =
        fates.filter(|(fate, count)| *count > 0 || matches!(fate.as_str(), "arrived" | "finished"));
    let rows = told.map(|(fate, count)| {
        vec![Cell::Text(facts::title(&fate)), Cell::Number(alone(count as f64))]
    });
    table(&[String::new(), "requests".to_owned()], &rows.collect::<Vec<_>>())
}

/// Where servers are that are like the simulated ones, where nothing was measured of these.
fn expected(summary: &Summary) -> Option<Section> {
    let part = summary.parts.get("expected")?;
    let expected: ExpectedFigures = serde_json::from_value(part.clone()).ok()?;
    let servers = expected.servers_of_class();
    match expected.servers.as_deref() {
        Some("slow" | "fast") => {
            let how = if expected.servers.as_deref() == Some("slow") { "slower" } else { "faster" };
            let text = format!(
                "Nothing was measured of these servers. They are taken to be {how} than 19 of 20 {servers}."
            );
            return Some(section("Servers like these", [Html::words("p", &text)]));
        }
        _ if expected.interval_90.is_empty() => return None,
        _ => {}
    }
    let rows: Vec<Vec<Cell>> = expected
        .interval_90
        .iter()
        .map(|(name, [low, high])| {
            let simulated = summary.figure(name);
            let cells = column(&[simulated, Some(*low), Some(*high)]);
            std::iter::once(Cell::Text(figure_title(name))).chain(cells).collect()
        })
        .collect();
    let titles = ["", "simulated", "from", "to"].map(str::to_owned);
    let text = format!(
        "Nothing was measured of these servers, so typical ones were simulated. 90 % of {servers} are between these \
         figures."
    );
    Some(section("Servers like these", [Html::words("p", &text), table(&titles, &rows)]))
}

/// Each limit with the share of requests that keep it.
fn slo(slo: &KeptSlos) -> Html {
    let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
    let limits = &slo.limits;
    let mut names: Vec<Cell> =
        limits.keys().map(|name| Cell::Text(format!("{} (ms)", name.to_uppercase()))).collect();
    names.push(Cell::Text("all of them".to_owned()));
    let mut most: Vec<Option<f64>> = limits.values().map(|limit| Some(limit.limit_ms)).collect();
    most.push(None);
    let mut kept: Vec<Option<f64>> =
        limits.values().map(|limit| percent(limit.attainment)).collect();
    kept.push(percent(slo.attainment));
    let cells = names.into_iter().zip(column(&most)).zip(column(&kept));
    let rows: Vec<Vec<Cell>> = cells.map(|((name, most), kept)| vec![name, most, kept]).collect();
    let titles = ["", "at most", "kept by (% of requests)"].map(str::to_owned);
    let goodput = slo.goodput_per_s.map_or_else(Html::default, |goodput| {
        Html::words("p", &format!("Goodput: {} requests/s that keep all of them.", alone(goodput)))
    });
    Html::all([table(&titles, &rows), goodput])
}

/// Measured figures beside simulated ones.
fn measured(one: &One, rows: &[ComparedFigure], listener: &Listener) -> Section {
    let cells = rows.iter().map(|row| {
        let pair = column(&[row.measured, row.simulated]);
        let error = row.error_pct.map_or(Cell::Empty, |error| {
            let sign = if error > 0.0 { "+" } else { "" };
            Cell::Number(format!("{sign}{} %", super::table::written(error, 1)))
        });
        std::iter::once(Cell::Text(figure_title(&row.metric))).chain(pair).chain([error]).collect()
    });
    let titles = ["", "measured", "simulated", "error"].map(str::to_owned);
    let shown = table(&titles, &cells.collect::<Vec<_>>());
    let source = one.summary.measured.as_ref().map_or("", |measured| &measured.source);
    let source = Html::words("p", &format!("Measured: {source}"));
    let drawn = errors_figure(one, rows, listener);
    let parts = match drawn {
        Some(figure) => vec![source, figure, details("The same in numbers", [shown])],
        None => vec![source, shown],
    };
    section("Measured beside simulated", parts)
}

/// A figure of a benchmark tool as people read it.
fn figure_title(key: &str) -> String {
    MetricKey::parse(key).map_or_else(|| facts::title(key), |key| key.title(Tool::Vllm))
}

#[cfg(not(feature = "plot"))]
fn errors_figure(_: &One, _: &[ComparedFigure], _: &Listener) -> Option<Html> {
    None
}

#[cfg(feature = "plot")]
fn errors_figure(one: &One, rows: &[ComparedFigure], listener: &Listener) -> Option<Html> {
    use crate::plot::{MeasuredFigure, measured_figure};
    let rows = rows.iter().filter_map(|row| {
        let name = figure_title(&row.metric);
        let (measured, simulated) = (row.measured?, row.simulated?);
        Some(MeasuredFigure { name, measured, simulated, error_pct: row.error_pct? })
    });
    let rows: Vec<MeasuredFigure> = rows.collect();
    if rows.is_empty() {
        return None;
    }
    let figure = measured_figure(one.name(), &rows);
    Some(figures::figure("measured", &figure.svg, Path::new(figure.file_name), listener))
}

//! The figures of a folder, within the page.

use std::fs;
use std::path::{Path, PathBuf};

use super::html::Html;
use super::page::{Section, section};
use super::{ReportError, folder};
use crate::load::{Listener, Note};

/// Figures in the order in which they are shown, and what a reader sees in them.
const CAPTIONS: [(&str, &str); 18] = [
    (
        "differences",
        "Differences from the baseline, with their intervals where something is drawn; grey ones are not told from chance, or are better neither way.",
    ),
    (
        "latencies",
        "Latencies of the finished requests of the first seed, scenarios laid over one another.",
    ),
    (
        "scenarios",
        "A row for each scenario: its mean, and where something is drawn the interval of its difference from the first.",
    ),
    ("plan_fronts", "Every cluster that was simulated; those on the line are not beaten in both."),
    (
        "slo_attainment",
        "The share of requests that keep all limits. A mark is the last level before fewer than 95 % do.",
    ),
    (
        "throughput_latency",
        "What latency comes with what throughput; bars are 95 % intervals over seeds.",
    ),
    (
        "over_axis",
        "Figures over the setting with the most values; bands are 95 % intervals over seeds.",
    ),
    ("heat_map", "Means over seeds, over the two settings that were varied."),
    (
        "measured",
        "What a server did beside what the simulation says of it; errors beyond 10 % stand out.",
    ),
    (
        "latency_ttft_e2e",
        "How many requests had their first token, and all of their answer, after this time.",
    ),
    (
        "latency_tpot_itl",
        "How many requests had this mean time per output token, and how many gaps between tokens were this long.",
    ),
    (
        "latency_over_time",
        "What the requests got that were sent at each time. Shades are times when replicas were down, starting, draining or slow, the stronger the more of them.",
    ),
    ("throughput", "Tokens and requests over the time of the run."),
    ("queue_memory", "Requests in the engines, and how much of their KV cache is in use."),
    ("replica_activity", "What each replica spends its time on."),
    (
        "replica_load",
        "Requests inside the replicas: mean, and the range between the least and the most loaded.",
    ),
    ("autoscaler", "Replicas that serve, start and drain, and the load that they follow."),
    ("link_use", "How busy the links are that KV caches travel on."),
];

/// A figure with its caption. One that is not made of what figures are made of is left out, and said.
pub(super) fn figure(name: &str, svg: &str, place: &Path, listener: &Listener) -> Html {
    let known = CAPTIONS.iter().find(|(known, _)| *known == name);
    let caption =
        known.map_or_else(|| name.replace('_', " "), |(_, caption)| (*caption).to_owned());
    Html::figure(svg, &caption).unwrap_or_else(|| {
        let text = format!("{}: is no figure of servecast, it is left out", place.display());
        listener.tell(&Note::Warning(text));
        Html::default()
    })
}

/// All figures of a folder; nothing where it has none.
pub(super) fn section_of(
    folder: &Path,
    listener: &Listener,
) -> Result<Option<Section>, ReportError> {
    let figures = all(folder, listener)?;
    Ok((!figures.is_empty()).then(|| section("Figures", figures)))
}

/// The figures of a folder, in their order.
pub(super) fn all(folder: &Path, listener: &Listener) -> Result<Vec<Html>, ReportError> {
    let figures = folder.join("figures");
    if !figures.is_dir() {
        return Ok(Vec::new());
    }
    let fail = |error: std::io::Error| ReportError::folder(&figures, error);
    let entries = fs::read_dir(&figures).map_err(fail)?.collect::<Result<Vec<_>, _>>();
    let paths = entries.map_err(fail)?.into_iter().map(|entry| entry.path());
    let is_svg = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "svg");
    let named = paths.filter(is_svg).map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let rank = CAPTIONS.iter().position(|(known, _)| *known == name);
        (rank.unwrap_or(CAPTIONS.len()), name, path)
    });
    let mut named: Vec<(usize, String, PathBuf)> = named.collect();
    named.sort();
    let html = |(_, name, path): (usize, String, PathBuf)| {
        let svg = folder::text(&path)?.unwrap_or_default();
        Ok(figure(&name, &svg, &path, listener))
    };
    named.into_iter().map(html).collect()
}

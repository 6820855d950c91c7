//! The page of a sweep.

use super::facts;
use super::html::Html;
use super::page::{Page, folded, section, statement};
use super::series::{KNEE, Lines, Series};
use super::table::{Cell, alone, column, decimals, table_of, written};
use crate::compare::title;
use crate::load::Listener;
use crate::sweep::{Estimate, PointReport, Report, is_share};

/// Points in the table; `results.csv` has all.
const POINTS_MAX: usize = 500;
/// Points of a table that is open at first.
const OPEN_POINTS_MAX: usize = 40;
/// Failed points that are told of one by one.
const FAILURES_MAX: usize = 5;

pub(super) fn page(told: &Report, listener: &Listener) -> Page {
    let mut page = Page { kind: "servecast sweep", title: told.name.clone(), ..Page::default() };
    page.asked.push(("Varied", told.paths.join(", ")));
    let (points, runs) = (told.points.len(), told.runs);
    page.asked.push(("Runs", format!("{runs}: {points} points, {} seeds each", told.seeds)));
    let seeds = told.first_seeds.iter().map(ToString::to_string);
    page.asked.push(("Seeds", seeds.collect::<Vec<_>>().join(", ")));
    page.asked.push(("Version", told.servecast.clone()));
    page.verdict = match (knees(told), extremes(told)) {
        (Some(knees), extremes) => {
            let lead = format!("At least {} % of requests are within all limits", 100.0 * KNEE);
            let best = extremes.iter().map(|line| Html::words("li", line));
            let best = Html::all([Html::words("h3", "Best points"), Html::element("ul", best)]);
            Html::all([statement(&lead, &knees), best])
        }
        (None, extremes) => extremes.split_first().map_or_else(
            || statement("No run has ended.", &[]),
            |(first, rest)| statement(first, rest),
        ),
    };
    page.warnings = warnings(told);
    let figures = figures(told, listener);
    if !figures.is_empty() {
        page.sections.push(section("Figures", figures));
    }
    let points = [points_table(told)];
    let is_long = told.points.len() > OPEN_POINTS_MAX;
    page.sections.push(if is_long { folded("Points", points) } else { section("Points", points) });
    page
}

#[cfg(feature = "plot")]
fn figures(told: &Report, listener: &Listener) -> Vec<Html> {
    super::curves::figures(told, listener)
}

#[cfg(not(feature = "plot"))]
fn figures(_: &Report, listener: &Listener) -> Vec<Html> {
    let text = "built without the feature `plot`, no figures are drawn";
    listener.tell(&crate::load::Note::Notice(text.to_owned()));
    Vec::new()
}

/// Where each series keeps its limits; nothing where there are none.
fn knees(told: &Report) -> Option<Vec<String>> {
    let lines = Lines::new(told)?;
    if !lines.is_joined || !told.has("slo_attainment") {
        return None;
    }
    let axis = &told.titles[lines.axis];
    let line = |series: &Series| {
        let share = |place: usize| told.points[place].figure("slo_attainment");
        let known = series.points.iter().filter_map(|(x, place)| Some((*x, share(*place)?)));
        let known: Vec<(f64, Estimate)> = known.collect();
        let (first, last) = (known.first()?.0, known.last()?.0);
        let percent = |place: usize| {
            let found = known[place].1;
            let whole = |share: f64| written(100.0 * share, 1);
            let interval = found.of_share().filter(|(low, high)| low < high);
            let interval =
                interval.map(|(low, high)| format!(" ({} to {})", whole(low), whole(high)));
            format!("{} %{}", whole(found.mean), interval.unwrap_or_default())
        };
        let kept: Vec<bool> = known.iter().map(|(_, found)| found.mean >= KNEE).collect();
        let at = |place: usize| format!("at {} it is {}", known[place].0, percent(place));
        let end = kept.len() - 1;
        let stretches = stretches(&kept);
        let named = stretches.iter().map(|&(from, to)| {
            let (begin, stop) = (known[from].0, known[to].0);
            match (from, to) {
                (0, to) if to == end => format!("at every {axis} from {first} to {last}"),
                (0, _) => format!("up to {axis} {stop}"),
                (_, to) if to == end => format!("from {axis} {begin} on"),
                (from, to) if from == to => format!("at {axis} {begin}"),
                _ => format!("from {axis} {begin} to {stop}"),
            }
        });
        let named: Vec<String> = named.collect();
        // Points that are taken to keep them may not, as far as their seeds tell.
        let least = |place: &usize| {
            let found = known[*place].1;
            found.of_share().map_or(found.mean, |(low, _)| low)
        };
        let keep = (0..kept.len()).filter(|place| kept[*place]);
        let doubtful = keep.min_by(|a, b| least(a).total_cmp(&least(b)));
        let unsure =
            doubtful.filter(|place| least(place) < KNEE).map_or_else(String::new, |place| {
                format!(" (not certain: at {} it is {})", known[place].0, percent(place))
            });
        let missed = match stretches[..] {
            [] => {
                let shares = known.iter().map(|(_, found)| found.mean).enumerate();
                shares.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(place, _)| place)
            }
            [(0, to), ..] => Some(to + 1).filter(|place| *place <= end),
            [(from, _), ..] => Some(from - 1),
        };
        let named = match &named[..] {
            [] => format!("at no {axis} from {first} to {last}"),
            each => each.join(" and "),
        };
        let missed = missed.map_or_else(String::new, |place| format!("; {}", at(place)));
        let text = format!("{named}{unsure}{missed}");
        let who = if series.name.is_empty() { String::new() } else { format!("{}: ", series.name) };
        Some(who + &text)
    };
    Some(lines.series.iter().filter_map(line).collect())
}

/// The first and the last of all points in a row that keep limits.
fn stretches(kept: &[bool]) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for place in (0..kept.len()).filter(|place| kept[*place]) {
        match all.last_mut() {
            Some((_, to)) if *to + 1 == place => *to = place,
            _ => all.push((place, place)),
        }
    }
    all
}

/// The points with the most throughput and the least latency.
fn extremes(told: &Report) -> Vec<String> {
    let best = |name: &str, sign: f64, what: &str| {
        let values = told.points.iter().filter_map(|point| Some((point.figure(name)?, point)));
        let (found, _) =
            values.clone().max_by(|a, b| (sign * a.0.mean).total_cmp(&(sign * b.0.mean)))?;
        // Of those that read the same, the one that keeps the limits for most requests.
        let kept = |point: &PointReport| {
            point.figure("slo_attainment").map_or(0.0, |attainment| attainment.mean)
        };
        let as_good = values.filter(|(other, _)| alone(other.mean) == alone(found.mean));
        let (found, point) = as_good.rev().max_by(|a, b| kept(a.1).total_cmp(&kept(b.1)))?;
        let within = found
            .within
            .map(|within| format!(" ± {}", written(within, decimals([found.mean].into_iter()))));
        let within = within.unwrap_or_default();
        Some(format!(
            "{what} {}: {}{within}, at {}",
            within_sentence(&title(name)),
            alone(found.mean),
            place(told, point)
        ))
    };
    [
        best("output_throughput", 1.0, "Highest"),
        best("p99_ttft_ms", -1.0, "Lowest"),
        best("mean_tpot_ms", -1.0, "Lowest"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A title after other words: a name that is spelled in capitals keeps them.
fn within_sentence(title: &str) -> String {
    let is_word = title.chars().nth(1).is_some_and(char::is_lowercase);
    let (first, rest) = title.split_at(title.chars().next().map_or(0, char::len_utf8));
    if is_word { first.to_lowercase() + rest } else { title.to_owned() }
}

/// Variant and settings of a point.
fn place(told: &Report, point: &PointReport) -> String {
    let settings = told.titles.iter().enumerate().map(|(axis, title)| {
        let number = point.number(axis).map(|number| number.to_string());
        format!("{title} {}", number.unwrap_or_else(|| point.text(axis)))
    });
    told.variant(point).into_iter().chain(settings).collect::<Vec<_>>().join(", ")
}

fn warnings(told: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if told.runs < told.planned as usize {
        warnings.push(format!(
            "{} of {} runs are here: the sweep was interrupted, or other parts of it lie elsewhere",
            told.runs, told.planned
        ));
    }
    let failed: Vec<&PointReport> =
        told.points.iter().filter(|point| !point.errors.is_empty()).collect();
    let lines = failed.iter().take(FAILURES_MAX).map(|point| {
        let count = point.errors.len();
        format!("{count} runs failed at {}: {}", place(told, point), point.errors[0])
    });
    warnings.extend(lines);
    if failed.len() > FAILURES_MAX {
        warnings.push(format!("runs failed at {} more points", failed.len() - FAILURES_MAX));
    }
    for (name, what) in [("stuck", "could never be served"), ("rejected", "were rejected")] {
        let has = |point: &&PointReport| point.figure(name).is_some_and(|found| found.mean > 0.0);
        let count = told.points.iter().filter(has).count();
        if count > 0 {
            warnings
                .push(format!("at {count} of {} points some requests {what}", told.points.len()));
        }
    }
    warnings
}

fn points_table(told: &Report) -> Html {
    let shown = &told.points[..told.points.len().min(POINTS_MAX)];
    let index = shown.iter().map(|point| Some(f64::from(point.index)));
    let mut columns = vec![("point".to_owned(), column(&index.collect::<Vec<_>>()))];
    if told.variants.len() > 1 {
        let names = shown.iter().map(|point| Cell::Text(told.variants[point.variant].clone()));
        columns.push(("variant".to_owned(), names.collect()));
    }
    for (axis, name) in told.titles.iter().enumerate() {
        let cell = |point: &PointReport| {
            let text = point.text(axis);
            if point.number(axis).is_some() { Cell::Number(text) } else { Cell::Text(text) }
        };
        columns.push((name.clone(), shown.iter().map(cell).collect()));
    }
    for name in told.usual() {
        let found = shown.iter().map(|point| point.figure(name));
        let decimals = decimals(found.clone().flatten().map(|found| found.mean));
        let cells = found.map(|found| {
            found.map_or(Cell::Empty, |found| {
                let within = if is_share(name) {
                    let ends = found.of_share();
                    ends.map(|(low, high)| {
                        format!(" ({} to {})", written(low, decimals), written(high, decimals))
                    })
                } else {
                    found.within.map(|within| format!(" ± {}", written(within, decimals)))
                };
                Cell::Number(written(found.mean, decimals) + &within.unwrap_or_default())
            })
        });
        let known = title(name);
        let title = if known == name { facts::title(name) } else { known };
        columns.push((title, cells.collect()));
    }
    let rest = told.points.len() - shown.len();
    let rest = match rest {
        0 => Html::default(),
        rest => Html::words("p", &format!("and {rest} points more, which results.csv has")),
    };
    let note =
        if told.seeds > 1 { "Means with 95 % intervals over seeds." } else { "One run each." };
    Html::all([Html::words("p", note), table_of(columns), rest])
}

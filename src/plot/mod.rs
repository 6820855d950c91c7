//! The figures of a run, as the text of SVG files: what an engineer puts into a report.
//!
//! Distributions are drawn through the percentiles that the benchmark tools print (numpy's linear
//! interpolation), so that a figure and a report of the same run agree. Quantities over time are
//! means over equal spans, the span stated below the axis. Equal input gives equal bytes; text
//! stays text, in the reader's sans-serif font.
//!
//! Scenarios are drawn beside each other by [`comparison_figures`] and [`side_by_side_figure`], a figure of many runs over what they
//! differ in by [`crossing_figure`], the points of a sweep by [`curve_figure`] and [`heat_figure`], what was
//! measured beside what was simulated by [`measured_figure`], where the time of single requests went by [`span_figure`].

mod axis;
mod bands;
mod canvas;
mod clock;
mod comparison;
mod crossing;
mod curves;
mod distribution;
mod errors;
mod frame;
mod front;
mod heat;
mod latency;
mod replicas;
mod scaling;
mod side_by_side;
mod spans;
mod step_time;
mod timeline;

#[cfg(test)]
mod study_tests;
#[cfg(test)]
mod tests;

use crate::metrics::Recorder;
use crate::metrics::ReplicaKind;
use crate::metrics::RequestRecord;
use crate::metrics::Status;
use crate::plain::grouped;

use canvas::Canvas;

pub use comparison::{Interval, Judgement, Overlay, comparison_figures};
pub use crossing::{CrossingChart, CrossingCurve};
pub use curves::{CurvePanel, Measure, Points, Range, SERIES_MAX};
pub use errors::MeasuredFigure;
pub use front::{FrontPanel, FrontPoint};
pub use heat::HeatPanel;
pub use side_by_side::{Mark, SideBySide, side_by_side_figure};
pub use spans::{Span, SpanRow, Tone};
pub use step_time::StepCurve;

/// One figure, ready to be written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The name of its file.
    pub file_name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The text of the file.
    pub svg: String,
}

impl Figure {
    fn new(
        (file_name, title): (&'static str, &'static str),
        subtitle: &str,
        height: f64,
        draw: &dyn Fn(&mut Canvas<'_>),
    ) -> Self {
        Self { file_name, title, svg: canvas::draw(height, title, subtitle, draw) }
    }
}

/// All figures of a run: latency distributions (TTFT with E2E, TPOT with ITL), latencies over time, queues with memory
/// over time, throughput over time, what each replica does, how loaded they are, where an autoscaler
/// starts and drains them how many there are, and where KV caches travel what their NICs carry. `scenario` says in a few words what was run and stands
/// below each title. A run without data gives figures that say so.
pub fn run_figures(scenario: &str, recorder: &Recorder, groups: &[ReplicaKind]) -> Vec<Figure> {
    let requests = recorder.seen();
    let subtitle = subtitle(scenario, &requests);
    let gaps = recorder.gaps.sample();
    let figure = |file_name, title, height, draw: &dyn Fn(&mut Canvas<'_>)| {
        Figure::new((file_name, title), &subtitle, height, draw)
    };
    let mut figures = vec![
        figure(
            "latency_ttft_e2e.svg",
            "Time to first token and end-to-end latency",
            distribution::HEIGHT,
            &|canvas| distribution::ttft_and_e2e(canvas, &requests),
        ),
        figure(
            "latency_tpot_itl.svg",
            "Time per output token and inter-token latency",
            distribution::HEIGHT,
            &|canvas| distribution::tpot_and_itl(canvas, &requests, &gaps),
        ),
        figure(
            "latency_over_time.svg",
            "Latency over time",
            latency::height(&requests),
            &|canvas| latency::draw(canvas, recorder, &requests, groups),
        ),
        figure(
            "queue_memory.svg",
            "Running and waiting requests, KV cache in use",
            timeline::QUEUE_HEIGHT,
            &|canvas| timeline::queue_and_memory(canvas, recorder),
        ),
        figure("throughput.svg", "Throughput over time", timeline::THROUGHPUT_HEIGHT, &|canvas| {
            timeline::throughput(canvas, recorder);
        }),
        figure(
            "replica_activity.svg",
            "What each replica does",
            replicas::height(groups),
            &|canvas| replicas::draw(canvas, recorder, groups),
        ),
        figure("replica_load.svg", "Load of the replicas", bands::height(groups), &|canvas| {
            bands::load(canvas, recorder, groups);
        }),
    ];
    if recorder.presence.is_scaled() {
        figures.push(figure(
            "autoscaler.svg",
            "Replicas and the load they follow",
            scaling::HEIGHT,
            &|canvas| scaling::draw(canvas, recorder, groups),
        ));
    }
    if groups.iter().any(|group| group.nic_bytes_per_s.is_some()) {
        figures.push(figure(
            "link_use.svg",
            "Links that KV caches travel on",
            bands::nics_height(groups),
            &|canvas| bands::nics(canvas, recorder, groups),
        ));
    }
    figures
}

/// The figure of step times: decode steps over the sequences in them, one curve for each context,
/// and prefill over the length of a prompt, each beside the roofline. `subtitle` says of what.
pub fn step_time_figure(subtitle: &str, decodes: &[StepCurve], prefill: &StepCurve) -> Figure {
    let name = ("step_time.svg", "Step time");
    Figure::new(name, subtitle, step_time::HEIGHT, &|canvas| {
        step_time::draw(canvas, decodes, prefill);
    })
}

/// The figure of what is better than all else in one way or the other, in at most two panels. `subtitle` says
/// of what.
pub fn front_figure(subtitle: &str, panels: &[FrontPanel]) -> Figure {
    let name = ("plan_fronts.svg", "Clusters that were simulated");
    Figure::new(name, subtitle, front::height(panels), &|canvas| front::draw(canvas, panels))
}

/// Lines of a study, at most [`SERIES_MAX`] series: each panel has the points of all of them. `name` are those of
/// the file and of the figure, `subtitle` says of what.
pub fn curve_figure(
    name: (&'static str, &'static str),
    subtitle: &str,
    series: &[String],
    panels: &[CurvePanel],
) -> Figure {
    let subtitle = shortened(subtitle, SUBTITLE_CHARS_MAX);
    Figure::new(name, &subtitle, curves::height(series, panels), &|canvas| {
        curves::draw(canvas, series, panels);
    })
}

/// Figures of a study over two settings. `subtitle` says of what.
pub fn heat_figure(subtitle: &str, panels: &[HeatPanel]) -> Figure {
    let subtitle = shortened(subtitle, SUBTITLE_CHARS_MAX);
    let name = ("heat_map.svg", "Over two settings");
    Figure::new(name, &subtitle, heat::height(panels), &|canvas| heat::draw(canvas, panels))
}

/// Where the time of requests went, one above the other. `subtitle` says of what.
pub fn span_figure(subtitle: &str, rows: &[SpanRow]) -> Figure {
    let subtitle = shortened(subtitle, SUBTITLE_CHARS_MAX);
    let name = ("explain.svg", "Where the time went");
    Figure::new(name, &subtitle, spans::height(rows), &|canvas| spans::draw(canvas, rows))
}

/// Measured figures beside simulated ones. `subtitle` says of what.
pub fn measured_figure(subtitle: &str, figures: &[MeasuredFigure]) -> Figure {
    let subtitle = shortened(subtitle, SUBTITLE_CHARS_MAX);
    let name = ("measured.svg", "Measured beside simulated");
    Figure::new(name, &subtitle, errors::height(figures), &|canvas| errors::draw(canvas, figures))
}

/// Letters that surely fit beside each other.
const SUBTITLE_CHARS_MAX: usize = 130;

/// A text, or its beginning.
fn shortened(text: &str, chars_max: usize) -> String {
    let mut text: String = text.chars().take(chars_max + 1).collect();
    if let Some((cut, _)) = text.char_indices().nth(chars_max) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// The figure of a study of many runs; `name` are those of the file and of the figure, `subtitle` says of what it is.
pub fn crossing_figure(
    name: (&'static str, &'static str),
    subtitle: &str,
    compared: &CrossingChart,
) -> Figure {
    Figure::new(name, subtitle, crossing::HEIGHT, &|canvas| crossing::draw(canvas, compared))
}

/// The scenario and how its requests ended.
fn subtitle(scenario: &str, requests: &[RequestRecord]) -> String {
    const SCENARIO_CHARS_MAX: usize = 72;
    let scenario = shortened(scenario, SCENARIO_CHARS_MAX);
    let total = requests.len();
    let noun = if total == 1 { "request" } else { "requests" };
    let endings = [
        (Status::Finished, "finished"),
        (Status::Rejected, "rejected"),
        (Status::Aborted, "aborted"),
        (Status::TimedOut, "timed out"),
        (Status::Failed, "failed"),
        (Status::Unfinished, "unfinished"),
    ];
    let counts: Vec<String> = endings
        .iter()
        .map(|&(status, name)| {
            (requests.iter().filter(|request| request.status == status).count(), name)
        })
        .filter(|&(count, name)| count > 0 || name == "finished")
        .map(|(count, name)| format!("{} {name}", grouped(count as u64)))
        .collect();
    let separator = if scenario.trim().is_empty() { "" } else { "  ·  " };
    let total = grouped(total as u64);
    format!("{}{separator}{total} {noun}: {}", scenario.trim(), counts.join(", "))
}

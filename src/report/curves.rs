//! The figures of a sweep.

use std::path::Path;

use super::figures::figure;
use super::html::Html;
use super::series::{KNEE, Lines, Series, numeric};
use crate::compare::title;
use crate::load::Listener;
use crate::plot::{
    CurvePanel, Figure, HeatPanel, Measure, Points, Range, SERIES_MAX, curve_figure, heat_figure,
};
use crate::sweep::{Design, PointReport, Report};

/// What is drawn over the setting to the right, if there.
const OVER_AXIS: [&str; 4] = ["output_throughput", "p99_ttft_ms", "mean_tpot_ms", "p99_e2el_ms"];
/// What is drawn over two settings, if there.
const OVER_TWO: [&str; 4] = ["output_throughput", "slo_attainment", "p99_ttft_ms", "mean_tpot_ms"];
/// What comes with throughput.
const LATENCIES: [&str; 2] = ["p99_ttft_ms", "mean_tpot_ms"];

/// All figures that the sweep has.
pub(super) fn figures(told: &Report, listener: &Listener) -> Vec<Html> {
    let drawn = Lines::new(told).map(|lines| Drawing { told, lines }.figures()).unwrap_or_default();
    drawn
        .iter()
        .map(|drawn| {
            let name = drawn.file_name.trim_end_matches(".svg");
            figure(name, &drawn.svg, Path::new(drawn.file_name), listener)
        })
        .collect()
}

struct Drawing<'a> {
    told: &'a Report,
    lines: Lines,
}

impl Drawing<'_> {
    fn figures(&self) -> Vec<Figure> {
        let over_axis = self.panels(&OVER_AXIS, |name| self.over_axis(name));
        let latencies = self.panels(&LATENCIES, |name| self.over_throughput(name));
        let attainment = self.panels(&["slo_attainment"], |name| self.over_axis(name));
        let mut figures = Vec::new();
        for (file, panels) in [
            (("slo_attainment.svg", "Requests within all limits"), attainment),
            (("throughput_latency.svg", "Latency against throughput"), latencies),
            (("over_axis.svg", "Over the setting that was varied"), over_axis),
        ] {
            if !panels.is_empty() {
                figures.push(curve_figure(file, &self.subtitle(), &self.names(), &panels));
            }
        }
        figures.extend(self.heat_map());
        figures
    }

    fn shown(&self) -> &[Series] {
        &self.lines.series[..self.lines.series.len().min(SERIES_MAX)]
    }

    /// Nothing where there is one series without a name.
    fn names(&self) -> Vec<String> {
        let names = self.shown().iter().map(|series| series.name.clone());
        names.filter(|name| !name.is_empty()).collect()
    }

    fn subtitle(&self) -> String {
        let (shown, all) = (self.shown().len(), self.lines.series.len());
        let part = if shown < all {
            format!("; the first {shown} of {all} series")
        } else {
            String::new()
        };
        let seeds = self.told.seeds;
        let seeds = if seeds > 1 {
            format!("means of {seeds} seeds with 95 % intervals")
        } else {
            "one seed".to_owned()
        };
        format!("{}  ·  {seeds}{part}", self.told.name)
    }

    /// A panel for each figure that any point has.
    fn panels(&self, names: &[&str], panel: impl Fn(&str) -> CurvePanel) -> Vec<CurvePanel> {
        let there = names.iter().filter(|name| self.told.has(name));
        there.map(|name| panel(name)).collect()
    }

    fn panel(
        &self,
        x: &str,
        y: &str,
        at: impl Fn(f64, &PointReport) -> Option<(Measure, Measure)>,
    ) -> CurvePanel {
        let curve = |series: &Series| {
            let points = series.points.iter();
            points.filter_map(|(x, place)| at(*x, &self.told.points[*place])).collect()
        };
        CurvePanel {
            x: x.to_owned(),
            y: y.to_owned(),
            curves: self.shown().iter().map(curve).collect(),
            points: if self.lines.is_joined { Points::Joined } else { Points::Apart },
            range: Range::Fitting,
        }
    }

    fn over_axis(&self, name: &str) -> CurvePanel {
        let is_share = name == "slo_attainment";
        let unit = if is_share { 100.0 } else { 1.0 };
        let y = if is_share { "requests within all limits (%)".to_owned() } else { title(name) };
        let panel = self.panel(&self.told.titles[self.lines.axis], &y, |x, point| {
            Some((Measure { mean: x, within: 0.0 }, measure(point, name, unit)?))
        });
        let range = if is_share { Range::Percent { slo: 100.0 * KNEE } } else { Range::Fitting };
        CurvePanel { range, ..panel }
    }

    fn over_throughput(&self, name: &str) -> CurvePanel {
        let throughput = "output_throughput";
        self.panel(&title(throughput), &title(name), |_, point| {
            Some((measure(point, throughput, 1.0)?, measure(point, name, 1.0)?))
        })
    }

    /// Where two numbers vary and nothing else does.
    fn heat_map(&self) -> Option<Figure> {
        let axes = numeric(self.told);
        let [(one, _), (other, _)] = axes[..] else { return None };
        let is_all = self.told.paths.len() == 2 && self.told.variants.len() == 1;
        if !is_all || self.told.design != Design::Grid {
            return None;
        }
        let (x, y) = if self.lines.axis == one { (one, other) } else { (other, one) };
        let panels = OVER_TWO.iter().filter_map(|name| self.heat_panel((x, y), name));
        let panels: Vec<HeatPanel> = panels.collect();
        (!panels.is_empty()).then(|| heat_figure(&self.subtitle(), &panels))
    }

    fn heat_panel(&self, (x, y): (usize, usize), name: &str) -> Option<HeatPanel> {
        let told = self.told;
        let levels = |axis: usize| {
            let all = told.points.iter().filter_map(|point| point.number(axis));
            let mut all: Vec<f64> = all.collect();
            all.sort_by(f64::total_cmp);
            all.dedup();
            all
        };
        let (columns, rows) = (levels(x), levels(y));
        let value = |row: f64, column: f64| {
            let at = |point: &&PointReport| {
                point.number(x).is_some_and(|at| at.total_cmp(&column).is_eq())
                    && point.number(y).is_some_and(|at| at.total_cmp(&row).is_eq())
            };
            told.points.iter().find(at)?.figure(name).map(|found| found.mean)
        };
        let values =
            rows.iter().map(|row| columns.iter().map(|column| value(*row, *column)).collect());
        let values: Vec<Vec<Option<f64>>> = values.collect();
        values.iter().flatten().any(Option::is_some).then(|| HeatPanel {
            heading: title(name),
            x: told.titles[x].clone(),
            y: told.titles[y].clone(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: rows.iter().map(ToString::to_string).collect(),
            values,
        })
    }
}

fn measure(point: &PointReport, name: &str, unit: f64) -> Option<Measure> {
    let found = point.figure(name)?;
    let within = found.within.unwrap_or_default() * unit;
    Some(Measure { mean: found.mean * unit, within })
}

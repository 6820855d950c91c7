//! A plan in words and as JSON.

use super::Study;
use super::hunt::{Found, MOST_OF_A_TRACE};
use super::layouts::Size;
use super::limits::{Stretch, Windows};
use super::prices::Unit;
use crate::cli::table::table;
use crate::plan::{Slo, Trial, pareto};

/// What came of a layout.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// It cannot serve the traffic in any number.
    Impossible(String),
    /// The largest number that is no dearer than the second cheapest answer breaks a promise.
    TooDear { broken: Size, cost: f64 },
    /// No number of replicas that may be keeps the promises; with `--rate`, no rate.
    TooMany,
    /// So many keep them.
    Keeps { found: Found, misses: Option<(Size, Trial)> },
    /// The replicas of the scenario keep them at so many times the rate.
    Carries { found: Found, misses: Option<(Size, Trial)>, factor: f64 },
}

/// A layout and what came of it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) place: usize,
    pub(super) outcome: Outcome,
}

/// A trial of the traffic that is planned for.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub(super) layout: usize,
    pub(super) size: Size,
    pub(super) trial: Trial,
    pub(super) gpus: u32,
    pub(super) cost: f64,
}

/// All that a plan says.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) slos: Vec<Slo>,
    pub(super) layouts: Vec<String>,
    pub(super) requests: usize,
    pub(super) rate_per_s: f64,
    is_trace: bool,
    unit: Unit,
    seeks_rate: bool,
    max_gpus: u32,
    pub(super) rows: Vec<Row>,
    pub(super) tried: Vec<Tried>,
    pub(super) stretches: Vec<Stretch>,
    /// How many times as fast the requests may come to the winner.
    pub(super) carries: Option<f64>,
    pub(super) windows: Option<Windows>,
    /// The highest rates for other requests.
    pub(super) rates: Vec<f64>,
}

impl Row {
    pub(super) fn new(place: usize, outcome: Outcome) -> Self {
        Self { place, outcome }
    }

    fn found(&self) -> Option<&Found> {
        match &self.outcome {
            Outcome::Keeps { found, .. } | Outcome::Carries { found, .. } => Some(found),
            _ => None,
        }
    }

    pub(super) fn misses(&self) -> Option<&(Size, Trial)> {
        match &self.outcome {
            Outcome::Keeps { misses, .. } | Outcome::Carries { misses, .. } => misses.as_ref(),
            _ => None,
        }
    }

    fn factor(&self) -> f64 {
        if let Outcome::Carries { factor, .. } = self.outcome { factor } else { 1.0 }
    }

    /// By price, or with `--rate` by price of a request; what keeps nothing comes last.
    fn rank(&self) -> f64 {
        self.found().map_or(f64::INFINITY, |found| found.cost / self.factor())
    }
}

impl Tried {
    pub(super) fn new(layout: usize, size: Size, trial: Trial, (gpus, cost): (u32, f64)) -> Self {
        Self { layout, size, trial, gpus, cost }
    }
}

impl Answer {
    pub(super) fn new(study: &Study<'_>, mut rows: Vec<Row>) -> Self {
        rows.sort_by(|a, b| a.rank().total_cmp(&b.rank()).then(a.place.cmp(&b.place)));
        Self {
            name: study.name.clone(),
            model: study.model.clone(),
            slos: study.slos.clone(),
            layouts: study.layouts.iter().map(super::Layout::name).collect(),
            requests: study.traffic.len(),
            rate_per_s: study.traffic.rate_per_s(),
            is_trace: study.is_trace,
            unit: study.prices.unit(),
            seeks_rate: study.arguments.rate,
            max_gpus: study.arguments.max_gpus,
            rows,
            tried: Vec::new(),
            stretches: Vec::new(),
            carries: None,
            windows: None,
            rates: Vec::new(),
        }
    }

    /// The cheapest layout that keeps all promises.
    pub(super) fn winner(&self) -> Option<(&Row, &Found)> {
        self.rows.first().and_then(|row| Some((row, row.found()?)))
    }

    #[cfg(feature = "plot")]
    pub(super) fn title(&self) -> String {
        format!("{}  ·  {}, {:.2} requests/s", self.name, self.model, self.rate_per_s)
    }

    #[cfg(feature = "plot")]
    pub(super) fn has_prices(&self) -> bool {
        self.unit == Unit::UsdPerHour
    }

    /// In US dollars per hour, where there are prices.
    pub(super) fn usd(&self, cost: f64) -> Option<f64> {
        (self.unit == Unit::UsdPerHour && cost.is_finite()).then_some(cost)
    }

    fn paid(&self, cost: f64) -> String {
        self.usd(cost).map_or_else(|| "no price known".to_owned(), |usd| format!("{usd:.2} USD/h"))
    }

    fn priced(&self, cost: f64) -> String {
        self.usd(cost).map_or_else(|| "–".to_owned(), |usd| format!("{usd:.2}"))
    }

    pub(super) fn layout(&self, place: usize) -> &str {
        &self.layouts[place]
    }

    /// Trials that were simulated to their end, as places and points: tokens per second per user, and tokens per
    /// second per GPU.
    pub(super) fn speeds(&self) -> Vec<(usize, (f64, f64))> {
        self.ended(|tried| {
            let per_gpu = tried.trial.output_tokens_per_s / f64::from(tried.gpus);
            (tried.trial.tokens_per_s_per_user, per_gpu)
        })
    }

    /// The same: USD per hour, and the 99th percentile of TTFT in ms.
    pub(super) fn costs(&self) -> Vec<(usize, (f64, f64))> {
        self.ended(|tried| (tried.cost, tried.trial.p99_ttft_ms))
    }

    fn ended(&self, point: impl Fn(&Tried) -> (f64, f64)) -> Vec<(usize, (f64, f64))> {
        let ended = self.tried.iter().enumerate().filter(|(_, tried)| tried.trial.values.is_some());
        let points = ended.map(|(place, tried)| (place, point(tried)));
        points.filter(|(_, (x, y))| x.is_finite() && y.is_finite()).collect()
    }

    pub(super) fn text(&self) -> String {
        let traffic = format!(
            "{}: {}, {} requests, {:.2} requests/s\nPromises: {}\n\n",
            self.name,
            self.model,
            self.requests,
            self.rate_per_s,
            self.slos.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        );
        let answer = self.verdict();
        let fronts = if self.tried.is_empty() { String::new() } else { self.fronts_text() };
        format!("{traffic}{answer}\n{}{fronts}", self.table())
    }

    /// What was asked for, and how sure that is.
    pub(super) fn verdict(&self) -> String {
        match self.winner() {
            None => "No layout keeps all promises.\n".to_owned(),
            Some((row, found)) => self.winner_text(row, found),
        }
    }

    fn winner_text(&self, row: &Row, found: &Found) -> String {
        let name = self.layout(row.place);
        let mut text = if self.seeks_rate {
            let rate = row.factor() * self.rate_per_s;
            format!(
                "Highest rate per price: {rate:.2} requests/s on {} x {name}, {:.3} requests/s per GPU, {}\n",
                found.size.name(),
                rate / f64::from(found.gpus),
                self.paid(found.cost)
            )
        } else {
            format!(
                "Cheapest: {} x {name} = {} GPUs, {}\n",
                found.size.name(),
                found.gpus,
                self.paid(found.cost)
            )
        };
        text += &self.promises_text(&found.trial);
        text += &self.misses_text(row);
        if !self.seeks_rate && found.least > 1 && found.size == Size::Mixed(found.least) {
            text += "  fewer replicas have no room for all adapters\n";
        }
        text += &self.carries_text();
        text += &self.stretches_text();
        text += &self.rates_text();
        text += &self.windows.as_ref().map(Windows::text).unwrap_or_default();
        text
    }

    fn promises_text(&self, trial: &Trial) -> String {
        let Some(values) = &trial.values else { return String::new() };
        let binding = trial.binding();
        let line = |(place, (slo, value)): (usize, (&Slo, &crate::plan::Value))| {
            let note = if binding == Some(place) { ", the binding promise" } else { "" };
            format!(
                "  {} {}, {:.0} % of what is allowed{note}\n",
                slo.title(),
                slo.print(value.value),
                100.0 * value.used
            )
        };
        self.slos.iter().zip(values).enumerate().map(line).collect()
    }

    /// What the next smaller size, or the next higher rate, misses.
    fn misses_text(&self, row: &Row) -> String {
        let Some((size, trial)) = row.misses() else { return String::new() };
        let who = match size {
            _ if self.seeks_rate => "the next higher rate".to_owned(),
            Size::Mixed(1) => "1 replica".to_owned(),
            size => format!("{} replicas", size.name()),
        };
        if trial.is_overloaded {
            return format!(
                "  {who}: requests pile up, and a longer run would break every promise\n"
            );
        }
        let Some(place) = trial.binding() else { return String::new() };
        let slo = &self.slos[place];
        let value = trial.values.as_ref().map(|values| slo.print(values[place].value));
        let value = value.map_or(String::new(), |value| format!(" ({value})"));
        format!("  {who}: missed is {}{value}\n", slo.title())
    }

    fn carries_text(&self) -> String {
        self.carries.map_or_else(String::new, |factor| {
            let rate = factor * self.rate_per_s;
            if self.is_trace && factor >= MOST_OF_A_TRACE {
                return "  it carries this traffic at any speed: it is too short to say how much\n"
                    .to_owned();
            }
            format!("  it carries up to {factor:.2} times this traffic, {rate:.2} requests/s\n")
        })
    }

    /// Where the traffic comes from that is resampled.
    fn others(&self, count: usize) -> String {
        let what = if self.is_trace {
            "stretches resampled from the trace"
        } else {
            "other draws of the requests"
        };
        format!("{count} {what}")
    }

    fn stretches_text(&self) -> String {
        if self.stretches.is_empty() {
            return String::new();
        }
        let others = self.others(self.stretches.len());
        let enough = self.stretches.iter().filter(|other| other.is_enough).count();
        let never = self.stretches.iter().filter(|other| other.size.is_none()).count();
        let mut sizes: Vec<(f64, String)> = self
            .stretches
            .iter()
            .filter_map(|other| Some((other.cost, other.size?.name())))
            .collect();
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let range = match (sizes.first(), sizes.last()) {
            (Some((_, least)), Some((_, most))) if least == most => format!("all need {least}"),
            (Some((_, least)), Some((_, most))) => format!("they need {least} to {most}"),
            _ => "none is served by any number".to_owned(),
        };
        let never = if never > 0 { format!(", {never} are served by none") } else { String::new() };
        format!("  of {others} it is enough for {enough}; {range}{never}\n")
    }

    fn rates_text(&self) -> String {
        let least = self.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.rates.iter().copied().fold(0.0, f64::max);
        if self.rates.is_empty() {
            return String::new();
        }
        format!(
            "  with {} it is {least:.2} to {most:.2} requests/s\n",
            self.others(self.rates.len())
        )
    }

    fn table(&self) -> String {
        let mut header = vec!["layout".to_owned()];
        let size = if self.seeks_rate { "requests/s" } else { "replicas" };
        header.extend([size, "GPUs", "USD/h"].map(str::to_owned));
        header.extend(self.slos.iter().map(Slo::title));
        header.push("what it lacks".to_owned());
        let rows = self.rows.iter().map(|row| self.table_row(row));
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
        table(&rows, &[4 + self.slos.len()])
    }

    fn table_row(&self, row: &Row) -> Vec<String> {
        let mut cells = vec![self.layout(row.place).to_owned()];
        let dashes = |count: usize| vec!["–".to_owned(); count];
        let Some(found) = row.found() else {
            let (least, why) = match &row.outcome {
                Outcome::Impossible(reason) => (None, shortened(reason)),
                Outcome::TooDear { broken, cost } => (
                    Some((broken.name(), self.usd(*cost))),
                    "too few, and more are dearer than the runner-up".to_owned(),
                ),
                _ if self.seeks_rate => (None, "keeps the promises at no rate".to_owned()),
                _ => (
                    None,
                    format!("keeps the promises with no number of up to {} GPUs", self.max_gpus),
                ),
            };
            match least {
                Some((size, usd)) => {
                    cells.extend([
                        format!("> {size}"),
                        "–".to_owned(),
                        usd.map_or("–".to_owned(), |usd| format!("> {usd:.2}")),
                    ]);
                }
                None => cells.extend(dashes(3)),
            }
            cells.extend(dashes(self.slos.len()));
            cells.push(why);
            return cells;
        };
        let size = match row.outcome {
            Outcome::Carries { factor, .. } => format!("{:.2}", factor * self.rate_per_s),
            _ => found.size.name(),
        };
        cells.extend([size, found.gpus.to_string(), self.priced(found.cost)]);
        let values = found.trial.values.iter().flatten().zip(&self.slos);
        cells.extend(values.map(|(value, slo)| slo.print(value.value)));
        cells.push(String::new());
        cells
    }

    fn fronts_text(&self) -> String {
        let speeds = self.speeds();
        if speeds.is_empty() {
            return String::new();
        }
        // Both are better the larger they are.
        let mirrored: Vec<(f64, f64)> = speeds.iter().map(|(_, (x, y))| (-x, *y)).collect();
        let mut rows =
            vec![["tokens/s per user", "tokens/s per GPU", "by"].map(str::to_owned).to_vec()];
        rows.extend(pareto(&mirrored).into_iter().map(|place| {
            let (tried, (user, gpu)) = &speeds[place];
            vec![format!("{user:.1}"), format!("{gpu:.1}"), self.tried_name(*tried)]
        }));
        let speeds_text = table(&rows, &[2]);
        if self.unit == Unit::Gpus {
            return format!(
                "\nOf {} clusters that were simulated, none is better in both than\n{speeds_text}",
                speeds.len()
            );
        }
        let costs = self.costs();
        let mirrored: Vec<(f64, f64)> = costs.iter().map(|(_, (x, y))| (*x, -y)).collect();
        let mut rows = vec![["USD/h", "P99 TTFT (ms)", "by"].map(str::to_owned).to_vec()];
        rows.extend(pareto(&mirrored).into_iter().map(|place| {
            let (tried, (usd, ttft)) = &costs[place];
            vec![format!("{usd:.2}"), format!("{ttft:.0}"), self.tried_name(*tried)]
        }));
        format!(
            "\nOf {} clusters that were simulated, none is better in both than\n{speeds_text}\n{}",
            speeds.len(),
            table(&rows, &[2])
        )
    }

    pub(super) fn tried_name(&self, place: usize) -> String {
        let tried = &self.tried[place];
        let broken = if tried.trial.is_kept { "" } else { " (breaks a promise)" };
        format!("{} x {}{broken}", tried.size.name(), self.layout(tried.layout))
    }
}

/// Where a problem is and what it is, without its particulars, which JSON has.
fn shortened(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    line.split(": ").take(2).collect::<Vec<_>>().join(": ")
}

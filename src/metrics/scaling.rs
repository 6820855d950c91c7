//! What an autoscaler did in a run.

use std::fmt::Write;

use serde::Serialize;

use super::presence::Presence;
use super::recorder::Recorder;
use super::series::{Quantity, Series};
use crate::cluster::Look;
use crate::scenario::AutoscalerConfig;
use crate::sim::Occurrence;
use crate::units::SimTime;

/// Every look of the autoscaler.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScalingLog {
    looks: Vec<(SimTime, Look)>,
}

/// What an autoscaler did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScalingReport {
    /// Replicas there may be at least.
    pub min_replicas: u32,
    /// And at most.
    pub max_replicas: u32,
    /// Replicas that served, on average over the run.
    pub serving_mean: f64,
    /// The most that served at a time.
    pub serving_peak: u32,
    /// How often it decided to have more.
    pub scale_ups: u64,
    /// How often it decided to have fewer.
    pub scale_downs: u64,
    /// Seconds of replicas whose machines were being made ready.
    pub provisioning_s: f64,
    /// Seconds of replicas that loaded weights.
    pub loading_s: f64,
    /// Seconds of replicas that drained.
    pub draining_s: f64,
    /// Hours of GPUs that were taken, from the order of a replica until it is off.
    pub gpu_hours: f64,
    /// The same, if the most replicas there may be had been there all the time.
    pub gpu_hours_of_max_replicas: f64,
}

impl ScalingLog {
    pub(super) fn hear(&mut self, at: SimTime, what: &Occurrence<'_>) {
        if let Occurrence::Looked(look) = *what {
            self.looks.push((at, look));
        }
    }
}

impl ScalingReport {
    /// Of a recorded run in which each replica had so many GPUs.
    pub fn new(recorder: &Recorder, config: &AutoscalerConfig, gpus: u32) -> Self {
        let end = recorder.observed();
        let seconds = |such: fn(Presence) -> bool| -> f64 {
            let of = |id| recorder.presence.time(id, end, such).as_secs_f64();
            (0..config.max_replicas as usize).map(of).sum()
        };
        let whole = end.as_secs_f64();
        let looks = || recorder.scaling.looks.iter().take_while(|(at, _)| *at <= end);
        let count = |such: fn(&Look) -> bool| looks().filter(|(_, look)| such(look)).count() as u64;
        let mut census = Census::new(recorder, config.max_replicas);
        let mut serving_peak = 0;
        while let Some(at) = census.next_change().filter(|at| *at <= end) {
            serving_peak = serving_peak.max(census.at(at)[column(Presence::Up)]);
        }
        Self {
            min_replicas: config.min_replicas,
            max_replicas: config.max_replicas,
            serving_mean: seconds(|presence| presence == Presence::Up) / whole.max(1e-9),
            serving_peak,
            scale_ups: count(|look| look.decided > look.replicas),
            scale_downs: count(|look| look.decided < look.replicas),
            provisioning_s: seconds(|presence| presence == Presence::Provisioning),
            loading_s: seconds(|presence| presence == Presence::Loading),
            draining_s: seconds(|presence| presence == Presence::Draining),
            gpu_hours: seconds(Presence::is_on) * f64::from(gpus) / 3600.0,
            gpu_hours_of_max_replicas: whole * f64::from(config.max_replicas) * f64::from(gpus)
                / 3600.0,
        }
    }

    /// In words, two lines.
    pub fn text(&self) -> String {
        let times = |count: u64| format!("{count} {}", if count == 1 { "time" } else { "times" });
        format!(
            "Autoscaler: {:.2} of {} to {} replicas serve on average, {} at most; up {}, down {}; \
             {:.1} s provisioning, {:.1} s loading weights, {:.1} s draining\n\
             {:.4} GPU-hours taken; {:.4} with {} replicas all the time\n",
            self.serving_mean,
            self.min_replicas,
            self.max_replicas,
            self.serving_peak,
            times(self.scale_ups),
            times(self.scale_downs),
            self.provisioning_s,
            self.loading_s,
            self.draining_s,
            self.gpu_hours,
            self.gpu_hours_of_max_replicas,
            self.max_replicas
        )
    }
}

impl Recorder {
    /// The replicas over time as CSV: a row for every moment at which one changed or the autoscaler
    /// looked, with how many are what from then on, and what it saw and decided.
    pub fn scaling_csv(&self, config: &AutoscalerConfig) -> String {
        let end = self.observed();
        let mut csv = "time_s,provisioning,loading,serving,draining,down,off,signal,recommended,\
                       decided\n"
            .to_owned();
        let mut census = Census::new(self, config.max_replicas);
        let mut looks = self.scaling.looks.iter().peekable();
        loop {
            let next = [census.next_change(), looks.peek().map(|(at, _)| *at)];
            let next = next.into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            let _ = write!(csv, "{}", at.as_secs_f64());
            for count in census.at(at) {
                let _ = write!(csv, ",{count}");
            }
            match looks.next_if(|(moment, _)| *moment == at) {
                Some((_, look)) => {
                    let value = look.value.map_or(String::new(), |value| value.to_string());
                    let _ = writeln!(csv, ",{value},{},{}", look.recommended, look.decided);
                }
                None => csv.push_str(",,,\n"),
            }
        }
        csv
    }

    /// How many of the first so many replicas are such, over time until the end of the run.
    pub fn replicas_over_time(&self, replicas: usize, such: impl Fn(Presence) -> bool) -> Series {
        let end = self.observed();
        let mut series = Series::new(Quantity::Level);
        for id in 0..replicas {
            for (from, until, presence) in self.presence.spans(id, end) {
                if such(presence) {
                    series.hold(from, until, 1);
                }
            }
        }
        series
    }
}

/// How many replicas are what, as time goes on.
struct Census {
    changes: std::iter::Peekable<std::vec::IntoIter<(SimTime, usize, Presence)>>,
    now: Vec<Presence>,
    counts: [u32; 6],
}

impl Census {
    fn new(recorder: &Recorder, replicas: u32) -> Self {
        let mut counts = [0; 6];
        counts[column(Presence::Up)] = replicas;
        let changes = recorder.presence.changes().into_iter().peekable();
        Self { changes, now: vec![Presence::Up; replicas as usize], counts }
    }

    fn next_change(&mut self) -> Option<SimTime> {
        self.changes.peek().map(|(at, ..)| *at)
    }

    /// From a moment on, which is not before those asked for earlier.
    fn at(&mut self, moment: SimTime) -> [u32; 6] {
        while let Some((_, id, presence)) = self.changes.next_if(|(at, ..)| *at <= moment) {
            let before = std::mem::replace(&mut self.now[id], presence);
            self.counts[column(before)] -= 1;
            self.counts[column(presence)] += 1;
        }
        self.counts
    }
}

/// The place of a count, in the order of the columns of the table.
fn column(presence: Presence) -> usize {
    match presence {
        Presence::Provisioning => 0,
        Presence::Loading => 1,
        Presence::Up => 2,
        Presence::Draining => 3,
        Presence::Down => 4,
        Presence::Off => 5,
    }
}

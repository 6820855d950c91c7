//! What autoscalers did in a run.

use std::fmt::Write;
use std::ops::Range;

use serde::Serialize;

use super::presence::Presence;
use super::recorder::Recorder;
use super::series::{Quantity, Series};
use crate::cluster::Look;
use crate::resolved::Scenario;
use crate::sim::Occurrence;
use crate::units::SimTime;

/// Every look of an autoscaler, with the number of its pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScalingLog {
    looks: Vec<(SimTime, u32, Look)>,
}

/// Replicas that are scaled together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaledPool {
    /// Its number among the pools of a run.
    pub index: u32,
    /// The name of its group, where the scenario lists groups.
    pub group: Option<String>,
    /// Its replicas, by id.
    pub replicas: Range<u32>,
    /// How many serve or start at least.
    pub min_replicas: u32,
    /// GPUs of each.
    pub gpus: u32,
}

impl ScaledPool {
    /// Those of a scenario, in order.
    pub fn of(scenario: &Scenario) -> Vec<Self> {
        let has_groups = scenario.lists_groups();
        let scaled = (0..).zip(scenario.scaled_groups());
        let pools = scaled.map(|(index, (replicas, group, config))| Self {
            index,
            group: has_groups.then(|| group.name()),
            replicas,
            min_replicas: config.min_replicas,
            gpus: group.cluster.gpus_per_replica(),
        });
        pools.collect()
    }
}

/// What an autoscaler did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalingReport {
    /// The group of its replicas, where there are several kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
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
        if let Occurrence::Looked(pool, look) = *what {
            self.looks.push((at, pool, look));
        }
    }

    fn of(&self, pool: u32) -> impl Iterator<Item = (SimTime, &Look)> {
        let of_it = self.looks.iter().filter(move |(_, index, _)| *index == pool);
        of_it.map(|(at, _, look)| (*at, look))
    }
}

impl ScalingReport {
    /// Of a pool in a recorded run.
    pub fn new(recorder: &Recorder, pool: &ScaledPool) -> Self {
        let end = recorder.observed();
        let seconds = |such: fn(Presence) -> bool| -> f64 {
            let of = |id| recorder.presence.time(id, end, such).as_secs_f64();
            pool.replicas.clone().map(|id| of(id as usize)).sum()
        };
        let max_replicas = pool.replicas.len() as u32;
        let gpus = f64::from(pool.gpus);
        let whole = end.as_secs_f64();
        let looks = || recorder.scaling.of(pool.index).take_while(|(at, _)| *at <= end);
        let count = |such: fn(&Look) -> bool| looks().filter(|(_, look)| such(look)).count() as u64;
        let mut census = Census::new(recorder, &pool.replicas);
        let mut serving_peak = 0;
        while let Some(at) = census.next_change().filter(|at| *at <= end) {
            serving_peak = serving_peak.max(census.at(at)[column(Presence::Up)]);
        }
        Self {
            group: pool.group.clone(),
            min_replicas: pool.min_replicas,
            max_replicas,
            serving_mean: seconds(|presence| presence == Presence::Up) / whole.max(1e-9),
            serving_peak,
            scale_ups: count(|look| look.decided > look.replicas),
            scale_downs: count(|look| look.decided < look.replicas),
            provisioning_s: seconds(|presence| presence == Presence::Provisioning),
            loading_s: seconds(|presence| presence == Presence::Loading),
            draining_s: seconds(|presence| presence == Presence::Draining),
            gpu_hours: seconds(Presence::is_on) * gpus / 3600.0,
            gpu_hours_of_max_replicas: whole * f64::from(max_replicas) * gpus / 3600.0,
        }
    }

    /// In words, two lines.
    pub fn text(&self) -> String {
        let times = |count: u64| format!("{count} {}", if count == 1 { "time" } else { "times" });
        format!(
            "Autoscaler{}: {:.2} of {} to {} replicas serve on average, {} at most; up {}, down {}; \
             {:.1} s provisioning, {:.1} s loading weights, {:.1} s draining\n\
             {:.4} GPU-hours taken; {:.4} with {} replicas all the time\n",
            self.group.as_ref().map_or(String::new(), |group| format!(" of {group}")),
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
    /// looked, with how many are what from then on, and what it saw and decided. Where there are groups
    /// their rows follow each other, with the group in the first column.
    pub fn scaling_csv(&self, pools: &[ScaledPool]) -> String {
        let mut csv = String::new();
        if pools.iter().any(|pool| pool.group.is_some()) {
            csv.push_str("group,");
        }
        csv.push_str(
            "time_s,provisioning,loading,serving,draining,down,off,signal,recommended,decided\n",
        );
        for pool in pools {
            self.scaling_rows(pool, &mut csv);
        }
        csv
    }

    fn scaling_rows(&self, pool: &ScaledPool, csv: &mut String) {
        let end = self.observed();
        let group = pool.group.as_ref().map_or(String::new(), |group| format!("{},", field(group)));
        let mut census = Census::new(self, &pool.replicas);
        let mut looks = self.scaling.of(pool.index).peekable();
        loop {
            let next = [census.next_change(), looks.peek().map(|(at, _)| *at)];
            let next = next.into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            let _ = write!(csv, "{group}{}", at.as_secs_f64());
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
    first: usize,
    now: Vec<Presence>,
    counts: [u32; 6],
}

impl Census {
    fn new(recorder: &Recorder, replicas: &Range<u32>) -> Self {
        let mut counts = [0; 6];
        counts[column(Presence::Up)] = replicas.len() as u32;
        let mut changes = recorder.presence.changes();
        changes.retain(|(_, id, _)| replicas.contains(&(*id as u32)));
        let (first, now) = (replicas.start as usize, vec![Presence::Up; replicas.len()]);
        Self { changes: changes.into_iter().peekable(), first, now, counts }
    }

    fn next_change(&mut self) -> Option<SimTime> {
        self.changes.peek().map(|(at, ..)| *at)
    }

    /// From a moment on, which is not before those asked for earlier.
    fn at(&mut self, moment: SimTime) -> [u32; 6] {
        while let Some((_, id, presence)) = self.changes.next_if(|(at, ..)| *at <= moment) {
            let before = std::mem::replace(&mut self.now[id - self.first], presence);
            self.counts[column(before)] -= 1;
            self.counts[column(presence)] += 1;
        }
        self.counts
    }
}

/// A text as a field of CSV.
fn field(text: &str) -> String {
    let text = crate::plain::inert(text);
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
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

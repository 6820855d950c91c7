//! The report of adapters.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{AdapterLog, MergingLog, MigrationFigures};
use crate::ids::AdapterId;
use crate::metrics::classes::{Spread, keeps};
use crate::metrics::{Recorder, RequestRecord, Status};
use crate::resolved::Scenario;
use crate::scenario::MigrationConfig;
use crate::units::SimDuration;

/// What one adapter, or several together, got.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdapterFigures {
    /// Its name.
    pub name: String,
    /// Its rank; the largest of several.
    pub rank: u32,
    /// Its requests; where requests are sent again, each time counts.
    pub requests: u64,
    /// Those that were answered in full.
    pub finished: u64,
    /// Time to first token of finished requests; to the last where answers are not streamed.
    pub ttft_ms: Option<Spread>,
    /// Time per output token of finished requests with more than one, where answers are streamed.
    pub tpot_ms: Option<Spread>,
    /// From sending to the last token of finished requests.
    pub e2e_ms: Option<Spread>,
    /// While the adapter could get no slot.
    pub slot_wait_ms: Option<Spread>,
    /// While the adapter was loaded.
    pub load_wait_ms: Option<Spread>,
    /// The longest that a request that was admitted waited in the queue, for whatever.
    pub longest_queueing_ms: f64,
    /// Between steps, after the first, because others' adapters had their turn; where adapters are merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_ms: Option<Spread>,
    /// The longest that a request was in no step after its first; where adapters are merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_pause_ms: Option<f64>,
    /// Admissions that did not find it in a slot.
    pub loads: u64,
    /// Those for which it was read from disk.
    pub loads_from_disk: u64,
    /// Times it gave up its slot.
    pub evictions: u64,
    /// The share of admissions that found it in a slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_rate: Option<f64>,
    /// The share of requests that kept all limits of `report.goodput`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attainment: Option<f64>,
}

/// What engines that merge adapters did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Merging {
    /// The share of steps that were merged.
    pub merged_step_share: f64,
    /// Their share of the time that devices worked on steps.
    pub merged_time_share: f64,
    /// Steps before which the merged adapter changed.
    pub switches: u64,
    /// How long that took.
    pub switching_s: f64,
}

impl Merging {
    /// Nothing where no engine merges adapters.
    fn of(log: &AdapterLog) -> Option<Self> {
        let MergingLog { steps, time, merged_steps, merged_time, switches, switching } =
            log.steps.merging;
        log.merges().then(|| Self {
            merged_step_share: merged_steps as f64 / steps.max(1) as f64,
            merged_time_share: merged_time.as_secs_f64() / time.as_secs_f64().max(1e-9),
            switches,
            switching_s: switching.as_secs_f64(),
        })
    }

    fn text(&self) -> String {
        format!(
            "merged in {:.1} % of steps, {:.1} % of their time; {} switches, {:.2} s\n",
            100.0 * self.merged_step_share,
            100.0 * self.merged_time_share,
            self.switches,
            self.switching_s
        )
    }
}

/// What adapters got and did in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdaptersReport {
    /// All requests that use one, together.
    pub all: AdapterFigures,
    /// Distinct adapters in a step, and its largest rank: mean over steps, and the most.
    pub distinct_per_step_mean: f64,
    /// The most distinct adapters in a step.
    pub distinct_per_step_max: u32,
    /// Mean over steps of the largest rank in use when they were decided.
    pub largest_rank_per_step_mean: f64,
    /// Of engines that merge adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merging: Option<Merging>,
    /// Requests and adapters that moved between replicas, where they may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationFigures>,
    /// Adapter by adapter, those with requests.
    pub adapters: Vec<AdapterFigures>,
}

/// Rows of the printed table at most.
const ROWS: usize = 8;

impl AdaptersReport {
    /// Of a recorded run; nothing where the scenario has no adapters.
    pub fn new(recorder: &Recorder, scenario: &Scenario) -> Option<Self> {
        let sums = Sums::new(recorder, scenario)?;
        let asked = |id: &u32| !sums.places[*id as usize].is_empty();
        let ids: Vec<u32> = (0..sums.names.len() as u32).filter(asked).collect();
        let steps = &recorder.adapters.steps;
        Some(Self {
            all: sums.figures("all".to_owned(), &ids),
            distinct_per_step_mean: mean(&steps.by_distinct),
            distinct_per_step_max: steps.by_distinct.keys().next_back().copied().unwrap_or(0),
            largest_rank_per_step_mean: mean(&steps.by_rank),
            merging: Merging::of(&recorder.adapters),
            migration: migration(recorder, scenario),
            adapters: ids
                .iter()
                .map(|id| sums.figures(sums.names[*id as usize].clone(), &[*id]))
                .collect(),
        })
    }

    /// A table of those with the most requests, and of all others together.
    pub fn text(recorder: &Recorder, scenario: &Scenario) -> Option<String> {
        let sums = Sums::new(recorder, scenario)?;
        let asked = |id: &u32| !sums.places[*id as usize].is_empty();
        let mut ids: Vec<u32> = (0..sums.names.len() as u32).filter(asked).collect();
        ids.sort_by_key(|id| (std::cmp::Reverse(sums.places[*id as usize].len()), *id));
        let (first, rest) = ids.split_at(ids.len().min(ROWS));
        let mut rows: Vec<AdapterFigures> =
            first.iter().map(|id| sums.figures(sums.names[*id as usize].clone(), &[*id])).collect();
        if !rest.is_empty() {
            rows.push(sums.figures(format!("{} others", rest.len()), rest));
        }
        rows.push(sums.figures("all".to_owned(), &ids));
        let steps = &recorder.adapters.steps;
        let most = steps.by_distinct.keys().next_back().copied().unwrap_or(0);
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(8);
        let title = |column: &&Column| format!(" {:>10}", column.0);
        let merging = Merging::of(&recorder.adapters);
        // Where adapters are merged nobody waits for slots.
        let shows = |column: &&Column| match column.0 {
            "slot wait" => merging.is_none(),
            "paused" | "longest" => merging.is_some(),
            _ => true,
        };
        let columns: Vec<&Column> = COLUMNS.iter().filter(shows).collect();
        let text = format!(
            "{} adapters, {:.2} in a step on average, {most} at most; largest rank {:.1} on average\n{}  {:width$}{}\n",
            sums.names.len(),
            mean(&steps.by_distinct),
            mean(&steps.by_rank),
            merging.as_ref().map(Merging::text).unwrap_or_default(),
            "",
            columns.iter().map(title).collect::<String>(),
        );
        let line = |row: &AdapterFigures| {
            let cell = |column: &&Column| {
                let value = (column.2)(row);
                let value = value.map(|value| format!("{value:.*}", column.1));
                format!(" {:>10}", value.as_deref().unwrap_or("-"))
            };
            let cells: String = columns.iter().map(cell).collect();
            format!("  {:width$}{cells}\n", row.name)
        };
        let moved = migration(recorder, scenario).map(|figures| format!("  {}", figures.text()));
        Some(text + &rows.iter().map(line).collect::<String>() + &moved.unwrap_or_default())
    }
}

/// What moved, where requests may move.
fn migration(recorder: &Recorder, scenario: &Scenario) -> Option<MigrationFigures> {
    let migration = scenario.lora()?.migration?;
    let moves = migration != MigrationConfig::DispatchOnly {};
    moves.then(|| recorder.migrations.figures())
}

/// A column: its title, its decimals, its figure.
type Column = (&'static str, usize, fn(&AdapterFigures) -> Option<f64>);

const COLUMNS: [Column; 11] = [
    ("rank", 0, |row| Some(f64::from(row.rank))),
    ("requests", 0, |row| Some(row.requests as f64)),
    ("TTFT ms", 1, |row| row.ttft_ms.map(|of| of.mean)),
    ("P99 TTFT", 1, |row| row.ttft_ms.map(|of| of.p99)),
    ("TPOT ms", 2, |row| row.tpot_ms.map(|of| of.mean)),
    ("slot wait", 1, |row| row.slot_wait_ms.map(|of| of.mean)),
    ("paused", 1, |row| row.paused_ms.map(|of| of.mean)),
    ("longest", 0, |row| row.longest_pause_ms),
    ("load wait", 2, |row| row.load_wait_ms.map(|of| of.mean)),
    ("loads", 0, |row| Some(row.loads as f64)),
    ("hits %", 1, |row| row.hit_rate.map(|rate| 100.0 * rate)),
];

/// Requests by adapter.
struct Sums<'a> {
    recorder: &'a Recorder,
    names: Vec<String>,
    ranks: Vec<u32>,
    limits: Vec<(&'a str, f64)>,
    /// Whether clients see first tokens.
    streams: bool,
    places: Vec<Vec<usize>>,
}

impl<'a> Sums<'a> {
    fn new(recorder: &'a Recorder, scenario: &'a Scenario) -> Option<Self> {
        let mix = scenario.workload.adapters.as_ref().filter(|_| recorder.adapters.is_on())?;
        let mut places = vec![Vec::new(); mix.count() as usize];
        for place in 0..recorder.requests.len() {
            if let Some(AdapterId(id)) = recorder.adapters.wait_of(place).adapter {
                places[id as usize].push(place);
            }
        }
        let goodput = scenario.report.goodput.iter();
        let limits = goodput.map(|(name, ms)| (name.as_str(), *ms)).collect();
        let (names, ranks) = (mix.names().collect(), mix.ranks().collect());
        let streams = scenario.report.streaming;
        Some(Self { recorder, names, ranks, limits, streams, places })
    }

    fn figures(&self, name: String, ids: &[u32]) -> AdapterFigures {
        let recorder = self.recorder;
        let places = || ids.iter().flat_map(|id| &self.places[*id as usize]).copied();
        let record = |place: usize| &recorder.requests[place];
        let is_done = |place: &usize| record(*place).status == Status::Finished;
        let spread = |of: &dyn Fn(usize) -> Option<SimDuration>| {
            let values = places().filter(is_done).filter_map(of);
            Spread::of(values.map(SimDuration::as_millis_f64).collect())
        };
        let moves = ids.iter().map(|id| recorder.adapters.moves[*id as usize]);
        let sum = |of: fn(&super::AdapterMoves) -> u64| moves.clone().map(|one| of(&one)).sum();
        let (admissions, loads): (u64, u64) = (sum(|of| of.admissions), sum(|of| of.loads));
        let good = |record: &RequestRecord| self.limits.iter().all(|limit| keeps(record, *limit));
        let merges = recorder.adapters.merges();
        let kept = places().filter(is_done).filter(|place| good(record(*place))).count();
        let requests = places().count();
        let queueing = places().map(|place| {
            let record = record(place);
            (record.first_scheduled - record.queued.min(record.first_scheduled)).as_millis_f64()
        });
        AdapterFigures {
            name,
            rank: ids.iter().map(|id| self.ranks[*id as usize]).max().unwrap_or(0),
            requests: requests as u64,
            finished: places().filter(is_done).count() as u64,
            ttft_ms: spread(&|place| {
                let record = record(place);
                Some(if self.streams { record.ttft() } else { record.e2e() })
            }),
            tpot_ms: spread(&|place| record(place).tpot().filter(|_| self.streams)),
            e2e_ms: spread(&|place| Some(record(place).e2e())),
            slot_wait_ms: spread(&|place| Some(recorder.adapters.wait_of(place).slot)),
            load_wait_ms: spread(&|place| Some(recorder.adapters.wait_of(place).load)),
            paused_ms: merges
                .then(|| spread(&|place| Some(recorder.adapters.wait_of(place).paused)))
                .flatten(),
            longest_pause_ms: merges.then(|| {
                let pauses = places().map(|place| recorder.adapters.wait_of(place).longest_pause);
                pauses.max().unwrap_or_default().as_millis_f64()
            }),
            longest_queueing_ms: queueing.fold(0.0, f64::max),
            loads,
            loads_from_disk: sum(|of| of.from_disk),
            evictions: sum(|of| of.evictions),
            hit_rate: (admissions > 0).then(|| 1.0 - loads as f64 / admissions as f64),
            attainment: (!self.limits.is_empty()).then(|| kept as f64 / requests.max(1) as f64),
        }
    }
}

fn mean(steps: &BTreeMap<u32, u64>) -> f64 {
    let count: u64 = steps.values().sum();
    let sum: f64 = steps.iter().map(|(value, steps)| f64::from(*value) * *steps as f64).sum();
    sum / count.max(1) as f64
}

//! How busy the replicas of a run were, and how evenly.

use std::ops::Range;

use serde::Serialize;

use super::activity::StepKind;
use super::presence::Presence;
use super::ranks::RanksReport;
use super::recorder::Recorder;
use super::replica::ReplicaLog;
use super::tiers::TierTokens;
use crate::cluster::Role;
use crate::resolved::{ReplicaGroup, Scenario};
use crate::scenario::ReplicaRole;
use crate::stats;
use crate::units::{SimDuration, SimTime};

/// Replicas that do the same on the same hardware; their ids follow each other.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaKind {
    /// What a scenario that lists groups calls them.
    pub name: Option<String>,
    /// What they do of a request.
    pub role: Role,
    /// How many they are.
    pub replicas: u32,
    /// Their GPU, by its name in the catalogue.
    pub gpu: String,
    /// GPUs of each.
    pub gpus: u32,
    /// Bytes per second of the NICs of each, where KV caches travel from or to them.
    pub nic_bytes_per_s: Option<f64>,
    /// Whether they have KV memory below that of their GPUs.
    pub has_tiers: bool,
}

impl ReplicaKind {
    /// Those of a resolved scenario, in the order of their ids.
    pub fn of(scenario: &Scenario) -> Vec<Self> {
        let is_listed = scenario.lists_groups();
        let nics = scenario.nics_bytes_per_s().unwrap_or_default();
        let mut first = 0;
        let kind = |group: &ReplicaGroup| {
            let nic = nics.get(first).copied().filter(|rate| *rate > 0.0);
            first += group.replicas() as usize;
            Self {
                name: is_listed.then(|| group.name()),
                role: match group.role {
                    ReplicaRole::Mixed => Role::Whole,
                    ReplicaRole::Prefill => Role::Prefill,
                    ReplicaRole::Decode => Role::Decode,
                },
                replicas: group.replicas(),
                gpu: group.gpu.name.clone(),
                gpus: group.cluster.gpus_per_replica(),
                nic_bytes_per_s: nic,
                has_tiers: group.cluster.kv_tiers.is_some(),
            }
        };
        scenario.groups.iter().map(kind).collect()
    }

    /// The groups with the ids of their replicas.
    pub fn ids(groups: &[Self]) -> impl Iterator<Item = (&Self, Range<usize>)> {
        let first =
            |index: usize| groups[..index].iter().map(|group| group.replicas as usize).sum();
        groups.iter().enumerate().map(move |(index, group)| {
            let first: usize = first(index);
            (group, first..first + group.replicas as usize)
        })
    }
}

/// What the replicas of a run did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterReport {
    /// From the start to the end of the last step and the last change of a request, in seconds: what
    /// shares and means below are of.
    pub observed_s: f64,
    /// Groups of replicas, in the order of their ids.
    pub groups: Vec<GroupReport>,
    /// Every replica, by id.
    pub replicas: Vec<ReplicaReport>,
}

/// Replicas that do the same on the same hardware.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupReport {
    /// What a scenario that lists groups calls them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What they do of a request: `mixed`, `prefill` or `decode`.
    pub role: &'static str,
    /// How many they are.
    pub replicas: u32,
    /// Their GPU.
    pub gpu: String,
    /// GPUs of each.
    pub gpus_per_replica: u32,
    /// How uneven the time is that they were busy.
    pub busy_time: Option<Imbalance>,
    /// How uneven the prompt tokens are that they computed.
    pub computed_prompt_tokens: Option<Imbalance>,
    /// How uneven the tokens are that came out of them.
    pub output_tokens: Option<Imbalance>,
}

/// How unevenly a quantity is spread over replicas; there is none where all have nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Imbalance {
    /// The most over the mean: 1 where all have the same.
    pub max_over_mean: f64,
    /// The standard deviation (population) over the mean: 0 where all have the same.
    pub cv: f64,
}

/// What one replica did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReplicaReport {
    /// Its id.
    pub replica: u32,
    /// What it does of a request.
    pub role: &'static str,
    /// Share of the run in which it was up: neither off, starting nor down. The shares of time and the
    /// means below are of that time.
    #[serde(skip_serializing_if = "is_all_of_it")]
    pub up: f64,
    /// Share of the time in which its device computes.
    pub busy: f64,
    /// Share of the time in steps that only prefill.
    pub prefill: f64,
    /// Share of the time in steps that prefill and decode.
    pub mixed: f64,
    /// Share of the time in steps that only decode.
    pub decode: f64,
    /// The rest: nothing to do, or waiting for its host.
    pub idle: f64,
    /// Requests admitted at a time, on average.
    pub running_mean: f64,
    /// Requests waiting at a time, on average.
    pub waiting_mean: f64,
    /// Share of the KV blocks that requests hold, on average.
    pub kv_use_mean: f64,
    /// The largest such share.
    pub kv_use_peak: f64,
    /// Requests it answered, or whose prompts it computed for others.
    pub requests: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Those of them that its prefix cache held.
    pub cached_tokens: u64,
    /// Prompt tokens it computed, those of preempted requests again.
    pub computed_prompt_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Requests that lost their memory.
    pub preemptions: u64,
    /// Where those prompt tokens came from, where there is KV memory below that of the GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_tiers: Option<TierTokens>,
    /// What its data-parallel ranks did, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_parallel: Option<RanksReport>,
}

impl ClusterReport {
    /// Of a recorded run on these replicas.
    pub fn new(recorder: &Recorder, groups: &[ReplicaKind]) -> Self {
        let end = recorder.observed();
        let (mut reports, mut replicas) = (Vec::new(), Vec::new());
        let unused = ReplicaLog::default();
        for (group, ids) in ReplicaKind::ids(groups) {
            let of = |id| {
                let log = recorder.replicas.get(id).unwrap_or(&unused);
                let tiers = group.has_tiers.then(|| {
                    let below = recorder.tiers.of(id).tokens;
                    TierTokens::new(log.prompt_tokens, log.cached_tokens, below)
                });
                let up = recorder.presence.time(id, end, Presence::is_up);
                let report = ReplicaReport::new((id as u32, group.role), log, end, up);
                ReplicaReport { kv_tiers: tiers, ..report }
            };
            let each: Vec<ReplicaReport> = ids.map(of).collect();
            reports.push(GroupReport::new(group, &each));
            replicas.extend(each);
        }
        Self { observed_s: end.as_secs_f64(), groups: reports, replicas }
    }

    /// One block of lines for each group: the least, the mean and the most over its replicas. Of a
    /// replica alone, what its data-parallel ranks did, if it has some.
    pub fn text(&self) -> String {
        if let [alone] = &self.replicas[..] {
            return alone.data_parallel.map_or_else(String::new, |ranks| ranks.text());
        }
        let mut rest = self.replicas.as_slice();
        let mut blocks = String::new();
        for group in &self.groups {
            let (of_group, others) = rest.split_at(group.replicas as usize);
            blocks += &group.text(of_group, self.observed_s);
            rest = others;
        }
        blocks
    }
}

impl GroupReport {
    fn new(group: &ReplicaKind, replicas: &[ReplicaReport]) -> Self {
        let there = there(replicas);
        let imbalance = |of: fn(&ReplicaReport) -> f64| Imbalance::of(&there, of);
        Self {
            name: group.name.clone(),
            role: role_name(group.role),
            replicas: group.replicas,
            gpu: group.gpu.clone(),
            gpus_per_replica: group.gpus,
            busy_time: imbalance(|replica| replica.busy),
            computed_prompt_tokens: imbalance(|replica| replica.computed_prompt_tokens as f64),
            output_tokens: imbalance(|replica| replica.output_tokens as f64),
        }
    }

    fn text(&self, replicas: &[ReplicaReport], observed_s: f64) -> String {
        let title = match (&self.name, self.role, self.replicas) {
            (Some(name), _, count) => format!("{name} ({count}), {observed_s:.1} s"),
            (None, "mixed", count) => format!("{count} replicas, {observed_s:.1} s"),
            (None, role, 1) => format!("1 {role} replica, {observed_s:.1} s"),
            (None, role, count) => format!("{count} {role} replicas, {observed_s:.1} s"),
        };
        let head = format!("{title:<31} {:>12} {:>12} {:>12}\n", "min", "mean", "max");
        let replicas = &there(replicas)[..];
        let has_tiers = replicas.iter().any(|replica| replica.kv_tiers.is_some());
        let was_away = replicas.iter().any(|replica| replica.up < 1.0);
        let tiers = TIER_LINES.iter().filter(|_| has_tiers);
        let up = UP.iter().filter(|_| was_away);
        let has_ranks = replicas.iter().any(|replica| replica.data_parallel.is_some());
        let ranks = RANK_LINES.iter().filter(|_| has_ranks);
        let lines =
            LINES.iter().chain(tiers).chain(ranks).chain(up).map(|line| line.text(replicas));
        let block = head + &lines.collect::<String>();
        let uneven = [
            ("busy time", self.busy_time),
            ("prompt tokens computed", self.computed_prompt_tokens),
            ("output tokens", self.output_tokens),
        ];
        let uneven = uneven.iter().filter_map(|(name, imbalance)| {
            let Imbalance { max_over_mean, cv } = (*imbalance)?;
            Some(format!("{name} {max_over_mean:.2} (CV {cv:.2})"))
        });
        let uneven = uneven.collect::<Vec<_>>();
        if uneven.is_empty() || replicas.len() < 2 {
            return block;
        }
        block + &format!("  max/mean: {}\n", uneven.join(", "))
    }
}

/// Those that were up at all; all, if none was.
fn there(replicas: &[ReplicaReport]) -> Vec<ReplicaReport> {
    let up = replicas.iter().copied().filter(|replica| replica.up > 0.0).collect::<Vec<_>>();
    if up.is_empty() { replicas.to_vec() } else { up }
}

/// A line of a block.
#[derive(Clone, Copy)]
struct Line {
    name: &'static str,
    decimals: usize,
    of: fn(&ReplicaReport) -> f64,
}

const fn line(name: &'static str, decimals: usize, of: fn(&ReplicaReport) -> f64) -> Line {
    Line { name, decimals, of }
}

/// Where some replicas were not up all the time.
const UP: [Line; 1] = [line("up, of the run (%)", 1, |replica| 100.0 * replica.up)];

const LINES: [Line; 11] = [
    line("busy (%)", 1, |replica| 100.0 * replica.busy),
    line("  prefill steps (%)", 1, |replica| 100.0 * replica.prefill),
    line("  mixed steps (%)", 1, |replica| 100.0 * replica.mixed),
    line("  decode steps (%)", 1, |replica| 100.0 * replica.decode),
    line("requests running", 1, |replica| replica.running_mean),
    line("requests waiting", 1, |replica| replica.waiting_mean),
    line("KV blocks in use, mean (%)", 1, |replica| 100.0 * replica.kv_use_mean),
    line("requests served", 0, |replica| replica.requests as f64),
    line("prompt tokens from cache (%)", 1, ReplicaReport::cached_pct),
    line("output tokens", 0, |replica| replica.output_tokens as f64),
    line("preemptions", 0, |replica| replica.preemptions as f64),
];

/// Of prompt tokens, where there is KV memory below that of the GPUs.
const TIER_LINES: [Line; 4] = [
    line("prompt tokens: GPU memory (%)", 1, |replica| replica.tier_pct(|tokens| tokens.gpu)),
    line("  host (%)", 1, |replica| replica.tier_pct(|tokens| tokens.host)),
    line("  disk (%)", 1, |replica| replica.tier_pct(|tokens| tokens.disk)),
    line("  pool (%)", 1, |replica| replica.tier_pct(|tokens| tokens.pool)),
];

/// Of data-parallel ranks.
const RANK_LINES: [Line; 3] = [
    line("ranks waiting for slowest (%)", 1, |replica| replica.of_ranks(|r| 100.0 * r.waiting)),
    line("  steps without requests (%)", 1, |replica| replica.of_ranks(|r| 100.0 * r.dummy_steps)),
    line("  tokens, max/mean", 2, |replica| replica.of_ranks(|r| r.tokens_max_over_mean)),
];

impl Line {
    /// The least, the mean and the most.
    fn text(&self, replicas: &[ReplicaReport]) -> String {
        let Self { name, decimals, of } = self;
        let values: Vec<f64> = replicas.iter().map(of).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let (mean, of_mean) = (stats::mean(&values), (*decimals).max(1));
        format!("  {name:<29} {least:>12.decimals$} {mean:>12.of_mean$} {most:>12.decimals$}\n")
    }
}

impl Imbalance {
    fn of(replicas: &[ReplicaReport], quantity: fn(&ReplicaReport) -> f64) -> Option<Self> {
        let values: Vec<f64> = replicas.iter().map(quantity).collect();
        let mean = stats::mean(&values);
        let most = values.iter().copied().fold(0.0, f64::max);
        (most > 0.0)
            .then(|| Self { max_over_mean: most / mean, cv: stats::std_dev(&values) / mean })
    }
}

impl ReplicaReport {
    fn new((replica, role): (u32, Role), log: &ReplicaLog, end: SimTime, up: SimDuration) -> Self {
        let (whole, run) = (up.as_nanos().max(1) as f64, end.as_nanos().max(1) as f64);
        let was_there = up > SimDuration::ZERO || end == SimTime::ZERO;
        // From a mean over the run to one over the time in which it was up.
        let of_up = run / whole;
        let share = |kind| log.activity.spent(kind).as_nanos() as f64 / whole;
        let busy = log.activity.busy().as_nanos() as f64 / whole;
        Self {
            replica,
            role: role_name(role),
            up: if was_there { whole / run } else { 0.0 },
            busy,
            prefill: share(StepKind::Prefill),
            mixed: share(StepKind::Mixed),
            decode: share(StepKind::Decode),
            idle: if was_there { 1.0 - busy } else { 0.0 },
            running_mean: log.mean_running(end) * of_up,
            waiting_mean: log.mean_waiting(end) * of_up,
            kv_use_mean: log.mean_kv_use(end) * of_up,
            kv_use_peak: log.peak_kv_use(),
            requests: log.requests,
            prompt_tokens: log.prompt_tokens,
            cached_tokens: log.cached_tokens,
            computed_prompt_tokens: log.computed_tokens,
            output_tokens: log.output_tokens,
            preemptions: log.preemptions,
            kv_tiers: None,
            data_parallel: RanksReport::new(&log.ranks),
        }
    }

    fn tier_pct(&self, of: fn(&TierTokens) -> u64) -> f64 {
        let tokens = self.kv_tiers.as_ref().map_or(0, of);
        100.0 * tokens as f64 / self.prompt_tokens.max(1) as f64
    }

    fn of_ranks(&self, of: fn(&RanksReport) -> f64) -> f64 {
        self.data_parallel.as_ref().map_or(0.0, of)
    }

    fn cached_pct(&self) -> f64 {
        100.0 * self.cached_tokens as f64 / self.prompt_tokens.max(1) as f64
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde hands over")]
fn is_all_of_it(share: &f64) -> bool {
    *share >= 1.0
}

/// What replicas of a role are called.
pub(super) const fn role_name(role: Role) -> &'static str {
    match role {
        Role::Whole => "mixed",
        Role::Prefill => "prefill",
        Role::Decode => "decode",
    }
}

//! Recordings of the selection service: every line is an input of the router or what it answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::draws::Recorded;
use super::lines::{Event, Line, Op, OptionsLine, OverlapLine, Path, SettingsLine};
use super::{Tally, not_modelled, read, settings, time, wrong};
use crate::cluster::router::dynamo::{
    Ask, Decision, Index, KvRouter, Member, Options, Outcome, Overlap, Pool, Prompt, Rank,
    Rejection, RequestKey, Sent, Threads, Tier,
};
use crate::conformance::RecordingError;
use crate::kv::Order;
use crate::rng::mix;
use crate::scenario::{DynamoConfig, DynamoSelection};
use crate::units::{SimDuration, SimTime};

const VERSION: &str = "ai-dynamo-runtime 1.6.1";

/// How far the clock of the recorder may be from that of the router beside the grid of expiries.
const CLOCKS: SimDuration = SimDuration::from_millis(20);
/// Blocks of a prompt.
const MOST_BLOCKS: u64 = 1 << 20;
/// Data-parallel ranks of a worker.
const MOST_RANKS: u32 = 1024;
/// The grid of expiries.
const GRID: SimDuration = SimDuration::from_millis(100);
/// Standard deviations that draws by temperature may lie from what is expected: one in 3·10⁶ by chance.
const DEVIATION: f64 = 5.0;

struct Replay {
    tally: Tally,
    router: KvRouter,
    draws: Recorded,
    block_size: u32,
    now: SimTime,
    keys: FxHashMap<String, RequestKey>,
    ids: Vec<String>,
    names: Vec<(u32, u32)>,
    /// What the router answered that the recording has not yet.
    answers: VecDeque<Outcome>,
    admitted: FxHashMap<RequestKey, (Decision, u32, bool)>,
    asked: FxHashMap<RequestKey, (u32, Prompt, bool)>,
    guesses: Option<Guesses>,
}

/// What is guessed to be cached, as the clock of the router may be early or late.
struct Guesses {
    /// What is known beside them.
    told: Index,
    least: Sent,
    most: Sent,
}

pub(super) fn replay(lines: &[Value]) -> Result<Tally, RecordingError> {
    let first: SettingsLine = read(1, &lines[0])?;
    let mut replay = Replay::new(&first)?;
    let parsed: Result<Vec<Line>, _> =
        lines.iter().enumerate().skip(1).map(|(at, line)| read(at + 1, line)).collect();
    let parsed = parsed?;
    for line in &parsed {
        if let Line::Decision { id, w, r, .. } = line {
            let (key, rank) = (replay.key(id), replay.rank(*w, *r));
            replay.draws.chosen.insert(key, rank);
        }
    }
    for (at, line) in parsed.into_iter().enumerate() {
        replay.step(at + 2, line)?;
    }
    replay.nothing_is_left(lines.len());
    let deviation = replay.draws.deviation();
    if deviation.abs() > DEVIATION {
        let place = || "draws by temperature".to_owned();
        replay.tally.count(place, &"as the probabilities say", &["otherwise"]);
    }
    Ok(replay.tally)
}

impl Replay {
    fn new(first: &SettingsLine) -> Result<Self, RecordingError> {
        if first.version != VERSION {
            return Err(not_modelled(1, format!("version \"{}\"", first.version)));
        }
        if first.block_size == 0 {
            return Err(wrong(1, "block_size: must be at least 1, got 0"));
        }
        let mut config = settings::of_variables(&first.env)?;
        // The selection service tracks blocks whatever it is told.
        config.router_track_active_blocks = true;
        config.router_event_threads = first.indexer_threads;
        config.session_affinity_ttl_secs = first.session_affinity_ttl_secs;
        config.policy.clone_from(&first.policy);
        config.worker_selection = match &first.worker_selection {
            None => None,
            Some(selection) => Some(selected(selection)?),
        };
        config.check().map_err(|(key, rule)| wrong(1, format!("{key} {rule}")))?;
        Ok(Self {
            tally: Tally { policy: "dynamo".to_owned(), ..Tally::default() },
            router: KvRouter::new(&config, Pool::Decode, first.block_size),
            draws: Recorded::default(),
            block_size: first.block_size,
            now: SimTime::ZERO,
            keys: FxHashMap::default(),
            ids: Vec::new(),
            names: Vec::new(),
            answers: VecDeque::new(),
            admitted: FxHashMap::default(),
            asked: FxHashMap::default(),
            guesses: Guesses::of(&config),
        })
    }

    fn key(&mut self, id: &str) -> RequestKey {
        if let Some(key) = self.keys.get(id) {
            return *key;
        }
        let key = RequestKey(self.ids.len() as u64);
        self.ids.push(id.to_owned());
        self.keys.insert(id.to_owned(), key);
        key
    }

    fn rank(&mut self, worker: u32, rank: u32) -> Rank {
        let name = (worker, rank);
        let known = self.names.iter().position(|one| *one == name);
        Rank(known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        }) as u32)
    }

    fn name(&self, rank: Rank) -> String {
        let (worker, rank) = self.names[rank.index()];
        format!("{worker}.{rank}")
    }

    fn of(&self, key: RequestKey, rank: Rank) -> String {
        format!("{} to {}", self.ids[key.0 as usize], self.name(rank))
    }

    fn step(&mut self, at: usize, line: Line) -> Result<(), RecordingError> {
        let mut outcomes = Vec::new();
        match line {
            Line::Worker { op, id, dp, max_num_batched_tokens, taints, .. } => {
                self.nothing_is_left(at);
                self.draws.forget_order();
                let count = dp.unwrap_or(1);
                if !(1..=MOST_RANKS).contains(&count) {
                    return Err(wrong(at, format!("dp: must be 1 to {MOST_RANKS}, got {count}")));
                }
                let ranks = match op {
                    Op::Add => (0..count).map(|rank| (id, rank)).collect(),
                    Op::Remove => self.names.iter().copied().filter(|name| name.0 == id).collect(),
                };
                let ranks: Vec<(u32, u32)> = ranks;
                let taints: Arc<[String]> = taints.into();
                for (worker, rank) in ranks {
                    let rank = self.rank(worker, rank);
                    let Self { router, draws, now, .. } = self;
                    match op {
                        Op::Add => {
                            let taints = taints.clone();
                            let member = Member {
                                worker,
                                max_num_batched_tokens,
                                total_kv_blocks: None,
                                taints,
                            };
                            router.add(*now, rank, member, draws, &mut outcomes);
                        }
                        Op::Remove => router.remove(*now, rank, draws, &mut outcomes),
                    }
                }
            }
            Line::Arrive { id, t, p, isl, opts, overlap, potential } => {
                self.now = time(at, t)?;
                let ask = self.ask(at, &id, &p, isl, opts)?;
                self.arrive(at, ask, &overlap, &potential, &mut outcomes)?;
            }
            Line::Decision { id, t, w, r, cost } => {
                let now = time(at, t)?;
                let (key, rank) = (self.key(&id), self.rank(w, r));
                self.decided(at, now, key, rank, cost);
            }
            Line::Admitted { id, w, r, prefill_tokens, potential_decode_blocks } => {
                let (key, rank) = (self.key(&id), self.rank(w, r));
                if let Some((decision, part, _)) = self.admitted.get(&key) {
                    let blocks = decision.blocks + u64::from(*part);
                    let replayed = (decision.rank, decision.prefill_tokens, blocks);
                    let recorded = (rank, prefill_tokens, potential_decode_blocks);
                    self.tally.check(|| format!("line {at} ({id} admitted)"), &recorded, &replayed);
                }
            }
            Line::Rejected { id, error } => {
                let key = self.key(&id);
                let replayed = match self.answers.pop_front() {
                    Some(Outcome::Rejected(one, why)) if one == key => said(&why),
                    other => format!("{other:?}"),
                };
                self.tally.count(|| format!("line {at} ({id})"), &error, &[replayed]);
            }
            Line::PrefillDone { id, t } => {
                self.nothing_is_left(at);
                self.now = time(at, t)?;
                let key = self.key(&id);
                self.router.prefill_done(self.now, key, &mut self.draws, &mut outcomes);
            }
            Line::OutputBlock { id, decay } => {
                if decay.is_some_and(|decay| !(0.0..=1.0).contains(&decay)) {
                    return Err(wrong(at, "decay: must be at least 0 and at most 1"));
                }
                let key = self.key(&id);
                self.router.output_block(key, decay);
            }
            Line::Free { id, t } => {
                self.nothing_is_left(at);
                self.now = time(at, t)?;
                let key = self.key(&id);
                self.router.free(self.now, key, &mut self.draws, &mut outcomes);
            }
            Line::Kv { ev, w: (worker, rank), p, idx, tier } => {
                let rank = self.rank(worker, rank);
                self.told(at, &ev, rank, &p, &idx, tier.as_deref())?;
            }
            Line::Sleep { t, .. } => self.now = time(at, t)?,
            Line::End { unfinished, .. } => {
                self.nothing_is_left(at);
                let waiting = self.router.waiting() as usize;
                if unfinished < waiting {
                    self.tally.check(|| format!("line {at} (end)"), &unfinished, &waiting);
                }
            }
        }
        self.answers.extend(outcomes);
        Ok(())
    }

    fn ask(
        &mut self,
        at: usize,
        id: &str,
        path: &Path,
        isl: u32,
        opts: OptionsLine,
    ) -> Result<Ask, RecordingError> {
        let named = names(at, path)?;
        let blocks = named.len() as u32;
        if u64::from(blocks) * u64::from(self.block_size) > u64::from(isl) {
            return Err(wrong(at, format!("isl: {blocks} blocks are more than {isl} tokens")));
        }
        let pin = opts.pinned_worker.as_ref();
        let pinned = pin.map(|pin| self.rank(pin.worker_id, pin.dp_rank));
        let options = Options {
            allowed: opts.allowed_worker_ids,
            pinned,
            required_taints: opts.routing_constraints.required_taints,
            preferred_taints: opts.routing_constraints.preferred_taints.into_iter().collect(),
            session: opts.session_id.map(|id| id.bytes().fold(0, |h, b| mix(h ^ u64::from(b)))),
            tracks_prefill: opts.r#override.track_prefill_tokens,
            assumes_reuse: opts.r#override.assume_kv_reuse,
            priority_jump: opts.priority_jump.unwrap_or(0.0),
            strict_priority: opts.strict_priority.unwrap_or(0),
            class: None,
        };
        let options = (options != Options::default()).then(|| Arc::new(options));
        let prompt = Prompt { named: Arc::new(named.into_iter().collect()), blocks };
        let key = self.key(id);
        let is_pinned = pinned.is_some();
        if self.asked.insert(key, (isl, prompt.clone(), is_pinned)).is_some() {
            return Err(wrong(at, format!("id: \"{id}\" arrives twice")));
        }
        Ok(Ask { key, prompt_tokens: u64::from(isl), prompt, options })
    }

    fn arrive(
        &mut self,
        at: usize,
        ask: Ask,
        overlap: &BTreeMap<String, OverlapLine>,
        potential: &BTreeMap<String, (u64, u64, u32)>,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), RecordingError> {
        let mut overlaps = vec![Overlap::default(); self.names.len()];
        for (name, overlap) in overlap {
            let Some(rank) = self.names.iter().position(|(w, r)| *name == format!("{w}.{r}"))
            else {
                return Err(wrong(at, format!("overlap: there is no rank {name}")));
            };
            overlaps[rank] = match *overlap {
                OverlapLine::Device(device) => Overlap { device, ..Overlap::default() },
                OverlapLine::Tiers(device, host, disk) => Overlap { device, host, disk },
            };
        }
        let mut found = Vec::new();
        self.router.look_up(self.now, &ask.prompt, &mut found);
        let place = |what: &str| format!("line {at} ({what} before the decision)");
        let mut bounds = vec![(0, 0); self.names.len()];
        if let Some(guesses) = &mut self.guesses {
            guesses.bounds(self.now, &ask.prompt, &mut bounds);
        }
        for (rank, (recorded, found)) in overlaps.iter().zip(&found).enumerate() {
            let (least, most) = bounds[rank];
            let lies_between = (least..=most).contains(&recorded.device) && least < most;
            if !lies_between {
                let name = self.name(Rank(rank as u32));
                self.tally.check(|| place(&format!("overlap of {name}")), recorded, found);
            }
        }
        // It is told of all ranks, whichever the request may use.
        let options = ask.options.as_ref().map(|options| {
            let (tracks_prefill, assumes_reuse) = (options.tracks_prefill, options.assumes_reuse);
            Arc::new(Options { tracks_prefill, assumes_reuse, ..Options::default() })
        });
        let plain = Ask { options, ..ask.clone() };
        let states = self.router.potential(self.now, &plain, &overlaps);
        let states: BTreeMap<_, _> = (states.iter())
            .map(|one| (self.name(one.rank), (one.prefill_tokens, one.blocks, one.requests)))
            .collect();
        self.tally.check(|| place("potential"), potential, &states);
        let Self { router, draws, now, .. } = self;
        router.arrive_with(*now, ask, overlaps, draws, outcomes);
        Ok(())
    }

    fn decided(&mut self, at: usize, now: SimTime, key: RequestKey, rank: Rank, cost: f64) {
        let place = || format!("line {at} (decision)");
        let Some(Outcome::Sent(decision)) = self.answers.pop_front() else {
            return self.tally.count(place, &self.of(key, rank), &[]);
        };
        if decision.key != key {
            let replayed = self.of(decision.key, decision.rank);
            return self.tally.count(place, &self.of(key, rank), &[replayed]);
        }
        let allowed = self.draws.allowed.remove(&key).unwrap_or_else(|| vec![decision.rank]);
        let allowed: Vec<_> = allowed.into_iter().map(|rank| self.name(rank)).collect();
        self.tally.count(place, &self.name(rank), &allowed);
        let Some((isl, prompt, is_pinned)) = self.asked.get(&key) else { return };
        // Costs of pinned requests are told with three decimals.
        let step = if *is_pinned { 1e-3 } else { 1e-9 * cost.abs() };
        let part = u32::from(!isl.is_multiple_of(self.block_size));
        if let Some(guesses) = &mut self.guesses {
            guesses.book(now, decision.rank, prompt);
        }
        self.admitted.insert(key, (decision, part, *is_pinned));
        let is_it = (cost - decision.cost).abs() <= step;
        let replayed = if is_it { cost } else { decision.cost };
        self.tally.check(|| format!("line {at} (cost)"), &cost, &replayed);
    }

    fn told(
        &mut self,
        at: usize,
        event: &Event,
        rank: Rank,
        path: &Path,
        ranges: &[(u32, u32)],
        tier: Option<&str>,
    ) -> Result<(), RecordingError> {
        let tier = match tier {
            None | Some("GPU") => Tier::Device,
            Some("CPU" | "CPU_TIER1" | "CPU_TIER2") => Tier::Host,
            Some("DISK" | "NVME" | "STORAGE" | "EXTERNAL") => Tier::Disk,
            Some(other) => return Err(not_modelled(at, format!("tier \"{other}\""))),
        };
        let blocks = names(at, path)?;
        let ranges: Result<Vec<_>, _> = (ranges.iter())
            .map(|&(from, to)| {
                let (from, to) = (from as usize, to as usize);
                let range = blocks.get(from..to).filter(|range| !range.is_empty());
                let range = range.ok_or_else(|| {
                    wrong(at, format!("idx: [{from}, {to}] of {} blocks", blocks.len()))
                })?;
                Ok((from.checked_sub(1).map(|before| blocks[before]), range))
            })
            .collect();
        match event {
            Event::Cleared => {
                self.router.cleared(rank);
                if let Some(guesses) = &mut self.guesses {
                    guesses.told.clear(rank);
                }
            }
            Event::Stored => {
                for (parent, blocks) in ranges? {
                    let blocks = &blocks.iter().copied().collect();
                    self.router.stored(rank, tier, parent, blocks);
                    if let Some(guesses) = self.guesses.as_mut().filter(|_| tier == Tier::Device) {
                        guesses.told.store(rank, parent, blocks);
                    }
                }
            }
            Event::Removed => {
                let ranges = ranges?;
                let tail_first = ranges.iter().rev().flat_map(|(_, blocks)| blocks.iter().rev());
                let tail_first = &tail_first.copied().collect();
                self.router.removed(rank, tier, tail_first, Order::Forward);
                if let Some(guesses) = self.guesses.as_mut().filter(|_| tier == Tier::Device) {
                    guesses.told.remove(rank, tail_first, Order::Forward);
                }
            }
        }
        Ok(())
    }

    /// What the router answered is all in the recording before the next input.
    fn nothing_is_left(&mut self, at: usize) {
        while let Some(answer) = self.answers.pop_front() {
            let place = || format!("before line {at}");
            self.tally.count(place, &"nothing".to_owned(), &[format!("{answer:?}")]);
        }
    }
}

impl Guesses {
    fn of(config: &DynamoConfig) -> Option<Self> {
        let ttl = match (config.use_kv_events, config.router_predicted_ttl_secs) {
            (true, ttl) => ttl?,
            (false, _) => config.router_ttl_secs,
        };
        let ttl = SimDuration::from_secs_f64(ttl);
        let early = SimDuration::from_nanos(ttl.as_nanos().saturating_sub(CLOCKS.as_nanos()));
        let late = SimDuration::from_nanos((ttl.as_nanos() + GRID.as_nanos()) + CLOCKS.as_nanos());
        let exact = SimDuration::from_nanos(1);
        let told = Index::new(Threads::Several);
        Some(Self { told, least: Sent::on_grid(early, exact), most: Sent::on_grid(late, exact) })
    }

    fn book(&mut self, now: SimTime, rank: Rank, prompt: &Prompt) {
        self.least.book(now, rank, prompt);
        self.most.book(now, rank, prompt);
    }

    fn bounds(&mut self, now: SimTime, prompt: &Prompt, into: &mut [(u32, u32)]) {
        let mut inside = Vec::new();
        self.told.runs(&prompt.named, |rank, run| into[rank.index()] = (run, run));
        self.least.runs(now, prompt, &mut inside, |rank, run| {
            into[rank.index()].0 = into[rank.index()].0.max(run);
        });
        self.most.runs(now, prompt, &mut inside, |rank, run| {
            into[rank.index()].1 = into[rank.index()].1.max(run);
        });
    }
}

/// The names of the blocks of a prompt.
fn names(at: usize, path: &Path) -> Result<Vec<u64>, RecordingError> {
    let blocks: u64 = path.iter().map(|&(_, count)| u64::from(count)).sum();
    if blocks > MOST_BLOCKS {
        return Err(wrong(at, format!("p: must be at most {MOST_BLOCKS} blocks, got {blocks}")));
    }
    let mut name = 0;
    let blocks = path.iter().flat_map(|&(stream, count)| (0..count).map(move |i| (stream, i)));
    let chained = blocks.map(|(stream, i)| {
        name = mix(name ^ mix(stream ^ u64::from(i).rotate_left(40)));
        name
    });
    Ok(chained.collect())
}

fn selected(selection: &Value) -> Result<DynamoSelection, RecordingError> {
    serde_json::from_value(selection.clone())
        .map_err(|error| not_modelled(1, format!("worker_selection: {error}")))
}

/// A rejection in the maker's words.
fn said(why: &Rejection) -> String {
    match why {
        Rejection::NoEndpoints => "no endpoints".to_owned(),
        Rejection::QueueFull { class, what, current, limit } => format!(
            "router policy class \"{class}\" queue {what} limit reached (current={current}, limit={limit})"
        ),
    }
}

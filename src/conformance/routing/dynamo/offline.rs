//! Whole runs of the maker's offline replay with mocked engines, whose recorded signals drive the router.
//!
//! At the end of an engine's pass the prompts it has prefilled become visible, `kv_event_lag_ms` later if that is given; then
//! each of its requests, in the order of their admission, tells its first token and its end, and the router sends what
//! waits after each of these. With pools of prefill and decode workers a request asks for its decode worker as its prefill pass
//! ends. Arrivals of that instant come after. The replay of the maker listens to events whatever
//! `use_kv_events` says, and prefills all remotely whatever conditional disaggregation says.
//!
//! What engines evict is not recorded: runs in which they may have to are refused.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::draws::Recorded;
use super::{Tally, not_modelled, read, settings, time, wrong};
use crate::cluster::router::dynamo::{
    Ask, Decision, KvRouter, Member, Outcome, Overlap, Pool, Prompt, Rank, RequestKey, Tier,
};
use crate::conformance::RecordingError;
use crate::rng::mix;
use crate::scenario::DynamoConfig;
use crate::units::{SimDuration, SimTime};

const VERSION: &str = "ai-dynamo 1.6.1 / ai-dynamo-runtime 1.6.1";

/// Settings that the maker's replay does not look at.
const IGNORED: [&str; 2] = ["use_kv_events", "router_ttl_secs"];
const IGNORED_PREFIX: &str = "conditional_disagg_";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsLine {
    #[serde(rename = "k")]
    _kind: String,
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "seed")]
    _seed: Option<u64>,
    #[serde(rename = "source")]
    _source: String,
    version: String,
    block_size: u32,
    router: Map<String, Value>,
    pools: Pools,
    engine: Engine,
    #[serde(rename = "summary")]
    _summary: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pools {
    num_workers: Option<u32>,
    num_prefill_workers: Option<u32>,
    num_decode_workers: Option<u32>,
    #[serde(default)]
    kv_event_lag_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Engine {
    block_size: u32,
    num_gpu_blocks: u64,
    max_num_batched_tokens: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    #[serde(rename = "k")]
    _kind: String,
    t: f64,
    h: Vec<(u64, u64)>,
    isl: u32,
    osl: u32,
    route: Vec<Route>,
    admit: f64,
    first: f64,
    end: f64,
    #[serde(rename = "reused")]
    _reused: u64,
    #[serde(rename = "p", default)]
    _prefill: Option<u32>,
    #[serde(rename = "d")]
    _decode: Option<u32>,
    status: String,
    #[serde(rename = "prefill_admit_ms", default)]
    _prefill_admit: Option<f64>,
    #[serde(default)]
    source_held_ms: Option<f64>,
    #[serde(default)]
    decode_admit_ms: Option<f64>,
    #[serde(rename = "source_released_ms", default)]
    _source_released: Option<f64>,
    #[serde(rename = "prefill_route_overlap_tokens", default)]
    _prefill_overlap: Option<u64>,
    #[serde(rename = "decode_route_overlap_tokens", default)]
    _decode_overlap: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Route {
    pool: PoolName,
    how: How,
    w: u32,
    #[serde(default)]
    entered: Option<f64>,
    #[serde(default)]
    released: Option<f64>,
    overlap: u32,
    best: u32,
    tokens: u64,
}

#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "snake_case")]
enum PoolName {
    Agg,
    Prefill,
    Decode,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum How {
    Immediate,
    Queued,
}

/// A request with its times.
struct Asked {
    arrival: SimTime,
    prompt: Prompt,
    prompt_tokens: u64,
    output_tokens: u64,
    routes: Vec<Taken>,
    admit: SimTime,
    /// When the pass that prefilled it was over.
    prefilled: SimTime,
    decode_admit: SimTime,
    end: SimTime,
}

/// A recorded decision.
struct Taken {
    pool: PoolName,
    worker: Rank,
    at: SimTime,
    overlap: u32,
    best: u32,
    tokens: u64,
}

/// What happens at an instant, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Visible,
    Signal,
    Arrival,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    PrefillDone,
    Free,
    /// It leaves its prefill worker, and asks for one that decodes.
    HandOver,
    Visible,
    Arrive,
}

/// Ordered by time, class, pool and worker, admission, the place in the order of decisions, and what it is.
type Event = (SimTime, Class, PoolName, Rank, SimTime, usize, What, usize);

struct Replay {
    tally: Tally,
    requests: Vec<Asked>,
    pools: Vec<(PoolName, KvRouter, u32)>,
    draws: FxHashMap<PoolName, Recorded>,
    events: BinaryHeap<Reverse<Event>>,
    lag: SimDuration,
    block_size: u32,
    decided: usize,
    bests: FxHashMap<(PoolName, usize), u32>,
}

pub(super) fn replay(lines: &[Value]) -> Result<Tally, RecordingError> {
    let first: SettingsLine = read(1, &lines[0])?;
    let pools = pools(&first)?;
    let requests: Result<Vec<Asked>, _> = (lines.iter().enumerate().skip(1))
        .map(|(at, line)| asked(at + 1, &first, &pools, &read(at + 1, line)?))
        .collect();
    let requests = requests?;
    nothing_is_evicted(&first, &requests)?;
    let lag = time(1, first.pools.kv_event_lag_ms)?.since(SimTime::ZERO);
    let mut replay = Replay {
        tally: Tally { policy: "dynamo".to_owned(), ..Tally::default() },
        requests,
        pools,
        draws: FxHashMap::default(),
        events: BinaryHeap::new(),
        lag,
        block_size: first.block_size,
        decided: 0,
        bests: FxHashMap::default(),
    };
    replay.run();
    Ok(replay.tally)
}

/// The routers of the pools, with their workers.
fn pools(first: &SettingsLine) -> Result<Vec<(PoolName, KvRouter, u32)>, RecordingError> {
    if first.version != VERSION {
        return Err(not_modelled(1, format!("version \"{}\"", first.version)));
    }
    if first.block_size == 0 || first.engine.block_size != first.block_size {
        return Err(wrong(1, "block_size: must be that of the engine and at least 1"));
    }
    let mut keys = first.router.clone();
    keys.retain(|key, _| !IGNORED.contains(&key.as_str()) && !key.starts_with(IGNORED_PREFIX));
    let config = settings::of_keys("router", keys)?;
    let counts =
        (first.pools.num_workers, first.pools.num_prefill_workers, first.pools.num_decode_workers);
    let pools = match counts {
        (Some(all), None, None) => vec![(PoolName::Agg, Pool::Aggregated, config, all)],
        (None, Some(prefills), Some(decodes)) => {
            let prefill = DynamoConfig { router_track_active_blocks: false, ..config.clone() };
            let decode = DynamoConfig {
                overlap_score_credit: 0.0,
                router_track_prefill_tokens: false,
                router_assume_kv_reuse: false,
                ..config
            };
            vec![
                (PoolName::Prefill, Pool::Prefill, prefill, prefills),
                (PoolName::Decode, Pool::Decode, decode, decodes),
            ]
        }
        _ => {
            return Err(wrong(
                1,
                "pools: num_workers, or num_prefill_workers and num_decode_workers",
            ));
        }
    };
    let built = pools.into_iter().map(|(name, pool, config, workers)| {
        if workers == 0 || workers > 1 << 16 {
            return Err(wrong(1, format!("pools: must have 1 to 65536 workers, got {workers}")));
        }
        let mut router = KvRouter::new(&config, pool, first.block_size);
        for worker in 0..workers {
            let batch = Some(first.engine.max_num_batched_tokens);
            let member = Member { max_num_batched_tokens: batch, ..Member::of(worker) };
            let mut nobody = Recorded::default();
            router.add(SimTime::ZERO, Rank(worker), member, &mut nobody, &mut Vec::new());
        }
        Ok((name, router, workers))
    });
    built.collect()
}

fn asked(
    at: usize,
    first: &SettingsLine,
    pools: &[(PoolName, KvRouter, u32)],
    line: &RequestLine,
) -> Result<Asked, RecordingError> {
    if line.status != "completed" {
        return Err(not_modelled(at, format!("status \"{}\"", line.status)));
    }
    let complete = line.isl / first.block_size;
    let lens = line.h.iter().map(|(from, to)| to.saturating_sub(*from));
    let hashes = lens.fold(0, u64::saturating_add);
    if hashes < u64::from(complete) || hashes > u64::from(complete) + 1 {
        return Err(wrong(at, format!("h: {hashes} blocks for {} tokens", line.isl)));
    }
    let mut name = 0;
    let chained = line.h.iter().flat_map(|&(from, to)| from..to).map(|hash| {
        name = mix(name ^ mix(hash));
        name
    });
    let named = Arc::new(chained.take(complete as usize).collect());
    let expected: Vec<_> = pools.iter().map(|(name, ..)| *name).collect();
    let recorded: Vec<_> = line.route.iter().map(|route| route.pool).collect();
    if expected != recorded {
        return Err(wrong(at, format!("route: must be through {expected:?}, got {recorded:?}")));
    }
    let arrival = time(at, line.t)?;
    let prefilled =
        if recorded == [PoolName::Agg] { Some(line.first) } else { line.source_held_ms };
    let prefilled = prefilled.ok_or_else(|| wrong(at, "source_held_ms: is missing"))?;
    let routes: Result<Vec<_>, RecordingError> = (line.route.iter())
        .map(|route| {
            let sent = match route.how {
                How::Immediate if route.pool == PoolName::Decode => prefilled,
                How::Immediate => route.entered.unwrap_or(line.t),
                How::Queued => {
                    route.released.ok_or_else(|| wrong(at, "route: queued, never released"))?
                }
            };
            let workers =
                pools.iter().find(|(name, _, _)| *name == route.pool).map_or(0, |one| one.2);
            if route.w >= workers {
                return Err(wrong(at, format!("route: there is no worker {}", route.w)));
            }
            Ok(Taken {
                pool: route.pool,
                worker: Rank(route.w),
                at: time(at, sent)?,
                overlap: route.overlap,
                best: route.best,
                tokens: route.tokens,
            })
        })
        .collect();
    Ok(Asked {
        arrival,
        prompt: Prompt { named, blocks: complete },
        prompt_tokens: u64::from(line.isl),
        output_tokens: u64::from(line.osl),
        routes: routes?,
        admit: time(at, line.admit)?,
        prefilled: time(at, prefilled)?,
        decode_admit: time(at, line.decode_admit_ms.unwrap_or(line.admit))?,
        end: time(at, line.end)?,
    })
}

/// Refuses runs in which an engine may have evicted blocks: that all requests of a worker together need more than it has.
fn nothing_is_evicted(first: &SettingsLine, requests: &[Asked]) -> Result<(), RecordingError> {
    let mut held: FxHashMap<(PoolName, Rank), u64> = FxHashMap::default();
    for request in requests {
        let blocks =
            (request.prompt_tokens + request.output_tokens).div_ceil(u64::from(first.block_size));
        for route in &request.routes {
            let held = held.entry((route.pool, route.worker)).or_default();
            *held += blocks;
            if *held > first.engine.num_gpu_blocks {
                let blocks = first.engine.num_gpu_blocks;
                let problem = format!(
                    "engine.num_gpu_blocks = {blocks}: engines may evict, and what they do is not recorded"
                );
                return Err(not_modelled(1, problem));
            }
        }
    }
    Ok(())
}

impl Replay {
    fn run(&mut self) {
        for (at, request) in self.requests.iter().enumerate() {
            for route in &request.routes {
                let draws = self.draws.entry(route.pool).or_default();
                draws.chosen.insert(RequestKey(at as u64), route.worker);
            }
            let pool = request.routes[0].pool;
            let time = request.arrival;
            self.events.push(Reverse((
                time,
                Class::Arrival,
                pool,
                Rank(0),
                time,
                at,
                What::Arrive,
                at,
            )));
        }
        while let Some(Reverse((now, _, pool, rank, .., what, at))) = self.events.pop() {
            let mut outcomes = Vec::new();
            match what {
                What::Arrive => self.arrive(now, pool, at, &mut outcomes),
                What::Visible => {
                    let prompt = self.requests[at].prompt.clone();
                    let router = self.router(pool);
                    router.stored(rank, Tier::Device, None, &prompt.named);
                }
                What::PrefillDone | What::Free | What::HandOver => {
                    let mut draws = self.draws.remove(&pool).unwrap_or_default();
                    let (router, key) = (self.router(pool), RequestKey(at as u64));
                    if what == What::PrefillDone {
                        router.prefill_done(now, key, &mut draws, &mut outcomes);
                    } else {
                        router.free(now, key, &mut draws, &mut outcomes);
                    }
                    self.draws.insert(pool, draws);
                }
            }
            self.take(now, pool, outcomes);
            if what == What::HandOver {
                let mut outcomes = Vec::new();
                self.arrive(now, PoolName::Decode, at, &mut outcomes);
                self.take(now, PoolName::Decode, outcomes);
            }
        }
        let missing =
            self.requests.iter().map(|one| one.routes.len()).sum::<usize>() - self.decided;
        if missing > 0 {
            self.tally.count(|| "end".to_owned(), &0, &[missing]);
        }
    }

    fn router(&mut self, pool: PoolName) -> &mut KvRouter {
        let place = self.pools.iter().position(|(name, ..)| *name == pool);
        &mut self.pools[place.expect("the pool has a router")].1
    }

    fn arrive(&mut self, now: SimTime, pool: PoolName, at: usize, outcomes: &mut Vec<Outcome>) {
        let request = &self.requests[at];
        let ask = Ask {
            key: RequestKey(at as u64),
            prompt_tokens: request.prompt_tokens,
            prompt: request.prompt.clone(),
            options: None,
        };
        let mut draws = self.draws.remove(&pool).unwrap_or_default();
        let mut overlaps = Vec::new();
        let router = self.router(pool);
        router.look_up(now, &ask.prompt, &mut overlaps);
        let best = overlaps.iter().map(|overlap: &Overlap| overlap.device).max();
        router.arrive_with(now, ask, overlaps, &mut draws, outcomes);
        self.draws.insert(pool, draws);
        self.bests.insert((pool, at), best.unwrap_or(0));
    }

    fn take(&mut self, now: SimTime, pool: PoolName, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Sent(decision) => self.sent(now, pool, decision),
                Outcome::Rejected(key, why) => {
                    let place = || format!("line {} ({pool:?})", key.0 + 2);
                    self.tally.count(place, &"sent".to_owned(), &[format!("{why:?}")]);
                    self.decided += 1;
                }
            }
        }
    }

    fn sent(&mut self, now: SimTime, pool: PoolName, decision: Decision) {
        let at = decision.key.0 as usize;
        let request = &self.requests[at];
        let Some(route) = request.routes.iter().find(|route| route.pool == pool) else { return };
        let place = || format!("line {} ({pool:?})", at + 2);
        let draws = self.draws.entry(pool).or_default();
        let allowed = draws.allowed.remove(&decision.key).unwrap_or_else(|| vec![decision.rank]);
        self.tally.count(place, &route.worker, &allowed);
        // Of a pool that does not look at caches the maker tells no overlap.
        let sees = pool != PoolName::Decode;
        let overlap = if sees { decision.overlap.device } else { 0 };
        let best = if sees { self.bests.remove(&(pool, at)).unwrap_or(0) } else { 0 };
        let tokens = u64::from(overlap) * u64::from(self.block_size);
        let recorded = (route.at, route.overlap, route.best, route.tokens);
        let replayed = (now, overlap, best, tokens);
        self.tally.check(place, &recorded, &replayed);
        let order = self.decided;
        self.decided += 1;
        // The signals are those of the worker that had the request.
        let worker = route.worker;
        let mut push = |time, class, pool, admit, what| {
            self.events.push(Reverse((time, class, pool, worker, admit, order, what, at)));
        };
        let (prefilled, lag) = (request.prefilled, self.lag);
        match pool {
            PoolName::Agg => {
                push(prefilled + lag, Class::Visible, pool, request.admit, What::Visible);
                push(prefilled, Class::Signal, pool, request.admit, What::PrefillDone);
                push(request.end, Class::Signal, pool, request.admit, What::Free);
            }
            PoolName::Prefill => {
                push(prefilled + lag, Class::Visible, pool, request.admit, What::Visible);
                push(prefilled, Class::Signal, pool, request.admit, What::HandOver);
            }
            PoolName::Decode => {
                push(request.end, Class::Signal, pool, request.decode_admit, What::Free);
            }
        }
    }
}

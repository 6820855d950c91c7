//! Requests, attempts and read-outs in the order of a recording.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::lines::{Line, Send, What};
use super::settings::{Router, Settings};
use super::side::Side;
use crate::cluster::sglang::backoff::{Backoff, is_retried};
use crate::cluster::sglang::build;
use crate::cluster::sglang::manual::ROUTING_KEY;
use crate::cluster::sglang::policy::{Asked, Policy, Worker};
use crate::cluster::sglang::registry::Registry;
use crate::cluster::sglang::text::Characters;
use crate::conformance::routing::Tally;
use crate::units::{SimDuration, SimTime};

/// By how much later an attempt may come than its back-off says, in ms: timers and machines are late.
const LATE_MS: f64 = 25.0;

/// By how much earlier: times are rounded.
const EARLY_MS: f64 = 1.0;

/// A request whose response is not read yet.
#[derive(Debug)]
struct Held {
    workers: Vec<Worker>,
    key: Option<String>,
    streams: bool,
}

/// A recorded attempt: a worker of each side, and how it ended.
#[derive(Debug)]
struct Attempt {
    workers: Vec<Worker>,
    status: u16,
    is_success: bool,
    ms: Option<f64>,
}

/// A router, as far as a recording has come.
#[derive(Debug)]
pub(super) struct Drive<'a> {
    settings: &'a Settings,
    backoff: Backoff,
    registry: Registry,
    /// Those that do all of a request or prefill, then those that decode.
    sides: Vec<Side>,
    held: BTreeMap<&'a str, Held>,
    /// Requests that there were.
    known: BTreeSet<&'a str>,
    /// Workers whose health checks fail, and how many checks of each were looked at.
    ill: BTreeSet<Worker>,
    checked: BTreeMap<Worker, usize>,
    /// When the script of a worker's health changed last.
    scripted: BTreeMap<Worker, (SimTime, bool)>,
    /// Whether ranges of lengths were told.
    has_bounds: bool,
    /// Where workers that prefill are to be asked for what they made.
    ports: BTreeMap<Worker, Value>,
    tally: Tally,
}

impl<'a> Drive<'a> {
    /// A router at its start: workers that decode are in this order, and the counter of uses stands at `uses`.
    pub(super) fn new(settings: &'a Settings, decodes: &[Worker], uses: u64) -> Self {
        let (of_decodes, others): (Vec<_>, Vec<_>) =
            settings.order.iter().copied().partition(|worker| decodes.contains(worker));
        let site = settings.site(uses);
        let sides = match &settings.router {
            Router::Vllm(config) => vec![Side::new(others, build::vllm(config, &site))],
            Router::Sglang(config) => {
                let policy = |policy| build::sglang(policy, config, &site);
                let mut sides = vec![Side::new(others, policy(config.of_prefills()))];
                if !of_decodes.is_empty() {
                    sides.push(Side::new(decodes.to_vec(), policy(config.of_decodes())));
                }
                sides
            }
        };
        let registry = Registry::new(
            settings.names.len(),
            settings.breaker(),
            settings.health(),
            settings.counts_loads(),
        );
        let mut drive = Self {
            settings,
            backoff: settings.backoff(),
            registry,
            sides,
            held: BTreeMap::new(),
            known: BTreeSet::new(),
            ill: BTreeSet::new(),
            checked: BTreeMap::new(),
            scripted: BTreeMap::new(),
            has_bounds: false,
            ports: BTreeMap::new(),
            tally: Tally { policy: settings.policy(), ..Tally::default() },
        };
        // Ranges are divided anew at every registration.
        drive.each(|policy, order| {
            if matches!(policy, Policy::Bucket(_)) {
                policy.register(order);
            }
        });
        drive
    }

    fn each(&mut self, mut happen: impl FnMut(&mut Policy<Characters>, &[Worker])) {
        for side in &mut self.sides {
            let order = side.order.clone();
            side.each(|policy| happen(policy, &order));
        }
    }

    /// Replays all lines.
    pub(super) fn run(mut self, lines: &'a [Line]) -> Tally {
        for line in lines {
            self.line(line);
        }
        self.tally
    }

    fn line(&mut self, line: &'a Line) {
        let place = || line.place();
        match &line.what {
            What::Send(send) => self.send(line, send),
            What::Finish(rid) => self.finish(line, rid, true),
            What::HangUp(rid) => self.finish(line, rid, false),
            What::Loads(loads) => {
                let load = |worker| (worker, self.registry.load(worker));
                let replayed: Vec<_> = loads.iter().map(|(worker, _)| load(*worker)).collect();
                self.tally.check(place, loads, &replayed);
            }
            What::Polled(tokens) => {
                let mut all = vec![Some(-1); self.settings.names.len()];
                for (worker, tokens) in tokens {
                    all[worker.index()] = Some(*tokens);
                }
                self.each(|policy, _| {
                    if let Policy::PowerOfTwo(policy) = policy {
                        policy.polled(all.clone());
                    }
                });
            }
            What::Evict { before, after } => self.evict(line, before, after),
            What::Adjust(bounds) => self.adjust(line, bounds.as_deref()),
            What::InitBounds(bounds) => self.init_bounds(line, bounds),
            What::Add(worker, order) => {
                // What runs there runs at the worker of this name that was removed.
                for held in self.held.values_mut() {
                    held.workers.retain(|of| of != worker);
                }
                self.registry.renew(*worker);
                self.reorder(order);
                self.each(Policy::register);
            }
            What::Remove(worker, order) => {
                self.reorder(order);
                self.each(|policy, order| policy.remove(*worker, order));
            }
            What::SetHealth(worker, code) => {
                let was_well = !self.ill.contains(worker);
                self.scripted.insert(*worker, (line.at, was_well));
                if (200..300).contains(code) {
                    self.ill.remove(worker);
                } else {
                    self.ill.insert(*worker);
                }
            }
            What::Health { worker, is_healthy, checks } => {
                self.check_health(*worker, checks);
                let thought = self.registry.is_healthy(*worker);
                self.tally.check(place, is_healthy, &thought);
            }
            What::Nothing => {}
        }
    }

    fn reorder(&mut self, order: &[Worker]) {
        let decodes = self.settings.decodes().unwrap_or_default();
        let (of_decodes, others): (Vec<_>, Vec<_>) =
            order.iter().copied().partition(|worker| decodes.contains(worker));
        self.sides[0].order = others;
        if let Some(side) = self.sides.get_mut(1) {
            side.order.retain(|worker| of_decodes.contains(worker));
            let new = of_decodes.iter().filter(|worker| !side.order.contains(worker));
            let new: Vec<_> = new.copied().collect();
            side.order.extend(new);
        }
    }

    fn check_health(&mut self, worker: Worker, checks: &[f64]) {
        let seen = self.checked.insert(worker, checks.len()).unwrap_or(0);
        let is_well = !self.ill.contains(&worker);
        let (since, was_well) =
            self.scripted.get(&worker).copied().unwrap_or((SimTime::ZERO, is_well));
        for at in checks.iter().skip(seen) {
            let succeeds = if *at > since.as_secs_f64() { is_well } else { was_well };
            self.registry.check(worker, succeeds);
        }
    }

    fn evict(&mut self, line: &Line, before: &[(Worker, u64)], after: &[(Worker, u64)]) {
        let Router::Sglang(config) = &self.settings.router else {
            return;
        };
        let limit = config.max_tree_size;
        let workers = self.settings.names.len();
        let sizes = move |policy: &mut Policy<_>, of: &[(Worker, u64)]| {
            let Policy::CacheAware(policy) = policy else {
                return false;
            };
            let size = |worker: usize| {
                policy_size(policy.tree().sizes(), worker)
                    == of.iter().find(|(of, _)| of.index() == worker).map_or(0, |(_, size)| *size)
            };
            (0..workers).all(size)
        };
        let side = &mut self.sides[0];
        let is_so = side.narrow(|policy| sizes(policy, before));
        self.tally.check(|| format!("{}: sizes before", line.place()), &true, &is_so);
        side.each(|policy| {
            if let Policy::CacheAware(policy) = policy {
                policy.tree().evict(limit);
            }
        });
        let is_so = side.narrow(|policy| sizes(policy, after));
        self.tally.check(|| format!("{}: sizes after", line.place()), &true, &is_so);
    }

    fn adjust(&mut self, line: &Line, recorded: Option<&[(Worker, u64, u64)]>) {
        let Some(Policy::Bucket(bucket)) = self.sides[0].states.first_mut() else {
            return;
        };
        let ranges = bucket.adjust().map(bounds);
        self.tally.check(|| line.place(), &recorded.map(<[_]>::to_vec), &ranges);
    }

    /// Workers register one by one, so that few of them may be known here.
    fn init_bounds(&mut self, line: &Line, recorded: &[(Worker, u64, u64)]) {
        let workers: Vec<_> = recorded.iter().map(|(worker, ..)| *worker).collect();
        let order = self.sides[0].order.clone();
        let Some(Policy::Bucket(bucket)) = self.sides[0].states.first_mut() else {
            return;
        };
        if !self.has_bounds {
            bucket.begin();
        }
        self.has_bounds = true;
        bucket.register(&workers);
        let ranges = bounds(bucket.ranges());
        self.tally.check(|| line.place(), &recorded.to_vec(), &ranges);
        if workers.len() == order.len() {
            self.tally.check(|| format!("{}: order", line.place()), &workers, &order);
        }
    }

    fn finish(&mut self, line: &Line, rid: &str, is_read: bool) {
        if let Some(held) = self.held.remove(rid) {
            for worker in held.workers {
                self.registry.end(worker, held.key.as_deref());
                // A stream counted as a success when it began.
                if is_read && !held.streams {
                    self.registry.record(worker, true, line.at);
                }
            }
        } else if !self.known.contains(rid) {
            self.tally.check(|| line.place(), &rid, &"a request that was sent");
        }
    }

    fn send(&mut self, line: &Line, send: &'a Send) {
        self.known.insert(&send.rid);
        let text = match &self.settings.router {
            Router::Vllm(_) => (!send.is_generate).then(|| send.prompt.whole()),
            Router::Sglang(_) if self.sides.len() > 1 => send.prompt.first(),
            Router::Sglang(_) => Some(send.prompt.whole()),
        };
        let headers: Vec<_> =
            send.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let key = headers.iter().find(|(name, _)| *name == ROUTING_KEY).map(|(_, key)| *key);
        let recorded = self.attempts(send);
        let mut next = recorded.iter().peekable();
        let mut waited_ms = 0;
        let mut last = None;
        for index in 0..self.backoff.attempts.max(1) {
            let attempt = next.peek();
            let after_ms = attempt.and_then(|attempt| attempt.ms).unwrap_or(waited_ms as f64);
            let now = line.at + SimDuration::from_secs_f64(after_ms / 1000.0);
            waited_ms += self.backoff.wait_ms(index);
            let asked = Asked { now, text: text.as_ref(), headers: &headers };
            let workers = attempt.map(|attempt| &attempt.workers[..]);
            let allowed = self.choose(&asked, workers);
            if allowed.iter().all(|side| side.iter().all(Option::is_none)) {
                last = Some(503);
                // No worker is available now; one may be later.
                continue;
            }
            for (side, allowed) in allowed.iter().enumerate() {
                let worker = workers.and_then(|workers| workers.get(side)).copied();
                self.tally.count(|| line.place(), &worker, allowed);
            }
            let Some(attempt) = next.next() else {
                return;
            };
            last = Some(attempt.status);
            self.end_attempt(send, attempt, key, now);
            if !is_retried(attempt.status) {
                break;
            }
        }
        if recorded.is_empty() {
            self.tally.count(|| line.place(), &None::<Worker>, &[None]);
        }
        let left = next.count();
        self.tally.check(|| format!("{}: attempts left", line.place()), &0, &left);
        if let (Some(status), Some(last)) = (send.status, last) {
            self.tally.check(|| format!("{}: status", line.place()), &status, &last);
        }
        self.check_times(line, &recorded);
        self.check_boot(line, send);
    }

    /// By side, whom the rules allow.
    fn choose(
        &mut self,
        asked: &Asked<'_, Characters>,
        recorded: Option<&[Worker]>,
    ) -> Vec<Vec<Option<Worker>>> {
        let mut allowed = Vec::new();
        for (place, side) in self.sides.iter_mut().enumerate() {
            let workers = self.registry.workers(&side.order, asked.now);
            let recorded = recorded.and_then(|workers| workers.get(place)).copied();
            let of_side = side.choose(asked, workers, recorded);
            let is_none = of_side.iter().all(Option::is_none);
            allowed.push(of_side);
            if is_none {
                break;
            }
        }
        allowed
    }

    /// The attempts of a request: those that were refused, then those that reached workers.
    fn attempts(&self, send: &Send) -> Vec<Attempt> {
        let refused = send.refused.iter().map(|worker| Attempt {
            workers: vec![*worker],
            status: 500,
            is_success: false,
            ms: None,
        });
        let is_apart = self.sides.len() > 1;
        let together = if is_apart { 2 } else { 1 };
        let reached = send.attempts.chunks(together).enumerate().map(|(index, ends)| {
            let ms = send.attempts_ms.get(index * together).copied();
            let decodes = |worker: &Worker| {
                self.settings.decodes().is_some_and(|decodes| decodes.contains(worker))
            };
            let mut ends = ends.to_vec();
            ends.sort_by_key(|(worker, _)| decodes(worker));
            let statuses = ends.iter().map(|(_, status)| *status);
            let is_ok = |status: u16| (200..300).contains(&status);
            // Of a pair the status of the worker that decodes wins, unless only the other one failed.
            let failed = statuses.clone().rev().find(|status| !is_ok(*status));
            // Whoever asks wrongly is no failure of a pair, and of none in vLLM's router.
            let is_lenient = is_apart || matches!(self.settings.router, Router::Vllm(_));
            let is_failure =
                |status: u16| !(is_ok(status) || is_lenient && (400..500).contains(&status));
            Attempt {
                workers: ends.iter().map(|(worker, _)| *worker).collect(),
                status: failed.unwrap_or(200),
                is_success: !statuses.clone().any(is_failure),
                ms,
            }
        });
        refused.chain(reached).collect()
    }

    fn end_attempt(&mut self, send: &'a Send, attempt: &Attempt, key: Option<&str>, now: SimTime) {
        // Held requests whose client went away have no status.
        let stays = send.holds && (200..300).contains(&attempt.status);
        for worker in &attempt.workers {
            if stays {
                self.registry.begin(*worker, key);
            }
            if !stays || send.streams {
                self.registry.record(*worker, attempt.is_success, now);
            }
        }
        if stays {
            let held = Held {
                workers: attempt.workers.clone(),
                key: key.map(str::to_owned),
                streams: send.streams,
            };
            self.held.insert(&send.rid, held);
        }
    }

    /// Whether attempts came when their back-off was over.
    fn check_times(&mut self, line: &Line, attempts: &[Attempt]) {
        for (index, pair) in attempts.windows(2).enumerate() {
            let [Some(first), Some(second)] = [pair[0].ms, pair[1].ms] else {
                continue;
            };
            let (least, most) = self.backoff.bounds_ms(index as u32);
            let waited = second - first;
            let is_then = (least as f64 - EARLY_MS..=most as f64 + LATE_MS).contains(&waited);
            let place = || format!("{}: {waited} ms, not {least} to {most}", line.place());
            self.tally.check(place, &true, &is_then);
        }
    }

    /// Whether both workers of a pair were told where to meet.
    fn check_boot(&mut self, line: &Line, send: &Send) {
        for pair in send.boot.chunks(2) {
            let prefill = pair.iter().find(|(worker, ..)| {
                self.settings.decodes().is_some_and(|decodes| !decodes.contains(worker))
            });
            let Some((worker, host, port, room)) = prefill else {
                continue;
            };
            let known = self.ports.entry(*worker).or_insert_with(|| port.clone());
            let is_at = self.settings.urls[worker.index()].contains(host.as_str());
            let is_so = pair.iter().all(|(_, h, p, r)| (h, p, r) == (host, port, room));
            let is_so = is_so && known == port && is_at && *room < 1 << 63;
            self.tally.check(|| format!("{}: boot", line.place()), &true, &is_so);
        }
    }
}

fn policy_size(sizes: &[u64], worker: usize) -> u64 {
    sizes.get(worker).copied().unwrap_or(0)
}

fn bounds(ranges: &[crate::cluster::sglang::bucket::Range]) -> Vec<(Worker, u64, u64)> {
    ranges.iter().map(|range| (range.worker, range.low, range.high)).collect()
}

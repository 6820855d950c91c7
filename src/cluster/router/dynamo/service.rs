//! The router as a whole: requests come, wait, are booked and leave; engines tell what they cache.

mod choosing;
mod outcome;
mod prospect;

use std::sync::Arc;

use super::choice::{Candidates, Draw};
use super::classes::{Class, Classes};
use super::cost::{Pool, cached_tokens};
use super::fleet::{Fleet, Member};
use super::knowledge::{Knowledge, Tier};
use super::load::Loads;
use super::ranks::RankSet;
use super::sessions::Sessions;
use super::waiting::Waiting;
use super::{Ask, Options, Overlap, Prompt, Rank, Rejection, RequestKey};
use crate::kv::{Names, Order};
use crate::scenario::DynamoConfig;
use crate::units::{SimDuration, SimTime};

pub use outcome::{Decision, Outcome, Potential};
pub use prospect::Prospect;

/// A KV router.
#[derive(Debug, Clone)]
pub struct KvRouter {
    config: DynamoConfig,
    pool: Pool,
    block_size: u32,
    fleet: Fleet,
    down: RankSet,
    loads: Loads,
    knowledge: Knowledge,
    sessions: Option<Sessions>,
    classes: Classes,
    numbered: u64,
    scratch: Scratch,
}

/// Memory that is used again.
#[derive(Debug, Clone, Default)]
struct Scratch {
    eligible: Vec<Rank>,
    inside: Vec<Rank>,
    overlaps: Vec<Overlap>,
    /// Per rank, how many of the first blocks of a prompt are active.
    active: Vec<u32>,
    candidates: Candidates,
    ties: Vec<Rank>,
}

impl KvRouter {
    /// A router of a pool of workers whose blocks have so many tokens; it has none yet.
    pub fn new(config: &DynamoConfig, pool: Pool, block_size: u32) -> Self {
        Self {
            pool,
            block_size,
            fleet: Fleet::default(),
            down: RankSet::default(),
            loads: Loads::default(),
            knowledge: Knowledge::new(config),
            sessions: config
                .session_affinity_ttl_secs
                .map(|ttl| Sessions::new(SimDuration::from_secs_f64(ttl))),
            classes: Classes::new(config),
            numbered: 0,
            scratch: Scratch::default(),
            config: config.clone(),
        }
    }

    /// A rank comes.
    pub fn add(
        &mut self,
        now: SimTime,
        rank: Rank,
        member: Member,
        draw: &mut impl Draw,
        outcomes: &mut Vec<Outcome>,
    ) {
        self.fleet.put(rank, member);
        self.loads.grow(self.fleet.len());
        self.drain(now, draw, outcomes);
    }

    /// A rank goes, with all that was booked on it and known of it.
    pub fn remove(
        &mut self,
        now: SimTime,
        rank: Rank,
        draw: &mut impl Draw,
        outcomes: &mut Vec<Outcome>,
    ) {
        self.fleet.take(rank);
        if rank.index() < self.fleet.len() {
            self.loads.clear(rank);
        }
        self.knowledge.clear(rank);
        self.drain(now, draw, outcomes);
    }

    /// Whether a rank that is here gets requests.
    pub fn set_up(&mut self, rank: Rank, is_up: bool) {
        if is_up {
            self.down.remove(rank);
        } else {
            self.down.insert(rank);
        }
    }

    /// An engine has stored blocks behind one, or at the begin of a prompt.
    pub fn stored(&mut self, rank: Rank, tier: Tier, parent: Option<u64>, blocks: &Names) {
        self.knowledge.stored(rank, tier, parent, blocks);
    }

    /// An engine has removed blocks, those at the end of a prompt first.
    pub fn removed(&mut self, rank: Rank, tier: Tier, blocks: &Names, order: Order) {
        self.knowledge.removed(rank, tier, blocks, order);
    }

    /// An engine has removed all blocks.
    pub fn cleared(&mut self, rank: Rank) {
        self.knowledge.cleared(rank);
    }

    /// What was known to be cached on a rank is gone.
    pub fn forget(&mut self, rank: Rank) {
        self.knowledge.clear(rank);
    }

    /// What each rank has cached of a prompt, as far as is known.
    pub fn look_up(&mut self, now: SimTime, prompt: &Prompt, overlaps: &mut Vec<Overlap>) {
        overlaps.clear();
        overlaps.resize(self.fleet.len(), Overlap::default());
        self.knowledge.look_up(now, prompt, overlaps);
    }

    /// What each rank that a request may use would have to do with it, as so much of it is cached on each.
    pub fn potential(&mut self, now: SimTime, ask: &Ask, overlaps: &[Overlap]) -> Vec<Potential> {
        self.find_eligible(now, ask.options.as_deref());
        self.find_active(ask);
        let tracks_prefill = self.tracks_prefill(ask.options.as_deref());
        let potential = |&rank| {
            let state = self.state(ask, overlaps, rank);
            let cached = self.cached(state.overlap);
            let uncached = ask.prompt_tokens.saturating_sub(cached);
            Potential {
                rank,
                prefill_tokens: state.prefill_tokens + if tracks_prefill { uncached } else { 0 },
                blocks: state.blocks,
                requests: state.requests,
            }
        };
        self.scratch.eligible.iter().map(potential).collect()
    }

    /// A request comes. What becomes of it, and of others that wait, is appended to the outcomes.
    pub fn arrive(
        &mut self,
        now: SimTime,
        ask: Ask,
        draw: &mut impl Draw,
        outcomes: &mut Vec<Outcome>,
    ) {
        let mut overlaps = std::mem::take(&mut self.scratch.overlaps);
        self.look_up(now, &ask.prompt, &mut overlaps);
        self.scratch.overlaps = self.arrive_with(now, ask, overlaps, draw, outcomes);
    }

    /// The same with what was found to be cached, per rank. Gives its memory back where it can.
    pub fn arrive_with(
        &mut self,
        now: SimTime,
        ask: Ask,
        overlaps: Vec<Overlap>,
        draw: &mut impl Draw,
        outcomes: &mut Vec<Outcome>,
    ) -> Vec<Overlap> {
        self.find_eligible(now, ask.options.as_deref());
        if self.scratch.eligible.is_empty() {
            outcomes.push(Outcome::Rejected(ask.key, Rejection::NoEndpoints));
            return overlaps;
        }
        let is_alone = self.classes.all.len() == 1;
        if is_alone && !self.classes.all[0].waits() {
            self.send(now, &ask, &overlaps, draw, outcomes);
            return overlaps;
        }
        let most = || {
            let each = self.scratch.eligible.iter().map(|rank| self.cached(overlaps[rank.index()]));
            each.max().unwrap_or(0).min(ask.prompt_tokens)
        };
        let class = if is_alone {
            0
        } else {
            self.classes.of(ask.options.as_deref(), ask.prompt_tokens - most())
        };
        let one = &self.classes.all[class];
        let backlog = one.line.held().requests > 0;
        let goes = !self.are_busy(one, &self.scratch.eligible);
        if (!one.never_waits() || backlog || !goes)
            && let Some(rejection) = one.full(self.fleet.workers())
        {
            outcomes.push(Outcome::Rejected(ask.key, rejection));
            return overlaps;
        }
        if goes && (one.never_waits() || self.classes.waiting() == 0) {
            if !one.never_waits() {
                self.classes.pass(class);
            }
            self.send(now, &ask, &overlaps, draw, outcomes);
            return overlaps;
        }
        let cached = most();
        self.numbered += 1;
        self.classes.all[class].line.push(now, self.numbered, ask, overlaps, cached);
        self.drain(now, draw, outcomes);
        Vec::new()
    }

    /// The prefill of a request is over.
    pub fn prefill_done(
        &mut self,
        now: SimTime,
        key: RequestKey,
        draw: &mut impl Draw,
        outcomes: &mut Vec<Outcome>,
    ) {
        self.loads.prefill_done(key);
        self.drain(now, draw, outcomes);
    }

    /// A block of the answer of a request is begun; its blocks count so much from now on, if that is told.
    pub fn output_block(&mut self, key: RequestKey, weight: Option<f64>) {
        if self.config.router_track_output_blocks {
            self.loads.output_block(key, weight);
        }
    }

    /// A request has left its rank, or will never be sent.
    pub fn free(
        &mut self,
        now: SimTime,
        key: RequestKey,
        draw: &mut impl Draw,
        outcomes: &mut Vec<Outcome>,
    ) {
        if self.loads.rank_of(key).is_some() {
            self.loads.free(key);
        } else if self.classes.waiting() > 0 {
            self.classes.all.iter_mut().for_each(|class| class.line.remove(|ask| ask.key == key));
        }
        self.drain(now, draw, outcomes);
    }

    /// Sends requests that wait while there are some that may go.
    pub fn drain(&mut self, now: SimTime, draw: &mut impl Draw, outcomes: &mut Vec<Outcome>) {
        while self.classes.waiting() > 0 {
            let Some((class, waiting)) = self.take_next(now) else { return };
            self.classes.pay(class, waiting.cost());
            self.find_eligible(now, waiting.ask.options.as_deref());
            if self.scratch.eligible.is_empty() {
                outcomes.push(Outcome::Rejected(waiting.ask.key, Rejection::NoEndpoints));
            } else {
                self.send(now, &waiting.ask, &waiting.overlaps, draw, outcomes);
            }
        }
    }

    fn take_next(&mut self, now: SimTime) -> Option<(usize, Waiting)> {
        let mut eligible = std::mem::take(&mut self.scratch.eligible);
        let heads: Vec<_> = (self.classes.all.iter())
            .map(|class| {
                let next = class.line.next(|waiting| {
                    self.eligible(now, waiting.ask.options.as_deref(), &mut eligible);
                    eligible.is_empty() || !self.are_busy(class, &eligible)
                });
                next.map(|(lane, waiting)| (lane, waiting.cost()))
            })
            .collect();
        self.scratch.eligible = eligible;
        let class = self
            .classes
            .next(&heads.iter().map(|head| Some(head.as_ref()?.1)).collect::<Vec<_>>())?;
        let (lane, _) = heads[class]?;
        Some((class, self.classes.all[class].line.pop(lane)?))
    }

    /// Whether all of some ranks are busy for a class.
    fn are_busy(&self, class: &Class, ranks: &[Rank]) -> bool {
        ranks.iter().all(|&rank| {
            let batch = self.fleet.get(rank).map_or(0, Member::batch);
            class.is_busy(self.loads.of(rank).prefill_tokens, batch)
        })
    }

    fn eligible(&self, now: SimTime, options: Option<&Options>, into: &mut Vec<Rank>) {
        let session = options.and_then(|options| options.session).zip(self.sessions.as_ref());
        let bound = session.and_then(|(session, sessions)| sessions.worker(now, session));
        self.fleet.eligible(options, bound, &self.down, into);
    }

    fn find_eligible(&mut self, now: SimTime, options: Option<&Options>) {
        let mut eligible = std::mem::take(&mut self.scratch.eligible);
        self.eligible(now, options, &mut eligible);
        self.scratch.eligible = eligible;
    }

    fn cached(&self, overlap: Overlap) -> u64 {
        let (host, disk) = (self.config.host_cache_hit_weight, self.config.disk_cache_hit_weight);
        cached_tokens(host, disk, f64::from(self.block_size), overlap)
    }

    fn shares(&self, options: Option<&Options>) -> bool {
        let own = options.and_then(|options| options.assumes_reuse);
        own.unwrap_or(self.config.router_assume_kv_reuse)
    }

    /// Chooses among the eligible ranks, of which there is one, and books.
    fn send(
        &mut self,
        now: SimTime,
        ask: &Ask,
        overlaps: &[Overlap],
        draw: &mut impl Draw,
        outcomes: &mut Vec<Outcome>,
    ) {
        self.find_active(ask);
        let options = ask.options.as_deref();
        let (rank, cost) = self.choose(ask, overlaps, draw);
        let state = self.state(ask, overlaps, rank);

        let prefill_tokens = ask.prompt_tokens.saturating_sub(self.cached(state.overlap));
        let booked = if self.tracks_prefill(options) { prefill_tokens } else { 0 };
        let prompt = if self.shares(options) {
            ask.prompt.clone()
        } else {
            Prompt { named: Arc::default(), blocks: ask.prompt.blocks }
        };
        self.loads.book(ask.key, rank, booked, prompt);
        self.knowledge.sent(now, rank, &ask.prompt);
        let session = options.and_then(|options| options.session).zip(self.sessions.as_mut());
        if let (Some((session, sessions)), Some(member)) = (session, self.fleet.get(rank)) {
            sessions.use_worker(now, session, member.worker);
        }
        outcomes.push(Outcome::Sent(Decision {
            key: ask.key,
            rank,
            cost,
            prefill_tokens,
            blocks: state.blocks,
            overlap: state.overlap,
        }));
    }

    fn tracks_prefill(&self, options: Option<&Options>) -> bool {
        let own = options.and_then(|options| options.tracks_prefill);
        own.unwrap_or(self.config.router_track_prefill_tokens)
    }

    /// Requests that wait at the router.
    pub fn waiting(&self) -> u64 {
        self.classes.waiting()
    }

    /// Prefill tokens, active blocks and live requests that are booked on a rank.
    pub fn booked(&self, rank: Rank) -> (u64, u64, u32) {
        let load = self.loads.of(rank);
        (load.prefill_tokens, load.blocks, load.requests)
    }
}

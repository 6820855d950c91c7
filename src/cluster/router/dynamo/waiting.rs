//! The requests of a class that wait at the router (NVIDIA Dynamo 1.6.1): the order they are sent in, and lanes of those
//! that are pinned to one rank, of which one that is blocked does not stop the others.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use super::{Ask, Overlap, Rank};
use crate::scenario::DynamoQueueOrder;
use crate::units::SimTime;

/// A request that waits, with what was known as it came.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub ask: Ask,
    /// Per rank, what was cached of it then.
    pub overlaps: Vec<Overlap>,
    /// Tokens of its prompt, and how many of them the best of its ranks had cached.
    pub cached_tokens: u64,
    strict: u32,
    score: f64,
    number: u64,
}

impl Waiting {
    /// What it costs its class.
    pub(super) fn cost(&self) -> u64 {
        self.ask.prompt_tokens.saturating_sub(self.cached_tokens).max(1)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_strict = self.strict.cmp(&other.strict);
        by_strict.then(self.score.total_cmp(&other.score)).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

/// What waits in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    pub requests: u64,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
}

/// The waiting requests of a class.
#[derive(Debug, Clone)]
pub(super) struct Line {
    order: DynamoQueueOrder,
    shared: BinaryHeap<Waiting>,
    /// Of requests that are pinned to a rank.
    lanes: BTreeMap<Rank, BinaryHeap<Waiting>>,
    held: Held,
}

impl Line {
    pub(super) fn new(order: DynamoQueueOrder) -> Self {
        Self { order, shared: BinaryHeap::new(), lanes: BTreeMap::new(), held: Held::default() }
    }

    pub(super) fn held(&self) -> Held {
        self.held
    }

    /// A request waits from now on, the so-manieth of all.
    pub(super) fn push(
        &mut self,
        now: SimTime,
        number: u64,
        ask: Ask,
        overlaps: Vec<Overlap>,
        cached_tokens: u64,
    ) {
        self.held.requests += 1;
        self.held.prompt_tokens += ask.prompt_tokens;
        self.held.cached_tokens += cached_tokens;
        let (jump, strict, pinned) = ask.options.as_ref().map_or((0.0, 0, None), |options| {
            (options.priority_jump.max(0.0), options.strict_priority, options.pinned)
        });
        let mut waiting = Waiting { ask, overlaps, cached_tokens, strict, score: 0.0, number };
        waiting.score = match self.order {
            DynamoQueueOrder::Fcfs => jump - now.as_secs_f64(),
            DynamoQueueOrder::Lcfs => jump + now.as_secs_f64(),
            DynamoQueueOrder::Wspt => (1.0 + jump) / waiting.cost() as f64,
        };
        match pinned {
            Some(rank) => self.lanes.entry(rank).or_default().push(waiting),
            None => self.shared.push(waiting),
        }
    }

    /// The first request that may be sent, and its lane if it has one.
    pub(super) fn next(
        &self,
        mut may_go: impl FnMut(&Waiting) -> bool,
    ) -> Option<(Option<Rank>, &Waiting)> {
        let lanes = self.lanes.iter().map(|(rank, lane)| (Some(*rank), lane.peek()));
        let heads = lanes.chain([(None, self.shared.peek())]);
        let heads = heads.filter_map(|(lane, head)| Some((lane, head.filter(|one| may_go(one))?)));
        heads.max_by(|(_, a), (_, b)| a.cmp(b))
    }

    /// Takes the first request of a lane, or of those without one.
    pub(super) fn pop(&mut self, lane: Option<Rank>) -> Option<Waiting> {
        let waiting = match lane {
            None => self.shared.pop(),
            Some(rank) => {
                let waiting = self.lanes.get_mut(&rank).and_then(BinaryHeap::pop);
                self.lanes.retain(|_, lane| !lane.is_empty());
                waiting
            }
        }?;
        self.held.requests -= 1;
        self.held.prompt_tokens -= waiting.ask.prompt_tokens;
        self.held.cached_tokens -= waiting.cached_tokens;
        Some(waiting)
    }

    /// Takes a request out wherever it stands.
    pub(super) fn remove(&mut self, is_it: impl Fn(&Ask) -> bool) {
        let Self { shared, lanes, held, .. } = self;
        let mut stays = |waiting: &Waiting| {
            let gone = is_it(&waiting.ask);
            if gone {
                held.requests -= 1;
                held.prompt_tokens -= waiting.ask.prompt_tokens;
                held.cached_tokens -= waiting.cached_tokens;
            }
            !gone
        };
        shared.retain(&mut stays);
        for lane in lanes.values_mut() {
            lane.retain(&mut stays);
        }
        lanes.retain(|_, lane| !lane.is_empty());
    }
}

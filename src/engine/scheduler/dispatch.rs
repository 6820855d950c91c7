//! Which data-parallel rank of an engine gets a request.

use super::Load;
use crate::units::{SimDuration, SimTime};

/// How often vLLM's coordinator tells the front end what ranks have (0.33.0,
/// `vllm/v1/engine/coordinator.py`).
const PUBLISHED_EVERY: SimDuration = SimDuration::from_millis(100);
/// From which use of the KV memory on requests that wait weigh, and how much at most a half more of it.
const PRESSED_FROM: f64 = 0.5;
const WAITING_WEIGHT: f64 = 6.0;

/// The rule of an engine.
#[derive(Debug, Clone)]
pub enum Dispatch {
    /// vLLM's.
    LeastScore(LeastScore),
    /// One after the other: `SGLang`'s `--load-balance-method round_robin` (0.5.23,
    /// `sglang/srt/managers/data_parallel_controller.py`).
    RoundRobin {
        /// The next rank.
        next: usize,
    },
}

impl Dispatch {
    /// vLLM's, over so many ranks.
    pub fn least_score(ranks: usize) -> Self {
        Self::LeastScore(LeastScore {
            in_flight: vec![0; ranks],
            told: vec![Told::default(); ranks],
            published: 0,
            first: 0,
        })
    }

    /// The rank that gets the next request.
    pub(super) fn choose(&self) -> usize {
        match self {
            Self::LeastScore(rule) => rule.choose(),
            Self::RoundRobin { next } => *next,
        }
    }

    /// A rank has got a request; there are so many ranks.
    pub(super) fn sent(&mut self, rank: usize, ranks: usize) {
        match self {
            Self::LeastScore(rule) => rule.sent(rank),
            Self::RoundRobin { next } => *next = (rank + 1) % ranks,
        }
    }

    /// A request has left a rank.
    pub(super) fn left(&mut self, rank: usize) {
        if let Self::LeastScore(rule) = self {
            rule.in_flight[rank] -= 1;
        }
    }

    /// The clock goes back to zero, where the ranks tell that they have nothing.
    pub(super) fn rewind_clock(&mut self) {
        if let Self::LeastScore(rule) = self {
            rule.told.fill(Told::default());
            rule.published = 0;
        }
    }

    /// It is `now`, and nothing has changed yet since the ranks had these loads.
    pub(super) fn look(&mut self, now: SimTime, loads: impl Iterator<Item = Load>) {
        if let Self::LeastScore(rule) = self {
            rule.look(now, loads);
        }
    }
}

/// vLLM's rule (0.33.0, `vllm/v1/engine/core_client.py`, `get_core_engine_for_request`): the least of the
/// requests that are there, by the front end's own count or the last that was published, where those
/// that wait weigh more with the KV memory in use above a half. Among equals the search begins a rank
/// further each time. Counts are taken to be published at whole tenths of a second.
#[derive(Debug, Clone)]
pub struct LeastScore {
    in_flight: Vec<u32>,
    told: Vec<Told>,
    /// The tenth of a second of the last publication.
    published: u64,
    first: usize,
}

/// What the front end was told of a rank.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// Those that were sent since are added.
    waiting: u32,
    running: u32,
    kv_use: f64,
}

impl LeastScore {
    fn score(&self, rank: usize) -> f64 {
        let Told { waiting, running, kv_use } = self.told[rank];
        let there = self.in_flight[rank].max(waiting + running);
        let pressure = (kv_use - PRESSED_FROM).max(0.0);
        f64::from(there) + f64::from(waiting) * WAITING_WEIGHT * pressure
    }

    fn choose(&self) -> usize {
        let ranks = self.told.len();
        let order = (0..ranks).map(|step| (self.first + step) % ranks);
        let scored = order.map(|rank| (self.score(rank), rank));
        let least = scored.reduce(|best, next| if next.0 < best.0 { next } else { best });
        least.expect("there is a rank").1
    }

    fn sent(&mut self, rank: usize) {
        self.in_flight[rank] += 1;
        self.told[rank].waiting += 1;
        self.first = (self.first + 1) % self.told.len();
    }

    fn look(&mut self, now: SimTime, loads: impl Iterator<Item = Load>) {
        let tick = now.as_nanos() / PUBLISHED_EVERY.as_nanos();
        if tick == self.published {
            return;
        }
        self.published = tick;
        for (told, load) in self.told.iter_mut().zip(loads) {
            let (waiting, running) = (load.waiting, load.running);
            *told = Told { waiting, running, kv_use: load.kv_utilization() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(waiting: u32, running: u32, held: u32) -> Load {
        let (kv_blocks, kv_blocks_free) = (100, 100 - held);
        Load { waiting, running, kv_blocks, kv_blocks_free, kv_blocks_lingering: 0 }
    }

    fn send(rule: &mut Dispatch, ranks: usize) -> usize {
        let rank = rule.choose();
        rule.sent(rank, ranks);
        rank
    }

    #[test]
    fn a_burst_goes_round() {
        let mut rule = Dispatch::least_score(3);
        assert_eq!([(); 7].map(|()| send(&mut rule, 3)), [0, 1, 2, 0, 1, 2, 0]);
        let mut rule = Dispatch::RoundRobin { next: 0 };
        assert_eq!([(); 4].map(|()| send(&mut rule, 3)), [0, 1, 2, 0]);
    }

    #[test]
    fn who_has_answered_most_gets_the_next() {
        let mut rule = Dispatch::least_score(2);
        for _ in 0..4 {
            send(&mut rule, 2);
        }
        let later = SimTime::ZERO + SimDuration::from_millis(250);
        rule.left(1);
        // The front end still believes what it was told: nothing, and what it sent since.
        assert_eq!(rule.choose(), 0);
        rule.look(later, [load(0, 2, 10), load(0, 1, 10)].into_iter());
        assert_eq!(rule.choose(), 1);
    }

    #[test]
    fn waiting_requests_weigh_where_memory_is_short() {
        let mut rule = Dispatch::least_score(2);
        let at = |ms| SimTime::ZERO + SimDuration::from_millis(ms);
        rule.look(at(100), [load(4, 6, 50), load(0, 11, 50)].into_iter());
        assert_eq!(rule.choose(), 0, "10 against 11");
        // 10 + 4·6·0.4 against 11
        rule.look(at(200), [load(4, 6, 90), load(0, 11, 90)].into_iter());
        assert_eq!(rule.choose(), 1);
        rule.look(at(299), [load(0, 0, 0), load(0, 11, 90)].into_iter());
        assert_eq!(rule.choose(), 1, "counts are a tenth of a second old at most, and not newer");
    }
}

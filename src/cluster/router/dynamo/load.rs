//! What a router booked on each rank: prefill tokens, active blocks and live requests (NVIDIA Dynamo 1.6.1).
//!
//! A booking counts from the decision on, before the request reaches its engine. Blocks of prompts are counted once a
//! rank however many live requests have them, by references; the prefill tokens of a request end with its prefill.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::paths::Paths;
use super::{Prompt, Rank, RequestKey};

/// What a rank has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Prefill tokens.
    pub prefill_tokens: u64,
    /// Active blocks, rounded half up.
    pub blocks: u64,
    /// Live requests.
    pub requests: u32,
}

/// The same in floats, which hold whole numbers below 2^53 as they are: a decision reads those of all ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Standing {
    pub prefill_tokens: f64,
    pub blocks: f64,
    pub requests: f64,
}

impl From<Load> for Standing {
    fn from(load: Load) -> Self {
        Self {
            prefill_tokens: load.prefill_tokens as f64,
            blocks: load.blocks as f64,
            requests: f64::from(load.requests),
        }
    }
}

/// What is booked on a rank.
#[derive(Debug, Clone, Default)]
struct Booked {
    prefill_tokens: u64,
    requests: u32,
    /// Distinct active blocks, each as a whole.
    blocks: u64,
    /// Of those, what counts as a part of a block only: how many, and the part.
    parts: BTreeMap<Part, (u32, f64)>,
    /// The sum over them of how much less than whole they are.
    missing: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Blocks that only one request can have.
    Own(RequestKey),
    /// A block that others may have.
    Named(u64),
}

impl Booked {
    fn set_part(&mut self, part: Part, count: u32, weight: f64) {
        self.parts.insert(part, (count, weight));
        self.sum_up();
    }

    /// Summed anew, so that what is left after others went is what it was before they came.
    fn sum_up(&mut self) {
        self.missing =
            self.parts.values().map(|&(count, weight)| f64::from(count) * (1.0 - weight)).sum();
    }
}

#[derive(Debug, Clone)]
struct Booking {
    rank: Rank,
    prefill_tokens: u64,
    prompt: Prompt,
    output_blocks: u32,
    /// What each of its own blocks counts.
    weight: f64,
}

/// Prefill tokens, active blocks and live requests of each rank.
#[derive(Debug, Clone, Default)]
pub struct Loads {
    ranks: Vec<Booked>,
    standings: Vec<Standing>,
    /// Blocks of prompts, with the live requests of each rank that have them.
    active: Paths<u32>,
    bookings: FxHashMap<RequestKey, Booking>,
}

impl Loads {
    /// Ranks up to this number are known from now on.
    pub fn grow(&mut self, ranks: usize) {
        self.ranks.resize_with(self.ranks.len().max(ranks), Booked::default);
        self.standings.resize(self.ranks.len(), Standing::default());
    }

    /// What is booked on all ranks, by number.
    pub(super) fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// What is booked on a rank has changed.
    fn note(&mut self, rank: Rank) {
        self.standings[rank.index()] = self.of(rank).into();
    }

    /// What is booked on a rank.
    #[inline]
    pub fn of(&self, rank: Rank) -> Load {
        let booked = &self.ranks[rank.index()];
        let blocks = if booked.parts.is_empty() {
            booked.blocks
        } else {
            (booked.blocks as f64 - booked.missing).round().max(0.0) as u64
        };
        Load { prefill_tokens: booked.prefill_tokens, blocks, requests: booked.requests }
    }

    /// Tells for each rank on which the beginning of a prompt is active how many of its blocks are.
    pub fn active_runs(
        &self,
        prompt: &Prompt,
        inside: &mut Vec<Rank>,
        tell: impl FnMut(Rank, u32),
    ) {
        self.active.runs(&prompt.named, |_| true, inside, tell);
    }

    /// Books a request on a rank.
    ///
    /// # Panics
    /// When a request of this key is booked.
    pub fn book(&mut self, key: RequestKey, rank: Rank, prefill_tokens: u64, prompt: Prompt) {
        let booked = &mut self.ranks[rank.index()];
        booked.prefill_tokens += prefill_tokens;
        booked.requests += 1;
        booked.blocks += u64::from(prompt.unnamed());
        let new = self.active.hold(&prompt.named, rank, 0, |requests| *requests += 1);
        booked.blocks += u64::from(new);
        let booking = Booking { rank, prefill_tokens, prompt, output_blocks: 0, weight: 1.0 };
        let before = self.bookings.insert(key, booking);
        assert!(before.is_none(), "{key:?} is booked once");
        self.note(rank);
    }

    /// Where a request is booked.
    pub fn rank_of(&self, key: RequestKey) -> Option<Rank> {
        self.bookings.get(&key).map(|booking| booking.rank)
    }

    /// The prefill of a request is over.
    pub fn prefill_done(&mut self, key: RequestKey) {
        if let Some(booking) = self.bookings.get_mut(&key) {
            let tokens = std::mem::take(&mut booking.prefill_tokens);
            let rank = booking.rank;
            self.ranks[rank.index()].prefill_tokens -= tokens;
            self.note(rank);
        }
    }

    /// A block of the answer is begun. A weight is that of all blocks of the answer and of the blocks of the prompt
    /// from its end up to the first one that another request has as well.
    pub fn output_block(&mut self, key: RequestKey, weight: Option<f64>) {
        self.begin_output_block(key, weight);
        if let Some(rank) = self.rank_of(key) {
            self.note(rank);
        }
    }

    fn begin_output_block(&mut self, key: RequestKey, weight: Option<f64>) {
        let Some(booking) = self.bookings.get_mut(&key) else { return };
        let booked = &mut self.ranks[booking.rank.index()];
        booking.output_blocks += 1;
        booked.blocks += 1;
        booking.weight = weight.unwrap_or(booking.weight);
        let (own, unnamed) = (booking.output_blocks, booking.prompt.unnamed());
        if booking.weight < 1.0 || booked.parts.contains_key(&Part::Own(key)) {
            booked.set_part(Part::Own(key), own + unnamed, booking.weight);
        }
        let Some(weight) = weight else { return };
        let edges = self.active.backwards(&booking.prompt.named, booking.rank);
        let own = edges.into_iter().take_while(|(_, requests)| *requests == 1);
        for (blocks, _) in own {
            for block in blocks.all().iter() {
                booked.parts.insert(Part::Named(block), (1, weight));
            }
        }
        booked.sum_up();
    }

    /// A request has left.
    pub fn free(&mut self, key: RequestKey) {
        let Some(booking) = self.bookings.remove(&key) else { return };
        let (rank, prompt) = (booking.rank, &booking.prompt);
        let booked = &mut self.ranks[rank.index()];
        booked.prefill_tokens -= booking.prefill_tokens;
        booked.requests -= 1;
        booked.blocks -= u64::from(prompt.unnamed()) + u64::from(booking.output_blocks);
        let parts = booked.parts.len();
        booked.parts.remove(&Part::Own(key));
        let goes = |requests: &mut u32| {
            *requests -= 1;
            *requests == 0
        };
        self.active.let_go(&prompt.named, rank, goes, |blocks| {
            booked.blocks -= blocks.len() as u64;
            if !booked.parts.is_empty() {
                for block in blocks.iter() {
                    booked.parts.remove(&Part::Named(block));
                }
            }
        });
        if booked.parts.len() < parts {
            booked.sum_up();
        }
        self.note(rank);
    }

    /// All that is booked on a rank is gone with it.
    pub fn clear(&mut self, rank: Rank) {
        let mut gone: Vec<_> = self.bookings.iter().filter(|(_, one)| one.rank == rank).collect();
        gone.sort_unstable_by_key(|(key, _)| **key);
        let gone: Vec<_> = gone.into_iter().map(|(&key, _)| key).collect();
        for key in gone {
            self.free(key);
        }
    }

    /// Blocks that are kept.
    pub fn kept(&self) -> usize {
        self.active.len() + self.ranks.iter().map(|booked| booked.parts.len()).sum::<usize>()
    }
}

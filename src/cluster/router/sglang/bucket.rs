//! `bucket`: prompts go to the worker in whose range of lengths they are; ranges follow the lengths that came.

use std::collections::VecDeque;

use super::balance::Balance;
use super::draw::Draw;
use super::policy::{Asked, Worker};
use super::text::Text;
use crate::units::{SimDuration, SimTime};

/// The ranges that workers get when they are told first share so many characters.
const FIRST: u64 = 4096;

/// Lengths from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// Who gets them.
    pub(crate) worker: Worker,
    /// The shortest.
    pub(crate) low: u64,
    /// The longest.
    pub(crate) high: u64,
}

#[derive(Debug, Clone, Copy)]
struct Came {
    at: SimTime,
    characters: u64,
    worker: Worker,
}

/// The ranges of workers, and the lengths that came lately.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    balance: Balance,
    interval: SimDuration,
    /// In the order of the workers.
    ranges: Vec<Range>,
    /// Where the ranges end: what is divided when workers are told.
    end: u64,
    came: VecDeque<Came>,
    /// Characters a worker was given at the last adjustment.
    share: Option<u64>,
    /// Characters of a label of a text.
    label: u64,
}

impl Bucket {
    /// Without workers; lengths are known for an interval, and a label has so many characters.
    pub(crate) fn new(balance: Balance, interval: SimDuration, label: u32) -> Self {
        Self {
            balance,
            interval,
            ranges: Vec::new(),
            end: FIRST,
            came: VecDeque::new(),
            share: None,
            label: label.into(),
        }
    }

    /// No worker has been told yet.
    pub(crate) fn begin(&mut self) {
        self.end = FIRST;
    }

    /// All workers get equal ranges; the last one's has no end.
    pub(crate) fn register(&mut self, workers: &[Worker]) {
        let Some(width) = self.end.checked_div(workers.len() as u64) else {
            self.ranges.clear();
            return;
        };
        let range = |(place, worker): (usize, &Worker)| Range {
            worker: *worker,
            low: place as u64 * width,
            high: if place + 1 == workers.len() {
                u64::MAX
            } else {
                (place as u64 + 1) * width - 1
            },
        };
        self.ranges = workers.iter().enumerate().map(range).collect();
        self.end = u64::MAX;
    }

    /// The worker whose range has the length; that with the fewest characters where they are too far apart.
    pub(crate) fn choose<T: Text>(
        &mut self,
        asked: &Asked<'_, T>,
        draw: &mut impl Draw,
    ) -> Option<Worker> {
        let characters = asked.text.map_or(0, |text| u64::from(text.len()) * self.label);
        let loads = self.loads();
        let least = loads.iter().copied().min()?;
        let most = loads.iter().copied().max()?;
        let worker = if self.balance.is_lost(least, most) {
            let ties: Vec<_> = (0..loads.len()).filter(|place| loads[*place] == least).collect();
            self.ranges[ties[draw.below(ties.len())]].worker
        } else {
            let has = |range: &&Range| (range.low..=range.high).contains(&characters);
            self.ranges.iter().find(has)?.worker
        };
        let is_old = |came: &Came| asked.now.saturating_since(came.at) > self.interval;
        while self.came.front().is_some_and(is_old) {
            self.came.pop_front();
        }
        self.came.push_back(Came { at: asked.now, characters, worker });
        Some(worker)
    }

    /// By range, the characters that came lately.
    fn loads(&self) -> Vec<u64> {
        let of = |range: &Range| {
            let came = self.came.iter().filter(|came| came.worker == range.worker);
            came.map(|came| came.characters).sum()
        };
        self.ranges.iter().map(of).collect()
    }

    /// The ranges follow the lengths that came; `None` where these are as many characters as before.
    pub(crate) fn adjust(&mut self) -> Option<&[Range]> {
        let total: u64 = self.came.iter().map(|came| came.characters).sum();
        let share = total.checked_div(self.ranges.len() as u64)?;
        let is_alike = |old: u64| share <= old.saturating_mul(2) && old <= share.saturating_mul(2);
        if self.share.is_some_and(is_alike) {
            return None;
        }
        self.share = Some(share);
        let mut lengths: Vec<_> = self.came.iter().map(|came| came.characters).collect();
        lengths.sort_unstable();
        let mut lengths = lengths.into_iter();
        let last = self.ranges.len() - 1;
        let mut low = 0;
        for (place, range) in self.ranges.iter_mut().enumerate() {
            range.low = low;
            range.high = if place == last { u64::MAX } else { upper(&mut lengths, low, share) };
            low = range.high.saturating_add(1);
        }
        Some(&self.ranges)
    }

    /// The ranges as they are.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }
}

/// The length with which lengths from here on add up to a share; a share above `low` where that is not above it.
fn upper(lengths: &mut impl Iterator<Item = u64>, low: u64, share: u64) -> u64 {
    let mut sum = 0_u64;
    let reached = lengths.find(|length| {
        sum += length;
        sum >= share
    });
    let high = reached.filter(|length| *length > low);
    high.unwrap_or_else(|| low.saturating_add(share))
}

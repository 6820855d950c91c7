//! dLoRA's dynamic batching (Wu et al., OSDI 2024; dLoRA-artifact 72ba0ba, `vllm/core/scheduler.py`,
//! policy `credit`): one merged adapter where most requests use it, all adapters unmerged else.
//!
//! Each adapter has credit. Whoever is passed over gains from whoever is served instead; an adapter
//! with much credit goes before all others, until it has lost half of what it gained. Where none has,
//! requests of the adapter with the most of them are compared with a batch in order of arrival: from a
//! right threshold on it is merged, and stays so down to a left one. The thresholds learn: when the mode
//! changes, the rule compares what both modes would have computed meanwhile, and makes the one that
//! ends longer or shorter next time.
//!
//! Requests without an adapter count as those of one more; merging that one merges nothing.

use super::StepSeconds;
use super::present::{Key, Present, Room};
use crate::engine::Execution;
use crate::scenario::DloraCreditConfig;

/// The rule and what it has learned.
#[derive(Debug, Clone)]
pub(super) struct DloraCredit {
    credit: Vec<f64>,
    /// Adapters by credit, the most first.
    order: Vec<Key>,
    /// Those that credit let go first in the last step.
    preferred: Vec<Key>,
    /// From this credit on an adapter goes first, and down to that one it goes on doing so.
    credit_right: f64,
    credit_left: f64,
    /// What a place in the batch costs, where credit decides and where the batch is merged.
    place: f64,
    merged_place: f64,
    merged: Option<Key>,
    thresholds: Thresholds,
}

/// When to merge, and what is known of both modes since the mode changed.
#[derive(Debug, Clone)]
pub(super) struct Thresholds {
    pub(super) right: f64,
    pub(super) left: f64,
    step: f64,
    factor: f64,
    seconds: StepSeconds,
    switch: f64,
    iterations: u32,
    /// Requests computed, or that would have been.
    merged_requests: usize,
    unmerged_requests: usize,
    /// Times that the adapter changed that would have been merged, and which that is.
    virtual_switches: u32,
    largest: Option<Key>,
}

impl DloraCredit {
    /// At rest, with so many adapters and so many requests in a batch.
    pub(super) fn new(
        config: &DloraCreditConfig,
        (adapters, batch): (usize, usize),
        seconds: StepSeconds,
    ) -> Self {
        let (count, places) = (adapters as f64, batch as f64);
        let credit_right = config.credit * count;
        let ratio = seconds.merged / seconds.unmerged;
        Self {
            credit: vec![config.credit * (count - 1.0); adapters + 1],
            order: (0..=adapters).collect(),
            preferred: Vec::new(),
            credit_right,
            credit_left: credit_right - config.credit / 2.0,
            place: 1.0 / places,
            merged_place: 1.0 / (ratio * places),
            merged: None,
            thresholds: Thresholds {
                right: 1.0,
                left: ratio,
                step: config.threshold_step,
                factor: config.threshold_factor,
                seconds,
                switch: config.switch_ms / 1e3,
                iterations: 0,
                merged_requests: 0,
                unmerged_requests: 0,
                virtual_switches: 0,
                largest: None,
            },
        }
    }

    pub(super) fn choose(
        &mut self,
        present: &Present,
        room: Room,
        chosen: &mut Vec<u32>,
    ) -> Execution {
        let first: Vec<u32> = present.all().take(room.requests).collect();
        self.prefer(present, room, chosen);
        let merges = if chosen.is_empty() {
            self.batch(present, &first, room, chosen)
        } else {
            let rest: Vec<u32> =
                first.iter().copied().filter(|slot| !chosen.contains(slot)).collect();
            chosen.extend(rest.into_iter().take(room.requests - chosen.len()));
            self.pay(present, chosen, &first, self.place);
            None
        };
        if let Some(key) = merges {
            return Execution::Merged(present.adapter_of(key));
        }
        if self.merged.take().is_some() {
            self.thresholds.learn(true);
            self.thresholds.iterations = 1;
        } else {
            self.thresholds.iterations += 1;
        }
        keep_to_slots(present, room, chosen);
        Execution::Unmerged
    }

    /// Chooses requests of adapters with much credit.
    fn prefer(&mut self, present: &Present, room: Room, chosen: &mut Vec<u32>) {
        let credit = &self.credit;
        self.order.sort_by(|a, b| credit[*b].total_cmp(&credit[*a]));
        let before = std::mem::take(&mut self.preferred);
        for &key in &self.order {
            let credit = credit[key];
            if credit < self.credit_left || chosen.len() == room.requests {
                break;
            }
            if credit >= self.credit_right || before.contains(&key) {
                chosen.extend(present.of(key).take(room.requests - chosen.len()));
                self.preferred.push(key);
            }
        }
    }

    /// Chooses requests of one adapter to merge, which is returned, or the first of all.
    fn batch(
        &mut self,
        present: &Present,
        first: &[u32],
        room: Room,
        chosen: &mut Vec<u32>,
    ) -> Option<Key> {
        let is_eligible = |key: &Key| self.credit[*key] >= 0.0;
        let share = |key: Key| present.count(key) as f64 / first.len() as f64;
        let eligible = present.keys().filter(is_eligible);
        // Of equal ones the first.
        let largest = eligible.rev().max_by_key(|key| present.count(*key));
        let limits = &mut self.thresholds;
        let stays = self.merged.filter(is_eligible).filter(|key| share(*key) >= limits.left);
        let merges = if let Some(key) = stays {
            limits.iterations += 1;
            Some(key)
        } else if let Some(key) = largest.filter(|key| share(*key) >= limits.right) {
            limits.learn(self.merged.is_some());
            limits.iterations = 1;
            Some(key)
        } else {
            limits.would_merge(largest);
            None
        };
        let of_one = merges.or(largest).map_or(0, |key| present.count(key));
        limits.merged_requests += of_one.min(room.requests);
        limits.unmerged_requests += first.len();
        let Some(key) = merges else {
            chosen.extend(first);
            return None;
        };
        chosen.extend(present.of(key).take(room.requests));
        // An adapter that stays merged is taken to be computed with all its requests.
        let computed = if stays.is_some() { present.count(key) } else { chosen.len() };
        if computed == first.len() {
            self.pay(present, chosen, first, self.merged_place);
        } else {
            let half = self.merged_place / 2.0;
            for other in first.iter().map(|slot| present.key(*slot)).filter(|of| *of != key) {
                self.credit[key] -= half;
                self.credit[other] += half;
            }
        }
        self.merged = Some(key);
        Some(key)
    }

    /// Those chosen that are not among the first pay those who stand where they do.
    fn pay(&mut self, present: &Present, chosen: &[u32], first: &[u32], place: f64) {
        let (among, others): (Vec<u32>, Vec<u32>) =
            chosen.iter().partition(|slot| first.contains(slot));
        for (payer, payee) in others.iter().zip(&first[among.len().min(first.len())..]) {
            self.credit[present.key(*payer)] -= place;
            self.credit[present.key(*payee)] += place;
        }
    }
}

/// Leaves out requests whose adapters get no slot.
fn keep_to_slots(present: &Present, room: Room, chosen: &mut Vec<u32>) {
    let mut adapters = Vec::new();
    chosen.retain(|slot| {
        let Some(adapter) = present.adapter(*slot) else { return true };
        let is_known = adapters.contains(&adapter);
        if !is_known && adapters.len() < room.adapters {
            adapters.push(adapter);
            return true;
        }
        is_known
    });
}

impl Thresholds {
    /// A step is unmerged; this adapter would have been merged.
    fn would_merge(&mut self, key: Option<Key>) {
        if self.largest != key {
            self.virtual_switches += 1;
            self.largest = key;
        }
    }

    /// The mode changes, or the merged adapter: compares both modes over the steps since the last time.
    pub(super) fn learn(&mut self, was_merged: bool) {
        if self.iterations == 0 {
            return;
        }
        let steps = f64::from(self.iterations);
        let (mut merged, mut unmerged) =
            (self.seconds.merged * steps, self.seconds.unmerged * steps);
        if was_merged {
            merged += self.switch;
        } else {
            unmerged += self.switch;
            merged += self.switch * f64::from(self.virtual_switches);
        }
        let merged = self.merged_requests as f64 / merged;
        let unmerged = self.unmerged_requests as f64 / unmerged;
        if was_merged {
            if merged > unmerged && self.right - self.step > self.left {
                self.right -= self.step;
            } else if merged < unmerged {
                self.right *= self.factor;
            }
        } else if unmerged > merged && self.left + self.step < self.right {
            self.left += self.step;
        } else if unmerged < merged {
            self.left /= self.factor;
        }
        self.merged_requests = 0;
        self.unmerged_requests = 0;
        self.virtual_switches = 0;
        self.largest = None;
    }
}

#[cfg(test)]
mod tests;

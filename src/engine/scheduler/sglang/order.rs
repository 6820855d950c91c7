//! The order of the waiting queue
//! (SGLang 0.5.23, `sglang/srt/managers/schedule_policy.py`, `SchedulePolicy`).

use std::cmp::Reverse;

use super::Sglang;
use crate::scenario::SglangPolicy;

/// Waiting requests beyond which no prefixes are looked up.
const MATCHED_MAX: usize = 128;
/// Attempts to prefill from one refresh of waiting prefixes to the next.
const REFRESH_INTERVAL: u64 = 32;
/// A shorter cached prefix is compared with those of the other waiting requests; sharing as much
/// with one of them makes a request wait for it.
const SHARED_PREFIX: u32 = 32;

impl Sglang {
    /// Orders the waiting queue before requests are admitted from it.
    pub(super) fn order_waiting(&mut self) {
        let is_lpm = self.settings.schedule_policy == SglangPolicy::Lpm && self.has_tree();
        if is_lpm && self.waiting.len() <= MATCHED_MAX {
            self.order_by_prefix();
            return;
        }
        let by_priority = self.settings.enable_priority_scheduling;
        let sequences = &self.sequences;
        let sequence = |slot: u32| &sequences[slot as usize];
        if self.settings.schedule_policy == SglangPolicy::Lof {
            self.waiting.make_contiguous().sort_by_key(|&slot| {
                let s = sequence(slot);
                let priority = if by_priority { s.priority } else { 0 };
                (Reverse(priority), Reverse(s.life.max_tokens))
            });
        } else if by_priority {
            self.waiting.make_contiguous().sort_by_key(|&slot| {
                let s = sequence(slot);
                (Reverse(s.priority), s.queued)
            });
        }
        self.refresh_prefixes();
    }

    /// Longest cached prefix first. Of requests that share a prefix that is not cached yet, all
    /// but the first go last, to find it cached later.
    fn order_by_prefix(&mut self) {
        self.beginnings.clear();
        for index in 0..self.waiting.len() {
            let slot = self.waiting[index];
            let known = self.sequences[slot as usize].known();
            let found = self.find_prefix(slot, known).usable;
            let s = &mut self.sequences[slot as usize];
            s.prefix = found.tokens;
            s.rank = -i64::from(found.tokens.min(known - 1));
            if !s.is_private() && found.tokens <= SHARED_PREFIX && known >= SHARED_PREFIX {
                let beginning = s.beginning(self.cache.keys().count(SHARED_PREFIX));
                if !self.beginnings.insert(beginning) {
                    s.rank = i64::MAX;
                }
            }
        }
        let sequences = &self.sequences;
        self.waiting.make_contiguous().sort_by_key(|&slot| sequences[slot as usize].rank);
    }

    /// Now and then counts waiting as an access to the cached prefix of those first in the queue,
    /// the very first one last, so that its prefix is evicted last.
    fn refresh_prefixes(&mut self) {
        if self.waiting.is_empty() || !self.has_tree() {
            return;
        }
        let is_due = self.refresh_turn.is_multiple_of(REFRESH_INTERVAL);
        self.refresh_turn += 1;
        if is_due {
            for index in (0..self.waiting.len().min(MATCHED_MAX)).rev() {
                let slot = self.waiting[index];
                let known = self.sequences[slot as usize].known();
                self.find_prefix(slot, known);
            }
        }
    }
}

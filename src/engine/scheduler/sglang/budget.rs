//! What a prefill batch may still take
//! (SGLang 0.5.23, `sglang/srt/mem_cache/prefill_budget.py` and
//! `sglang/srt/managers/schedule_policy.py`, `PrefillAdder`).

use super::Sglang;
use super::windows::WindowBudget;

/// The most tokens of answer that memory is kept for.
pub(super) const MAX_NEW_TOKENS_CLIP: u32 = 4096;

/// Whether the next request may be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may.
    Continue,
    /// Memory is spent.
    NoMemory,
    /// The batch is full, memory is not.
    BatchFull,
}

/// The budgets of one prefill batch. Memory is counted against what is reclaimable at each moment,
/// because a locked prefix is not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    page_size: u32,
    /// Memory spoken for, answers of all requests included.
    reserved: f64,
    /// Memory that this step takes.
    reserved_now: f64,
    /// Tokens the batch may take before no more requests are added.
    pub(super) input: i64,
    /// Tokens the batch may take; no limit if absent.
    pub(super) chunk: Option<i64>,
    /// Window slots, where there are windows.
    pub(super) window: Option<WindowBudget>,
}

impl Budget {
    /// The budgets of a batch in which `riding` decoding requests take part, while the answers of
    /// running requests keep `answers` tokens.
    pub(super) fn new(
        page_size: u32,
        riding: u32,
        answers: f64,
        input: u32,
        chunk: Option<u32>,
    ) -> Self {
        let riding_now = f64::from(riding);
        Self {
            page_size,
            reserved: riding_now + answers,
            reserved_now: riding_now,
            input: i64::from(input) - i64::from(riding),
            chunk: chunk.map(|chunk| i64::from(chunk) - i64::from(riding)),
            window: None,
        }
    }

    /// Memory left, answers considered, if so much is reclaimable.
    pub(super) fn left(&self, reclaimable: u32) -> f64 {
        f64::from(reclaimable) - self.reserved
    }

    /// Memory left for this step.
    pub(super) fn left_now(&self, reclaimable: u32) -> f64 {
        f64::from(reclaimable) - self.reserved_now
    }

    /// Counts a share of `tokens` with `answer` tokens to come. Each costs a page on top, for what
    /// rounding wastes.
    #[inline]
    pub(super) fn charge(&mut self, tokens: u32, answer: u32) {
        let paged = tokens.next_multiple_of(self.page_size);
        if let Some(window) = &mut self.window {
            window.charge(paged.into(), answer.into(), self.chunk);
        }
        self.reserved += f64::from(paged + self.page_size + answer);
        self.reserved_now += f64::from(paged + self.page_size);
        self.input -= i64::from(paged);
        if let Some(chunk) = &mut self.chunk {
            *chunk -= i64::from(paged);
        }
    }

    /// Memory that was kept for the answer of a request which lost its place.
    pub(super) fn give_back(&mut self, answer: f64) {
        self.reserved -= answer;
    }

    /// What the budgets allow next.
    pub(super) fn verdict(&self, reclaimable: u32) -> Verdict {
        if self.left(reclaimable) <= 0.0 || self.left_now(reclaimable) <= 0.0 {
            Verdict::NoMemory
        } else if self.input <= 0 || self.chunk.is_some_and(|chunk| chunk <= 0) {
            Verdict::BatchFull
        } else {
            Verdict::Continue
        }
    }
}

impl Sglang {
    /// The budgets as a batch begins.
    pub(super) fn new_budget(&self) -> Budget {
        let running = self.running.len() as u32;
        let riding = if self.mixes_chunks() { running } else { 0 };
        let each = || self.running.iter().map(|&slot| self.answer_reserve(slot)).sum();
        let grouped = self.group_answers();
        debug_assert!(grouped.is_none_or(|sum| sum.to_bits() == f64::to_bits(0.0 + each())));
        let answers = grouped.unwrap_or_else(each);
        let input = self.settings.max_prefill_tokens;
        let budget = Budget::new(
            self.settings.page_size,
            riding,
            answers,
            input,
            self.settings.chunked_prefill_size,
        );
        Budget { window: self.new_window_budget(), ..budget }
    }

    /// What the budgets allow next, as memory is now.
    pub(super) fn verdict(&self, budget: &Budget) -> Verdict {
        if budget.window.is_some_and(|window| self.window_left(&window) <= 0) {
            return Verdict::NoMemory;
        }
        budget.verdict(self.reclaimable())
    }

    /// Tokens kept for the rest of a running request's answer: all of it if it is sure to come.
    pub(super) fn answer_reserve(&self, slot: u32) -> f64 {
        let s = &self.sequences[slot as usize];
        let generated = self.generated(slot);
        let rest = s.life.max_tokens.saturating_sub(generated).min(MAX_NEW_TOKENS_CLIP);
        f64::from(rest) * self.expected_share(slot)
    }

    /// The share of its limit that a request's answer is expected to use.
    pub(super) fn expected_share(&self, slot: u32) -> f64 {
        if self.sequences[slot as usize].ignores_eos { 1.0 } else { self.ratio.current }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_share_costs_its_pages_and_one_more() {
        let mut budget = Budget::new(16, 0, 100.0, 1000, Some(64));
        budget.charge(17, 50);
        // 17 tokens are 2 pages of 16, plus one page: 48, plus 50 of answer, plus 100 before
        assert!((budget.left(1000) - 802.0).abs() < 1e-9);
        assert!((budget.left_now(1000) - 952.0).abs() < 1e-9);
        assert_eq!((budget.input, budget.chunk), (968, Some(32)));
        assert_eq!(budget.verdict(199), Verdict::Continue);
        assert_eq!(budget.verdict(198), Verdict::NoMemory);
        budget.charge(32, 0);
        assert_eq!(budget.verdict(1000), Verdict::BatchFull);
    }

    #[test]
    fn riding_decodes_take_from_every_budget() {
        let budget = Budget::new(1, 7, 0.0, 10, Some(8));
        assert_eq!((budget.input, budget.chunk), (3, Some(1)));
        assert!((budget.left(20) - 13.0).abs() < 1e-9);
        assert!((budget.left_now(20) - 13.0).abs() < 1e-9);
    }
}

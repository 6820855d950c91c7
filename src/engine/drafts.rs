//! What speculative decoding gained: counts of drafts verified and accepted.

/// Drafts of many verification steps and how many of them were accepted, as vLLM counts them
/// (0.33.0, `vllm/v1/spec_decode/metrics.py`): an accepted draft counts even if the answer ends
/// before it, and the dummy drafts of an admission padded to its neighbours' width count as
/// refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DraftCounts {
    draft_tokens: u64,
    /// Verification steps by the drafts they accepted; as many places as drafts were ever
    /// verified in one, and one more.
    by_accepted: Vec<u64>,
}

impl DraftCounts {
    /// Counts a verification of `drafts` drafts that accepted the first `accepted` of them.
    ///
    /// # Panics
    /// When more are accepted than there are.
    pub fn count(&mut self, drafts: u32, accepted: u32) {
        assert!(accepted <= drafts, "{accepted} of {drafts} drafts are accepted");
        self.draft_tokens += u64::from(drafts);
        self.widen(drafts as usize + 1);
        self.by_accepted[accepted as usize] += 1;
    }

    /// Adds the counts of others.
    #[inline]
    pub fn add(&mut self, others: &Self) {
        if others.by_accepted.is_empty() {
            return;
        }
        self.draft_tokens += others.draft_tokens;
        self.widen(others.by_accepted.len());
        for (count, more) in self.by_accepted.iter_mut().zip(&others.by_accepted) {
            *count += more;
        }
    }

    /// Forgets the counts and keeps the memory.
    pub fn clear(&mut self) {
        self.draft_tokens = 0;
        self.by_accepted.clear();
    }

    fn widen(&mut self, places: usize) {
        if self.by_accepted.len() < places {
            self.by_accepted.resize(places, 0);
        }
    }

    /// Whether nothing was verified.
    pub fn is_empty(&self) -> bool {
        self.draft_tokens == 0
    }

    /// Verification steps, each of one request.
    pub fn verifications(&self) -> u64 {
        self.by_accepted.iter().sum()
    }

    /// Drafts verified.
    pub fn draft_tokens(&self) -> u64 {
        self.draft_tokens
    }

    /// Drafts accepted.
    pub fn accepted_tokens(&self) -> u64 {
        self.by_accepted.iter().zip(0_u64..).map(|(count, accepted)| count * accepted).sum()
    }

    /// Accepted drafts per draft, in percent; nothing without verifications.
    pub fn acceptance_rate_pct(&self) -> Option<f64> {
        let share = || self.accepted_tokens() as f64 / self.draft_tokens as f64;
        (!self.is_empty()).then(|| share() * 100.0)
    }

    /// Tokens that come out of a verification on average: the accepted drafts and the one after
    /// them; nothing without verifications.
    pub fn acceptance_length(&self) -> Option<f64> {
        let mean = || self.accepted_tokens() as f64 / self.verifications() as f64;
        (!self.is_empty()).then(|| 1.0 + mean())
    }

    /// For each position of a draft, the share of verifications that accepted it.
    pub fn acceptance_per_position(&self) -> Vec<f64> {
        let steps = self.verifications();
        let accepting = |position: usize| self.by_accepted[position + 1..].iter().sum::<u64>();
        let positions = self.by_accepted.len().saturating_sub(1);
        (0..positions).map(|position| accepting(position) as f64 / steps as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_follow_from_the_counts() {
        let mut counts = DraftCounts::default();
        assert_eq!((counts.acceptance_rate_pct(), counts.acceptance_length()), (None, None));
        for accepted in [3, 0, 1, 2] {
            counts.count(3, accepted);
        }
        let mut others = DraftCounts::default();
        others.count(4, 4);
        counts.add(&others);
        // 5 steps with 3 + 3 + 3 + 3 + 4 drafts, of which 3 + 0 + 1 + 2 + 4 are accepted
        assert_eq!(counts.verifications(), 5);
        assert_eq!((counts.draft_tokens(), counts.accepted_tokens()), (16, 10));
        assert_eq!(counts.acceptance_rate_pct(), Some(62.5));
        assert_eq!(counts.acceptance_length(), Some(3.0));
        assert_eq!(counts.acceptance_per_position(), [0.8, 0.6, 0.4, 0.2]);
        counts.clear();
        assert!(counts.is_empty());
        assert_eq!(counts, DraftCounts::default());
    }

    #[test]
    #[should_panic(expected = "3 of 2 drafts are accepted")]
    fn no_more_is_accepted_than_drafted() {
        DraftCounts::default().count(2, 3);
    }
}

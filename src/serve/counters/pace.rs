//! How fast tokens come.

use crate::engine::DraftCounts;
use crate::serve::relay::seconds;
use crate::units::SimTime;

/// How fast tokens came lately, over so many steps that only decode (SGLang's `decode_log_interval`).
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct Pace {
    steps: u32,
    tokens: u64,
    since: SimTime,
    tokens_per_s: f64,
    drafts: DraftCounts,
    pub(in crate::serve) accepted: Accepted,
}

/// What became of drafts in those steps; 0 without any.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::serve) struct Accepted {
    /// Tokens per verification.
    pub(in crate::serve) length: f64,
    /// Accepted drafts per draft.
    pub(in crate::serve) share: f64,
}

impl Pace {
    const STEPS: u32 = 40;
    /// From then on nothing is known (`GEN_THROUGHPUT_STALENESS_SECONDS`).
    const STALE_S: f64 = 30.0;

    pub(super) fn stepped(&mut self, at: SimTime, tokens: u32, drafts: &DraftCounts) {
        self.steps += 1;
        self.tokens += u64::from(tokens);
        self.drafts.add(drafts);
        if self.steps == Self::STEPS {
            let took = seconds(at.saturating_since(self.since));
            self.tokens_per_s = if took > 0.0 { self.tokens as f64 / took } else { 0.0 };
            let length = self.drafts.acceptance_length().unwrap_or(0.0);
            let share = self.drafts.acceptance_rate_pct().unwrap_or(0.0) / 100.0;
            let accepted = Accepted { length, share };
            *self =
                Self { since: at, tokens_per_s: self.tokens_per_s, accepted, ..Self::default() };
        }
    }

    /// Tokens per second.
    pub(in crate::serve) fn tokens_per_s(&self, now: SimTime) -> f64 {
        let is_stale = seconds(now.saturating_since(self.since)) > Self::STALE_S;
        if is_stale { 0.0 } else { self.tokens_per_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_the_last_forty_steps_until_it_is_stale() {
        let mut pace = Pace::default();
        let at = |ms: u32| SimTime::from_secs_f64(f64::from(ms) / 1e3);
        for step in 1..=39 {
            pace.stepped(at(step * 10), 8, &DraftCounts::default());
        }
        assert!(pace.tokens_per_s(at(390)) < 1e-9, "too few steps");
        pace.stepped(at(400), 8, &DraftCounts::default());
        // 40 steps of 8 tokens in 0.4 s
        assert!((pace.tokens_per_s(at(400)) - 800.0).abs() < 1e-9);
        assert!(pace.tokens_per_s(at(30_401)) < 1e-9, "too long ago");
    }
}

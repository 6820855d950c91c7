//! The share of their limit that answers are expected to use
//! (SGLang 0.5.23, `sglang/srt/managers/scheduler_components/new_token_ratio_tracker.py`).

/// The first estimate, times the configured conservativeness.
const FIRST: f64 = 0.7;
/// The lowest estimate as a share of the first.
const LOWEST: f64 = 0.14;
/// Decode steps from the first estimate to the lowest.
const DECAY_STEPS: f64 = 600.0;
/// Decode steps for which room is made when requests lose their memory.
pub(super) const RETRACT_DECODE_STEPS: u32 = 20;

/// The estimate: sinks while decoding goes well, jumps when memory runs out.
#[derive(Debug, Clone)]
pub(super) struct NewTokenRatio {
    pub(super) current: f64,
    first: f64,
    lowest: f64,
    decay: f64,
}

impl NewTokenRatio {
    pub(super) fn new(conservativeness: f64) -> Self {
        let first = (FIRST * conservativeness).min(1.0);
        let lowest = (first * LOWEST).min(1.0);
        Self { current: first, first, lowest, decay: (first - lowest) / DECAY_STEPS }
    }

    /// A decode step found its memory.
    pub(super) fn decay(&mut self) {
        self.current = (self.current - self.decay).max(self.lowest);
    }

    /// So many decode steps found theirs.
    pub(super) fn decay_for(&mut self, steps: u64) {
        let mut left = steps;
        while left > 0 && self.current.to_bits() != self.lowest.to_bits() {
            self.decay();
            left -= 1;
        }
    }

    /// Memory ran out: what the survivors have generated and soon will, of what they may.
    pub(super) fn estimate(&mut self, survivors: u32, generated: u64, limit: u64) {
        let soon = u64::from(RETRACT_DECODE_STEPS * survivors);
        self.current = ((generated + soon) as f64 / (limit + 1) as f64).min(1.0);
    }

    /// The engine is idle.
    pub(super) fn reset(&mut self) {
        self.current = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_sinks_to_a_floor_and_is_reset() {
        let mut ratio = NewTokenRatio::new(1.0);
        ratio.decay();
        // 0.7 − (0.7 − 0.098) / 600 = 0.698996667
        assert!((ratio.current - 0.698_996_667).abs() < 1e-9);
        (0..700).for_each(|_| ratio.decay());
        assert!((ratio.current - 0.098).abs() < 1e-12);
        ratio.reset();
        let mut at_once = ratio.clone();
        at_once.decay_for(17);
        (0..17).for_each(|_| ratio.decay());
        assert_eq!(at_once.current.to_bits(), ratio.current.to_bits());
        ratio.reset();
        assert!((ratio.current - 0.7).abs() < 1e-12);
        assert!((NewTokenRatio::new(9.0).current - 1.0).abs() < 1e-12);
    }

    #[test]
    fn after_a_retraction_the_estimate_is_what_the_survivors_show() {
        let mut ratio = NewTokenRatio::new(1.0);
        // two requests, 60 of 199 tokens generated: (60 + 2·20) / (199 + 1)
        ratio.estimate(2, 60, 199);
        assert!((ratio.current - 0.5).abs() < 1e-12);
        ratio.estimate(1, 10, 9);
        assert!((ratio.current - 1.0).abs() < 1e-12);
    }
}

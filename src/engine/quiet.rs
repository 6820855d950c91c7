//! Runs of steps that only decode, decided and completed in one go.
//!
//! Between two changes of a batch nothing is decided: every step computes one more token for every
//! request. An instance walks such steps in a tight loop and wants to be woken once at their end;
//! what comes from outside meanwhile interrupts the run at the next end of a step. The loop prices
//! every step with the cost model, so that the outcome is the same as step by step, exactly, for
//! every cost model.
//!
//! A run may begin while steps that prefill are in flight, if their outcomes are nothing but first
//! tokens. They are taken in and told one by one where they end, which is before the run does: late,
//! so that this is left to drivers that say that nobody minds.

use crate::cost::StepShape;
use crate::engine::scheduler::Load;
use crate::units::{SimDuration, SimTime};

/// A step of a run. At its boundary the oldest step in flight ends and this one is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietStep {
    /// When that is.
    pub boundary: SimTime,
    /// When the device starts it.
    pub start: SimTime,
    /// How long the device works on it.
    pub duration: SimDuration,
    /// KV blocks it takes.
    pub claims: u32,
    /// How long after the boundary the host is free again, in ns.
    pub launch_nanos: u32,
}

impl QuietStep {
    /// When the host is free again.
    pub(super) fn host_free(&self) -> SimTime {
        self.boundary + SimDuration::from_nanos(self.launch_nanos.into())
    }

    /// When the device has computed it.
    pub(super) fn end(&self) -> SimTime {
        self.start + self.duration
    }
}

/// Steps that were run.
#[derive(Debug, Clone, Copy)]
pub struct QuietRun<'a> {
    /// The steps, in order.
    pub steps: &'a [QuietStep],
    /// The number of the first on its instance.
    pub first_step: u64,
    /// Requests that decode in each.
    pub rows: u32,
    /// The shape of the first; in each further one, every context is a token longer.
    pub shape: StepShape,
    /// Queues and memory before the first was decided.
    pub load: Load,
    /// The last outcome before those of the run.
    pub completed_before: SimTime,
    /// Whether the outcome at the first boundary was that of a step of another kind, told on its own before.
    pub begins_told: bool,
}

impl<'a> QuietRun<'a> {
    /// The steps at whose boundaries one that decoded the same requests ended.
    #[inline]
    pub fn outcomes(&self) -> &'a [QuietStep] {
        &self.steps[usize::from(self.begins_told)..]
    }
}

/// The length of runs. A run that is interrupted has planned steps in vain, one that ends too early
/// costs a wake-up, about as much as four steps: between interruptions every m steps, runs of
/// √(8·m) steps cost least.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunLength {
    /// Steps between the last two interruptions, and since.
    between: usize,
    since: usize,
}

impl RunLength {
    /// More is never planned in one go.
    pub(super) const MOST: usize = 1024;

    pub(super) fn steps(self) -> usize {
        (8 * self.between.max(self.since)).isqrt().clamp(8, Self::MOST)
    }

    pub(super) fn finished(&mut self, steps: usize) {
        self.since += steps;
    }

    pub(super) fn interrupted(&mut self, after: usize) {
        self.between = std::mem::take(&mut self.since) + after;
    }
}

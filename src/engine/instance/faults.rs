//! What a replica does when something fails in it or around it.

use super::Instance;
use crate::ids::RequestId;
use crate::units::SimDuration;

impl Instance {
    /// A KV transfer of a request will not end: it computes its prompt itself. During a step this
    /// waits for the step's end.
    pub fn lost_transfer(&mut self, id: RequestId) {
        self.lost_transfers.push(id);
    }

    /// Forgets the cached KV that no request holds, between two steps.
    pub fn lose_cache(&mut self) {
        if let Some(cache) = self.scheduler.prefix_cache_mut() {
            cache.lose();
        }
    }

    /// From the next step on the device takes so many times as long; `None` as long as it should.
    pub fn slow_down(&mut self, factor: Option<f64>) {
        self.slowdown = factor;
    }

    /// Starts again from the state of `fresh`, an idle replica of the same kind. Its steps are counted
    /// on; its device is as slow as it was.
    pub fn restart(&mut self, fresh: Self) {
        let (wave, told) = (self.wave.take(), self.told.take());
        *self = Self { steps: self.steps, slowdown: self.slowdown, wave, ..fresh };
        self.tell_restart(told.is_some());
    }

    /// The idle replica as a run leaves it, at time zero of another: what its scheduler holds it goes on to hold,
    /// and its kernels have been loaded.
    ///
    /// # Panics
    /// When a step is in flight.
    #[must_use]
    pub fn at_time_zero(mut self) -> Self {
        assert!(self.is_idle(), "a replica is at rest between two runs");
        self.scheduler.rewind_clock();
        let fresh = Self::new(self.scheduler, self.cost)
            .with_graphs(self.graphs)
            .on_host(self.host)
            .with_lora(self.lora);
        let Self { wave, prefill_steps, tells_late, stepping, is_recorded, .. } = self;
        let front = self.front.map(|front| Box::new(front.at_time_zero()));
        Self { wave, prefill_steps, tells_late, stepping, is_recorded, front, ..fresh }
    }

    /// How long its device takes for a step that should take `duration`.
    pub(super) fn slowed(&self, duration: SimDuration) -> SimDuration {
        slowed(duration, self.slowdown)
    }
}

/// So many times as long.
#[inline]
pub(super) fn slowed(duration: SimDuration, factor: Option<f64>) -> SimDuration {
    match factor {
        None => duration,
        Some(factor) => SimDuration::from_secs_f64(duration.as_secs_f64() * factor),
    }
}

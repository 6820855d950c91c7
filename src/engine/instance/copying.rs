//! Copies out of an instance's memory, during which it stands still.

use super::Instance;
use crate::engine::copies::CopyStart;
use crate::units::SimTime;

impl Instance {
    /// Somebody asks for a copy out of the memory: when it can be made. No further step is decided until
    /// [`end_copy`](Self::end_copy).
    ///
    /// # Panics
    /// When another one is asked for, or steps overlap.
    pub fn ask_copy(&mut self, now: SimTime) -> CopyStart {
        assert!(self.in_flight.len() <= 1 && self.run.is_empty(), "copies wait for single steps");
        let step = self.in_flight.front();
        let launch = step.map(|step| self.host.launch_beside(&step.plan.shape));
        self.copies.ask(now, step, launch.unwrap_or_default())
    }

    /// The copy is made from now on, when [`ask_copy`](Self::ask_copy) said; meanwhile
    /// [`advance`](Self::advance) does nothing.
    ///
    /// # Panics
    /// When none is asked for.
    pub fn begin_copy(&mut self, now: SimTime) {
        self.copies.begin(now);
    }

    /// The copy that was asked for is not needed. Returns when to call [`advance`](Self::advance).
    ///
    /// # Panics
    /// When none is asked for, or it is being made.
    pub fn cancel_copy(&mut self, now: SimTime) -> SimTime {
        self.copies.cancel(now);
        self.acts_at().unwrap_or(now)
    }

    /// The copy is made. Returns when to call [`advance`](Self::advance).
    ///
    /// # Panics
    /// When none is being made.
    pub fn end_copy(&mut self, now: SimTime) -> SimTime {
        self.copies.end(now, &mut self.in_flight);
        if let Some(step) = self.in_flight.front() {
            self.device_free = step.ends_at();
        }
        self.acts_at().unwrap_or(now)
    }
}

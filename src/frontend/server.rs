//! A process, or a thread, that does one thing after the other.

use crate::units::{SimDuration, SimTime};

/// When a process is free. What comes to it in order is served in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Server {
    free: SimTime,
}

impl Server {
    /// When work that comes at `at` is begun; one that has nothing to do is woken first.
    pub(super) fn start(self, at: SimTime, wake: SimDuration) -> SimTime {
        if at > self.free { at + wake } else { self.free }
    }

    /// When work that comes at `at` is done.
    pub fn serve(&mut self, at: SimTime, work: SimDuration, wake: SimDuration) -> SimTime {
        self.free = self.start(at, wake) + work;
        self.free
    }

    /// Whether all that has come is done at `at`.
    pub(super) fn is_idle(self, at: SimTime) -> bool {
        at >= self.free
    }

    /// It has so much more to do.
    pub(super) fn delay(&mut self, work: SimDuration) {
        self.free += work;
    }

    /// It has something to do until then.
    #[inline]
    pub(super) fn keep_until(&mut self, at: SimTime) {
        self.free = self.free.max(at);
    }
}

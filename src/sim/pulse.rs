//! How often a run looks whether it was asked to end.

use crate::threads;

/// Events between two looks: a millisecond or so.
const BETWEEN: u32 = 1 << 10;

/// Counts the events of a run.
#[derive(Debug, Default)]
pub(super) struct Pulse(u32);

impl Pulse {
    /// An event is handled next. The run ends here if it was asked to.
    #[inline]
    pub(super) fn beat(&mut self) {
        self.0 += 1;
        if self.0 == BETWEEN {
            self.0 = 0;
            threads::end_if_stopped();
        }
    }
}

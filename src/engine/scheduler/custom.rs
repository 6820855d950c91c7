//! Schedulers of the library's user.
//!
//! Whatever implements [`Schedule`] and can be cloned goes into [`Scheduler::custom`](super::Scheduler::custom). Who
//! only wants requests admitted in another order writes an [`Admit`](super::Admit) and leaves the rest to an
//! engine of the project ([`Doorkeeper`](super::Doorkeeper)).

use super::Schedule;

/// A scheduler that is cloned with its replica; implemented for all that can be.
pub trait CustomSchedule: Schedule {
    /// A copy of it.
    fn boxed_clone(&self) -> Box<dyn CustomSchedule>;
}

impl<S: Schedule + Clone + 'static> CustomSchedule for S {
    fn boxed_clone(&self) -> Box<dyn CustomSchedule> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn CustomSchedule> {
    fn clone(&self) -> Self {
        // Not of the box, which is a `CustomSchedule` itself as soon as it can be cloned.
        self.as_ref().boxed_clone()
    }
}

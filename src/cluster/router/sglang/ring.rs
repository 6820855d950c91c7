//! A ring of workers: each stands on it at many points, and a key belongs to the next one.

use super::policy::{Worker, Workers};

/// The points of workers, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ring(Vec<(u64, Worker)>);

impl Ring {
    /// Of these workers, each at so many points; `place` has where one is.
    pub(crate) fn of(workers: &[Worker], points: u32, place: impl Fn(Worker, u32) -> u64) -> Self {
        let place = &place;
        let of = |&worker: &Worker| (0..points).map(move |point| (place(worker, point), worker));
        let mut all: Vec<_> = workers.iter().flat_map(of).collect();
        all.sort_unstable();
        Self(all)
    }

    /// The worker from a place on, clockwise, that may be chosen.
    pub(crate) fn worker(&self, place: u64, workers: Workers<'_>) -> Option<Worker> {
        let from = self.0.partition_point(|(point, _)| *point < place);
        let around = self.0[from..].iter().chain(&self.0[..from]);
        around.map(|(_, worker)| *worker).find(|worker| workers.has(*worker))
    }
}

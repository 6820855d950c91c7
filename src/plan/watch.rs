//! A run that is broken off when it can meet an SLO no more.
//!
//! How many requests may miss a limit before a percentile of all is above it is known before the run;
//! the first one beyond that decides, and nothing that comes later changes it. No more requests are
//! sent then; those under way are answered.

use std::cell::Cell;
use std::rc::Rc;

use super::slo::Slo;
use crate::ids::RequestId;
use crate::metrics::Recorder;
use crate::request::Request;
use crate::sim::{Observer, Occurrence, Source};
use crate::units::SimTime;
use crate::workload::WorkloadError;

/// Records a run and counts what speaks against its SLOs.
#[derive(Debug)]
pub struct Watch<'a> {
    /// The records.
    pub recorder: Recorder,
    /// Each SLO with its place, and how many requests may still miss it.
    left: Vec<(usize, &'a Slo, usize)>,
    /// Requests before this one do not count.
    from: usize,
    broken: Option<usize>,
    is_over: Rc<Cell<bool>>,
}

/// Requests that come until it is known that an SLO is missed.
#[derive(Debug)]
pub struct Until<I> {
    requests: I,
    is_over: Rc<Cell<bool>>,
}

impl<'a> Watch<'a> {
    /// Of a run of these requests; those before `from` speak against nothing.
    pub fn new<I>(
        recorder: Recorder,
        slos: &'a [Slo],
        requests: I,
        count: usize,
        from: usize,
    ) -> (Self, Until<I>) {
        let is_over = Rc::new(Cell::new(false));
        let left = slos.iter().enumerate();
        let left =
            left.filter_map(|(place, slo)| Some((place, slo, slo.allowed(count)?))).collect();
        let watch = Self { recorder, left, from, broken: None, is_over: is_over.clone() };
        (watch, Until { requests, is_over })
    }

    /// The SLO that is missed for certain, by its place.
    pub fn broken(&self) -> Option<usize> {
        self.broken
    }

    fn gone(&mut self, id: RequestId) {
        if id.index() < self.from {
            return;
        }
        let record = &self.recorder.requests[id.index()];
        for (place, slo, left) in &mut self.left {
            if slo.is_broken_by(record) {
                if *left == 0 {
                    self.broken = self.broken.or(Some(*place));
                    self.is_over.set(true);
                }
                *left = left.saturating_sub(1);
            }
        }
    }
}

impl Observer for Watch<'_> {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        self.recorder.on(at, what);
        match what {
            Occurrence::Left(_, life, _) => self.gone(life.id),
            Occurrence::Refused(_, id) | Occurrence::TurnedAway(id, _) => self.gone(id),
            _ => {}
        }
    }
}

impl<I: Iterator<Item = Request>> Iterator for Until<I> {
    type Item = Result<Request, WorkloadError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over.get() { None } else { self.requests.next().map(Ok) }
    }
}

impl<I: Iterator<Item = Request>> Source for Until<I> {
    fn follow_up(&mut self, _: RequestId, _: &Request, _: SimTime) -> Option<Request> {
        None
    }

    fn has_follow_ups(&self) -> bool {
        false
    }
}

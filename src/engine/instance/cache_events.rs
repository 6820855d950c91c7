//! What a replica tells of its prefix cache.

use super::Instance;
use crate::engine::scheduler::CachesPrefixes;
use crate::kv::CacheEvent;
use crate::units::SimTime;

impl Instance {
    /// Tells from now on what its prefix cache comes to hold and forgets, and whether it can: caches of hybrid
    /// models, of several ranks and of drafts that read a token ahead are not told of.
    pub fn tell_cache_events(&mut self) -> bool {
        let tells = self.scheduler.prefix_cache_mut().is_some_and(CachesPrefixes::tell_events);
        self.told = tells.then(Vec::new);
        tells
    }

    /// The same, where of answers that are generated in lock step only those are told that are [shown](Self::show_cache),
    /// until they are whole.
    pub fn tell_cache_events_shown(&mut self) -> bool {
        let cache = self.scheduler.prefix_cache_mut();
        let tells = cache.is_some_and(CachesPrefixes::tell_events_shown);
        self.told = tells.then(Vec::new);
        tells
    }

    /// The decision time of the first step planned ahead that may have it forget something which is not told;
    /// [`MAX`](SimTime::MAX) if there is none.
    pub fn forgets_from(&self) -> SimTime {
        if self.run.is_empty() {
            return SimTime::MAX;
        }
        let cache = self.scheduler.prefix_cache();
        let mut lossless = cache.map_or(0, CachesPrefixes::takes_without_loss);
        let loses = self.run[self.run_foretold..].iter().find(|step| {
            let left = lossless.checked_sub(step.claims);
            lossless = left.unwrap_or(0);
            left.is_none()
        });
        loses.map_or(SimTime::MAX, |step| step.boundary)
    }

    /// Tells what its cache has forgotten by `now` in steps planned ahead, and whether it can. These go on as planned.
    pub fn tell_forgotten(&mut self, now: SimTime) -> bool {
        // Steps in flight that end before the run are told first.
        if self.run_lead > 0 {
            return false;
        }
        let decided = self.run.partition_point(|step| step.boundary < now);
        let new = self.run.get(self.run_foretold..decided).unwrap_or_default();
        let blocks = new.iter().map(|step| step.claims).sum();
        let cache = self.scheduler.prefix_cache_mut();
        let tells = cache.is_some_and(|cache| cache.foretell(blocks));
        if tells {
            self.run_foretold = self.run_foretold.max(decided);
        }
        tells
    }

    /// What that is since it was asked last, in order.
    pub fn take_cache_events(&mut self) -> Vec<CacheEvent> {
        let Some(told) = &mut self.told else { return Vec::new() };
        let mut events = std::mem::take(told);
        if let Some(cache) = self.scheduler.prefix_cache_mut() {
            let mut more = cache.take_events();
            if events.is_empty() {
                return more;
            }
            events.append(&mut more);
        }
        events
    }

    /// The replica has started again, with nothing in its cache.
    pub(super) fn tell_restart(&mut self, was_told: bool) {
        if was_told && self.tell_cache_events() {
            self.told = Some(vec![CacheEvent::Cleared]);
        }
    }
}

//! What the loop does where the router limits how fast requests come.

use std::collections::BTreeMap;

use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::Refusal;
use crate::cluster::sglang::limit::{Entry, Limit};
use crate::des::Class;
use crate::ids::RequestId;
use crate::rng::Seed;
use crate::scenario::RouterConfig;
use crate::units::SimTime;

/// The limits of routers, and who waits at them.
#[derive(Debug)]
pub(super) struct Limits {
    /// By model.
    by_model: Vec<Limit>,
    /// Requests that wait, by their places in the transit.
    waiting: BTreeMap<RequestId, u32>,
    /// Requests whose tokens come back at an instant, all of which are seen together.
    ended: BTreeMap<SimTime, Vec<RequestId>>,
}

impl Limits {
    /// A request does not wait any more; its place in the transit if it did.
    pub(super) fn stop_waiting(&mut self, id: RequestId) -> Option<u32> {
        let transit = self.waiting.remove(&id)?;
        self.by_model.iter_mut().any(|limit| limit.stop_waiting(id));
        Some(transit)
    }
}

impl<W: Source> Simulation<W> {
    /// The same run with the limit of its router, where that has one; each model has a router of its own.
    #[must_use]
    pub(super) fn with_limit(mut self, router: &RouterConfig, seed: Seed) -> Self {
        let models = self.cluster.models.len().max(1) as u64;
        let by_model: Vec<_> =
            (0..models).filter_map(|model| Limit::of(router, seed, model)).collect();
        if !by_model.is_empty() {
            self.limits = Some(Box::new(Limits {
                by_model,
                waiting: BTreeMap::new(),
                ended: BTreeMap::new(),
            }));
        }
        self
    }

    /// A request comes to the limit, if there is one; whether it goes on now.
    pub(super) fn passes_limit(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> bool {
        let Some(limits) = &mut self.limits else { return true };
        let (id, request) = self.transit.get(transit);
        observer.on(now, Occurrence::Reached(id));
        match limits.by_model[request.model.index()].come(now, id) {
            Entry::Runs => return true,
            Entry::Waits(wait) => {
                limits.waiting.insert(id, transit);
                self.begin_to_wait(now, id);
                self.queue.push(now + wait, Class::Control, Event::Expire { request: id });
            }
            Entry::Refused => self.turn_away(now, transit, Refusal::RateLimit, observer),
        }
        false
    }

    /// A request has its answer at `now`, or nobody waits for it: its token comes back.
    pub(super) fn end_limited(&mut self, now: SimTime, id: RequestId) {
        let Some(limits) = &mut self.limits else { return };
        if limits.by_model.iter().any(|limit| limit.has_token(id)) {
            let ended = limits.ended.entry(now).or_default();
            if ended.is_empty() {
                self.queue.push(now, Class::Control, Event::TokensBack);
            }
            ended.push(id);
        }
    }

    /// The answer to a request begins: with some routers its token comes back.
    pub(super) fn begin_answer(&mut self, now: SimTime, id: RequestId) {
        let Some(limits) = &self.limits else { return };
        if limits.by_model.iter().any(Limit::is_brief) {
            self.end_limited(now, id);
        }
    }

    /// The client of a request goes away: with some routers its token does not come back, if its answer has not begun.
    pub(super) fn hang_up_limited(&mut self, now: SimTime, id: RequestId) {
        let is_lost = |limits: &mut Limits| limits.by_model.iter_mut().any(|it| it.loses(id));
        if !self.limits.as_deref_mut().is_some_and(is_lost) {
            self.end_limited(now, id);
        }
    }

    /// Tokens come back at this instant: those that wait may get them.
    pub(super) fn take_tokens(&mut self, now: SimTime, observer: &mut impl Observer) {
        let Some(limits) = &mut self.limits else { return };
        let mut transits = Vec::new();
        for id in limits.ended.remove(&now).unwrap_or_default() {
            for limit in &mut limits.by_model {
                let admitted = limit.end(now, id);
                transits.extend(admitted.iter().filter_map(|id| limits.waiting.remove(id)));
            }
        }
        for transit in transits {
            self.reach_router(now, transit, observer);
        }
    }

    /// A request may have waited for a token as long as it may.
    pub(super) fn expire_limited(
        &mut self,
        now: SimTime,
        id: RequestId,
        observer: &mut impl Observer,
    ) {
        let transit = self.limits.as_mut().and_then(|limits| limits.stop_waiting(id));
        if let Some(transit) = transit {
            self.turn_away(now, transit, Refusal::Deadline, observer);
        }
    }
}

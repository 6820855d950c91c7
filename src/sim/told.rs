//! What the loop tells routers of requests and caches, and requests that wait at one.

use super::drive;
use super::observe::Observer;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::{Refusal, Role, Routed};
use crate::engine::scheduler::Scheduler;
use crate::ids::InstanceId;
use crate::kv::CacheEvent;
use crate::request::Segment;
use crate::units::SimTime;

/// What the cache of an instance tells where the router hears it and somebody outside asks for it too.
#[derive(Debug, Default)]
pub(super) struct Overheard {
    /// What the router has heard, and nobody has asked for.
    unasked: Vec<CacheEvent>,
    /// What somebody has asked for, and the router has not heard.
    untold: Vec<CacheEvent>,
}

impl<W: Source> Simulation<W> {
    /// The same run, in which instances tell of their caches if the router listens.
    pub(super) fn told_of_caches(mut self) -> Self {
        self.outcome.tells_first_tokens = self.gateway.tells_lifecycle();
        let heard = self.cluster.heard(self.gateway.hears_caches());
        if !heard.is_empty() {
            self.told_until = vec![SimTime::ZERO; heard.end];
            self.forgets_from = vec![SimTime::MAX; heard.end];
        }
        for instance in &mut self.cluster.instances[heard] {
            instance.tell_cache_events_shown();
        }
        self
    }

    /// The router hears what came of an instance that went on.
    pub(super) fn tell_router(&mut self, now: SimTime, instance: InstanceId, role: Role) {
        let mut first_tokens = std::mem::take(&mut self.outcome.first_tokens);
        for id in first_tokens.drain(..) {
            match (role, &mut self.cluster.disaggregation) {
                (Role::Whole, _) => self.gateway.prefilled(id),
                (Role::Decode, Some(parts)) => parts.computed(id),
                _ => {}
            }
        }
        self.outcome.first_tokens = first_tokens;
        let computed_at = self.outcome.computed_at.take();
        self.tell_of_cache(now, instance, computed_at.unwrap_or(now));
        self.foresee(instance);
    }

    /// Steps of an instance were planned, or are planned no more.
    fn foresee(&mut self, instance: InstanceId) {
        if let Some(forgets_from) = self.forgets_from.get_mut(instance.index()) {
            *forgets_from = self.cluster.instances[instance.index()].forgets_from();
        }
    }

    /// The router hears of the caches of instances, as they are at this moment, if it looks for a prompt in them.
    pub(super) fn hear_of_caches(
        &mut self,
        now: SimTime,
        instances: std::ops::Range<u32>,
        quoted: &[Segment],
        observer: &mut impl Observer,
    ) {
        // Of steps that are planned ahead it has not heard what they add to answers, and what they forget.
        let quotes = quoted.iter().any(|run| run.answer_of().is_some());
        let looks_at_all = quotes || self.steps_seen.is_some_and(|(at, _)| at == now);
        let mut next = instances.start;
        while next < instances.end {
            if !looks_at_all {
                let rest = &self.forgets_from[next as usize..instances.end as usize];
                let Some(passed) = rest.iter().position(|from| now > *from) else { return };
                next += passed as u32;
            }
            let instance = InstanceId(next);
            next += 1;
            self.see_steps(now, instance, observer);
            // Steps that were planned may have been called off since.
            if !quotes && now > self.forgets_from[instance.index()] {
                self.foresee(instance);
            }
            if !quotes && now <= self.forgets_from[instance.index()] {
                continue;
            }
            // Steps that go on as planned are not planned anew.
            if quotes || !self.cluster.instances[instance.index()].tell_forgotten(now) {
                let place = (instance, &mut self.cluster.instances[instance.index()]);
                if let Some(at) = drive::interrupt(place, now, observer) {
                    self.awaken(at, instance);
                }
                self.cluster.instances[instance.index()].show_cache(Some(quoted));
            }
            self.tell_of_cache(now, instance, now);
            self.foresee(instance);
        }
    }

    /// vLLM names the blocks of a prompt as it plans the step that computes them: it tells of them when that ends.
    /// `SGLang` puts them into its tree as the step ends.
    fn tell_of_cache(&mut self, now: SimTime, instance: InstanceId, computed_at: SimTime) {
        let Some(told_until) = self.told_until.get_mut(instance.index()) else { return };
        let role = self.cluster.role(instance);
        let engine = &mut self.cluster.instances[instance.index()];
        let mut events = engine.take_cache_events();
        if let Some(overheard) = self.overheard.get_mut(instance.index()) {
            overheard.unasked.extend_from_slice(&events);
            events = [std::mem::take(&mut overheard.untold), events].concat();
        }
        if events.is_empty() {
            return;
        }
        let scheduler = engine.scheduler();
        let is_early = matches!(scheduler, Scheduler::VllmV1(_)) && computed_at > now;
        let timed = events.into_iter().map(|event| {
            let is_of_prompt = || match &event {
                CacheEvent::Stored { request, start, .. } => {
                    scheduler.life(*request).is_some_and(|life| *start < life.prompt_tokens)
                }
                CacheEvent::Removed { .. } | CacheEvent::Cleared => false,
            };
            // What follows is not told before.
            let at = if is_early && is_of_prompt() { computed_at } else { now };
            *told_until = at.max(*told_until);
            (*told_until, event)
        });
        match (role, &mut self.cluster.disaggregation) {
            (Role::Decode, Some(parts)) => parts.hear(now, instance, timed),
            _ => self.gateway.hear(&mut self.cluster.router, now, instance, timed),
        }
    }

    /// Somebody outside asks what caches tell, too.
    pub(super) fn overhear(&mut self) {
        self.overheard = self.told_until.iter().map(|_| Overheard::default()).collect();
    }

    /// What the cache of an instance has told since that was asked last. The router does not hear of it before it would
    /// if nobody asked.
    pub(super) fn take_cache_events(&mut self, instance: InstanceId) -> Vec<CacheEvent> {
        let events = self.cluster.instances[instance.index()].take_cache_events();
        let Some(overheard) = self.overheard.get_mut(instance.index()) else { return events };
        overheard.untold.extend_from_slice(&events);
        [std::mem::take(&mut overheard.unasked), events].concat()
    }

    /// An instance is gone with all that it had cached: routers at which replicas register themselves forget that.
    pub(super) fn forget_cache(&mut self, instance: InstanceId) {
        match (self.cluster.role(instance), &mut self.cluster.disaggregation) {
            (Role::Decode, Some(parts)) => parts.gone(instance),
            _ => self.gateway.gone(&mut self.cluster.router, instance),
        }
    }

    /// Requests that waited at the router go where it sends them now.
    pub(super) fn release_waiting(&mut self, now: SimTime, observer: &mut impl Observer) {
        loop {
            let seen = self.seen(now);
            let released = self.gateway.released(&mut self.cluster.router, seen);
            if released.is_empty() {
                return;
            }
            // Who is turned away makes room for others.
            for (id, offer) in released {
                let Some(transit) = self.at_router.remove(&id) else { continue };
                match offer {
                    Routed::To(instance) => {
                        self.gateway.send_to(self.transit.get(transit).1.view(id), instance);
                        if !self.send_off(now, transit, instance, observer) {
                            self.turn_away(now, transit, Refusal::NoReplica, observer);
                        }
                    }
                    Routed::Full => self.turn_away(now, transit, Refusal::Full, observer),
                    Routed::Nowhere => self.turn_away(now, transit, Refusal::NoReplica, observer),
                    Routed::Waits | Routed::Unavailable => unreachable!("request {id} is released"),
                }
            }
        }
    }

    /// Routers hear what has come of all requests; whether they count none any more.
    pub(super) fn tell_routers_the_last(&mut self, now: SimTime) -> bool {
        self.gateway.released(&mut self.cluster.router, now);
        let parts = self.cluster.disaggregation.as_mut();
        parts.is_none_or(|parts| parts.is_router_at_rest(now)) && self.cluster.router.is_at_rest()
    }
}

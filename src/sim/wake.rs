//! When instances are woken. Of each, one wake-up at most is valid: a later one makes those before it stale.

use super::event::Event;
use super::run::Simulation;
use super::source::Source;
use crate::des::Class;
use crate::ids::InstanceId;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// Wakes an instance at `at` and at no other time.
    pub(super) fn awaken(&mut self, at: SimTime, instance: InstanceId) {
        let epoch = &mut self.epochs[instance.index()];
        *epoch = epoch.wrapping_add(1);
        self.awaited[instance.index()] = true;
        let event = Event::Advance { instance, epoch: *epoch };
        // By instance: how far ahead it planned this moment does not show.
        self.queue.push_ranked(at, Class::Step, instance.0.into(), event);
    }

    /// Wakes an instance for what has come to it: now if it waits for nothing, else when its wake-up has moved.
    pub(super) fn awaken_for(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        changed: Option<SimTime>,
    ) {
        let is_awaited = self.awaited[instance.index()];
        if let Some(at) = if is_awaited { changed } else { Some(now) } {
            self.awaken(at, instance);
        }
    }

    /// An instance forgets its wake-up and the requests before its front end.
    pub(super) fn put_to_sleep(&mut self, now: SimTime, instance: InstanceId) {
        let epoch = &mut self.epochs[instance.index()];
        *epoch = epoch.wrapping_add(1);
        self.awaited[instance.index()] = false;
        self.api_free[instance.index()] = now;
        if let Some(front) = self.cluster.instances[instance.index()].front_end(now) {
            front.forget();
        }
    }
}

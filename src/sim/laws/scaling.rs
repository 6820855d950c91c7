//! The laws where replicas are started and drained: only those that serve are sent requests, and nothing is
//! inside one that goes off.

use super::{Place, Watch};
use crate::cluster::Stage;
use crate::ids::InstanceId;

impl Watch {
    /// An instance does something else from now on.
    pub(super) fn scaled(&mut self, instance: InstanceId, stage: Stage) {
        if self.stages.len() <= instance.index() {
            self.stages.resize(instance.index() + 1, Stage::Serving);
        }
        self.stages[instance.index()] = stage;
        if stage != Stage::Off {
            return;
        }
        let is_there = |place: Place| place.is_at(instance) || place == Place::OnItsWay(instance);
        let left = self.requests.iter().position(|request| is_there(request.place));
        assert!(left.is_none(), "L1: {instance} goes off while {left:?} is there");
        let held = self.device(instance).handed_over;
        assert_eq!(held, 0, "L3: {instance} goes off with KV caches that others will fetch");
    }

    /// An instance is sent a request.
    pub(super) fn reached(&self, instance: InstanceId) {
        let stage = self.stages.get(instance.index());
        let serves = stage.is_none_or(|stage| *stage == Stage::Serving);
        assert!(serves, "L1: {instance} gets a request, but it is {stage:?}");
    }

    /// An instance decides a step.
    pub(super) fn works(&self, instance: InstanceId) {
        let stage = self.stages.get(instance.index());
        let is_on = stage.is_none_or(|stage| matches!(stage, Stage::Serving | Stage::Draining));
        assert!(is_on, "L1: {instance} computes, but it is {stage:?}");
    }
}

//! Requests that somebody outside leads from the instance that prefills them to one that decodes them.

use super::attempts::Place;
use crate::cluster::Disaggregation;
use crate::ids::RequestId;
use crate::request::Request;
use crate::sim::conditional::Prompt;
use crate::sim::observe::Observer;
use crate::sim::run::Simulation;
use crate::sim::source::Source;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// The prompt of a request is computed, and it waits between two instances.
    pub(in crate::sim) fn wait_to_be_sent_on(&mut self, id: RequestId) {
        self.trouble().attempt(id).place = Place::Nowhere;
    }

    /// A request that waits between two instances is sent on with an answer of another length; nothing where it
    /// does not wait there.
    pub(in crate::sim) fn lead_on(
        &mut self,
        now: SimTime,
        id: RequestId,
        change: impl FnOnce(&mut Request),
        observer: &mut impl Observer,
    ) {
        let attempt = self.trouble().attempt(id);
        change(&mut attempt.request);
        let request = attempt.request.clone();
        self.parts().resume(id, request);
        self.send_on(now, id, observer);
    }

    /// Whether a request waits between two instances.
    pub(in crate::sim) fn is_between(&self, id: RequestId) -> bool {
        let is_led =
            self.cluster.disaggregation.as_ref().is_some_and(Disaggregation::waits_to_be_sent_on);
        let attempt = self.faults.as_ref().and_then(|faults| faults.attempts.get(&id));
        let waits = |place| matches!(place, Place::Nowhere);
        is_led && attempt.is_some_and(|it| !it.gave_up && waits(it.place))
    }

    /// Who waits between two instances is not sent on any more: nobody needs its KV.
    pub(super) fn leave_between(
        &mut self,
        now: SimTime,
        id: RequestId,
        observer: &mut impl Observer,
    ) {
        let parts = self.cluster.disaggregation.as_ref();
        let is_led = parts.is_some_and(Disaggregation::waits_to_be_sent_on);
        if is_led || self.leave_decodes(id) == Some(Prompt::Computed) {
            self.release(now, id, observer);
            self.parts().forget(id);
        }
    }
}

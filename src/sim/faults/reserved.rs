//! Requests for which memory is set aside on an instance that decodes, before another one prefills them.
//!
//! Each needs both of its instances until its KV has arrived. Where one crashes the other learns of it when
//! everybody does: the request fails then, and what is set aside for it, or held, comes free. So does it at
//! once where a client goes away, or a transfer is lost.

use super::attempts::Place;
use crate::engine::Finish;
use crate::ids::{InstanceId, RequestId};
use crate::sim::observe::{Observer, Occurrence};
use crate::sim::run::Simulation;
use crate::sim::source::Source;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// Whether a request that reaches the instance that is going to decode it enters its queue: its client
    /// still waits, and the instance is there.
    pub(in crate::sim) fn is_expected(&mut self, id: RequestId, decode: InstanceId) -> bool {
        if self.parts().destination(id).is_none() {
            return false;
        }
        let is_up = self.is_up(decode);
        if !is_up {
            self.parts().lose_reserved(id);
        }
        is_up
    }

    /// A prompt is computed. If its destination has crashed, nobody takes its KV; whether that is so.
    pub(in crate::sim) fn is_computed_in_vain(
        &mut self,
        now: SimTime,
        id: RequestId,
        decode: InstanceId,
        observer: &mut impl Observer,
    ) -> bool {
        let is_in_vain = self.parts().send_nothing(id);
        if let Some(faults) = &mut self.faults {
            let place = if is_in_vain { Place::Lost(decode, None) } else { Place::Inside(decode) };
            faults.attempt(id).place = place;
        }
        if is_in_vain {
            self.release(now, id, observer);
        }
        is_in_vain
    }

    /// A request that is not computed yet needs no memory on the instance that was to decode it, which forgets
    /// it; which one, if there is one.
    pub(in crate::sim) fn unreserve(
        &mut self,
        now: SimTime,
        id: RequestId,
        observer: &mut impl Observer,
    ) -> Option<InstanceId> {
        let parts = self.cluster.disaggregation.as_ref()?;
        let (decode, prefill) = (parts.destination(id)?, parts.holder(id));
        if let Some(prefill) = prefill {
            self.stop_transfer(now, id, prefill, observer);
        }
        self.parts().unreserve(id);
        self.set_free(now, id, decode, observer);
        Some(decode)
    }

    /// The instance that was to decode a request forgets it: others may have the memory.
    pub(in crate::sim) fn set_free(
        &mut self,
        now: SimTime,
        id: RequestId,
        decode: InstanceId,
        observer: &mut impl Observer,
    ) {
        if self.is_up(decode) {
            self.catch_up(now, decode, observer);
            let engine = &mut self.cluster.instances[decode.index()];
            engine.forget(id);
            observer.on(now, Occurrence::Unreserved(decode, id, engine.scheduler().load()));
            self.rouse(now, decode);
        }
    }

    /// An instance has crashed: nothing more travels of the KV that it was to compute, or to receive.
    pub(super) fn lose_reserved(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let Some(parts) = &self.cluster.disaggregation else { return };
        for id in parts.depending_on(instance) {
            if self.pairs.is_on_its_way(id, instance) {
                continue;
            }
            if let Some(prefill) = self.parts().holder(id) {
                self.stop_transfer(now, id, prefill, observer);
            }
            self.parts().lose_reserved(id);
        }
    }

    /// Everybody knows that an instance has crashed: the requests fail that need it as one of two.
    pub(super) fn fail_depending(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let Some(parts) = &self.cluster.disaggregation else { return };
        for id in parts.depending_on(instance) {
            if self.pairs.is_open(id) {
                // The router has not heard from the other one.
                continue;
            }
            if self.parts().destination(id).is_none() {
                // It has waited on the other one for KV that is gone.
                self.parts().forget(id);
            }
            self.abandon(now, id, Finish::Failed, observer);
        }
    }
}

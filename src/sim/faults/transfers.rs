//! KV caches that are lost on their way, and the links they take.

use super::attempts::Place;
use crate::cluster::wires::Cargo;
use crate::cluster::{Order, Transfer};
use crate::engine::Finish;
use crate::ids::{InstanceId, RequestId};
use crate::sim::observe::{Observer, Occurrence};
use crate::sim::run::Simulation;
use crate::sim::source::Source;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// The NICs of an instance carry this share of their rate from now on.
    pub(in crate::sim) fn set_nics(&mut self, now: SimTime, instance: InstanceId, share: f64) {
        self.cluster.wires.set_nic_share(instance, share, now);
        self.await_wires();
    }

    /// The transfers from and to an instance fail. Those who sent them forget the KV, those who were
    /// to decode compute it themselves; where memory was set aside first, the requests fail.
    pub(super) fn lose_transfers(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let touches = |it: &Transfer| it.prefill == instance || it.decode == instance;
        let under_way = self.cluster.wires.transfers().filter(touches);
        let mut under_way: Vec<RequestId> = under_way.map(|it| it.request).collect();
        under_way.sort_unstable();
        for id in under_way {
            if self.parts().order() == Order::DestinationFirst {
                self.abandon(now, id, Finish::Failed, observer);
                continue;
            }
            let Some(decode) = self.trouble().attempt(id).place.instance() else { continue };
            self.drop_kv(now, id, decode, observer);
            self.compute_again(now, id, decode, observer);
        }
    }

    /// A prefill instance has lost the KV that it held for others. Where memory was set aside first they wait
    /// for it until the crash is noticed.
    pub(super) fn lose_held(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        for id in self.trouble().find(|_| true) {
            if self.parts().holder(id) != Some(instance) {
                continue;
            }
            // Who is still on its way finds no KV when it comes there.
            let Place::Inside(decode) = self.trouble().attempt(id).place else {
                if self.parts().order() == Order::SourceFirst {
                    self.parts().forget(id);
                }
                continue;
            };
            self.stop_transfer(now, id, decode, observer);
            if self.parts().order() == Order::SourceFirst {
                self.parts().forget(id);
                self.compute_again(now, id, decode, observer);
            }
        }
    }

    /// The KV of a request is not needed on the instance that was to decode it: its transfer stops,
    /// and who holds it forgets it.
    pub(super) fn drop_kv(
        &mut self,
        now: SimTime,
        id: RequestId,
        decode: InstanceId,
        observer: &mut impl Observer,
    ) {
        self.stop_transfer(now, id, decode, observer);
        self.release(now, id, observer);
    }

    /// Nothing of a request's KV travels any more; it is on this instance.
    pub(super) fn stop_transfer(
        &mut self,
        now: SimTime,
        id: RequestId,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let is_meant = |cargo| matches!(cargo, Cargo::Kv(transfer) if transfer.request == id);
        let was_under_way = self.cluster.wires.cancel(now, is_meant);
        let was_asked = self.withdraw(now, id);
        if was_under_way || was_asked {
            observer.on(now, Occurrence::TransferFailed(instance, id));
            self.await_wires();
        }
    }

    fn compute_again(
        &mut self,
        now: SimTime,
        id: RequestId,
        decode: InstanceId,
        observer: &mut impl Observer,
    ) {
        self.catch_up(now, decode, observer);
        self.cluster.instances[decode.index()].lost_transfer(id);
        self.rouse(now, decode);
    }
}

//! What the loop does where replicas have KV memory below that of their GPUs.

use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::Cluster;
use crate::cluster::wires::Cargo;
use crate::engine::tiers::{TierLoad, TierMove};
use crate::ids::{InstanceId, RequestId};
use crate::units::{Bytes, SimTime};

/// Buffers that are used again.
#[derive(Debug, Default)]
pub(super) struct TierBuffers {
    loads: Vec<TierLoad>,
    moves: Vec<TierMove>,
}

impl<W: Source> Simulation<W> {
    /// Starts the moves that an instance asks for.
    pub(super) fn start_moves(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        // Its tiers know what it loads.
        self.outcome.loads.clear();
        if self.cluster.tiers.is_some() && self.start_moves_of(now, instance, observer) {
            self.await_wires();
        }
    }

    /// Whether there were any.
    fn start_moves_of(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) -> bool {
        let Cluster { instances, tiers: links, wires, .. } = &mut self.cluster;
        let engine = &mut instances[instance.index()];
        let Some(tiers) = engine.tiers() else { return false };
        let TierBuffers { loads, moves, .. } = &mut self.tier_buffers;
        let evicted = tiers.take(loads, moves);
        let load = engine.scheduler().load();
        for what in loads.drain(..) {
            observer.on(now, Occurrence::LoadBegan(instance, &what, load));
        }
        let has_moves = !moves.is_empty();
        let links = links.as_ref().expect("replicas have tiers");
        let chunk = links.chunk(instance).0;
        if evicted.iter().any(|count| *count > 0) {
            let evicted = evicted.map(|chunks| Bytes(chunks * chunk));
            observer.on(now, Occurrence::TiersEvicted(instance, evicted));
        }
        for what in moves.drain(..) {
            let bytes = links.start(wires, instance, &what, now);
            observer.on(now, Occurrence::TierMoved(instance, what.way, bytes));
        }
        has_moves
    }

    /// Tells an engine of a move that has ended, and starts those that follow.
    pub(super) fn end_move(
        &mut self,
        now: SimTime,
        (instance, id): (InstanceId, u32),
        observer: &mut impl Observer,
    ) {
        let tiers = self.cluster.instances[instance.index()].tiers();
        let loaded = tiers.expect("the instance has tiers").end(id);
        if let Some(request) = loaded {
            self.end_load(now, instance, request, observer);
        }
        self.start_moves_of(now, instance, observer);
    }

    fn end_load(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        request: RequestId,
        observer: &mut impl Observer,
    ) {
        observer.on(now, Occurrence::LoadEnded(instance, request));
        self.notify(now, instance, request, observer);
    }

    /// An instance stops: nothing moves from or to it any more.
    pub(super) fn cancel_moves(&mut self, now: SimTime, instance: InstanceId) {
        if self.cluster.tiers.is_some() {
            let is_meant = |cargo| matches!(cargo, Cargo::Chunks(at, _) if at == instance);
            self.cluster.wires.cancel(now, is_meant);
            if let Some(tiers) = self.cluster.instances[instance.index()].tiers() {
                tiers.abandon();
            }
            self.await_wires();
        }
    }
}

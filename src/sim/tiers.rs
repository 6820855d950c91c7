//! What the loop does where replicas have KV memory below that of their GPUs.

use super::observe::{Observer, Occurrence};
use super::run::{Event, Simulation};
use super::source::Source;
use crate::cluster::TierLinks;
use crate::des::Class;
use crate::engine::tiers::{TierLoad, TierMove};
use crate::ids::{InstanceId, RequestId};
use crate::units::{Bytes, SimTime};

/// Buffers that are used again.
#[derive(Debug, Default)]
pub(super) struct TierBuffers {
    loads: Vec<TierLoad>,
    moves: Vec<TierMove>,
    ended: Vec<(InstanceId, u32)>,
    /// Which event of the links is the valid one.
    pub(super) epoch: u32,
}

impl<W: Source> Simulation<W> {
    fn tier_links(&mut self) -> &mut TierLinks {
        self.cluster.tiers.as_mut().expect("replicas have tiers")
    }

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
            self.await_moves();
        }
    }

    /// Whether there were any.
    fn start_moves_of(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) -> bool {
        let engine = &mut self.cluster.instances[instance.index()];
        let Some(tiers) = engine.tiers() else { return false };
        let TierBuffers { loads, moves, .. } = &mut self.tier_buffers;
        let evicted = tiers.take(loads, moves);
        let load = engine.scheduler().load();
        for what in loads.drain(..) {
            observer.on(now, Occurrence::LoadBegan(instance, &what, load));
        }
        let has_moves = !moves.is_empty();
        let links = self.cluster.tiers.as_mut().expect("replicas have tiers");
        let chunk = links.chunk(instance).0;
        if evicted.iter().any(|count| *count > 0) {
            let evicted = evicted.map(|chunks| Bytes(chunks * chunk));
            observer.on(now, Occurrence::TiersEvicted(instance, evicted));
        }
        for what in moves.drain(..) {
            let bytes = links.start(instance, &what, now);
            observer.on(now, Occurrence::TierMoved(instance, what.way, bytes));
        }
        has_moves
    }

    /// Tells engines of every move that has ended, and starts those that follow.
    pub(super) fn end_moves(&mut self, now: SimTime, observer: &mut impl Observer) {
        let mut ended = std::mem::take(&mut self.tier_buffers.ended);
        self.tier_links().ended(now, &mut ended);
        for (instance, id) in ended.drain(..) {
            let tiers = self.cluster.instances[instance.index()].tiers();
            let loaded = tiers.expect("the instance has tiers").end(id);
            if let Some(request) = loaded {
                self.end_load(now, instance, request, observer);
            }
            self.start_moves_of(now, instance, observer);
        }
        self.tier_buffers.ended = ended;
        self.await_moves();
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
        if let Some(links) = &mut self.cluster.tiers {
            links.cancel(instance, now);
            if let Some(tiers) = self.cluster.instances[instance.index()].tiers() {
                tiers.abandon();
            }
            self.await_moves();
        }
    }

    /// At most one event of the links is valid: rates change with every start and end.
    fn await_moves(&mut self) {
        let epoch = self.tier_buffers.epoch.wrapping_add(1);
        self.tier_buffers.epoch = epoch;
        if let Some(at) = self.tier_links().next_change() {
            self.queue.push(at, Class::Transfer, Event::TierMoves { epoch });
        }
    }
}

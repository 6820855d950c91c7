//! What the loop does where bytes move over links: one wake-up for all of them.
//!
//! Weights alone wake nobody in the middle of an instant: the autoscaler that waits for them is of the last
//! class, and takes them in itself.

use super::event::Event;
use super::observe::Observer;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::wires::Cargo;
use crate::des::Class;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// At most one event of the links is valid: rates change with every start and end.
    pub(super) fn await_wires(&mut self) {
        let epoch = self.wires_epoch.wrapping_add(1);
        (self.wires_epoch, self.wires_at) = (epoch, None);
        let Some(at) = self.cluster.wires.next_change() else { return };
        if self.cluster.wires.carries_only_weights() {
            return self.scale_by(at);
        }
        self.wires_at = Some(at);
        self.queue.push(at, Class::Transfer, Event::Wires { epoch });
    }

    /// The same where it may be that nothing has changed.
    pub(super) fn await_changed_wires(&mut self) {
        if self.cluster.wires.next_change() != self.wires_at {
            self.await_wires();
        }
    }

    /// Tells of all that has arrived.
    pub(super) fn take_in(&mut self, now: SimTime, observer: &mut impl Observer) {
        let mut arrived = std::mem::take(&mut self.outcome.arrived);
        self.cluster.wires.advance(now, &mut arrived);
        for cargo in &arrived {
            if let Cargo::Kv(transfer) = cargo {
                self.parts().give_up(transfer.request);
            }
        }
        for cargo in arrived.drain(..) {
            match cargo {
                Cargo::Kv(transfer) => self.end_transfer(now, transfer, observer),
                Cargo::Chunks(instance, id) => self.end_move(now, (instance, id), observer),
                Cargo::Weights(instance) => self.land_weights(now, instance),
            }
        }
        self.outcome.arrived = arrived;
    }
}

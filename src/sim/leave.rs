//! How requests leave the loop, one by one and at the end of the run.

use super::counts::Counts;
use super::drive;
use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::Role;
use crate::des::Class;
use crate::engine::Finish;
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// Counts the requests that left and lets their clients go on.
    pub(super) fn settle(&mut self, now: SimTime) {
        self.wake_gate(now);
        let mut left = std::mem::take(&mut self.outcome.left);
        for gone in left.drain(..) {
            self.leave(gone.at, gone.id, gone.finish);
        }
        self.outcome.left = left;
    }

    /// Counts a request of which its client knows at `now` that it left, and lets it go on.
    pub(super) fn leave(&mut self, now: SimTime, id: RequestId, finish: Finish) {
        self.counts.leave(finish);
        self.end_limited(now, id);
        if let Some(migrating) = &mut self.migrating {
            migrating.left(id);
        }
        self.see_failure(finish);
        if let Some((next, at)) = self.client.finished(now) {
            let transit = self.held.pop_front().expect("the client holds a request");
            debug_assert_eq!(self.transit.get(transit).0, next, "first come, first sent");
            let at = at + self.sender.turnaround;
            self.queue.push(at, Class::Input, Event::Send { transit });
        }
        let answered = self.turns.remove(&id).filter(|_| finish == Finish::Done);
        let turn = answered.and_then(|turn| self.workload.follow_up(id, &turn, now));
        if let Some(turn) = turn {
            let at = turn.arrival;
            let transit = self.transit.put(id, turn);
            self.turns_due += 1;
            self.queue.push(at, Class::Input, Event::Arrive { transit });
        }
    }

    /// A client has no port for a request. It held none, so that nobody can go on for it.
    pub(super) fn fail_to_connect(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) {
        let (id, _) = self.transit.take(transit);
        let finish = Finish::Failed;
        if let Some(faults) = &mut self.faults {
            faults.left(id);
        }
        let over = Occurrence::GaveUp { request: id, life: None, finish, tries_again: false };
        observer.on(now, over);
        self.counts.leave(finish);
    }

    /// The clients stop at the end of the run: what has been computed until then counts.
    pub(super) fn cut_off(&mut self, observer: &mut impl Observer) {
        self.is_cut_off = true;
        for (index, engine) in self.cluster.instances.iter_mut().enumerate() {
            drive::interrupt((InstanceId::from_index(index), engine), self.end, observer);
        }
    }

    pub(super) fn close(&mut self) -> Counts {
        // Turns that were due after the end are none of the run.
        let landing = self.migrating.as_ref().map_or(0, |migrating| migrating.landing());
        let mut left_over = self.transit.len() - self.turns_due + landing;
        for (index, engine) in self.cluster.instances.iter().enumerate() {
            let instance = InstanceId::from_index(index);
            // Nobody may ever fetch what a prefill instance holds.
            let may_hold = self.is_cut_off || self.cluster.role(instance) == Role::Prefill;
            let inside = drive::still_inside((instance, engine), may_hold, &mut self.counts);
            // Those that went to the destination first are there too.
            let is_counted_there = self.cluster.goes_to_destination_first(instance);
            left_over += if is_counted_there { 0 } else { inside };
        }
        if let Some(faults) = &self.faults {
            // Engines may hold what its client has given up, and crashes what it has not.
            left_over = faults.unresolved();
        }
        self.counts.close(left_over, self.is_cut_off);
        self.counts
    }
}

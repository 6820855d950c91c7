//! Replicas that stop and start again.

use super::attempts::Place;
use crate::cluster::{Health, Role};
use crate::engine::Finish;
use crate::ids::InstanceId;
use crate::sim::observe::{Observer, Occurrence};
use crate::sim::run::Simulation;
use crate::sim::source::Source;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// A replica stops: what it held is gone. It is put in its place as it will start again.
    pub(super) fn crash(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        self.catch_up(now, instance, observer);
        self.lose_requests(now, instance, observer);
        if self.cluster.role(instance) == Role::Prefill {
            self.lose_held(now, instance, observer);
        }
        self.lose_reserved(now, instance, observer);
        self.cancel_moves(now, instance);
        let fresh = self.trouble().fresh[&instance].clone();
        let engine = &mut self.cluster.instances[instance.index()];
        engine.restart(fresh);
        observer.on(now, Occurrence::Crashed(instance, engine.scheduler().load()));
        self.put_to_sleep(now, instance);
        self.trouble().healths.set(instance, Health::Unnoticed);
        self.connects(now, instance, Health::Unnoticed);
        self.see_load(now, instance, observer);
    }

    fn lose_requests(&mut self, now: SimTime, instance: InstanceId, observer: &mut impl Observer) {
        let role = self.cluster.role(instance);
        let is_inside = |place| matches!(place, Place::Inside(at) if at == instance);
        for id in self.trouble().find(is_inside) {
            match role {
                Role::Whole => {}
                Role::Prefill if self.parts().destination(id).is_some() => {
                    self.stop_transfer(now, id, instance, observer);
                }
                Role::Prefill => self.parts().forget(id),
                Role::Decode => self.drop_kv(now, id, instance, observer),
            }
            let scheduler = self.cluster.instances[instance.index()].scheduler();
            let life = scheduler.life(id);
            let life = life.unwrap_or_else(|| panic!("request {id} is not inside {instance}"));
            let life = if role == Role::Prefill { life.unseen() } else { life };
            observer.on(now, Occurrence::Dropped(instance, &life, scheduler.load()));
            let faults = self.trouble();
            let attempt = faults.attempt(id);
            attempt.place = Place::Lost(instance, Some(life));
            if attempt.gave_up {
                faults.left(id);
            }
        }
    }

    /// The gateway notices that a replica has stopped: what it was sent has failed. Of a router that finds out by itself
    /// the connections break, and it goes on sending requests there.
    pub(super) fn notice(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        self.trouble().healths.set(instance, Health::Down);
        let finds_out = self.gateway.finds_out();
        if !finds_out {
            self.shut_out(instance);
        }
        self.connects(now, instance, Health::Down);
        self.forget_cache(instance);
        self.break_pairs(now, instance, observer);
        let is_whole = self.cluster.role(instance) == Role::Whole;
        let is_lost = |place| matches!(place, Place::Lost(at, _) if at == instance);
        for id in self.trouble().find(is_lost) {
            match self.trouble().attempt(id).place {
                Place::Lost(_, None) if finds_out && is_whole => {
                    self.come_back_from(now, id, instance, observer);
                }
                _ => self.give_up(now, id, Finish::Failed, observer),
            }
        }
        self.fail_depending(now, instance, observer);
        self.end_drain(now, instance, observer);
    }

    /// A replica serves again.
    pub(super) fn recover(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        self.trouble().healths.set(instance, Health::Up);
        self.connects(now, instance, Health::Up);
        // It registers anew, whether or not anybody noticed that it was away.
        self.forget_cache(instance);
        if self.is_wanted(instance) {
            self.let_in(now, instance);
        }
        observer.on(now, Occurrence::Recovered(instance));
    }
}

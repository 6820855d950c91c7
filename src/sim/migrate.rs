//! What the loop does where requests and adapters move between replicas.
//!
//! Every so often the gateway looks at all replicas, picks two, and has a plan made for them
//! ([`crate::cluster::migration`]); the plan takes effect after the time it is said to take. A request that moves
//! leaves its engine as one whose client goes away: at the end of the step in which it is. It goes to the other
//! engine through its front end with its prompt and the tokens that came out; its KV is computed again there.
//! Adapters move as the gateway's knowledge of who holds them: engines load one when the first request needs it.
//!
//! Requests whose prompt is being computed stay, as do those on their way to an engine.

use std::collections::BTreeMap;

use super::drive;
use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::migration::{self, Movable, Plan, Problem, ReplicaLoad};
use crate::des::Class;
use crate::engine::Life;
use crate::ids::{AdapterId, InstanceId, RequestId};
use crate::request::Request;
use crate::scenario::{MigrationSolver, MovedRequests, PeriodicMigration};
use crate::units::{SimDuration, SimTime};

/// What a run in which requests move keeps beside its machines.
#[derive(Debug)]
pub(super) struct Migrating {
    config: PeriodicMigration,
    /// Tokens of a KV block, and what one of them takes to be swapped, in seconds.
    block_tokens: u32,
    swap_s_per_token: f64,
    /// Requests that were sent and have not left.
    held: BTreeMap<RequestId, Held>,
    /// Those between two instances.
    landing: BTreeMap<RequestId, Life>,
    /// Without an adapter, then by adapter: requests that finished, and the time from their first step on.
    service: Vec<(u32, f64)>,
    /// A plan that has not taken effect.
    plan: Option<Planned>,
}

#[derive(Debug)]
struct Held {
    request: Request,
    instance: InstanceId,
    is_inside: bool,
}

#[derive(Debug)]
struct Planned {
    between: [InstanceId; 2],
    problem: Problem,
    plan: Plan,
}

impl Migrating {
    /// A request is sent to an instance.
    pub(super) fn sent(&mut self, id: RequestId, request: &Request, instance: InstanceId) {
        let request = request.clone();
        self.held.insert(id, Held { request, instance, is_inside: false });
    }

    /// A request enters the queue of its instance.
    pub(super) fn entered(&mut self, id: RequestId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.is_inside = true;
        }
    }

    /// A request has left.
    pub(super) fn left(&mut self, id: RequestId) {
        self.held.remove(&id);
    }

    /// Requests between two instances.
    pub(super) fn landing(&self) -> u64 {
        self.landing.len() as u64
    }

    /// A request was answered.
    fn served(&mut self, now: SimTime, life: &Life) {
        let (Some(held), Some(since)) = (self.held.get(&life.id), life.first_scheduled) else {
            return;
        };
        let place = AdapterId::place(held.request.adapter);
        self.service[place].0 += 1;
        self.service[place].1 += (now - since).as_secs_f64();
    }

    /// Whether a request in an engine can leave it now.
    fn may_move(&self, life: &Life) -> bool {
        life.first_scheduled.is_none()
            || life.first_token.is_some() && self.config.moves == MovedRequests::All
    }

    fn service_s(&self, place: usize) -> f64 {
        match self.service[place] {
            (0, _) => self.config.default_service_s,
            (count, sum) => sum / f64::from(count),
        }
    }

    #[cfg_attr(not(feature = "ilp"), expect(clippy::unnecessary_wraps, reason = "as with it"))]
    fn solve(&self, problem: &Problem) -> Option<Plan> {
        match self.config.solver {
            MigrationSolver::Greedy => Some(migration::greedy(problem)),
            #[cfg(feature = "ilp")]
            MigrationSolver::Ilp => migration::ilp(problem, migration::Requests::Divided),
            #[cfg(not(feature = "ilp"))]
            MigrationSolver::Ilp => unreachable!("a resolved scenario has a solver that there is"),
        }
    }
}

impl<W: Source> Simulation<W> {
    /// The same run, in which requests and adapters move between replicas that hold some adapters each; a block
    /// of KV has so many tokens of so many bytes.
    ///
    /// # Panics
    /// When all replicas hold all adapters.
    #[must_use]
    pub fn with_migration(
        mut self,
        config: PeriodicMigration,
        block_tokens: u32,
        bytes_per_token: f64,
    ) -> Self {
        let placement = self.gateway.placement().expect("replicas hold some adapters each");
        let adapters = placement.adapters();
        self.gateway.count_outstanding(self.cluster.entrances());
        self.outcome.keeps_lives = true;
        self.migrating = Some(Box::new(Migrating {
            config,
            block_tokens,
            swap_s_per_token: bytes_per_token / (config.swap_gb_per_s * 1e9),
            held: BTreeMap::new(),
            landing: BTreeMap::new(),
            service: vec![(0, 0.0); adapters + 1],
            plan: None,
        }));
        self
    }

    /// The same run, in which a replica may exchange an adapter for a request that is sent to it.
    #[must_use]
    pub fn with_swaps(mut self, cost: f64) -> Self {
        self.gateway = self.gateway.with_swaps(cost);
        self
    }

    /// The next look of the gateway, unless nothing is left to happen.
    pub(super) fn await_migration(&mut self, now: SimTime) {
        let Some(migrating) = &self.migrating else { return };
        if !self.all_arrived || !self.queue.is_empty() {
            let interval = SimDuration::from_secs_f64(migrating.config.interval_s);
            self.queue.push(now + interval, Class::Control, Event::Migrate);
        }
    }

    /// The gateway looks whether two replicas are to share out their requests anew.
    pub(super) fn migrate(&mut self, now: SimTime, observer: &mut impl Observer) {
        self.await_migration(now);
        let Some(migrating) = &self.migrating else { return };
        if migrating.plan.is_some() {
            return;
        }
        let mut requests = vec![0; self.cluster.instances.len()];
        for held in migrating.held.values() {
            requests[held.instance.index()] += 1;
        }
        let after = now + SimDuration::from_nanos(1);
        let loads: Vec<ReplicaLoad> = self
            .cluster
            .instances
            .iter()
            .zip(requests)
            .map(|(engine, requests)| ReplicaLoad {
                requests,
                kv_share: engine.load_at(after).kv_utilization(),
            })
            .collect();
        let PeriodicMigration { request_threshold, kv_threshold, solve_ms, .. } = migrating.config;
        let Some(between) = migration::pair(&loads, request_threshold, kv_threshold) else {
            return;
        };
        for instance in between {
            self.catch_up(now, instance, observer);
        }
        let problem = self.problem(between);
        let Some(migrating) = &mut self.migrating else { return };
        let Some(plan) = migrating.solve(&problem) else { return };
        migrating.plan = Some(Planned { between, problem, plan });
        if solve_ms > 0.0 {
            let at = now + SimDuration::from_secs_f64(solve_ms / 1e3);
            self.queue.push(at, Class::Control, Event::Rebalance);
        } else {
            self.rebalance(now, observer);
        }
    }

    /// What two replicas share out.
    fn problem(&mut self, between: [InstanceId; 2]) -> Problem {
        let Some(placement) = self.gateway.placement() else { return Problem::default() };
        let ids = || (0..placement.adapters()).map(AdapterId::from_index);
        let holds = between.map(|id| ids().map(|adapter| placement.holds(id, adapter)).collect());
        let is_only_here = ids().map(|adapter| {
            let here = between.iter().filter(|id| placement.holds(**id, adapter)).count();
            here > 0 && here == placement.holders(adapter)
        });
        let is_only_here = is_only_here.collect();
        let Some(migrating) = &self.migrating else { return Problem::default() };
        let engines = between.map(|id| &self.cluster.instances[id.index()]);
        let movable = |(id, held): (&RequestId, &Held)| {
            let at = between.iter().position(|instance| *instance == held.instance)?;
            let life = engines[at].scheduler().life(*id).filter(|_| held.is_inside);
            Some(Movable {
                id: *id,
                adapter: held.request.adapter.map(AdapterId::index),
                tokens: life
                    .map_or(held.request.prompt_tokens, |it| it.prompt_tokens + it.generated),
                at,
                may_move: life.is_some_and(|life| migrating.may_move(&life)),
            })
        };
        let requests: Vec<Movable> = migrating.held.iter().filter_map(movable).collect();
        let room = [0, 1].map(|replica| {
            let holds: &Vec<bool> = &holds[replica];
            holds.iter().filter(|holds| **holds).count() as u32
        });
        let memory_tokens = engines.map(|engine| {
            f64::from(engine.scheduler().load().kv_blocks) * f64::from(migrating.block_tokens)
        });
        let adapters = migrating.service.len() - 1;
        Problem {
            requests,
            holds,
            is_only_here,
            service_s: (1..=adapters).map(|place| migrating.service_s(place)).collect(),
            plain_service_s: migrating.service_s(0),
            room,
            memory_tokens,
            move_s: migrating.config.move_cost_s,
            swap_s_per_token: migrating.swap_s_per_token,
        }
    }

    /// A plan takes effect: of its requests those that are where they were.
    pub(super) fn rebalance(&mut self, now: SimTime, observer: &mut impl Observer) {
        let plan = self.migrating.as_mut().and_then(|migrating| migrating.plan.take());
        let Some(Planned { between, problem, plan }) = plan else { return };
        for instance in between {
            self.catch_up(now, instance, observer);
        }
        let Some(migrating) = &self.migrating else { return };
        let moves: Vec<(RequestId, usize)> = problem
            .requests
            .iter()
            .zip(&plan.to)
            .filter(|(request, to)| {
                let held = migrating.held.get(&request.id);
                let from = between[request.at];
                let is_there = |held: &Held| held.is_inside && held.instance == from;
                let life = self.cluster.instances[from.index()].scheduler().life(request.id);
                request.at != **to
                    && held.is_some_and(is_there)
                    && life.is_some_and(|life| migrating.may_move(&life))
            })
            .map(|(request, to)| (request.id, *to))
            .collect();
        let mut adapters = 0;
        if let Some(placement) = self.gateway.placement() {
            for (replica, holds) in plan.holds.iter().enumerate() {
                for (index, held) in holds.iter().enumerate() {
                    let adapter = AdapterId::from_index(index);
                    if *held && !problem.holds[replica][index] {
                        placement.add(between[replica], adapter);
                        adapters += 1;
                    } else if !*held && problem.holds[replica][index] {
                        placement.remove(between[replica], adapter);
                    }
                }
            }
        }
        let requests = moves.len() as u32;
        observer.on(now, Occurrence::Rebalanced { between, requests, adapters });
        for (id, to) in &moves {
            self.outcome.moving.insert(*id, between[*to]);
            let from = between[1 - to];
            self.cluster.instances[from.index()].abort(*id);
            self.rouse(now, from);
        }
    }

    /// An instance went on: requests may have left it to go elsewhere, and others for good.
    pub(super) fn see_moves(&mut self, now: SimTime) {
        let Some(migrating) = &mut self.migrating else { return };
        for life in &self.outcome.lives {
            migrating.served(now, life);
        }
        if self.scaling.is_none() {
            self.outcome.lives.clear();
        }
        let mut moved = std::mem::take(&mut self.outcome.moved);
        for (life, to) in moved.drain(..) {
            let Some(migrating) = &mut self.migrating else { break };
            let Some(held) = migrating.held.get_mut(&life.id) else { continue };
            (held.instance, held.is_inside) = (to, false);
            migrating.landing.insert(life.id, life);
            self.gateway.left(life.id);
            self.gateway.send_to(held.request.view(life.id), to);
            let event = Event::Adopt { instance: to, request: life.id };
            self.pass_front_end(now, to, event);
        }
        self.outcome.moved = moved;
    }

    /// A request comes to the instance where it goes on.
    pub(super) fn adopt(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        id: RequestId,
        observer: &mut impl Observer,
    ) {
        self.see_steps(now, instance, observer);
        let Some(migrating) = &mut self.migrating else { return };
        let life = migrating.landing.remove(&id).expect("it is on its way");
        let held = migrating.held.get_mut(&id).expect("it has not left");
        held.is_inside = true;
        let place = (instance, &mut self.cluster.instances[instance.index()]);
        let changed = drive::adopt(place, now, (life, &held.request), observer);
        self.awaken_for(now, instance, changed);
    }
}

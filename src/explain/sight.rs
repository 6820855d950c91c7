//! What was going on around a request, from an observer that follows some.

use serde::Serialize;

use crate::cluster::Stage;
use crate::engine::scheduler::Load;
use crate::engine::{Batch, StepResult};
use crate::ids::{InstanceId, RequestId};
use crate::resolved::Scenario;
use crate::sim::{Observer, Occurrence};
use crate::units::{SimDuration, SimTime};

/// How a request came to a queue of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// The router sent it there.
    #[default]
    Sent,
    /// It is decoded there, and another replica computed its prompt.
    ToDecode,
    /// It was moved there from another replica, to go on.
    Moved,
}

/// What a queue of an engine held when a request entered it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Found {
    /// Whose queue.
    pub replica: u32,
    /// How the request came there.
    pub came: Came,
    /// Requests that were admitted.
    pub running: u32,
    /// Requests that waited, without this one.
    pub waiting: u32,
    /// The share of KV memory that requests held.
    pub kv_held: f64,
}

/// What the router chose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The replica that it took.
    pub replica: u32,
    /// Requests inside it.
    pub inside: u32,
    /// Replicas of this role and model: the one that it took, and the others that were up.
    pub replicas: u32,
    /// The least requests inside one of the others that were up, and the most.
    pub others: Option<(u32, u32)>,
    /// Others that were down after a crash.
    pub down: u32,
}

/// What was going on around a request.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Sight {
    /// Where the router sent it, at last.
    pub choice: Option<Choice>,
    /// What it found in the queues that it entered: several where another replica decodes, or it was moved.
    pub found: Vec<Found>,
    /// Steps that computed its prompt.
    pub prefill_steps: u32,
    /// The prompt tokens of it in them.
    pub prefill_tokens: u64,
    /// The prompt tokens of others in them.
    pub other_prefill_tokens: u64,
    /// Steps of its replica while it decoded.
    pub decode_steps: u64,
    /// Those of them that prefilled others.
    pub mixed_steps: u64,
    /// Replicas that crashed while it was in the system, and when, in s.
    pub crashes: Vec<(u32, f64)>,
    /// From when its first step was decided until the device started it.
    #[serde(skip)]
    pub first_step_wait: SimDuration,
    /// When an engine had its first token.
    #[serde(skip)]
    pub first_computed: Option<SimTime>,
    /// When it left its engine.
    #[serde(skip)]
    pub last_computed: Option<SimTime>,
}

/// A request that is followed.
#[derive(Debug)]
struct Followed {
    id: RequestId,
    since: SimTime,
    at: Option<InstanceId>,
    /// How it comes to the next queue.
    comes: Came,
    /// Whether a replica that only prefills has computed its prompt. The one that decodes computes a last token of it
    /// again, which is no prefill.
    is_prefilled: bool,
    is_gone: bool,
    /// Whether a step of this attempt was decided.
    has_begun: bool,
    sight: Sight,
}

impl Followed {
    fn decodes_at(&self, instance: InstanceId) -> bool {
        !self.is_gone && self.at == Some(instance) && self.sight.first_computed.is_some()
    }

    fn plan(&mut self, batch: &Batch, is_staged: bool) {
        let own = batch.plan.entries.iter().find(|entry| entry.request == self.id);
        let is_prefill = self.sight.first_computed.is_none() && !self.is_prefilled;
        if let Some(own) = own.filter(|_| is_prefill) {
            if !std::mem::replace(&mut self.has_begun, true) {
                let starts = if is_staged { batch.enters_at } else { batch.starts_at };
                self.sight.first_step_wait = starts.saturating_since(batch.scheduled_at);
            }
            self.sight.prefill_steps += 1;
            self.sight.prefill_tokens += u64::from(own.tokens);
            let all = batch.plan.shape.prefill_tokens;
            self.sight.other_prefill_tokens += u64::from(all.saturating_sub(own.tokens));
        }
    }

    fn compute(&mut self, at: SimTime, result: &StepResult) {
        if result.first_tokens.contains(&self.id) {
            self.sight.first_computed = Some(at);
        }
    }
}

/// Follows some requests.
#[derive(Debug)]
pub(super) struct Witness {
    followed: Vec<Followed>,
    /// Of each replica, as told last.
    loads: Vec<Load>,
    /// Replicas that a router chooses among, by the same number.
    alike: Vec<usize>,
    /// Of each replica, whether it gets requests.
    up: Vec<Up>,
    /// Of each replica, whether its layers are spread over stages.
    staged: Vec<bool>,
}

/// Whether a replica gets requests.
#[derive(Debug, Clone, Copy)]
struct Up {
    stage: Stage,
    has_crashed: bool,
}

impl Witness {
    /// Of requests, each with the time at which it is sent.
    pub(super) fn of(scenario: &Scenario, requests: &[(RequestId, SimTime)]) -> Self {
        let groups = &scenario.groups;
        let kind = |group: usize| {
            let same = |other: &crate::resolved::ReplicaGroup| {
                (other.role, other.serves) == (groups[group].role, groups[group].serves)
            };
            groups.iter().position(same).unwrap_or(group)
        };
        let alike = (0..groups.len())
            .flat_map(|group| std::iter::repeat_n(kind(group), groups[group].replicas() as usize));
        let alike: Vec<usize> = alike.collect();
        let followed = requests.iter().map(|(id, since)| Followed {
            id: *id,
            since: *since,
            at: None,
            comes: Came::Sent,
            is_prefilled: false,
            is_gone: false,
            has_begun: false,
            sight: Sight::default(),
        });
        let up = Up { stage: Stage::Serving, has_crashed: false };
        let count = alike.len();
        let loads = vec![Load::default(); count];
        let staged = groups.iter().flat_map(|group| {
            let is_staged = group.cluster.pipeline_parallel_size > 1;
            std::iter::repeat_n(is_staged, group.replicas() as usize)
        });
        let staged = staged.collect();
        Self { followed: followed.collect(), loads, alike, up: vec![up; count], staged }
    }

    /// What was found of each.
    pub(super) fn into_sights(self) -> Vec<Sight> {
        self.followed.into_iter().map(|one| one.sight).collect()
    }

    fn load(&mut self, instance: InstanceId, load: Load) {
        if let Some(known) = self.loads.get_mut(instance.index()) {
            *known = load;
        }
    }

    fn choice(&self, chosen: InstanceId) -> Choice {
        let inside = |place: usize| {
            let load = self.loads.get(place).copied().unwrap_or_default();
            load.running + load.waiting
        };
        let kind = self.alike.get(chosen.index());
        let all = (0..self.alike.len()).filter(|place| self.alike.get(*place) == kind);
        let others = || all.clone().filter(|place| *place != chosen.index());
        let serves = |place: &usize| self.up[*place].stage == Stage::Serving;
        let has_crashed = |place: &usize| self.up[*place].has_crashed;
        let up = || others().filter(|place| serves(place) && !has_crashed(place));
        let range = up().map(inside).fold(None, |found: Option<(u32, u32)>, inside| {
            let (least, most) = found.unwrap_or((inside, inside));
            Some((least.min(inside), most.max(inside)))
        });
        Choice {
            replica: chosen.0,
            inside: inside(chosen.index()),
            replicas: 1 + up().count() as u32,
            others: range,
            down: others().filter(|place| serves(place) && has_crashed(place)).count() as u32,
        }
    }

    fn up(&mut self, instance: InstanceId, change: impl FnOnce(&mut Up)) {
        if let Some(up) = self.up.get_mut(instance.index()) {
            change(up);
        }
    }

    fn one(&mut self, id: RequestId) -> Option<&mut Followed> {
        self.followed.iter_mut().find(|one| one.id == id)
    }

    fn step(&mut self, instance: InstanceId, count: u64, prefills: bool) {
        for one in self.followed.iter_mut().filter(|one| one.decodes_at(instance)) {
            one.sight.decode_steps += count;
            one.sight.mixed_steps += if prefills { count } else { 0 };
        }
    }
}

impl Observer for Witness {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Sent(id, instance) => {
                let choice = self.choice(instance);
                if let Some(one) = self.one(id) {
                    one.sight.choice = Some(choice);
                    one.at = Some(instance);
                    one.comes = Came::Sent;
                    // What an attempt before it waited for is no part of this one.
                    one.has_begun = false;
                    one.sight.first_step_wait = SimDuration::ZERO;
                }
            }
            Occurrence::Queued(instance, id, load) => {
                self.load(instance, load);
                if let Some(one) = self.one(id) {
                    one.at = Some(instance);
                    one.sight.found.push(Found {
                        replica: instance.0,
                        came: one.comes,
                        running: load.running,
                        waiting: load.waiting.saturating_sub(1),
                        kv_held: load.kv_utilization(),
                    });
                }
            }
            Occurrence::Planned(instance, batch, load) => {
                self.load(instance, load);
                let is_staged = self.staged.get(instance.index()).is_some_and(|staged| *staged);
                for one in &mut self.followed {
                    if one.at == Some(instance) {
                        one.plan(batch, is_staged);
                    }
                }
            }
            Occurrence::Stepped(instance, batch, result, load) => {
                self.load(instance, load);
                self.step(instance, 1, batch.plan.shape.prefill_tokens > 0);
                self.followed.iter_mut().for_each(|one| one.compute(at, result));
            }
            Occurrence::Landed(instance, result, load) => {
                self.load(instance, load);
                self.followed.iter_mut().for_each(|one| one.compute(at, result));
            }
            Occurrence::Quiet(instance, run) => {
                self.load(instance, run.load);
                self.step(instance, run.outcomes().len() as u64, false);
            }
            Occurrence::HandedOver(_, life) => {
                if let Some(one) = self.one(life.id) {
                    one.sight.first_computed = None;
                    one.is_prefilled = true;
                }
            }
            Occurrence::Forwarded(id, instance) => {
                if let Some(one) = self.one(id) {
                    one.at = Some(instance);
                    one.comes = Came::ToDecode;
                }
            }
            Occurrence::Moved { from, to, life, load } => {
                self.load(from, load);
                if let Some(one) = self.one(life.id) {
                    one.at = Some(to);
                    one.comes = Came::Moved;
                }
            }
            Occurrence::Crashed(instance, load) => {
                self.load(instance, load);
                self.up(instance, |up| up.has_crashed = true);
                for one in &mut self.followed {
                    if one.since <= at && !one.is_gone {
                        one.sight.crashes.push((instance.0, at.as_secs_f64()));
                    }
                }
            }
            Occurrence::Recovered(instance) => self.up(instance, |up| up.has_crashed = false),
            Occurrence::Scaled(instance, stage) => self.up(instance, |up| {
                up.stage = stage;
                // Whatever had become of a machine, it is given back.
                up.has_crashed &= stage != Stage::Off;
            }),
            Occurrence::Dropped(instance, _, load)
            | Occurrence::Unreserved(instance, _, load)
            | Occurrence::LoadBegan(instance, _, load) => self.load(instance, load),
            Occurrence::Left(_, life, _) => {
                if let Some(one) = self.one(life.id) {
                    one.is_gone = true;
                    one.sight.last_computed = Some(at);
                }
            }
            _ => {}
        }
    }
}

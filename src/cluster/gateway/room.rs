//! The waiting room of the gateway: who waits, who is sent next, who is turned away.
//!
//! A passive machine: the loop says who comes, asks who is next when a replica has a place, and wakes it
//! when a place becomes free, a replica serves again, or the bucket has filled. Requests that come at one
//! instant are seen together before the first of them is sent.

use std::collections::BTreeMap;

use super::bucket::RateLimit;
use super::queue::Queue;
use super::ticket::Ticket;
use crate::ids::{InstanceId, ModelId, RequestId};
use crate::request::Request;
use crate::scenario::{ClassConfig, GatewayConfig, GatewayOrder, OverRate, RateScope, tenants};
use crate::units::{SimDuration, SimTime};

/// Why the gateway refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It knows of no replica that is up, and nobody waits there.
    NoReplica,
    /// As many wait as may.
    Full,
    /// Requests came faster than they may.
    RateLimit,
    /// It has waited too long.
    Deadline,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::NoReplica, Self::Full, Self::RateLimit, Self::Deadline];

    /// The word for it in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoReplica => "no_replica",
            Self::Full => "full",
            Self::RateLimit => "rate_limit",
            Self::Deadline => "deadline",
        }
    }
}

/// Who is sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nobody waits.
    Nobody,
    /// Nobody before that moment, when the bucket has filled.
    NotBefore(SimTime),
    /// This request.
    Send(RequestId),
}

/// Requests that wait at the gateway.
#[derive(Debug)]
pub struct Room {
    /// By model, those that ask for it.
    queues: Vec<Queue>,
    limits: Limits,
    max_waiting: usize,
    waiting: BTreeMap<RequestId, Waiting>,
    /// Requests of this instant, which the order has not seen.
    newcomers: Vec<RequestId>,
    came: u64,
    classes: Vec<Class>,
    ranks: Ranks,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    /// Where the loop keeps it.
    transit: u32,
}

/// What the room reads of a class.
#[derive(Debug, Clone, Copy)]
struct Class {
    tenant: u32,
    deadline: Option<SimDuration>,
}

/// How priorities are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// As vLLM reads them.
    SmallerFirst,
    /// As SGLang reads them.
    LargerFirst,
}

#[derive(Debug)]
enum Limits {
    None,
    /// Buckets that requests pass as they are sent.
    Wait(RateLimit),
    /// Buckets that requests pass as they come, by tenant where each has one.
    Refuse(Vec<RateLimit>),
}

impl Room {
    /// An empty room.
    pub fn new(config: &GatewayConfig, classes: &[ClassConfig], ranks: Ranks) -> Self {
        let (tenants, tenant_of) = tenants(classes);
        let tenants = tenants.len().max(1);
        let limits = match &config.rate_limit {
            None => Limits::None,
            Some(limit) if limit.over == OverRate::Wait => Limits::Wait(RateLimit::new(limit)),
            Some(limit) => {
                let buckets = if limit.per == RateScope::Tenant { tenants } else { 1 };
                Limits::Refuse(vec![RateLimit::new(limit); buckets])
            }
        };
        let deadline = |ms: Option<f64>| ms.map(|ms| SimDuration::from_secs_f64(ms / 1e3));
        let common = deadline(config.deadline_ms);
        let class = |(class, tenant): (&ClassConfig, &u32)| Class {
            tenant: *tenant,
            deadline: deadline(class.deadline_ms).or(common),
        };
        let mut of_class: Vec<Class> = classes.iter().zip(&tenant_of).map(class).collect();
        if of_class.is_empty() {
            of_class.push(Class { tenant: 0, deadline: common });
        }
        Self {
            queues: vec![Queue::new(&config.order, tenants)],
            limits,
            max_waiting: match config.max_waiting {
                Some(most) => most as usize,
                None if config.holds_requests() => usize::MAX,
                None => 0,
            },
            waiting: BTreeMap::new(),
            newcomers: Vec::new(),
            came: 0,
            classes: of_class,
            ranks,
        }
    }

    /// The same room, where requests for each of so many models are sent in an order of their own.
    #[must_use]
    pub fn of_models(mut self, count: usize, order: &GatewayOrder) -> Self {
        self.queues.resize_with(count.max(1), || Queue::new(order, 1));
        self
    }

    /// How many models requests may ask for.
    pub fn models(&self) -> impl Iterator<Item = ModelId> + use<> {
        (0..self.queues.len()).map(|place| ModelId(place as u16))
    }

    /// Whether a request that comes now is let in.
    ///
    /// # Errors
    /// When requests came faster than they may.
    pub fn admit(&mut self, now: SimTime, request: &Request) -> Result<(), Refusal> {
        let tenant = self.class(request).tenant as usize;
        let Limits::Refuse(buckets) = &mut self.limits else { return Ok(()) };
        let place = if buckets.len() > 1 { tenant } else { 0 };
        if buckets[place].ready_at(request.prompt_tokens) > now {
            return Err(Refusal::RateLimit);
        }
        buckets[place].take(now, request.prompt_tokens);
        Ok(())
    }

    /// A request comes to wait, if only for this instant; the loop keeps it at `transit`. Returns
    /// how long it waits at most.
    pub fn enter(&mut self, id: RequestId, request: &Request, transit: u32) -> Option<SimDuration> {
        let Class { tenant, deadline } = self.class(request);
        let priority = i64::from(request.priority);
        let rank = if self.ranks == Ranks::LargerFirst { -priority } else { priority };
        let prompt_tokens = request.prompt_tokens;
        let model = request.model;
        let ticket = Ticket { number: self.came, request: id, model, tenant, rank, prompt_tokens };
        self.came += 1;
        self.waiting.insert(id, Waiting { ticket, transit });
        self.newcomers.push(id);
        deadline
    }

    /// The order sees those who came.
    pub fn sort(&mut self) {
        for id in &self.newcomers {
            if let Some(waiting) = self.waiting.get(id) {
                self.queues[waiting.ticket.model.index()].push(waiting.ticket);
            }
        }
    }

    /// Who is sent next, of those that the order has seen and that ask for this model.
    pub fn next(&mut self, now: SimTime, model: ModelId) -> Next {
        let Some(ticket) = self.queues[model.index()].first() else { return Next::Nobody };
        if let Limits::Wait(limit) = &self.limits {
            let ready = limit.ready_at(ticket.prompt_tokens);
            if ready > now {
                return Next::NotBefore(ready);
            }
        }
        Next::Send(ticket.request)
    }

    /// A request that waits is sent to an instance.
    pub fn sent(&mut self, now: SimTime, id: RequestId, instance: InstanceId) {
        let Some(Waiting { ticket, .. }) = self.waiting.remove(&id) else { return };
        if let Limits::Wait(limit) = &mut self.limits {
            limit.take(now, ticket.prompt_tokens);
        }
        self.queues[ticket.model.index()].sent(&ticket, instance);
    }

    /// The last of those that came at this instant, where more wait than may; nobody once all who may
    /// wait do. The loop then has it leave.
    pub fn overflow(&mut self) -> Option<RequestId> {
        while self.waiting.len() > self.max_waiting {
            let last = self.newcomers.pop()?;
            if self.waiting.contains_key(&last) {
                return Some(last);
            }
        }
        self.newcomers.clear();
        None
    }

    /// A request waits no longer and is not sent; where the loop keeps it, if it waited.
    pub fn leave(&mut self, id: RequestId) -> Option<u32> {
        let Waiting { ticket, transit } = self.waiting.remove(&id)?;
        self.queues[ticket.model.index()].remove(&ticket);
        Some(transit)
    }

    /// Where the loop keeps a request that waits.
    pub fn transit(&self, id: RequestId) -> Option<u32> {
        self.waiting.get(&id).map(|waiting| waiting.transit)
    }

    /// Whether requests wait for a replica at all.
    pub fn holds_requests(&self) -> bool {
        self.max_waiting > 0
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The order, to look at and to tell of answers; the one of the first model, as no order that looks at
    /// answers serves several.
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queues[0]
    }

    fn class(&self, request: &Request) -> Class {
        self.classes[usize::from(request.class.0)]
    }
}

//! Prefill on some instances, decode on others: who hands what to whom, and over which links.
//!
//! As vLLM's proxies and its NIXL connector do it (vLLM 0.33.0): a request goes to a prefill
//! instance for one token that nobody sees; with that answer it goes to a decode instance, which
//! claims blocks for the prompt, reads what its own prefix cache lacks from the blocks that the
//! prefill instance holds for it until then, computes the last token of the prompt again and
//! decodes.
//!
//! Or as vLLM 0.6 does it with Mooncake's pipe: the prefill instance keeps a copy; the decode instance does
//! nothing else while it asks for it and receives it, and neither does the host of the prefill
//! instance while it sends it ([`Sender`]).
//!
//! Or the destination first, as SGLang does it (SGLang 0.5.23): a request goes to a decode instance, which sets
//! memory aside; then to a prefill instance, which writes its KV and its first token there.

mod conditional;
mod faults;
mod held;
mod led;
mod local;
mod messages;
mod overlap;
mod reserved;

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::gateway::Gateway;
use super::router::{Routed, Router};
use super::sender::{Ask, Sender};
use super::wires::{Cargo, Direction, Wires};
use crate::engine::Instance;
use crate::ids::{FlowId, InstanceId, RequestId, RouteId};
use crate::network::{self, Protocol, TopologyError};
use crate::request::{Request, RequestView};
use crate::scenario::LocalPrefillConfig;
use crate::units::{Bytes, SimDuration, SimTime};
use led::Led;
pub use messages::Messages;
use overlap::Sending;
pub use overlap::{Chunk, Granularity};
use reserved::Reserved;

/// What an instance does of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Whole,
    /// The prompt.
    Prefill,
    /// The answer.
    Decode,
}

/// Which of its two instances a request goes to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The one that prefills.
    SourceFirst,
    /// The one that decodes, which sets memory aside.
    DestinationFirst,
}

/// How many instances there are of each role. They are numbered in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles {
    /// Those that do all of a request.
    pub whole: u32,
    /// Those that prefill.
    pub prefills: u32,
    /// Those that decode.
    pub decodes: u32,
}

/// The instances that prefill and those that decode, and the requests between them.
#[derive(Debug)]
pub struct Disaggregation {
    roles: Roles,
    order: Order,
    decode_router: Router,
    /// What the decode router may know.
    gateway: Gateway,
    block_tokens: u32,
    ends: Vec<TransferEnd>,
    /// From each prefill instance to each decode instance.
    routes: Vec<RouteId>,
    /// Requests that prefill instances compute.
    prefilling: FxHashMap<RequestId, Request>,
    /// Which prefill instance computes a request or holds its KV.
    prefill_of: FxHashMap<RequestId, InstanceId>,
    /// By prefill instance, how many those are.
    held: Vec<u32>,
    /// Requests that went to the destination first and are not computed yet.
    reserved: FxHashMap<RequestId, Reserved>,
    granularity: Granularity,
    local_prefill: Option<LocalPrefillConfig>,
    /// Those of them whose prompts are being computed, where KV caches are sent meanwhile.
    sending: FxHashMap<RequestId, Sending>,
    /// The prefill instances, where they send one KV cache after the other.
    senders: Vec<Sender>,
    /// How long a question for a KV cache is on its way to them.
    ask_latency: SimDuration,
    /// Such questions.
    asked: FxHashMap<RequestId, Ask>,
    /// Whether somebody outside leads requests from one instance to the other.
    led: Option<Led>,
}

/// A KV cache on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Whose.
    pub request: RequestId,
    /// Where it was computed.
    pub prefill: InstanceId,
    /// Where it is needed.
    pub decode: InstanceId,
}

/// Where a transfer begins or ends: an instance that prefills or decodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransferEnd {
    /// Bytes per second of its NICs in each direction.
    pub nic_bytes_per_s: f64,
    /// KV bytes of a token, on all of its GPUs together.
    pub kv_bytes_per_token: u64,
    /// Its GPUs.
    pub gpus: u32,
    /// Into how many parts they cut the KV heads; GPUs with the same heads are one.
    pub head_shards: u32,
}

/// How transfers go from one end to the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way {
    /// Before the first byte of a transfer.
    pub latency: SimDuration,
    /// What the transport makes of the NICs.
    pub protocol: Protocol,
    /// What messages cost.
    pub messages: Messages,
}

impl Roles {
    /// What an instance does.
    pub fn of(self, instance: InstanceId) -> Role {
        if instance.0 < self.whole {
            Role::Whole
        } else if instance.0 < self.entrances() {
            Role::Prefill
        } else {
            Role::Decode
        }
    }

    /// How many instances requests are sent to first.
    pub fn entrances(self) -> u32 {
        self.whole + self.prefills
    }
}

impl Disaggregation {
    /// The same, over the links of before, where replicas that decode are chosen as they were next.
    #[must_use]
    pub fn in_place_of(self, before: Self) -> Self {
        Self { decode_router: before.decode_router, routes: before.routes, ..self }
    }

    /// Of instances with these roles; `ends` are those that prefill and then those that decode, which hand
    /// KV over in blocks of so many tokens.
    ///
    /// # Errors
    /// When a rate or a share is out of range, or an instance has NICs of another rate.
    pub fn new(
        wires: &mut Wires,
        (roles, order): (Roles, Order),
        decode_router: Router,
        block_tokens: u32,
        ends: &[TransferEnd],
        way: Way,
    ) -> Result<Self, TopologyError> {
        let mut links = Vec::with_capacity(ends.len());
        for (instance, end) in (roles.whole..).map(InstanceId).zip(ends) {
            let sends = roles.of(instance) == Role::Prefill;
            let direction = if sends { Direction::Out } else { Direction::In };
            wires.give_nic(instance, end.nic_bytes_per_s)?;
            links.extend(wires.nic(instance, direction)?);
        }
        let (from, to) = links.split_at(roles.prefills as usize);
        let mut routes = Vec::with_capacity(from.len() * to.len());
        let (senders, receivers) = ends.split_at(roles.prefills as usize);
        for (&from, sender) in from.iter().zip(senders) {
            for (&to, receiver) in to.iter().zip(receivers) {
                let (latency, pair) = (way.latency, (*sender, *receiver));
                let protocol = way.messages.between(way.protocol, pair, block_tokens);
                let route = network::Route { links: vec![from, to], latency, protocol };
                routes.push(wires.route(&route)?);
            }
        }
        Ok(Self {
            roles,
            order,
            gateway: Gateway::new(&decode_router, roles.decodes),
            decode_router,
            block_tokens,
            ends: ends.to_vec(),
            routes,
            prefilling: FxHashMap::default(),
            prefill_of: FxHashMap::default(),
            held: vec![0; roles.prefills as usize],
            reserved: FxHashMap::default(),
            granularity: Granularity::default(),
            local_prefill: None,
            sending: FxHashMap::default(),
            senders: Vec::new(),
            ask_latency: SimDuration::ZERO,
            asked: FxHashMap::default(),
            led: None,
        })
    }

    /// The same, where decode instances ask for one KV cache after the other, each of which is on its way for
    /// so long before the prefill instance sends it.
    #[must_use]
    pub fn with_senders(mut self, latency: SimDuration) -> Self {
        self.senders = (0..self.roles.prefills).map(|_| Sender::default()).collect();
        self.ask_latency = latency;
        self
    }

    /// The same, where these of the decode instances serve the models: the first ones the first.
    #[must_use]
    pub fn serving(mut self, models: &[Range<u32>]) -> Self {
        self.gateway = self.gateway.serving(models);
        self
    }

    /// What instances do.
    pub fn roles(&self) -> Roles {
        self.roles
    }

    /// Which instance a request goes to first.
    pub fn order(&self) -> Order {
        self.order
    }

    fn route_decode(
        &mut self,
        request: RequestView<'_>,
        instances: &[Instance],
        now: SimTime,
    ) -> Option<InstanceId> {
        match self.offer_decode(request, instances, now) {
            Routed::To(decode) => Some(decode),
            Routed::Waits | Routed::Full | Routed::Nowhere | Routed::Unavailable => None,
        }
    }

    fn offer_decode(
        &mut self,
        request: RequestView<'_>,
        instances: &[Instance],
        now: SimTime,
    ) -> Routed {
        let decodes = &instances[self.roles.entrances() as usize..];
        let offer = self.gateway.route(&mut self.decode_router, decodes, now, request);
        self.of_all(offer)
    }

    /// The same with the instance by its number among all.
    fn of_all(&self, offer: Routed) -> Routed {
        match offer {
            Routed::To(decode) => Routed::To(InstanceId(self.roles.entrances() + decode.0)),
            other => other,
        }
    }

    /// A request as a prefill instance gets it: one token to compute.
    pub fn prompt_of(request: &Request) -> Request {
        Request { output_tokens: 1, max_tokens: 1, ignore_eos: true, ..request.clone() }
    }

    /// A prefill instance took a request.
    pub fn taken(&mut self, id: RequestId, request: Request, prefill: InstanceId) {
        self.prefilling.insert(id, request);
        self.hold(id, prefill);
    }

    /// The prefill of a request is done: the request, and the instance that decodes it, or whether it waits for one;
    /// none where all are known to be down.
    ///
    /// # Panics
    /// When no prefill instance took it.
    pub fn hand_over(
        &mut self,
        id: RequestId,
        instances: &[Instance],
        now: SimTime,
    ) -> (Request, Routed) {
        let request = self.prefilling.remove(&id).expect("a prefill instance computed it");
        let offer = self.offer_decode(request.view(id), instances, now);
        (request, offer)
    }

    /// A request left the instance that decoded it.
    pub fn left(&mut self, id: RequestId) {
        self.gateway.left(id);
    }

    /// The sender of an instance that prefills, where these send one KV cache after the other.
    pub fn sender(&mut self, prefill: InstanceId) -> Option<&mut Sender> {
        self.senders.get_mut((prefill.0 - self.roles.whole) as usize)
    }

    /// A decode instance asks a sender for a KV cache, and waits: how much that is, and when the
    /// question arrives. Nothing where there are no senders: the transfer starts at once.
    pub fn ask(&mut self, ask: Ask, now: SimTime) -> Option<(Bytes, SimTime)> {
        if self.senders.is_empty() {
            return None;
        }
        self.asked.insert(ask.request, ask);
        Some((Bytes(self.bytes_of(ask.tokens, ask.decode)), now + self.ask_latency))
    }

    /// A question has arrived: at which instance, and whether it is its turn there; `None` where it was taken
    /// back on its way.
    ///
    /// # Panics
    /// When no sender has the KV.
    pub fn look_up(&mut self, id: RequestId) -> Option<(InstanceId, bool)> {
        let ask = self.asked.remove(&id)?;
        let prefill = self.prefill_of[&id];
        Some((prefill, self.senders[(prefill.0 - self.roles.whole) as usize].ask(ask)))
    }

    /// Every GPU of the receiver gets the heads that it keeps, whoever had them.
    fn bytes_of(&self, tokens: u32, decode: InstanceId) -> u64 {
        let receiver = self.ends[(decode.0 - self.roles.whole) as usize];
        u64::from(tokens.next_multiple_of(self.block_tokens)) * receiver.kv_bytes_per_token
    }

    /// A decode instance asks for the KV of so many tokens, in whole blocks; how much that is.
    ///
    /// # Panics
    /// When no prefill instance holds it.
    pub fn start(
        &mut self,
        wires: &mut Wires,
        id: RequestId,
        decode: InstanceId,
        tokens: u32,
        now: SimTime,
    ) -> Bytes {
        let bytes = self.bytes_of(tokens, decode);
        let flow = self.open(wires, id, decode, bytes, now);
        wires.feed(flow, bytes, now);
        Bytes(bytes)
    }

    /// Starts a flow that is going to carry so much of a request's KV.
    fn open(
        &self,
        wires: &mut Wires,
        id: RequestId,
        decode: InstanceId,
        bytes: u64,
        now: SimTime,
    ) -> FlowId {
        let prefill = self.prefill_of[&id];
        let Roles { whole, decodes, .. } = self.roles;
        let route = (prefill.0 - whole) * decodes + (decode.0 - self.roles.entrances());
        let cargo = Cargo::Kv(Transfer { request: id, prefill, decode });
        wires.start_fed(self.routes[route as usize], bytes, cargo, now)
    }
}

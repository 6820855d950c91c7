//! What is scheduled, and which machine acts when it happens.

use super::faults::Reason;
use super::observe::Observer;
use super::run::Simulation;
use super::source::Source;
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

/// Above all instances.
pub(super) const ALL: InstanceId = InstanceId(u32::MAX);

/// What is scheduled. Small and plain: it can be printed and replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The next turn of a conversation is due.
    Arrive { transit: u32 },
    /// A client sends the request in this place of the transit.
    Send { transit: u32 },
    /// A request reaches an instance.
    Enqueue { instance: InstanceId, transit: u32 },
    /// The client has connected to the server of an instance for a request.
    Connect { instance: InstanceId, transit: u32 },
    /// A request comes to the server of an instance.
    Accept { instance: InstanceId, transit: u32 },
    /// A request has its next turn in the server of an instance.
    GoOn { instance: InstanceId, transit: u32 },
    /// A request reaches the queue of the instance that will decode it, to have memory set aside.
    Expect { decode: InstanceId, transit: u32 },
    /// Such a request, for which there is memory, reaches the queue of the instance that prefills it.
    Prefill { request: RequestId },
    /// A request comes to the server of the instance that prefills it, as it does to that of the one that decodes it.
    Meet { prefill: InstanceId, request: RequestId },
    /// A part of the KV of a request is computed, and can be sent.
    Release { request: RequestId },
    /// Flows end, or change their rates.
    Wires { epoch: u32 },
    /// An instance that prefills is asked for the KV of a request.
    LookUp { request: RequestId },
    /// It can copy this one, which it was asked for first.
    Copy { prefill: InstanceId, request: RequestId },
    /// An instance wants to be woken.
    Advance { instance: InstanceId, epoch: u32 },
    /// A client sends a request again.
    Retry { transit: u32 },
    /// A client has waited as long as it wanted to.
    HangUp { request: RequestId, reason: Reason },
    /// Tokens come back to the router's limit.
    TokensBack,
    /// The router tries a request again.
    TryAgain { request: RequestId },
    /// The process of a router is done with a request.
    Decide { request: RequestId },
    /// The next fault of the plan.
    Fault,
    /// Requests that wait at the gateway may be sent.
    Open,
    /// A request has waited at the gateway as long as it may.
    Expire { request: RequestId },
    /// The autoscaler looks, or replicas come up.
    Scale { epoch: u32 },
    /// The gateway looks whether requests are to move.
    Migrate,
    /// A plan to move some takes effect.
    Rebalance,
    /// A request that has moved reaches the instance where it goes on.
    Adopt { instance: InstanceId, request: RequestId },
}

impl<W: Source> Simulation<W> {
    /// One machine acts.
    pub(super) fn handle(&mut self, now: SimTime, event: Event, observer: &mut impl Observer) {
        match event {
            Event::Arrive { transit } => {
                self.turns_due -= 1;
                let (_, request) = self.transit.take(transit);
                self.arrive(now, request, observer);
            }
            Event::Send { transit } => self.send(now, transit, observer),
            Event::Enqueue { instance, transit } => self.enqueue(now, instance, transit, observer),
            Event::Connect { instance, transit } => self.connected(now, instance, transit),
            Event::Accept { instance, transit } => self.accept(now, instance, transit),
            Event::GoOn { instance, transit } => self.go_on(now, instance, transit),
            Event::Expect { decode, transit } => self.expect_kv(now, decode, transit, observer),
            Event::Prefill { request } => self.enqueue_prefill(now, request, observer),
            Event::Meet { prefill, request } => self.meet(now, request, prefill, observer),
            Event::Advance { instance, epoch } if epoch == self.epochs[instance.index()] => {
                self.steps_seen = Some((now, instance));
                self.advance(now, instance, observer);
            }
            Event::Wires { epoch } if epoch == self.wires_epoch => {
                self.take_in(now, observer);
                self.await_wires();
            }
            Event::Release { request } => self.release_part(now, request, observer),
            Event::LookUp { request } => self.look_up(now, request),
            Event::Copy { prefill, request } => self.begin_copy(now, prefill, request),
            Event::Advance { .. } | Event::Wires { .. } => {}
            Event::Retry { transit } => self.retry(now, transit, observer),
            Event::TokensBack => {
                self.steps_seen = Some((now, ALL));
                self.take_tokens(now, observer);
            }
            Event::TryAgain { request } => self.try_again(now, request, observer),
            Event::Decide { request } => self.decide(now, request, observer),
            Event::HangUp { request, reason } => {
                self.steps_seen = Some((now, ALL));
                self.hang_up(now, request, reason, observer);
            }
            Event::Fault => {
                self.steps_seen = Some((now, ALL));
                self.happen(now, observer);
            }
            Event::Open => {
                self.steps_seen = Some((now, ALL));
                self.open(now, observer);
            }
            Event::Expire { request } => self.expire(now, request, observer),
            Event::Scale { epoch } => self.scale(now, epoch, observer),
            Event::Migrate => {
                self.steps_seen = Some((now, ALL));
                self.migrate(now, observer);
            }
            Event::Rebalance => {
                self.steps_seen = Some((now, ALL));
                self.rebalance(now, observer);
            }
            Event::Adopt { instance, request } => self.adopt(now, instance, request, observer),
        }
        if !self.at_router.is_empty() {
            self.release_waiting(now, observer);
        }
        if !self.at_decodes.is_empty() {
            self.release_decodes(now, observer);
        }
    }
}

//! A step as a policy composes it: shares of requests, of which everything else about the step follows.

use super::{Inside, Requests};
use crate::engine::{Entry, EntryKind, Finish, StepPlan};
use crate::ids::RequestId;
use crate::units::SimTime;

/// The step that is being decided. Whoever is named is there and has not left.
#[derive(Debug)]
pub struct NextStep<'a> {
    now: SimTime,
    plan: &'a mut StepPlan,
    requests: &'a mut Requests,
}

impl<'a> NextStep<'a> {
    pub(super) fn new(now: SimTime, plan: &'a mut StepPlan, requests: &'a mut Requests) -> Self {
        Self { now, plan, requests }
    }

    fn get(&self, id: RequestId) -> &Inside {
        let request = self.requests.inside.get(&id);
        request.unwrap_or_else(|| panic!("request {id} is not there"))
    }

    /// Tokens of a request whose KV is not computed: of its prompt, and of its answer as far as that is out. A
    /// request that decodes has one. Where steps overlap, a token that one in flight will bring counts as out.
    pub fn uncomputed(&self, id: RequestId) -> u32 {
        self.get(id).uncomputed()
    }

    /// Tokens of a request's answer that are out.
    pub fn generated(&self, id: RequestId) -> u32 {
        self.get(id).life.generated
    }

    /// Gives a request its share of the step. With its last uncomputed token it gets the next one of its answer; with
    /// fewer, its prefill goes on in a later step. The first share admits it.
    ///
    /// # Panics
    /// When it is not there, has a share already, or has fewer tokens to compute.
    pub fn compute(&mut self, id: RequestId, tokens: u32) {
        let decision = self.requests.decisions;
        let request = self.requests.inside.get_mut(&id);
        let request = request.unwrap_or_else(|| panic!("request {id} is not there"));
        let left = request.uncomputed();
        assert!(request.decision < decision, "request {id} has a share of the step");
        assert!((1..=left).contains(&tokens), "request {id}: {tokens} of {left} tokens");
        let samples = tokens == left;
        let kind = match (request.is_admitted, request.life.preemptions) {
            (true, _) => EntryKind::Running,
            (false, 0) => EntryKind::New,
            (false, _) => EntryKind::Resumed,
        };
        if !request.is_admitted {
            request.is_admitted = true;
            self.requests.admitted += 1;
            if kind == EntryKind::New {
                request.life.cached_tokens = request.computed;
            }
            self.plan.hits.push((id, request.computed));
        }
        request.life.first_scheduled.get_or_insert(self.now);
        if request.is_decoding {
            self.plan.shape.add_decode(request.computed, 0);
        } else {
            self.plan.shape.add_prefill(tokens, request.computed, samples);
        }
        let (slot, computed) = (id.0, request.computed);
        self.plan.entries.push(Entry {
            request: id,
            slot,
            tokens,
            computed,
            drafts: 0,
            kind,
            samples,
        });
        request.decision = decision;
        request.computed += tokens;
        request.awaited += u32::from(samples);
        request.is_decoding |= samples;
    }

    /// So many tokens of a waiting request are found in a cache: its first share begins after them.
    ///
    /// # Panics
    /// When it is not there or not waiting, or nothing would be left to compute.
    pub fn reuse(&mut self, id: RequestId, tokens: u32) {
        let request = self.requests.inside.get_mut(&id);
        let request = request.unwrap_or_else(|| panic!("request {id} is not there"));
        assert!(!request.is_admitted, "request {id} does not wait");
        assert!(tokens < request.known(), "request {id}: its last token is always computed");
        request.computed = tokens;
    }

    /// A request loses its memory: it waits again, and computes all its tokens anew.
    ///
    /// # Panics
    /// When it is not there, is waiting, or has a share of the step.
    pub fn preempt(&mut self, id: RequestId) {
        let decision = self.requests.decisions;
        let request = self.requests.inside.get_mut(&id);
        let request = request.unwrap_or_else(|| panic!("request {id} is not there"));
        assert!(request.is_admitted, "request {id} waits");
        assert!(request.decision < decision, "request {id} has a share of the step");
        (request.is_admitted, request.is_decoding, request.computed) = (false, false, 0);
        request.life.preemptions += 1;
        self.requests.admitted -= 1;
        self.plan.preempted.push(id);
    }

    /// A request ends without the rest of its answer: memory will never suffice for it.
    ///
    /// # Panics
    /// When it is not there, or has a share of the step.
    pub fn fail(&mut self, id: RequestId) {
        assert!(self.get(id).decision < self.requests.decisions, "request {id} has a share");
        let life = self.requests.remove(id).expect("it is there");
        self.plan.ended.push((life, Finish::Failed));
    }
}

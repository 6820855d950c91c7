//! What the plain schedulers share: requests in arrival order, and KV memory that is counted in
//! blocks. Each policy decides who gets how many tokens; everything else is here.
//!
//! One step is in flight at a time. Nothing is cached between requests, blocks have no identity,
//! adapters and priorities play no part. KV is handed to other machines only where a policy sees to
//! it.

use std::collections::VecDeque;

use super::{Handoff, Load, Memory};
use crate::engine::{Entry, EntryKind, Finish, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::Request;
use crate::scenario::Reservation;
use crate::units::SimTime;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Waiting,
    Prefilling,
    Decoding,
    /// Left; its place is vacant.
    Gone,
}

/// A request inside one of these schedulers.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) life: Life,
    status: Status,
    /// Tokens whose KV is computed or scheduled to be.
    pub(super) computed: u32,
    /// Blocks it holds.
    blocks: u32,
    /// Which part of it another machine does.
    pub(super) handoff: Handoff,
    /// Whether the copy of its KV that another machine kept is gone.
    is_lost: bool,
}

impl Sequence {
    /// The prompt and every answer token that came out.
    pub(super) fn known(&self) -> u32 {
        self.life.prompt_tokens + self.life.generated
    }

    /// Known tokens whose KV is not computed.
    pub(super) fn uncomputed(&self) -> u32 {
        self.known() - self.computed
    }

    /// Whether another machine may have a copy of its KV, which can be fetched once.
    pub(super) fn has_copy(&self) -> bool {
        self.life.preemptions == 0 && !self.is_lost
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.status == Status::Waiting
    }

    pub(super) fn is_decoding(&self) -> bool {
        self.status == Status::Decoding
    }
}

/// Waiting and running requests, and the KV memory.
#[derive(Debug, Clone)]
pub(super) struct Queues {
    block_size: u32,
    blocks: u32,
    free: u32,
    /// Blocks of the batch as a whole.
    set_aside: u32,
    model_len: u32,
    sequences: Vec<Sequence>,
    vacant: Vec<u32>,
    waiting: VecDeque<u32>,
    /// Admitted requests, in order of admission.
    running: Vec<u32>,
    /// Requests that lost their memory in this step, last admitted first.
    preempted: Vec<u32>,
}

impl Queues {
    /// No requests, and `blocks` free blocks of `block_size` tokens. A sequence has at most
    /// `model_len` tokens.
    pub(super) fn new(memory: Memory) -> Self {
        let Memory { block_size, blocks, max_model_len: model_len } = memory;
        assert!(block_size > 0 && blocks > 0, "there is KV memory, in blocks of a token or more");
        Self {
            block_size,
            blocks,
            free: blocks,
            set_aside: 0,
            model_len,
            sequences: Vec::new(),
            vacant: Vec::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            preempted: Vec::new(),
        }
    }

    /// A request arrives; it is refused if there is no room for an answer.
    pub(super) fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        if request.prompt_tokens >= self.model_len {
            return Err(Finish::Rejected);
        }
        let mut life = Life::new(id, request);
        life.max_tokens = request.max_tokens.min(self.model_len - request.prompt_tokens);
        life.output_tokens = life.output_tokens.min(life.max_tokens);
        let status = Status::Waiting;
        let sequence = Sequence { life, status, computed: 0, blocks: 0, handoff, is_lost: false };
        let slot = if let Some(slot) = self.vacant.pop() {
            self.sequences[slot as usize] = sequence;
            slot
        } else {
            self.sequences.push(sequence);
            self.sequences.len() as u32 - 1
        };
        self.waiting.push_back(slot);
        Ok(())
    }

    pub(super) fn get(&self, slot: u32) -> &Sequence {
        &self.sequences[slot as usize]
    }

    /// The copy of a request's KV that another machine kept is gone.
    pub(super) fn lose_copy(&mut self, slot: u32) {
        self.sequences[slot as usize].is_lost = true;
    }

    /// Admitted requests, in order of admission.
    pub(super) fn running(&self) -> &[u32] {
        &self.running
    }

    /// Waiting requests, the first to be admitted first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().copied()
    }

    /// The last waiting request.
    pub(super) fn last(&self) -> Option<u32> {
        self.waiting.back().copied()
    }

    /// The first waiting request.
    pub(super) fn head(&self) -> Option<u32> {
        self.waiting.front().copied()
    }

    /// Blocks that hold so many tokens.
    pub(super) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Whether the blocks hold the longest sequence beside `spare` blocks.
    pub(super) fn holds_longest(&self, spare: u32) -> bool {
        self.blocks_for(self.model_len) + spare <= self.blocks
    }

    /// The tokens for which a request reserves memory. Policies know how long an answer may be,
    /// not how long it will be.
    pub(super) fn reserved(&self, slot: u32, reservation: Reservation) -> u32 {
        let life = &self.get(slot).life;
        match reservation {
            Reservation::Request => life.prompt_tokens + life.max_tokens,
            Reservation::Model => self.model_len,
        }
    }

    /// Admits the first waiting request with blocks for `tokens` tokens, if these leave `spare`
    /// blocks free.
    pub(super) fn admit(&mut self, tokens: u32, spare: u32) -> Option<u32> {
        let slot = self.head()?;
        self.admit_at(0, tokens, spare).then_some(slot)
    }

    /// Admits a waiting request before those that wait for longer, if there are blocks for `tokens`
    /// tokens.
    pub(super) fn admit_early(&mut self, slot: u32, tokens: u32) -> bool {
        let place = self.waiting.iter().position(|&other| other == slot);
        self.admit_at(place.expect("it waits"), tokens, 0)
    }

    fn admit_at(&mut self, place: usize, tokens: u32, spare: u32) -> bool {
        let need = self.blocks_for(tokens);
        if self.free < need + spare {
            return false;
        }
        let slot = self.waiting.remove(place).expect("somebody waits there");
        self.free -= need;
        let s = &mut self.sequences[slot as usize];
        s.blocks = need;
        s.status = Status::Prefilling;
        self.running.push(slot);
        true
    }

    /// Makes a running request's blocks hold `tokens` tokens.
    pub(super) fn extend(&mut self, slot: u32, tokens: u32) {
        let need = self.blocks_for(tokens);
        let s = &mut self.sequences[slot as usize];
        let more = need.saturating_sub(s.blocks);
        assert!(more <= self.free, "request {}: {more} blocks, {} free", s.life.id, self.free);
        s.blocks += more;
        self.free -= more;
    }

    /// Takes blocks for a batch as a whole.
    pub(super) fn set_aside(&mut self, blocks: u32) {
        assert!(blocks <= self.free, "a batch of {blocks} blocks, {} free", self.free);
        self.free -= blocks;
        self.set_aside += blocks;
    }

    /// Gives back the blocks of a batch as a whole.
    pub(super) fn give_back(&mut self) {
        self.free += std::mem::take(&mut self.set_aside);
    }

    /// Computes `tokens` tokens of a running request in the step, without telling its shape.
    pub(super) fn share(&mut self, slot: u32, tokens: u32, now: SimTime, plan: &mut StepPlan) {
        let s = &mut self.sequences[slot as usize];
        let kind = match (s.computed, s.life.preemptions) {
            (0, 0) => EntryKind::New,
            (0, _) => EntryKind::Resumed,
            _ => EntryKind::Running,
        };
        let samples = tokens == s.uncomputed();
        plan.entries.push(Entry {
            request: s.life.id,
            slot,
            tokens,
            computed: s.computed,
            drafts: 0,
            kind,
            samples,
        });
        if s.computed == 0 {
            plan.hits.push((s.life.id, 0));
        }
        s.computed += tokens;
        if samples {
            s.status = Status::Decoding;
        }
        s.life.first_scheduled.get_or_insert(now);
    }

    /// A running request whose KV came from elsewhere gets its next token in the step, without
    /// telling its shape.
    pub(super) fn receive(&mut self, slot: u32, now: SimTime, plan: &mut StepPlan) {
        let s = &mut self.sequences[slot as usize];
        let computed = s.known() - 1;
        plan.entries.push(Entry {
            request: s.life.id,
            slot,
            tokens: 1,
            computed,
            drafts: 0,
            kind: EntryKind::New,
            samples: true,
        });
        plan.hits.push((s.life.id, computed));
        s.computed = s.known();
        s.status = Status::Decoding;
        s.life.first_scheduled.get_or_insert(now);
    }

    /// Computes `tokens` tokens of a running request in the step.
    pub(super) fn serve(&mut self, slot: u32, tokens: u32, now: SimTime, plan: &mut StepPlan) {
        let s = &self.sequences[slot as usize];
        if s.is_decoding() {
            plan.shape.add_decode(s.computed, 0);
        } else {
            plan.shape.add_prefill(tokens, s.computed, tokens == s.uncomputed());
        }
        self.share(slot, tokens, now, plan);
    }

    /// Makes sure that a block is free for the running request at `index`: those admitted last lose
    /// their memory. `false` if it was the last itself.
    pub(super) fn make_room(&mut self, index: usize, plan: &mut StepPlan) -> bool {
        while self.free == 0 {
            let is_itself = self.running.len() == index + 1;
            self.displace_last(plan);
            if is_itself {
                return false;
            }
        }
        true
    }

    /// The request admitted last loses its memory.
    pub(super) fn displace_last(&mut self, plan: &mut StepPlan) {
        let slot = self.running.pop().expect("a request runs");
        self.release(slot);
        let s = &mut self.sequences[slot as usize];
        s.status = Status::Waiting;
        s.computed = 0;
        s.life.preemptions += 1;
        plan.preempted.push(s.life.id);
        self.preempted.push(slot);
    }

    /// Those who lost their memory wait before all others, in order of admission.
    pub(super) fn put_back(&mut self) {
        for slot in self.preempted.drain(..) {
            self.waiting.push_front(slot);
        }
    }

    fn release(&mut self, slot: u32) {
        self.free += std::mem::take(&mut self.sequences[slot as usize].blocks);
    }

    fn vacate(&mut self, slot: u32) {
        self.release(slot);
        self.sequences[slot as usize].status = Status::Gone;
        self.vacant.push(slot);
    }

    /// The place of a request that has not left.
    pub(super) fn slot_of(&self, id: RequestId) -> Option<u32> {
        let is_here = |s: &Sequence| s.life.id == id && s.status != Status::Gone;
        self.sequences.iter().position(is_here).map(|slot| slot as u32)
    }

    pub(super) fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        let Some(slot) = self.slot_of(id) else { return };
        self.waiting.retain(|&other| other != slot);
        self.running.retain(|&other| other != slot);
        result.finished.push((self.get(slot).life, Finish::Aborted));
        self.vacate(slot);
    }

    /// Takes in the tokens of a step; those who have their last one leave.
    pub(super) fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        let mut has_left = false;
        for entry in plan.entries.iter().filter(|entry| entry.samples) {
            let s = &mut self.sequences[entry.slot as usize];
            if s.life.id != entry.request || s.status == Status::Gone {
                continue;
            }
            let gap = s.life.emit(now);
            result.count_token(s.life.id, gap);
            if s.life.is_done() {
                result.finished.push((s.life, Finish::Done));
                self.vacate(entry.slot);
                has_left = true;
            }
        }
        if has_left {
            let sequences = &self.sequences;
            self.running.retain(|&slot| sequences[slot as usize].status != Status::Gone);
        }
    }

    pub(super) fn load(&self) -> Load {
        Load {
            waiting: self.waiting.len() as u32,
            running: self.running.len() as u32,
            kv_blocks: self.blocks,
            kv_blocks_free: self.free,
            ..Load::default()
        }
    }

    pub(super) fn life(&self, id: RequestId) -> Option<Life> {
        self.slot_of(id).map(|slot| self.get(slot).life)
    }

    pub(super) fn answers(&self, tell: &mut dyn FnMut(RequestId, u32)) {
        let here = self.sequences.iter().filter(|s| s.status != Status::Gone);
        here.filter(|s| s.life.generated > 0).for_each(|s| tell(s.life.id, s.life.generated));
    }

    /// Whether every block is free, held by a request here, or by the batch as a whole.
    pub(super) fn is_balanced(&self) -> bool {
        let here = self.sequences.iter().filter(|s| s.status != Status::Gone);
        let held: u32 = here.map(|s| s.blocks).sum();
        self.free + held + self.set_aside == self.blocks
    }

    /// Admits waiting requests in order up to `seqs` running ones, as memory lasts.
    pub(super) fn admit_up_to(&mut self, seqs: u32, reservation: Reservation) {
        while (self.running().len() as u32) < seqs {
            let Some(head) = self.head() else { break };
            let tokens = self.reserved(head, reservation);
            if self.admit(tokens, 0).is_none() {
                break;
            }
        }
    }

    /// Gives every running request all it has not computed.
    pub(super) fn serve_all(&mut self, now: SimTime, plan: &mut StepPlan) {
        for index in 0..self.running().len() {
            let slot = self.running()[index];
            let tokens = self.get(slot).uncomputed();
            self.serve(slot, tokens, now, plan);
        }
    }
}

/// The part of [`Schedule`](super::Schedule) that a policy with a field `queues` leaves to it; it has no abilities.
macro_rules! schedule_by_queues {
    () => {
        schedule_by_queues!(but waits_until);

        fn waits_until(&self) -> Option<SimTime> {
            None
        }
    };
    (but waits_until) => {
        schedule_by_queues!(but enqueue, head, waits_until);

        fn enqueue(
            &mut self,
            id: RequestId,
            request: &Request,
            handoff: Handoff,
        ) -> Result<(), Finish> {
            assert!(handoff == Handoff::None, "request {id}: this scheduler hands over no KV");
            self.queues.enqueue(id, request, handoff)
        }

        fn head(&self) -> Option<RequestId> {
            self.queues.head().map(|slot| self.queues.get(slot).life.id)
        }
    };
    (but enqueue, head) => {
        schedule_by_queues!(but enqueue, head, waits_until);

        fn waits_until(&self) -> Option<SimTime> {
            None
        }
    };
    (but enqueue, head, waits_until) => {
        fn now(&mut self, _: SimTime) {}

        fn reads_outcomes_first(&self) -> bool {
            false
        }

        fn rewind_clock(&mut self) {}

        fn load(&self) -> Load {
            self.queues.load()
        }

        fn backlog(&self) -> Option<$crate::engine::scheduler::Backlog> {
            None
        }

        fn life(&self, id: RequestId) -> Option<Life> {
            self.queues.life(id)
        }

        fn answers(&self, tell: &mut dyn FnMut(RequestId, u32)) {
            self.queues.answers(tell);
        }

        fn displaces_in_vain(&self) -> bool {
            false
        }

        fn steps_in_flight_max(&self) -> usize {
            1
        }

        fn is_balanced(&self) -> bool {
            self.queues.is_balanced()
        }

        $crate::engine::scheduler::abilities::no_abilities!();
    };
}
pub(super) use schedule_by_queues;

#[cfg(test)]
pub(super) mod tests;

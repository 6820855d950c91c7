//! Decode steps of the group that decodes in lock step: the same outcome as request by request,
//! without looking at each.
//!
//! While there is a group, the whole running batch is in it. Evicting for a step, the estimate and
//! who is set aside follow the plain algorithm, with sums in place of walks. What the group cannot
//! do (a retraction, a preemption, decodes that ride along in a prefill batch, a client that leaves)
//! dissolves it: its members are told what they have become, and the plain algorithm decides.

use super::Sglang;
use super::budget::MAX_NEW_TOKENS_CLIP;
use super::group::{Member, Place};
use super::memory::Keep;
use super::sequence::Status;
use crate::cost::StepShape;
use crate::engine::scheduler::{Quiet, QuietSteps};
use crate::engine::{Entry, EntryKind, Finish, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::units::SimTime;

/// Decode steps served request by request after a group was dissolved: what dissolved it tends to
/// come again soon.
const UNGROUPED_STEPS: u32 = 4;

/// How the running batch is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serving {
    /// By the group: all of it are members.
    Grouped,
    /// Request by request, for so many more decode steps.
    Single { steps: u32 },
    /// Request by request, always.
    Never,
}

/// The rows of a tick in flight, by place in the arena and name.
pub(super) type Rows = Vec<(u32, RequestId)>;

impl Sglang {
    pub(super) fn is_grouped(&self) -> bool {
        self.serving == Serving::Grouped
    }

    /// Forms the group before a decode step, if it is time.
    pub(super) fn form_group(&mut self) {
        match &mut self.serving {
            Serving::Single { steps: 0 } => {}
            Serving::Single { steps } => {
                *steps -= 1;
                return;
            }
            Serving::Grouped | Serving::Never => return,
        }
        if self.running.iter().all(|&slot| self.sequences[slot as usize].can_join()) {
            self.serving = Serving::Grouped;
            self.join_running(0);
        }
    }

    /// The requests in the running batch from an index on join the group.
    pub(super) fn join_running(&mut self, from: usize) {
        let newcomers = &self.running[from..];
        if !newcomers.iter().all(|&slot| self.sequences[slot as usize].can_join()) {
            self.dissolve_group();
            return;
        }
        for index in from..self.running.len() {
            let slot = self.running[index];
            let joined = self.group.ticks();
            let s = &mut self.sequences[slot as usize];
            // What it will have generated when the steps in flight have ended.
            let expected = s.life.generated + s.in_flight;
            let tick_of = |answer: u32| joined + u64::from(answer.saturating_sub(expected));
            let is_overlapping = !self.settings.disable_overlap_schedule;
            let member = Member {
                place: self.group.next_place(),
                joined,
                key: i64::from(s.kv) - joined.cast_signed() - 1,
                last_tick: if is_overlapping { tick_of(s.life.max_tokens) } else { u64::MAX },
                done_tick: tick_of(s.life.output_tokens),
                limit_tick: (s.ignores_eos && s.life.max_tokens <= MAX_NEW_TOKENS_CLIP)
                    .then(|| tick_of(s.life.max_tokens)),
            };
            s.place = member.place;
            s.member = Some(member);
            self.group.join(slot, member);
        }
    }

    /// Tokens kept for the answers of the running batch, where the group knows without looking at
    /// each: all of them are sure to come.
    pub(super) fn group_answers(&self) -> Option<f64> {
        if !self.is_grouped() {
            return None;
        }
        let completed = self.group.completed();
        let mut left = self.group.ticks_to_limits()?;
        for (place, slot) in self.group.awaiting_first() {
            let s = &self.sequences[slot as usize];
            let member = s.member.filter(|m| m.place == place && s.status == Status::Admitted);
            if let Some(limit) = member.and_then(|member| member.limit_tick) {
                let rest = s.life.max_tokens.saturating_sub(self.generated(slot));
                left += i64::from(rest) - (limit.cast_signed() - completed.cast_signed());
            }
        }
        Some(left as f64)
    }

    /// Takes a request out of the running batch of the group.
    pub(super) fn remove_running(&mut self, slot: u32) {
        // Through the list alone: to look at the requests in it would cost a cache miss for each.
        let at = self.running.iter().position(|&other| other == slot);
        self.running.remove(at.expect("a member is in the running batch"));
    }

    /// Takes members out of the running batch whose last token is on its way.
    pub(super) fn set_aside_members(&mut self) {
        let sequences = &self.sequences;
        while let Some(slot) = self.group.set_aside(|slot| sequences[slot as usize].member) {
            self.set_aside.push(slot);
        }
        while let Some(slot) = self.set_aside.pop() {
            self.sequences[slot as usize].status = Status::LastInFlight;
            self.last_in_flight += 1;
            self.remove_running(slot);
        }
    }

    /// Tokens of memory that the next tick takes.
    pub(super) fn group_need(&self) -> u32 {
        self.group.claims_of_tick(1) * self.settings.page_size
    }

    /// A token for each member.
    pub(super) fn decode_group(&mut self, plan: &mut StepPlan) {
        let sequences = &self.sequences;
        let tick = self.group.next_tick(|slot| sequences[slot as usize].member);
        debug_assert_eq!(tick.rows as usize, self.running.len(), "all that run are members");
        self.claim_tick();
        plan.decodes = tick.rows;
        plan.shape.add_decodes(tick.rows, tick.context, tick.longest);
        if self.records_entries {
            self.record_decodes(plan);
        }
    }

    fn claim_tick(&mut self) {
        self.evict_until(self.running.len() as u32 * self.settings.page_size);
        self.available -= self.group_need();
        self.group.tick();
    }

    fn record_decodes(&self, plan: &mut StepPlan) {
        let tick = self.group.ticks().cast_signed();
        for &slot in &self.running {
            let s = &self.sequences[slot as usize];
            let member = s.member.expect("all that run are members");
            plan.decode_entries.push(Entry {
                request: s.life.id,
                slot,
                tokens: 1,
                computed: (member.key + tick) as u32,
                drafts: 0,
                kind: EntryKind::Running,
                samples: true,
            });
        }
    }

    /// Takes in the outcome of the decodes of a step.
    pub(super) fn complete_decodes(&mut self, now: SimTime, rows: u32, result: &mut StepResult) {
        if let Some(rows) = self.dissolved.pop_front() {
            for (slot, request) in rows {
                let entry = Entry {
                    request,
                    slot,
                    tokens: 1,
                    computed: 0,
                    drafts: 0,
                    kind: EntryKind::Running,
                    samples: true,
                };
                self.complete_share(now, &entry, result);
            }
            return;
        }
        let before = self.group.completed_at();
        let (mut fresh, mut done) =
            (std::mem::take(&mut self.fresh), std::mem::take(&mut self.done));
        let sequences = &self.sequences;
        let member = |slot: u32| sequences[slot as usize].member;
        let older = self.group.complete(now, rows, member, &mut fresh, &mut done);
        result.count_tokens(now - before, older);
        for slot in fresh.drain(..) {
            let life = &self.sequences[slot as usize].life;
            result.count_token(life.id, Some(now - life.last_token));
        }
        for (_, slot) in done.drain(..) {
            self.leave_group(slot);
            self.finish(slot, Keep::InTree, Finish::Done, &mut result.finished);
        }
        (self.fresh, self.done) = (fresh, done);
    }

    /// A member leaves the group, which goes on.
    pub(super) fn leave_group(&mut self, slot: u32) {
        if let Some(member) = self.tell_member(slot) {
            self.group.leave(&member);
        }
    }

    /// Tells a member what it has become; it is none any more.
    fn tell_member(&mut self, slot: u32) -> Option<Member> {
        let s = &mut self.sequences[slot as usize];
        let member = s.member.take()?;
        let scheduled = member.ticks_until(self.group.ticks());
        let done = member.ticks_until(self.group.completed());
        s.kv += scheduled;
        s.in_flight += scheduled - done;
        s.life.generated += done;
        if done > 0 {
            s.life.last_token = self.group.completed_at();
        }
        Some(member)
    }

    /// Tells every member what it has become; the plain algorithm goes on from there.
    pub(super) fn dissolve_group(&mut self) {
        if !self.is_grouped() {
            return;
        }
        self.serving = Serving::Single { steps: UNGROUPED_STEPS };
        let aside = self.group.aside().iter().copied();
        let in_batch = self.running.iter().map(|&slot| (self.sequences[slot as usize].place, slot));
        let mut all: Vec<Place> = in_batch.chain(aside).collect();
        all.sort_unstable();
        for tick in self.group.completed() + 1..=self.group.ticks() {
            let is_in =
                |slot: u32| self.sequences[slot as usize].member.is_some_and(|m| m.is_in(tick));
            let rows = all.iter().filter(|place| is_in(place.1));
            let named = rows.map(|&(_, slot)| (slot, self.sequences[slot as usize].life.id));
            let named: Rows = named.collect();
            self.dissolved.push_back(named);
        }
        for (_, slot) in all {
            self.tell_member(slot);
        }
        self.group.clear();
    }

    /// Tokens of a request whose outcome is in.
    pub(super) fn generated(&self, slot: u32) -> u32 {
        let s = &self.sequences[slot as usize];
        let done = |member: Member| member.ticks_until(self.group.completed());
        s.life.generated + s.member.map_or(0, done)
    }

    /// Tokens of a request that have a slot of KV memory.
    pub(super) fn kv(&self, slot: u32) -> u32 {
        let s = &self.sequences[slot as usize];
        s.kv + s.member.map_or(0, |member| member.ticks_until(self.group.ticks()))
    }

    /// The steps ahead in which only the group decodes, everybody stays, and nobody is admitted.
    pub(super) fn quiet_steps(&mut self) -> Option<Quiet> {
        let latched = self.is_full && !self.settings.enable_priority_scheduling;
        let can_admit = self.chunked.is_some() || !self.waiting.is_empty() && !latched;
        let is_settled = self.last_prefill.is_empty()
            && self.finished.is_empty()
            && self.dissolved.is_empty()
            // What comes from others at the instant of a step would have to be told apart.
            && !self.handoffs.receives
            && self.last_outcome_was_tick;
        if !self.is_grouped() || can_admit || !is_settled || self.records_entries {
            return None;
        }
        let sequences = &self.sequences;
        let member = |slot: u32| sequences[slot as usize].member;
        let steps = self.group.quiet_ticks(member);
        if steps == 0 {
            return None;
        }
        let tick = self.group.next_tick(member);
        let mut shape = StepShape::default();
        shape.add_decodes(tick.rows, tick.context, tick.longest);
        self.loras.add_decodes(&mut shape);
        Some(Quiet { steps, shape, passed_over: 0 })
    }

    pub(super) fn run_quiet_steps(&mut self, run: QuietSteps) {
        debug_assert_eq!(run.decided, run.outcomes, "no outcome was told before");
        // Each step evicts until a page for everybody is free; the last one needs most.
        let page = self.settings.page_size;
        let last = self.group.claims_of_tick(run.decided);
        let taken = run.claims * page;
        self.evict_until(taken - last * page + self.running.len() as u32 * page);
        self.available -= taken;
        self.ratio.decay_for(run.decided);
        self.group.quiet_ticks_done(run.decided, run.completed);
    }
}

//! Steps of the group that decodes in lock step: the same outcome as request by request, without
//! looking at each.
//!
//! The group serves a step only where it provably decides as the plain algorithm would: the budget
//! covers all members, memory suffices for everybody, so that nobody is preempted, and requests
//! that still prefill were admitted after all members, so that the order of claims is the order of
//! admission. Otherwise it is dissolved, its members are told what they have become, and the plain
//! algorithm decides.

use super::answers::findable;
use super::group::Member;
use super::limits::StepLimits;
use super::memory::Need;
use super::{Record, VllmV1};
use crate::cost::StepShape;
use crate::engine::scheduler::{Quiet, QuietSteps};
use crate::engine::{Entry, EntryKind, StepPlan, StepResult};
use crate::kv::Hits;
use crate::units::SimTime;

/// Steps for which no group is formed after one had to be dissolved: memory is short, and it
/// would have to be dissolved again.
const UNGROUPED_STEPS: u64 = 8;

impl VllmV1 {
    /// Serves the running requests with the group, if it can; `false` if the plain algorithm has
    /// to.
    pub(super) fn schedule_group(&mut self, limits: &mut StepLimits, plan: &mut StepPlan) -> bool {
        if self.group.is_empty() {
            return false;
        }
        let Some(others) = self.others_behind_group(limits) else {
            self.dissolve_group();
            return false;
        };
        let sequences = &mut self.sequences;
        let tick = self.group.next_tick(|slot| sequences[slot as usize].member);
        if tick.rows > 0 {
            if self.record.blocks {
                for &(_, slot) in self.group.claims() {
                    let sequence = &mut sequences[slot as usize];
                    let owned = sequence.blocks.numbers().len();
                    self.pool.take(&mut sequence.blocks, 1);
                    let block = sequence.blocks.numbers()[owned..].to_vec();
                    plan.blocks.push((sequence.life.id, vec![block]));
                }
            } else {
                self.pool.take_plain(self.group.claims().len() as u32);
            }
            self.group.tick(|slot| sequences[slot as usize].member);
            self.ticked_in = self.executed_steps + 1;
            limits.budget -= tick.rows;
            plan.decodes = tick.rows;
            plan.shape.add_decodes(tick.rows, tick.context, tick.longest);
            if self.record.entries {
                self.record_decodes(others, plan);
            }
        }
        for index in others..self.running.len() {
            let slot = self.running[index];
            let tokens = if limits.budget > 0 { self.running_share(slot, limits) } else { 0 };
            if tokens == 0 {
                continue;
            }
            self.precede(slot);
            let owned = self.owned(slot);
            let need = Need { tokens, lookahead: self.lookahead, ..Need::default() };
            let is_served = self.allocate(slot, &Hits::default(), need);
            assert!(is_served, "blocks were counted before");
            self.add_running(slot, tokens, &owned, limits, plan);
        }
        true
    }

    /// Where in `running` the requests behind the group begin; `None` if the group cannot serve
    /// this step.
    fn others_behind_group(&self, limits: &StepLimits) -> Option<usize> {
        let last = self.group.last_admission();
        let is_early = |slot: &u32| self.sequences[*slot as usize].admission <= last;
        // In order of admission, the members have to be exactly the first ones.
        let others = self.group.size();
        let is_apart = others <= self.running.len()
            && self.running[..others].last().is_none_or(is_early)
            && !self.running.get(others).is_some_and(is_early);
        if !is_apart || self.group.count() > limits.budget {
            return None;
        }
        let mut left = StepLimits { budget: limits.budget - self.group.count(), ..*limits };
        let mut blocks = self.group.claims().len() as u32;
        for &slot in &self.running[others..] {
            let tokens = if left.budget > 0 { self.running_share(slot, &left) } else { 0 };
            left.budget -= tokens;
            if tokens > 0 {
                blocks += self.lacking(slot, tokens + self.lookahead);
            }
        }
        (blocks <= self.pool.free()).then_some(others)
    }

    fn record_decodes(&self, others: usize, plan: &mut StepPlan) {
        let tick = self.group.ticks();
        for &slot in &self.running[..others] {
            let sequence = &self.sequences[slot as usize];
            let member = sequence.member.filter(|m| m.joined < tick && tick <= m.last_tick);
            plan.decode_entries.extend(member.map(|member| Entry {
                request: sequence.life.id,
                slot,
                tokens: 1,
                computed: member.context_before(tick),
                drafts: 0,
                kind: EntryKind::Running,
                samples: true,
            }));
        }
    }

    /// The steps ahead in which only the group decodes, everybody stays until the last of them, and nobody
    /// can be admitted.
    ///
    /// A head that lacks memory goes on lacking it: each block that a member claims is one free
    /// block fewer, and with the content it loses, the head's need shrinks by one at most.
    pub(super) fn quiet_steps(&mut self) -> Option<Quiet> {
        let has_place = (self.running.len() as u32) < self.settings.max_num_active_seqs;
        let can_admit =
            !self.holds_only_unlanded() || has_place && !self.lacks_memory && !self.admits_nobody();
        let is_whole = self.running.len() == self.group.count() as usize;
        let is_plain =
            self.record == Record::default() && self.settings.prefill_schedule_interval <= 1;
        let is_settled = is_plain && self.connector.is_drained() && !self.writes_back();
        if can_admit
            || !is_whole
            || !is_settled
            || self.group.count() > self.settings.max_num_batched_tokens
        {
            return None;
        }
        let steps = self.group.quiet_ticks();
        let sequences = &self.sequences;
        let tick = self.group.next_tick(|slot| sequences[slot as usize].member);
        let mut shape = StepShape::default();
        shape.add_decodes(tick.rows, tick.context, tick.longest);
        self.adapters.add_decodes(&mut shape);
        (steps > 0 && tick.rows > 0).then_some(Quiet {
            steps,
            shape,
            passed_over: self.passed_over(),
        })
    }

    /// Whether the outcome of a step in flight is nothing but the first tokens of requests that go on in the
    /// group, and nobody waits who could find what their prompts leave in the cache.
    pub(super) fn brings_first_tokens(&self, plan: &StepPlan) -> bool {
        let is_alone = self.waiting.is_empty() && self.holding.is_empty();
        let is_plain = self.drafts == 0 && self.tiers.is_none() && self.dissolved.is_empty();
        let goes_on = |entry: &Entry| {
            let s = &self.sequences[entry.slot as usize];
            let is_here = s.life.id == entry.request && s.stale == 0;
            is_here && entry.samples && s.member.is_some_and(|it| it.joined < it.done_tick)
        };
        is_alone && is_plain && plan.preempted.is_empty() && plan.entries.iter().all(goes_on)
    }

    pub(super) fn run_quiet_steps(&mut self, run: QuietSteps) {
        self.pool.take_plain(run.claims);
        let sequences = &self.sequences;
        let member = |slot: u32| sequences[slot as usize].member;
        self.group.quiet_ticks_done(run.decided, run.outcomes, member);
        self.executed_steps += run.decided;
        self.processed_steps += run.outcomes;
        self.last_completion = run.completed;
    }

    /// Whether the requests of this plan that decode from now on may join the group: all running
    /// requests that decode are in it or in this plan.
    pub(super) fn can_group(&self, plan: &StepPlan) -> bool {
        if !self.groups || self.executed_steps < self.ungrouped_until {
            return false;
        }
        if !self.group.is_empty() {
            return true;
        }
        let prefills = |slot: &&u32| {
            let s = &self.sequences[**slot as usize];
            s.is_prefill_chunk && !plan.entries.iter().any(|entry| entry.slot == **slot)
        };
        let absent = self.running.len() - plan.entries.len();
        absent == 0 || absent == self.running.iter().filter(prefills).count()
    }

    /// A request of the plan that decodes from the next step on joins the group.
    pub(super) fn join_group(&mut self, entry: &Entry) {
        if !self.has_whole_window(entry.slot) {
            return;
        }
        let s = &mut self.sequences[entry.slot as usize];
        let length = |answer: u32| {
            s.life.prompt_tokens.saturating_add(answer).min(self.settings.max_model_len)
        };
        let (most, true_length) = (length(s.life.max_tokens), length(s.life.output_tokens));
        if !entry.samples || s.computed + 1 >= most {
            return;
        }
        let joined = self.group.ticks();
        let tick_of = |length: u32| joined + u64::from(length.saturating_sub(1 + s.computed));
        let member = Member {
            joined,
            base: s.computed,
            admission: s.admission,
            last_tick: tick_of(most),
            done_tick: tick_of(true_length),
        };
        s.member = Some(member);
        self.group.join(entry.slot, member);
    }

    /// Ticks of a member whose outcome is in.
    pub(super) fn ticks_done(&self, member: &Member) -> u32 {
        let last = self.group.completed().min(member.last_tick);
        last.saturating_sub(member.joined) as u32
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
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        let sequences = &self.sequences;
        let alive = self.group.complete(rows, |slot| sequences[slot as usize].member, &mut done);
        result.count_tokens(now - self.last_completion, alive);
        for &(_, slot) in &done {
            self.finish_member(slot, now, result);
        }
        self.done = done;
    }

    /// A member's last token is out.
    fn finish_member(&mut self, slot: u32, now: SimTime, result: &mut StepResult) {
        self.settle_blocks(slot);
        let s = &mut self.sequences[slot as usize];
        let member = s.member.take().expect("a member finishes");
        s.in_flight = self.group.in_flight(&member);
        let done = self.group.completed().saturating_sub(member.joined) as u32;
        s.tokens += done;
        s.computed = member.base + done;
        s.life.generated += done;
        s.life.last_token = now;
        let computed = s.computed;
        self.publish(slot, computed);
        self.leave(slot, result);
    }

    /// Counts the blocks that a member has claimed in the ticks since it joined.
    #[inline]
    pub(super) fn settle_blocks(&mut self, slot: u32) {
        let s = &self.sequences[slot as usize];
        let Some(member) = s.member.filter(|_| !self.pool.is_numbered()) else { return };
        let computed = member.base + self.ticks_scheduled(&member);
        let blocks = computed.div_ceil(self.settings.block_size);
        let s = &mut self.sequences[slot as usize];
        s.blocks.add_plain(blocks - s.blocks.len());
    }

    pub(super) fn ticks_scheduled(&self, member: &Member) -> u32 {
        let last = self.group.ticks().min(member.last_tick);
        last.saturating_sub(member.joined) as u32
    }

    /// Tells every member what it has become; the plain algorithm goes on from there.
    pub(super) fn dissolve_group(&mut self) {
        if self.group.is_empty() {
            return;
        }
        let (ticks, completed) = (self.group.ticks(), self.group.completed());
        let sequences = &self.sequences;
        let (members, in_flight) = self.group.dissolve(|slot| sequences[slot as usize].member);
        let named = |rows: Vec<super::Place>| {
            rows.iter().map(|&(_, slot)| (slot, sequences[slot as usize].life.id)).collect()
        };
        self.dissolved = in_flight.into_iter().map(named).collect();
        for (_, slot) in members {
            self.settle_blocks(slot);
            let s = &mut self.sequences[slot as usize];
            let member = s.member.take().expect("a member is dissolved");
            let since_joined = |tick: u64| tick.min(member.last_tick).saturating_sub(member.joined);
            let (scheduled, done) = (since_joined(ticks) as u32, since_joined(completed) as u32);
            s.computed += scheduled;
            s.tokens += done;
            s.life.generated += done;
            s.in_flight += scheduled - done;
            if done > 0 {
                s.life.last_token = self.last_completion;
            }
            if self.settings.async_scheduling {
                s.placeholders += scheduled - done;
            }
            let tokens = (s.computed, s.tokens);
            let published = findable(self.settings.async_scheduling, tokens, s.in_flight);
            self.publish(slot, published);
        }
        self.ungrouped_until = self.executed_steps + UNGROUPED_STEPS;
    }
}

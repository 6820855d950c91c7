//! Who is prefilled in the next batch (SGLang 0.5.23, `sglang/srt/managers/scheduler.py`,
//! `_get_new_batch_prefill_raw`, and `schedule_policy.py`, `PrefillAdder`).

use super::Sglang;
use super::budget::{Budget, MAX_NEW_TOKENS_CLIP, Verdict};
use super::exact_fit::{Completion, Completions};
use super::sequence::Status;
use crate::engine::{Entry, EntryKind, StepPlan};
use crate::ids::AdapterId;
use crate::kv::PathLock;
use crate::units::SimTime;

/// A prefill batch while it is put together.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) budget: Budget,
    /// The completions in play, once a candidate needed them.
    completions: Option<Completions>,
    /// Waiting requests looked at, from the front of the queue.
    scanned: usize,
    /// Of the chosen requests, those that have a row already.
    rows_held: u32,
}

impl Sglang {
    /// Puts together a prefill batch; `false` if there is none.
    pub(super) fn plan_prefill(&mut self, now: SimTime, plan: &mut StepPlan) -> bool {
        let has_windows = self.settings.has_windows();
        if self.settings.enable_priority_scheduling || self.running.is_empty() || has_windows {
            self.is_full = false;
        }
        if self.chunked.is_none() {
            if self.is_full || self.waiting.is_empty() {
                return false;
            }
            if self.admissible(0) == 0 && !self.settings.enable_priority_scheduling {
                self.is_full = true;
                return false;
            }
        }
        self.order_waiting();
        self.chosen.clear();
        let budget = self.new_budget();
        let mut draft = Draft { budget, completions: None, scanned: 0, rows_held: 0 };
        if let Some(slot) = self.chunked {
            self.continue_chunked(slot, &mut draft);
        }
        self.choose(&mut draft, plan);
        self.take_chosen(draft.scanned);
        self.requeue_preempted();
        if self.chosen.is_empty() {
            return false;
        }
        self.make_room_for_chosen(plan);
        if self.chosen.is_empty() {
            return false;
        }
        self.commit_prefill(now, plan);
        self.mix_in_decodes(plan);
        if self.loras.distinct() == 0 {
            return true;
        }
        let sequences = &self.sequences;
        let shares =
            plan.entries.iter().map(|entry| (sequences[entry.slot as usize].adapter, entry.tokens));
        self.loras.add_batch(shares, &mut plan.shape);
        true
    }

    /// How many requests may be in the batch: by their number, and by free rows.
    fn admissible(&self, rows_held: u32) -> u32 {
        let running = self.running.len() as u32;
        self.settings.max_running_requests.saturating_sub(running).min(self.rows_free + rows_held)
    }

    /// The request in chunked prefill gets its next chunk before all others.
    fn continue_chunked(&mut self, slot: u32, draft: &mut Draft) {
        let left = draft.budget.left(self.reclaimable()) as i64;
        let page = i64::from(self.settings.page_size);
        let window = draft.budget.window.map(|budget| self.window_left(&budget) - page);
        let s = &mut self.sequences[slot as usize];
        let rest = s.known() - s.prefix;
        let chunk = draft.budget.chunk.unwrap_or(i64::from(rest));
        let fitting = window.map_or(chunk.min(left), |window| chunk.min(left).min(window));
        if window.is_some() && fitting <= 0 {
            // It is parked until there are window slots for it.
            return;
        }
        let is_bounded = draft.budget.chunk.is_some() || window.is_some();
        let most = if !is_bounded || fitting <= 0 { chunk } else { fitting };
        let share = i64::from(rest).min(most) as u32;
        let is_cut = share < rest;
        s.extend_end = s.prefix + share;
        let answer = if is_cut { 0 } else { s.life.max_tokens.min(MAX_NEW_TOKENS_CLIP) };
        draft.budget.charge(share, answer);
        draft.rows_held += 1;
        self.chosen.push(slot);
        self.chunked = is_cut.then_some(slot);
        self.has_chunk = is_cut;
    }

    /// Adds waiting requests, in order, until one does not fit.
    fn choose(&mut self, draft: &mut Draft, plan: &mut StepPlan) {
        self.list_adapters();
        while draft.scanned < self.waiting.len() {
            let slot = self.waiting[draft.scanned];
            if self.verdict(&draft.budget) == Verdict::BatchFull {
                break;
            }
            draft.scanned += 1;
            if self.lacks_adapter_slot(slot) {
                continue;
            }
            if self.chosen.len() as u32 >= self.admissible(draft.rows_held) {
                self.is_full = true;
            }
            let makes_way = self.settings.enable_priority_scheduling;
            if self.is_full && !(makes_way && self.preempt_for(slot, &mut draft.budget, plan)) {
                break;
            }
            let verdict = self.consider(slot, draft);
            if verdict == Verdict::NoMemory {
                self.is_full = !self.chosen.is_empty() || !self.running.is_empty();
            }
            if verdict != Verdict::Continue {
                break;
            }
            let adapter = self.sequences[slot as usize].adapter;
            add_distinct(&mut self.adapters, adapter);
        }
    }

    /// Looks a request's prefix up and adds it to the batch if it fits. The verdict is on the next
    /// one: a request that spends the budget is itself admitted.
    fn consider(&mut self, slot: u32, draft: &mut Draft) -> Verdict {
        let known = self.sequences[slot as usize].known();
        let found = self.find_prefix(slot, known - 1);
        let s = &mut self.sequences[slot as usize];
        self.cache.found(slot, found);
        let (found, kv_tokens) = (found.usable, found.kv_tokens);
        s.prefix = found.tokens;
        s.considered = known;
        let is_sure_to_run_on = s.ignores_eos && !self.has_tree();
        let most = self.settings.prefill_max_requests;
        let mut lock = PathLock::NONE;
        let mut got_state = false;
        let admitted = if most.is_some_and(|most| self.chosen.len() as u32 >= most) {
            Err(Verdict::BatchFull)
        } else if is_sure_to_run_on {
            self.fit_exactly(slot, draft).and_then(|share| self.uncut(slot, share))
        } else {
            lock = self.cache.lock(found.node);
            got_state = self.find_state(slot, found.tokens, kv_tokens);
            let fit = self.fit(slot, draft).and_then(|share| self.uncut(slot, share));
            if fit.is_err() {
                self.cache.unlock(lock);
            }
            fit
        };
        match admitted {
            Ok(share) => {
                self.admit(slot, lock, share, draft);
                self.verdict(&draft.budget)
            }
            Err(verdict) => {
                if got_state {
                    self.give_state_back(slot);
                }
                verdict
            }
        }
    }

    /// With windows one prompt at most is computed in chunks: beside one that waits for window slots, or whose chunk they
    /// cut short, no other is begun that would be (the engine breaks down there).
    fn uncut(&self, slot: u32, share: u32) -> Result<u32, Verdict> {
        let s = &self.sequences[slot as usize];
        let is_cut = s.prefix + share < s.known();
        let is_alone = !self.settings.has_windows() || self.chunked.is_none();
        if is_cut && !is_alone { Err(Verdict::BatchFull) } else { Ok(share) }
    }

    /// The share of a request whose prefix is locked, if it fits.
    fn fit(&self, slot: u32, draft: &Draft) -> Result<u32, Verdict> {
        let s = &self.sequences[slot as usize];
        let share = s.known() - s.prefix;
        let answer = s.life.max_tokens.saturating_sub(s.life.generated).min(MAX_NEW_TOKENS_CLIP);
        let need = f64::from(share + answer + self.settings.page_size);
        if need >= draft.budget.left(self.reclaimable()) {
            return Err(Verdict::NoMemory);
        }
        let chunk = match &draft.budget.window {
            None => draft.budget.chunk,
            Some(window) => {
                self.window_chunk(window, self.ceil(share), answer, draft.budget.chunk)?
            }
        };
        let paged = i64::from(self.ceil(share));
        match chunk {
            // The first request of a batch may exceed the limit, or it would never run.
            None if !self.chosen.is_empty() && paged >= draft.budget.input => {
                Err(Verdict::BatchFull)
            }
            Some(chunk) if paged > chunk => {
                let page = i64::from(self.settings.page_size);
                let prefix = i64::from(s.prefix);
                let whole_pages = chunk / page * page;
                let share = (prefix + whole_pages) / page * page - prefix;
                if share > 0 { Ok(share as u32) } else { Err(Verdict::BatchFull) }
            }
            _ => Ok(share),
        }
    }

    /// The share of a request that is sure to run to its limit, without a prefix cache.
    fn fit_exactly(&self, slot: u32, draft: &mut Draft) -> Result<u32, Verdict> {
        let share = self.sequences[slot as usize].known();
        let paged = f64::from(self.ceil(share) + self.settings.page_size);
        let reclaimable = self.reclaimable();
        let (left, left_now) = (draft.budget.left(reclaimable), draft.budget.left_now(reclaimable));
        if paged > left_now.min(left) {
            return Err(Verdict::NoMemory);
        }
        if let Some(window) = &draft.budget.window {
            let life = &self.sequences[slot as usize].life;
            let answer = life.max_tokens.saturating_sub(life.generated).min(MAX_NEW_TOKENS_CLIP);
            let need = window.need(share.into(), answer.into(), draft.budget.chunk);
            if need > self.window_left(window) {
                return Err(Verdict::NoMemory);
            }
        } else if !self.completes(slot, draft, left_now - paged) {
            return Err(Verdict::NoMemory);
        }
        match draft.budget.chunk {
            Some(chunk) if i64::from(share) > chunk => {
                if chunk > 0 {
                    Ok(chunk as u32)
                } else {
                    Err(Verdict::BatchFull)
                }
            }
            _ => Ok(share),
        }
    }

    /// Whether all requests would find memory to their ends, with this one and `free` tokens left.
    fn completes(&self, slot: u32, draft: &mut Draft, free: f64) -> bool {
        let candidate = self.completion(slot);
        if let Some(completions) = &mut draft.completions {
            completions.add(candidate);
        } else {
            let others = self.running.iter().chain(&self.chosen);
            let others = others.map(|&other| self.completion(other));
            let all = std::iter::once(candidate).chain(others);
            draft.completions = Some(Completions::new(all));
        }
        draft.completions.as_ref().is_some_and(|all| all.fit(free))
    }

    fn completion(&self, slot: u32) -> Completion {
        let s = &self.sequences[slot as usize];
        let expected = f64::from(s.life.max_tokens) * self.expected_share(slot);
        let generated = self.generated(slot);
        let held = s.life.prompt_tokens + generated;
        Completion { left: expected - f64::from(generated), held }
    }

    fn admit(&mut self, slot: u32, lock: PathLock, share: u32, draft: &mut Draft) {
        let s = &mut self.sequences[slot as usize];
        let is_cut = s.prefix + share < s.known();
        s.extend_end = s.prefix + share;
        s.lock = lock;
        s.protected = s.prefix;
        s.kv = s.prefix;
        s.status = Status::Admitted;
        let answer = if is_cut { 0 } else { s.life.max_tokens.min(MAX_NEW_TOKENS_CLIP) };
        draft.budget.charge(share, answer);
        self.chosen.push(slot);
        if is_cut {
            self.chunked = Some(slot);
            self.has_chunk = true;
        }
    }

    /// Takes the chosen requests out of the waiting queue; they are among the first `scanned`.
    fn take_chosen(&mut self, scanned: usize) {
        let is_waiting = |slot: u32| self.sequences[slot as usize].status == Status::Waiting;
        if scanned > 0 && self.waiting.iter().take(scanned).any(|&slot| is_waiting(slot)) {
            let left = self.waiting.iter().take(scanned).copied().filter(|&slot| is_waiting(slot));
            let left: Vec<u32> = left.collect();
            self.waiting.drain(..scanned);
            for slot in left.into_iter().rev() {
                self.waiting.push_front(slot);
            }
        } else {
            self.waiting.drain(..scanned);
        }
    }

    /// Evicts for the chosen requests. The one in chunked prefill gets its next chunk whatever memory
    /// is left: where that is too little, SGLang's scheduler ends with "out of memory". Here the
    /// request ends in its place.
    fn make_room_for_chosen(&mut self, plan: &mut StepPlan) {
        self.slide_prefills();
        self.take_states();
        let page = self.settings.page_size;
        let spare = if page > 1 { self.chosen.len() as u32 * page } else { 0 };
        let (mut tokens, mut need) = (spare, 0);
        for &slot in &self.chosen {
            let s = &self.sequences[slot as usize];
            tokens += s.extend_end - s.prefix;
            need += self.ceil(s.extend_end) - self.ceil(s.kv);
        }
        self.evict_until(tokens);
        let forced = self.chosen[0];
        let fits = need <= self.available && self.cache.has_free(need);
        if !fits && self.sequences[forced as usize].has_row {
            self.chosen.remove(0);
            self.chunked.take_if(|slot| *slot == forced);
            self.give_up(forced, plan);
        }
    }

    /// Gives the chosen requests their memory and writes them into the plan.
    fn commit_prefill(&mut self, now: SimTime, plan: &mut StepPlan) {
        for index in 0..self.chosen.len() {
            let slot = self.chosen[index];
            let end = self.sequences[slot as usize].extend_end;
            self.extend(slot, end);
            let s = &mut self.sequences[slot as usize];
            let is_admission = !s.has_row;
            if is_admission {
                s.has_row = true;
                self.rows_free -= 1;
                plan.hits.push((s.life.id, s.prefix));
                if let Some(adapter) = s.adapter {
                    self.loras.join(adapter, &mut plan.adapter_loads);
                }
            }
            let kind = match s.life.first_scheduled {
                _ if !is_admission => EntryKind::Running,
                None => EntryKind::New,
                Some(_) => EntryKind::Resumed,
            };
            if kind == EntryKind::New {
                s.life.first_scheduled = Some(now);
                s.life.cached_tokens = s.prefix;
            }
            s.in_flight += 1;
            self.cache.prefill(slot);
            // Of two requests cut in one batch, the engine takes the first for one whose prompt is
            // computed: it gets a token and decodes.
            let (tokens, samples) = (end - s.prefix, self.chunked != Some(slot));
            plan.shape.add_prefill(tokens, s.prefix, samples);
            plan.entries.push(Entry {
                request: s.life.id,
                slot,
                tokens,
                computed: s.prefix,
                drafts: 0,
                kind,
                samples,
            });
        }
        self.last_prefill.clone_from(&self.chosen);
    }

    /// The adapters of running and chosen requests; "none" is one of them.
    fn list_adapters(&mut self) {
        self.adapters.clear();
        if self.settings.max_loras_per_batch.is_some() {
            for &slot in self.running.iter().chain(&self.chosen) {
                add_distinct(&mut self.adapters, self.sequences[slot as usize].adapter);
            }
        }
    }

    /// Whether the batch has no room for one more adapter. Slots of pinned adapters that are not in it are
    /// none of the others' (0.5.23, `sglang/srt/lora/lora_manager.py`, `validate_lora_batch`).
    fn lacks_adapter_slot(&self, slot: u32) -> bool {
        let adapter = self.sequences[slot as usize].adapter;
        self.settings.max_loras_per_batch.is_some_and(|most| {
            if self.adapters.contains(&adapter) {
                return false;
            }
            let is_pinned = |of: Option<AdapterId>| of.is_some_and(|of| self.loras.is_pinned(of));
            if self.loras.pinned() == 0 || is_pinned(adapter) {
                return self.adapters.len() as u32 >= most;
            }
            let others = self.adapters.iter().filter(|of| !is_pinned(**of)).count() as u32;
            others >= most - self.loras.pinned()
        })
    }
}

#[inline]
fn add_distinct(adapters: &mut Vec<Option<AdapterId>>, adapter: Option<AdapterId>) {
    if !adapters.contains(&adapter) {
        adapters.push(adapter);
    }
}

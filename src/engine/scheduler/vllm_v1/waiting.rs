//! Who is admitted.

use super::VllmV1;
use super::lanes::Place;
use super::limits::StepLimits;
use super::memory::Need;
use super::offload::Offloaded;
use super::queue::Queue;
use super::sequence::Status;
use crate::engine::scheduler::Handoff;
use crate::engine::{Adapters, Entry, EntryKind, StepPlan};
use crate::ids::AdapterId;
use crate::kv::Hits;

/// What becomes of the request at the head.
enum Turn {
    /// It runs, or its KV is on its way.
    Admitted,
    /// It cannot run now, but those behind it may.
    Skipped,
    /// Neither it nor those behind it are admitted in this step.
    Blocked,
    /// The same, for want of memory.
    NoMemory,
}

/// When a request admitted for one token gets drafts it cannot use, so that its share has the
/// width of its neighbours'.
#[derive(Debug, Clone, Copy)]
enum Padding {
    Never,
    /// Only with tokens computed before.
    OnHits,
    Always,
}

/// The place of all who hold blocks: before those who do not.
const HELD: i64 = i64::MIN;

fn is_held(place: Place) -> bool {
    place.0 == HELD
}

/// Whether a request with this adapter may run beside those that do.
fn gets_slot(slots: Option<u32>, running: &Adapters, adapter: Option<AdapterId>) -> bool {
    match (slots, adapter) {
        (Some(slots), Some(adapter)) => running.distinct() < slots || running.is_running(adapter),
        _ => true,
    }
}

impl VllmV1 {
    /// Admits waiting requests in order until one blocks the queue.
    pub(super) fn schedule_waiting(&mut self, limits: &mut StepLimits, plan: &mut StepPlan) {
        self.lacks_memory = false;
        if self.waiting.is_empty() && self.holding.is_empty() {
            self.admit_nobody(limits, plan);
            return;
        }
        let mut skipped = std::mem::take(&mut self.skipped);
        let padding = self.padding(plan);
        self.passed_over = 0;
        self.scanned_to = i64::MIN;
        while limits.budget > 0 && (self.running.len() as u32) < self.settings.max_num_active_seqs {
            let Some(place) = self.next_waiting() else {
                self.scanned_to = i64::MAX;
                break;
            };
            self.scanned_to = place.0;
            match self.admit(place.1, padding, limits, plan) {
                Turn::Admitted => {}
                Turn::Skipped => {
                    let s = &mut self.sequences[place.1 as usize];
                    self.deferred += u32::from(!std::mem::replace(&mut s.is_deferred, true));
                    skipped.push(place);
                }
                Turn::Blocked => {
                    self.put_back(place, is_held(place));
                    break;
                }
                Turn::NoMemory => {
                    self.put_back(place, is_held(place));
                    let only_loading = skipped.iter().all(|&(_, slot)| self.is_unlanded(slot));
                    // A block of its prefix that is evicted is one that it may lack twice less.
                    let shrinks_faster = self.windows.is_some() && self.hits.free > 0;
                    // What tiers hold changes by itself.
                    self.lacks_memory = only_loading
                        && !self.quotes_answers(place.1)
                        && self.tiers.is_none()
                        && !shrinks_faster;
                    break;
                }
            }
        }
        for place in skipped.drain(..).rev() {
            let s = &self.sequences[place.1 as usize];
            self.put_back(place, s.status == Status::Loading || s.computed > 0);
        }
        self.skipped = skipped;
        plan.passed_over = self.passed_over();
        if !limits.holds_prefill {
            self.capacity_bound = self.waiting.len() + self.holding.len() > self.deferred;
        }
    }

    /// What a step finds that looks for waiting requests where there are none.
    fn admit_nobody(&mut self, limits: &StepLimits, plan: &mut StepPlan) {
        let looks =
            limits.budget > 0 && (self.running.len() as u32) < self.settings.max_num_active_seqs;
        self.scanned_to = if looks { i64::MAX } else { i64::MIN };
        self.passed_over = 0;
        plan.passed_over = 0;
        self.capacity_bound &= limits.holds_prefill;
    }

    /// A request is admitted, or leaves: it counts no longer among those passed over.
    pub(super) fn wait_no_more(&mut self, slot: u32) {
        let s = &mut self.sequences[slot as usize];
        self.deferred -= u32::from(std::mem::take(&mut s.is_deferred));
    }

    /// The request whose turn it is.
    fn next_waiting(&mut self) -> Option<Place> {
        // Whoever waits in the other queue stands behind all of these.
        if let Some((_, slot)) = self.holding.pop(|_| true) {
            return Some((HELD, slot));
        }
        let (slots, adapters) = (self.settings.max_loras, &self.adapters);
        self.waiting.pop(|adapter| gets_slot(slots, adapters, adapter))
    }

    /// Waiting requests that the last step looked at in vain: their adapters get no slot. So does
    /// the next, if nothing changes.
    pub(super) fn passed_over(&self) -> u32 {
        match &self.waiting {
            Queue::Lanes(lanes) => {
                lanes.passed_over(self.scanned_to, |adapter| self.gets_slot(adapter))
            }
            _ => self.passed_over,
        }
    }

    /// Whether no waiting request can be admitted for want of adapters, or because there is none. Those
    /// whose KV is on its way stand aside until it arrives.
    pub(super) fn admits_nobody(&self) -> bool {
        self.holds_only_unlanded() && self.waiting.has_nobody(|adapter| self.gets_slot(adapter))
    }

    /// Whether all requests that hold blocks without running wait for their KV.
    pub(super) fn holds_only_unlanded(&self) -> bool {
        self.holding.len() == self.unlanded
    }

    pub(super) fn is_unlanded(&self, slot: u32) -> bool {
        let s = &self.sequences[slot as usize];
        s.status == Status::Loading && !s.has_landed
    }

    fn gets_slot(&self, adapter: Option<AdapterId>) -> bool {
        gets_slot(self.settings.max_loras, &self.adapters, adapter)
    }

    fn admit(
        &mut self,
        slot: u32,
        padding: Padding,
        limits: &mut StepLimits,
        plan: &mut StepPlan,
    ) -> Turn {
        if self.sequences[slot as usize].status == Status::Loading && !self.land(slot) {
            return Turn::Skipped;
        }
        if self.awaits_grammar(slot) {
            return Turn::Skipped;
        }
        let s = &self.sequences[slot as usize];
        if s.stale > 0 && !s.drops_stale {
            return Turn::Skipped;
        }
        if !self.gets_slot(s.adapter) {
            self.passed_over += 1;
            return Turn::Skipped;
        }
        let is_new_prefix = s.computed == 0;
        let loads = is_new_prefix && s.handoff == Handoff::PrefilledElsewhere;
        if is_new_prefix {
            self.find_prefix(slot);
        } else {
            self.found = None;
            self.hits.clear();
        }
        let hits = std::mem::take(&mut self.hits);
        let hit_tokens = hits.tokens;
        let below = if is_new_prefix && !loads {
            match self.find_offloaded(slot, hit_tokens) {
                Offloaded::Tokens(tokens) => tokens + self.find_below(slot, hit_tokens),
                Offloaded::Later => {
                    self.hits = hits;
                    return Turn::Skipped;
                }
            }
        } else {
            0
        };
        let turn = if loads {
            let external = self.sequences[slot as usize].life.prompt_tokens - hit_tokens;
            self.start_load(slot, &hits, external, plan)
        } else if below > 0 {
            self.start_load(slot, &hits, below, plan)
        } else {
            self.start_running(slot, &hits, padding, limits, plan)
        };
        if is_new_prefix && matches!(turn, Turn::Admitted) {
            let s = &mut self.sequences[slot as usize];
            plan.hits.push((s.life.id, hit_tokens));
            if s.life.first_scheduled.is_none() {
                // The last token is computed again, whoever has it.
                s.life.cached_tokens = (hit_tokens + below).min(s.tokens - 1);
            }
            self.admit_below(slot, hit_tokens, below);
            if below > 0 {
                self.load_offloaded(slot, (hit_tokens, below));
            }
        }
        self.hits = hits;
        turn
    }

    fn start_running(
        &mut self,
        slot: u32,
        hits: &Hits,
        padding: Padding,
        limits: &mut StepLimits,
        plan: &mut StepPlan,
    ) -> Turn {
        let s = &self.sequences[slot as usize];
        let hit_tokens = hits.tokens;
        let computed = s.computed + hit_tokens;
        if limits.holds_prefill && computed + 1 < s.tokens {
            return Turn::Blocked;
        }
        let mut tokens = s.tokens - computed;
        let mut drafts = 0;
        let fits_padding = computed + 1 + self.drafts < self.settings.max_model_len;
        let is_padded = match padding {
            Padding::Never => false,
            Padding::OnHits => computed > 0,
            Padding::Always => true,
        };
        if is_padded && tokens == 1 && fits_padding {
            tokens = 1 + self.drafts;
            if tokens > limits.budget {
                return Turn::Blocked;
            }
            drafts = self.drafts;
        }
        tokens = limits.clip(tokens);
        if !self.settings.enable_chunked_prefill && tokens > limits.budget {
            return Turn::Blocked;
        }
        tokens = tokens.min(limits.budget);
        let encoded = self.encode(slot, (computed, tokens), limits);
        if encoded.tokens == 0 {
            return Turn::Skipped;
        }
        tokens = self.aligned(slot, (computed, encoded.tokens), limits);
        if tokens == 0 {
            return Turn::Blocked;
        }
        // A chunk limit below the padded width cuts drafts off.
        let drafts = drafts.min(tokens - 1);
        let need = Need {
            tokens,
            lookahead: self.lookahead,
            whole_sequence: self.settings.scheduler_reserve_full_isl,
            ..Need::default()
        };
        if !self.allocate(slot, hits, need) {
            self.pass_images(slot, u32::MAX);
            return Turn::NoMemory;
        }
        self.keep_encoded(slot, encoded, limits, plan);
        limits.budget -= tokens;
        self.wait_no_more(slot);
        self.running.push(slot);
        self.admissions += 1;
        let s = &mut self.sequences[slot as usize];
        s.admission = self.admissions;
        let kind = if s.status == Status::Preempted { EntryKind::Resumed } else { EntryKind::New };
        s.status = Status::Running;
        s.computed = computed;
        s.is_prefill_chunk = computed + tokens < s.tokens;
        s.holds_promise |= s.is_prefill_chunk;
        limits.prefills |= computed + 1 < s.tokens;
        let id = s.life.id;
        plan.entries.push(Entry {
            request: id,
            slot,
            tokens,
            computed,
            drafts,
            kind,
            samples: false,
        });
        if self.record.blocks {
            plan.blocks.push((id, s.blocks.lists_from(&[])));
        }
        if let Some(adapter) = s.adapter {
            self.adapters.join(adapter, &mut plan.adapter_loads);
        }
        Turn::Admitted
    }

    /// Gives a request the blocks for a KV of so many tokens that comes from elsewhere; it waits for it.
    fn start_load(&mut self, slot: u32, hits: &Hits, external: u32, plan: &mut StepPlan) -> Turn {
        let hit_tokens = hits.tokens;
        let need = Need {
            external,
            reserved: self.promised_blocks(),
            whole_sequence: self.settings.scheduler_reserve_full_isl,
            ..Need::default()
        };
        if !self.allocate(slot, hits, need) {
            return Turn::NoMemory;
        }
        let s = &mut self.sequences[slot as usize];
        s.status = Status::Loading;
        if s.handoff == Handoff::PrefilledElsewhere {
            s.handoff = Handoff::None;
        }
        s.has_landed = false;
        s.holds_promise = true;
        self.unlanded += 1;
        s.computed = hit_tokens + external;
        plan.loads.push((s.life.id, external));
        let key = s.key();
        self.holding.push_back(slot, key);
        Turn::Admitted
    }

    /// Takes in a KV that has arrived; `false` while it has not.
    fn land(&mut self, slot: u32) -> bool {
        let s = &mut self.sequences[slot as usize];
        if !s.has_landed {
            return false;
        }
        let computed = s.computed;
        s.status = if s.life.preemptions > 0 { Status::Preempted } else { Status::Waiting };
        // The last token is computed again, for its logits.
        s.computed = computed.min(s.tokens - 1);
        self.publish_quoted(slot);
        self.publish(slot, computed);
        true
    }

    /// A request whose KV does not come computes its prompt itself; if it has blocks already, it gives
    /// them back and waits before all others (vLLM 0.33.0, `kv_load_failure_policy = recompute`).
    pub(super) fn load_nothing(&mut self, slot: u32) {
        let s = &mut self.sequences[slot as usize];
        s.handoff = Handoff::None;
        if s.status == Status::Loading && !s.has_landed {
            s.status = Status::Waiting;
            s.computed = 0;
            s.holds_promise = false;
            let key = s.key();
            self.unlanded -= 1;
            self.holding.remove(slot, key);
            self.release_blocks(slot);
            self.waiting.push_front(slot, key);
        }
    }

    /// Puts a request back among those that hold blocks, or those that do not. One whose prompt is a
    /// single token holds a block without anything computed, and counts among the latter once it
    /// was passed over.
    fn put_back(&mut self, place: Place, holds: bool) {
        let key = self.sequences[place.1 as usize].key();
        if holds {
            self.holding.put_back(place, key);
        } else if is_held(place) {
            self.waiting.push_front(place.1, key);
        } else {
            self.waiting.put_back(place, key);
        }
    }

    /// One-token admissions are padded only beside steps that decode.
    fn padding(&self, plan: &StepPlan) -> Padding {
        let prefills = |entry: &Entry| self.sequences[entry.slot as usize].is_prefill_chunk;
        if self.drafts == 0 || plan.entries.iter().any(prefills) {
            Padding::Never
        } else if plan.entries.is_empty() {
            Padding::OnHits
        } else {
            Padding::Always
        }
    }
}

//! Who is admitted.

use super::VllmV1;
use super::memory::Need;
use super::running::StepLimits;
use super::sequence::Status;
use crate::engine::scheduler::Handoff;
use crate::engine::{Entry, EntryKind, StepPlan};
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

impl VllmV1 {
    /// Admits waiting requests in order until one blocks the queue.
    pub(super) fn schedule_waiting(&mut self, limits: &mut StepLimits, plan: &mut StepPlan) {
        self.list_adapters();
        self.lacks_memory = false;
        let mut skipped = std::mem::take(&mut self.skipped);
        let padding = self.padding(plan);
        while limits.budget > 0 && (self.running.len() as u32) < self.active_max {
            let Some(slot) = self.holding.pop().or_else(|| self.waiting.pop()) else { break };
            let status = self.sequences[slot as usize].status;
            match self.admit(slot, padding, limits, plan) {
                Turn::Admitted => {}
                Turn::Skipped => skipped.push(slot),
                Turn::Blocked => {
                    self.put_back(slot, status);
                    break;
                }
                Turn::NoMemory => {
                    self.put_back(slot, status);
                    self.lacks_memory = skipped.is_empty() && !self.quotes_answers(slot);
                    break;
                }
            }
        }
        let skipped_count = skipped.len() as u32;
        for slot in skipped.drain(..).rev() {
            self.put_back(slot, self.sequences[slot as usize].status);
        }
        self.skipped = skipped;
        if !limits.holds_prefill {
            self.capacity_bound = self.waiting.len() + self.holding.len() > skipped_count;
        }
    }

    fn admit(
        &mut self,
        slot: u32,
        padding: Padding,
        limits: &mut StepLimits,
        plan: &mut StepPlan,
    ) -> Turn {
        if self.sequences[slot as usize].status == Status::Loading && !self.land(slot)
            || self.sequences[slot as usize].stale > 0
            || self.lacks_adapter_slot(slot)
        {
            return Turn::Skipped;
        }
        let s = &self.sequences[slot as usize];
        let is_new_prefix = s.computed == 0;
        let loads = is_new_prefix && s.handoff == Handoff::PrefilledElsewhere;
        if is_new_prefix {
            self.find_prefix(slot);
        } else {
            self.found = None;
            self.hits.clear();
        }
        let hits = std::mem::take(&mut self.hits);
        let hit_tokens = hits.blocks * self.config.block_size;
        let turn = if loads {
            self.start_load(slot, &hits, plan)
        } else {
            self.start_running(slot, &hits, padding, limits, plan)
        };
        if is_new_prefix && matches!(turn, Turn::Admitted) {
            let life = &mut self.sequences[slot as usize].life;
            plan.hits.push((life.id, hit_tokens));
            if life.first_scheduled.is_none() {
                life.cached_tokens = hit_tokens;
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
        let hit_tokens = hits.blocks * self.config.block_size;
        let computed = s.computed + hit_tokens;
        if limits.holds_prefill && computed + 1 < s.tokens {
            return Turn::Blocked;
        }
        let mut tokens = s.tokens - computed;
        let mut drafts = 0;
        let fits_padding = computed + 1 + self.drafts < self.model_len;
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
        if !self.config.enable_chunked_prefill && tokens > limits.budget {
            return Turn::Blocked;
        }
        tokens = tokens.min(limits.budget);
        // A chunk limit below the padded width cuts drafts off.
        let drafts = drafts.min(tokens - 1);
        let need = Need {
            tokens,
            lookahead: self.lookahead,
            whole_sequence: self.config.scheduler_reserve_full_isl,
            ..Need::default()
        };
        if !self.allocate(slot, hits, need) {
            return Turn::NoMemory;
        }
        limits.budget -= tokens;
        self.running.push(slot);
        self.admissions += 1;
        let s = &mut self.sequences[slot as usize];
        s.admission = self.admissions;
        let kind = if s.status == Status::Preempted { EntryKind::Resumed } else { EntryKind::New };
        s.status = Status::Running;
        s.computed = computed;
        s.is_prefill_chunk = computed + tokens < s.tokens;
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
            plan.blocks.push((id, s.blocks.numbers().to_vec()));
        }
        if let Some(adapter) = s.adapter {
            add_distinct(&mut self.adapters, adapter);
        }
        Turn::Admitted
    }

    /// Gives a request the blocks for a KV that another machine sends; it waits for it.
    fn start_load(&mut self, slot: u32, hits: &Hits, plan: &mut StepPlan) -> Turn {
        let s = &self.sequences[slot as usize];
        let hit_tokens = hits.blocks * self.config.block_size;
        let external = s.life.prompt_tokens - hit_tokens;
        let need = Need {
            external,
            reserved: self.promised_blocks(),
            whole_sequence: self.config.scheduler_reserve_full_isl,
            ..Need::default()
        };
        if !self.allocate(slot, hits, need) {
            return Turn::NoMemory;
        }
        let s = &mut self.sequences[slot as usize];
        s.status = Status::Loading;
        s.handoff = Handoff::None;
        s.has_landed = false;
        s.computed = s.life.prompt_tokens;
        plan.loads.push((s.life.id, external));
        let order = s.order();
        self.holding.push_back(slot, order);
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
        self.publish(slot, computed);
        true
    }

    fn put_back(&mut self, slot: u32, status: Status) {
        let order = self.sequences[slot as usize].order();
        let owns_blocks = !self.sequences[slot as usize].blocks.is_empty();
        if status == Status::Loading || owns_blocks {
            self.holding.push_front(slot, order);
        } else {
            self.waiting.push_front(slot, order);
        }
    }

    fn list_adapters(&mut self) {
        self.adapters.clear();
        if self.config.max_loras.is_some() {
            for &slot in &self.running {
                if let Some(adapter) = self.sequences[slot as usize].adapter {
                    add_distinct(&mut self.adapters, adapter);
                }
            }
        }
    }

    fn lacks_adapter_slot(&self, slot: u32) -> bool {
        match (self.config.max_loras, self.sequences[slot as usize].adapter) {
            (Some(most), Some(adapter)) => {
                self.adapters.len() as u32 >= most && !self.adapters.contains(&adapter)
            }
            _ => false,
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

fn add_distinct(adapters: &mut Vec<AdapterId>, adapter: AdapterId) {
    if !adapters.contains(&adapter) {
        adapters.push(adapter);
    }
}

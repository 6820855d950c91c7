//! One pool of numbered blocks for all groups of a model (`KVCacheCoordinator`, `BlockPool`).

use super::table::{GroupTable, NULL};
use super::{chunked, passed_blocks, sliding, state};
use crate::kv::{BlockHash, BlockId, BlockTable, Hits, NumberedPool};
use crate::model::{GroupKind, GroupSpec, Groups};

/// What a request wants blocks for.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    /// Tokens whose KV it has, or finds.
    pub total: u32,
    /// Tokens that it then has with those of its share.
    pub main: u32,
    /// The same with slots for tokens that drafts may take.
    pub slots: u32,
    /// Where it has to be admitted as a whole: tokens that steps in flight compute at most. What layers see
    /// only a part of bounds what a request needs at once.
    pub in_flight: Option<u32>,
}

/// KV memory that the groups of a model share. Block 0 is the null block.
#[derive(Debug, Clone)]
pub struct GroupedPool {
    pub(super) groups: Groups,
    /// Groups of equal layers, whose blocks are found together: those that see everything first.
    pub(super) classes: Vec<Vec<usize>>,
    pub(super) blocks: NumberedPool,
    /// Draft tokens of a step, each of which has a state of its own.
    drafts: u32,
    max_model_len: u32,
    /// The number of the step that is being decided.
    step: u64,
    /// Of each block, the step in which it was published last.
    published: Vec<u64>,
}

impl GroupedPool {
    /// A pool of `blocks` blocks, the null block included.
    ///
    /// # Panics
    /// When `blocks` is 0: there is always a null block.
    pub fn new(groups: Groups, blocks: u32, drafts: u32, max_model_len: u32) -> Self {
        let specs = groups.specs();
        let mut classes: Vec<Vec<usize>> = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            match classes.iter_mut().find(|class| specs[class[0]].is_like(spec)) {
                Some(class) => class.push(index),
                None => classes.push(vec![index]),
            }
        }
        classes.sort_by_key(|class| specs[class[0]].kind != GroupKind::Full);
        Self {
            classes,
            blocks: NumberedPool::new(blocks),
            published: vec![0; blocks as usize],
            groups,
            drafts,
            max_model_len,
            step: 0,
        }
    }

    /// Blocks that no request holds.
    pub fn free(&self) -> u32 {
        self.blocks.free()
    }

    /// Blocks that requests can ever hold.
    pub fn usable(&self) -> u32 {
        self.blocks.usable()
    }

    /// The groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// A step begins to be decided: states published before can be used by it.
    pub fn begin_step(&mut self) {
        self.step += 1;
    }

    /// Blocks that a request lacks, those that it finds and that leave the free queue among them; none where it
    /// has to wait for a state that this step computes.
    pub fn lacking(&self, table: &BlockTable, hits: &Hits, demand: Demand) -> Option<u32> {
        let mut lacking: u32 = 0;
        for (index, spec) in self.groups.specs().iter().enumerate() {
            let empty = GroupTable::default();
            let grouped = table.grouped.as_ref();
            let own = grouped.and_then(|it| it.groups.get(index)).unwrap_or(&empty);
            let found = hits.groups.get(index).map_or(&[][..], Vec::as_slice);
            let blocks = match spec.kind {
                GroupKind::AlignedState => self.lacking_state(spec, own, found, demand)?,
                _ => self.lacking_slots(spec, own, found, demand),
            };
            lacking = lacking.saturating_add(blocks);
        }
        Some(lacking)
    }

    fn lacking_slots(
        &self,
        spec: &GroupSpec,
        own: &GroupTable,
        found: &[BlockId],
        demand: Demand,
    ) -> u32 {
        let mut places = self.places(spec, demand.slots);
        if let Some(most) = demand.in_flight.and_then(|tokens| self.most(spec, tokens)) {
            places = places.min(most);
        }
        if own.cached.is_some() {
            return places.saturating_sub(own.len());
        }
        let passed = passed_blocks(spec, demand.total);
        let local = own.len() + found.len() as u32;
        let kept = passed.saturating_sub(own.len()) as usize;
        let waiting = self.free_of(found.get(kept..).unwrap_or_default());
        places.saturating_sub(passed.max(local)) + waiting
    }

    fn lacking_state(
        &self,
        spec: &GroupSpec,
        own: &GroupTable,
        found: &[BlockId],
        demand: Demand,
    ) -> Option<u32> {
        if let Some(&last) = found.last()
            && self.published[last as usize] == self.step
        {
            return None;
        }
        let (main, hits) = (demand.main, found.len() as u32);
        let extra = (self.drafts, self.inside(spec, demand));
        Some(state::lacking(own, (main, hits), extra, spec.block_size) + self.free_of(found))
    }

    /// States that a share gives before its end.
    fn inside(&self, spec: &GroupSpec, demand: Demand) -> u32 {
        if self.groups.has_checkpoints() {
            state::checkpoints((demand.total, demand.main), spec.block_size)
        } else {
            0
        }
    }

    /// Places for so many slots, and the states of drafts.
    fn places(&self, spec: &GroupSpec, slots: u32) -> u32 {
        let drafts = if spec.kind == GroupKind::State { self.drafts } else { 0 };
        slots.div_ceil(spec.block_size) + drafts
    }

    fn most(&self, spec: &GroupSpec, in_flight: u32) -> Option<u32> {
        let (len, block) = (self.max_model_len, spec.block_size);
        match spec.kind {
            GroupKind::Sliding { window } => Some(sliding::most(window, in_flight, len, block)),
            GroupKind::Chunked { chunk } => Some(chunked::most(chunk, in_flight, len, block)),
            _ => None,
        }
    }

    fn free_of(&self, found: &[BlockId]) -> u32 {
        let waits = |id: &&BlockId| **id != NULL && self.blocks.is_free(**id);
        found.iter().filter(waits).count() as u32
    }

    /// Gives back what a request with so many tokens computed, whose steps have ended, needs no more.
    pub fn drop_passed(&mut self, table: &mut BlockTable, computed: u32) {
        let mut passed = Vec::new();
        let Some(grouped) = &mut table.grouped else { return };
        for (spec, own) in self.groups.specs().iter().zip(&mut grouped.groups) {
            let before = passed_blocks(spec, computed).min(own.len());
            if spec.kind == GroupKind::AlignedState {
                state::retire(own, (computed, before), spec.block_size, &mut passed);
            } else {
                passed.extend((0..before).rev().map_while(|index| own.take(index)));
            }
            self.blocks.let_go(passed.drain(..));
        }
    }

    /// Gives a request the blocks that a lookup found, from those on that it needs with `total` tokens.
    pub fn hold(&mut self, table: &mut BlockTable, hits: &Hits, total: u32) {
        let specs = self.groups.specs();
        let grouped = table.in_groups(specs.len());
        if hits.groups.iter().all(Vec::is_empty) {
            return;
        }
        for ((spec, own), found) in specs.iter().zip(&mut grouped.groups).zip(&hits.groups) {
            let passed = (passed_blocks(spec, total) as usize).min(found.len());
            own.blocks.resize(passed, NULL);
            for &id in &found[passed..] {
                own.blocks.push(id);
                if id != NULL {
                    self.blocks.touch(id);
                }
            }
            own.cached = Some(own.len());
        }
    }

    /// Gives a request new blocks, group by group.
    ///
    /// # Panics
    /// When fewer are free than it [lacks](Self::lacking).
    pub fn take(&mut self, table: &mut BlockTable, demand: Demand) {
        let grouped = table.in_groups(self.groups.specs().len());
        for (spec, own) in self.groups.specs().iter().zip(&mut grouped.groups) {
            let count = if spec.kind == GroupKind::AlignedState {
                let extra = (self.drafts, self.inside(spec, demand));
                state::grow(own, demand.main, extra, spec.block_size)
            } else {
                let drafts = if spec.kind == GroupKind::State { self.drafts } else { 0 };
                (demand.slots.div_ceil(spec.block_size) + drafts).saturating_sub(own.len())
            };
            own.blocks.extend((0..count).map(|_| self.blocks.pop()));
        }
    }

    /// Makes findable what the groups keep of the first `tokens` tokens of a request, of which `known` are
    /// known, `prompt` of them its prompt.
    pub fn publish(&mut self, table: &mut BlockTable, (known, prompt): (u32, u32), tokens: u32) {
        let (unit, hash) = (self.groups.scheduler_block(), self.groups.hash_block());
        table.hasher.extend(known, &mut table.names);
        let hashed = table.names.len() as u32 * hash;
        let whole = (tokens - tokens % unit).min(hashed);
        let Some(grouped) = &mut table.grouped else { return };
        let ends = [prompt - 1, grouped.junction].map(|token| token - token % unit);
        for (index, own) in grouped.groups.iter_mut().enumerate() {
            let spec = self.groups.specs()[index];
            let (from, to) = (own.cached.unwrap_or(0), whole / spec.block_size);
            if from >= to {
                continue;
            }
            own.cached = Some(to);
            let ends = ends.map(|token| token / spec.block_size);
            for block in from..to {
                let id = own.blocks[block as usize];
                if id == NULL || !self.keeps(&spec, block, &ends) {
                    continue;
                }
                let name = name(&table.names, &spec, hash, (block, index));
                self.blocks.name(id, name);
                self.published[id as usize] = self.step;
            }
        }
    }

    /// Whether a full block of a group can be found from now on.
    fn keeps(&self, spec: &GroupSpec, block: u32, ends: &[u32]) -> bool {
        let segment = match self.groups.retention_interval() {
            None => Some(self.groups.scheduler_block() / spec.block_size),
            Some(0) => None,
            Some(tokens) => Some((tokens / spec.block_size).max(1)),
        };
        match spec.kind {
            GroupKind::Full | GroupKind::Chunked { .. } => true,
            GroupKind::Sliding { window } => {
                let needed = sliding::window_blocks(window, spec.block_size);
                sliding::is_kept(block, needed, segment, ends)
            }
            GroupKind::State | GroupKind::AlignedState => state::is_kept(block, segment, ends),
        }
    }

    /// Takes back all blocks of a request, group by group, the last of each first.
    pub(in crate::kv) fn release(&mut self, table: &mut BlockTable) {
        let Some(grouped) = &mut table.grouped else { return };
        for own in &mut grouped.groups {
            self.blocks.let_go(own.blocks.drain(..).rev().filter(|id| *id != NULL));
            own.clear();
        }
    }

    /// Forgets the content of blocks that nobody holds.
    pub(in crate::kv) fn forget_cached(&mut self) {
        self.blocks.forget_cached();
    }

    /// Whether every block is either free and in the queue, or held: law L3.
    pub fn is_balanced(&self) -> bool {
        self.blocks.is_balanced()
    }
}

/// The name of a block of a group: that of the content up to its end, and of the group.
pub(super) fn name(
    names: &[BlockHash],
    spec: &GroupSpec,
    hash: u32,
    (block, group): (u32, usize),
) -> BlockHash {
    let end = (block + 1) * (spec.block_size / hash);
    names[end as usize - 1].in_group(group)
}

//! How much KV memory a run needs, beside what its engines have.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::engine::Life;
use crate::engine::scheduler::Load;
use crate::ids::{InstanceId, RequestId};
use crate::request::{Request, Segment};
use crate::resolved::{Kinds, ReplicaGroup, Scenario};
use crate::scenario::EngineConfig;
use crate::sim::{Lane, Observer, Occurrence};
use crate::units::SimTime;

/// Hundredths of the capacity that are told apart; what needs more counts as needing this.
const MOST_PERCENT: usize = 200;
/// The same as a share.
pub(super) const NEED_MAX: f64 = MOST_PERCENT as f64 / 100.0;
/// The share of what is sent again that has to be found, in percent.
const FOUND_PERCENT: u64 = 90;

/// Follows the memory that requests hold and the content that later requests have again.
///
/// The need of an instance is the number of blocks with which nobody waits for memory and nine
/// tenths of the tokens that are sent again are found. A cache that gives up what was used longest
/// ago still has a prompt when it comes again if its blocks outnumber those that were left behind
/// since (other prompts, answers) and those that are held at that moment. It costs O(1) per step
/// and O(runs of equal content) per request.
#[derive(Debug, Clone, Default)]
pub(super) struct KvNeed {
    /// By group, the tokens of a block; nothing where no content is found again.
    block_tokens: Vec<Option<u32>>,
    kinds: Kinds,
    /// The requests that have not left and have content that others may have.
    inside: FxHashMap<RequestId, Inside>,
    instances: Vec<Memory>,
    lane: Lane,
}

/// What an instance needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closest {
    /// Blocks needed over blocks there are, at most 2.
    pub(super) share: f64,
    /// Whether it is what finds prefixes again, which is more than what requests hold and wait for.
    pub(super) is_of_prefixes: bool,
    /// The group of the instance.
    pub(super) group: usize,
}

/// The content of a request, and its places among what its instance has seen.
#[derive(Debug, Clone)]
struct Inside {
    segments: Arc<[Segment]>,
    places: Vec<u32>,
}

/// The memory of an instance and the content it has seen.
#[derive(Debug, Clone)]
struct Memory {
    /// By stream and first position, the place of a run of tokens.
    places: FxHashMap<(u64, u32), u32>,
    runs: Vec<Seen>,
    capacity: u32,
    /// Blocks that requests hold.
    held: u32,
    /// The most blocks at any time that requests held and waited for.
    wanted: u64,
    /// Blocks that were left behind so far.
    left_behind: u64,
    /// Tokens sent again, by the capacity that would have kept them in percent of this one.
    again: Box<[u64; MOST_PERCENT + 1]>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            places: FxHashMap::default(),
            runs: Vec::new(),
            capacity: 0,
            held: 0,
            wanted: 0,
            left_behind: 0,
            again: Box::new([0; MOST_PERCENT + 1]),
        }
    }
}

/// A run of tokens that prompts had.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    longest: u32,
    /// Requests that have it and have not left.
    holders: u32,
    /// What had been left behind when the last of them left.
    left_at: u64,
}

impl KvNeed {
    /// Of a run of this scenario.
    pub(super) fn of(scenario: &Scenario) -> Self {
        let block_tokens = |group: &ReplicaGroup| match &group.cluster.engine {
            // Each rank finds what it has computed itself.
            _ if group.cluster.data_parallel_size > 1 => None,
            EngineConfig::VllmV1(vllm) => vllm.enable_prefix_caching.then_some(vllm.block_size),
            EngineConfig::Sglang(sglang) => {
                (!sglang.disable_radix_cache).then_some(sglang.page_tokens())
            }
            _ => None,
        };
        // Where prefill and decode are apart, blocks that wait to be fetched are in no such balance.
        let counted = scenario.groups.iter().filter(|_| !scenario.is_disaggregated());
        let block_tokens = counted.map(block_tokens).collect();
        Self { block_tokens, kinds: scenario.kinds(), ..Self::default() }
    }

    /// What is needed on the instance where that is closest to what there is; nothing where no memory is counted.
    pub(super) fn closest(&self) -> Option<Closest> {
        let counted = (0..).zip(&self.instances).filter(|(_, one)| one.capacity > 0);
        let shares = counted.map(|(id, one)| (one.need(), one.is_of_prefixes(), id));
        let (share, is_of_prefixes, id) =
            shares.min_by(|(a, ..), (b, ..)| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()))?;
        Some(Closest { share, is_of_prefixes, group: self.kinds.of(InstanceId(id)) })
    }

    /// The same for one lane, before anything happened.
    pub(super) fn of_lane(&self, lane: Lane) -> Self {
        let (block_tokens, kinds) = (self.block_tokens.clone(), self.kinds.clone());
        Self { block_tokens, kinds, lane, ..Self::default() }
    }

    /// Adds what another saw of other instances.
    pub(super) fn join(&mut self, other: Self) {
        self.instances.extend(other.instances);
    }

    #[inline]
    fn seat(&mut self, id: InstanceId) -> usize {
        let seat = self.lane.seat(id);
        if self.instances.len() <= seat {
            self.instances.resize_with(seat + 1, Memory::default);
        }
        seat
    }

    fn block_tokens(&self, instance: InstanceId) -> Option<u32> {
        self.block_tokens.get(self.kinds.of(instance)).copied().flatten()
    }

    fn arrived(&mut self, id: RequestId, request: &Request) {
        let finds = self.block_tokens.iter().any(Option::is_some);
        if let Some(segments) = request.content.segments.as_ref().filter(|_| finds) {
            self.inside.insert(id, Inside { segments: segments.clone(), places: Vec::new() });
        }
    }

    fn queued(&mut self, instance: InstanceId, request: RequestId) {
        let seat = self.seat(instance);
        let Some(inside) = self.inside.get_mut(&request) else { return };
        let memory = &mut self.instances[seat];
        inside.places.clear();
        inside.places.extend(inside.segments.iter().map(|segment| memory.enter(*segment)));
    }

    fn left(&mut self, instance: InstanceId, life: &Life) {
        let Some(block_tokens) = self.block_tokens(instance) else { return };
        let seat = self.seat(instance);
        let tokens = life.prompt_tokens + life.generated;
        let inside = if self.inside.is_empty() { None } else { self.inside.remove(&life.id) };
        let content = inside.as_ref().map(|inside| (&*inside.segments, inside.places.as_slice()));
        let (segments, places) = content.unwrap_or_default();
        self.instances[seat].leave(tokens, segments.iter().zip(places), block_tokens);
    }

    #[inline]
    fn holds(&mut self, instance: InstanceId, load: Load, claims: u32) {
        let seat = self.seat(instance);
        let memory = &mut self.instances[seat];
        memory.capacity = load.kv_blocks;
        memory.hold(load, claims);
    }
}

impl Memory {
    fn need(&self) -> f64 {
        self.resident().max(self.to_find_again()).min(NEED_MAX)
    }

    /// What requests hold and wait for at most, as a share of this capacity.
    fn resident(&self) -> f64 {
        self.wanted as f64 / f64::from(self.capacity)
    }

    fn is_of_prefixes(&self) -> bool {
        self.to_find_again() > self.resident()
    }

    /// The capacity that finds enough of what is sent again, as a share of this one.
    fn to_find_again(&self) -> f64 {
        let enough = (self.again.iter().sum::<u64>() * FOUND_PERCENT).div_ceil(100);
        let mut found = 0;
        let percent = self.again.iter().position(|tokens| {
            found += tokens;
            found >= enough
        });
        percent.unwrap_or_default() as f64 / 100.0
    }

    #[inline]
    fn hold(&mut self, load: Load, claims: u32) {
        self.held = (load.kv_blocks - load.kv_blocks_free + claims).min(load.kv_blocks);
        let (held, free) = (u64::from(self.held), u64::from(load.kv_blocks - self.held));
        let mut waits_for = 0;
        if load.waiting > 0 {
            // Who waits beside room for another request does not wait for memory.
            let each = held / u64::from(load.running.max(1));
            waits_for = if free < each { u64::from(load.waiting) * each } else { 0 };
        }
        self.wanted = self.wanted.max(held + waits_for);
    }

    /// A request has this content; returns its place.
    fn enter(&mut self, segment: Segment) -> u32 {
        let (held, left_behind) = (u64::from(self.held), self.left_behind);
        let next = self.runs.len() as u32;
        let place = *self.places.entry((segment.stream, segment.start)).or_insert(next);
        if place == next {
            self.runs.push(Seen::default());
        }
        let seen = &mut self.runs[place as usize];
        if seen.holders == 0 && seen.longest > 0 && self.capacity > 0 {
            let blocks = left_behind - seen.left_at + held;
            let percent = (blocks * 100).div_ceil(u64::from(self.capacity));
            let percent = usize::try_from(percent).unwrap_or(MOST_PERCENT).min(MOST_PERCENT);
            self.again[percent] += u64::from(seen.longest.min(segment.len));
        }
        seen.longest = seen.longest.max(segment.len);
        seen.holders += 1;
        place
    }

    /// A request of so many tokens leaves, with content in these places; blocks that others hold do not
    /// stay behind.
    fn leave<'a>(
        &mut self,
        tokens: u32,
        content: impl Iterator<Item = (&'a Segment, &'a u32)> + Clone,
        block_tokens: u32,
    ) {
        let mut shared = 0;
        for (segment, place) in content.clone() {
            let seen = &mut self.runs[*place as usize];
            seen.holders = seen.holders.saturating_sub(1);
            if seen.holders > 0 {
                shared += segment.len;
            }
        }
        self.left_behind += u64::from(tokens.saturating_sub(shared).div_ceil(block_tokens.max(1)));
        for (_, place) in content {
            self.runs[*place as usize].left_at = self.left_behind;
        }
    }
}

impl Observer for KvNeed {
    #[inline]
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Arrived(id, request) => self.arrived(id, request),
            Occurrence::Queued(instance, id, _) => self.queued(instance, id),
            Occurrence::Planned(instance, _, load) => self.holds(instance, load, 0),
            Occurrence::Quiet(instance, run) => {
                let claims = run.steps.iter().map(|step| step.claims).sum();
                self.holds(instance, run.load, claims);
            }
            Occurrence::Left(instance, life, _)
            | Occurrence::Dropped(instance, life, _)
            | Occurrence::Moved { from: instance, life, .. } => {
                self.left(instance, life);
            }
            Occurrence::Refused(_, id) | Occurrence::GaveUp { request: id, life: None, .. } => {
                self.inside.remove(&id);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(stream: u64, len: u32) -> Segment {
        Segment { stream, start: 0, len }
    }

    fn load(held: u32, running: u32, waiting: u32) -> Load {
        Load { waiting, running, kv_blocks: 100, kv_blocks_free: 100 - held, ..Load::default() }
    }

    #[test]
    fn what_comes_again_needs_what_was_left_behind_since_and_is_held() {
        let mut memory = Memory { capacity: 100, ..Memory::default() };
        for (segment, tokens) in [(segment(1, 64), 64 + 16), (segment(2, 160), 160)] {
            let place = memory.enter(segment);
            memory.leave(tokens, std::iter::once((&segment, &place)), 16);
        }
        memory.hold(load(7, 1, 0), 0);
        assert!(memory.to_find_again().abs() < 1e-12, "nothing has come again");
        memory.enter(segment(1, 64));
        // Ten blocks of the other prompt and seven held.
        assert!((memory.to_find_again() - 0.17).abs() < 1e-12);
        assert!(memory.is_of_prefixes(), "requests held seven");
        memory.hold(load(20, 1, 0), 0);
        assert!(!memory.is_of_prefixes(), "requests held twenty");
    }

    #[test]
    fn who_waits_for_memory_wants_as_much_as_those_who_have_it() {
        let mut memory = Memory { capacity: 100, ..Memory::default() };
        memory.hold(load(60, 6, 30), 0);
        assert_eq!(memory.wanted, 60, "there was room for another");
        memory.hold(load(95, 9, 3), 0);
        assert_eq!(memory.wanted, 95 + 3 * 10);
        assert!((memory.need() - 1.25).abs() < 1e-12);
    }

    #[test]
    fn the_instance_nearest_its_capacity_decides() {
        let one = |wanted, capacity| Memory { capacity, wanted, ..Memory::default() };
        let mut need = KvNeed::default();
        assert!(need.closest().is_none());
        need.instances = vec![one(10, 100), one(98, 100), one(150, 100)];
        assert!((need.closest().unwrap().share - 0.98).abs() < 1e-12);
        need.kinds = Kinds::new([1, 2]);
        assert_eq!(need.closest().unwrap().group, 1, "the second instance is of the second group");
    }
}

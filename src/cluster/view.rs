//! What a router may know of the instances: what the gateway counts itself, exact and at once, and
//! what engines reported, of some age.

use super::AdapterView;
use crate::cost::StepShape;
use crate::engine::Instance;
use crate::engine::scheduler::Load;
use crate::ids::InstanceId;
use crate::kv::CacheContent;
use crate::request::RequestView;
use crate::units::{SimDuration, SimTime};

/// Requests that were sent to an instance and have not left it, as the gateway counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outstanding {
    /// How many.
    pub requests: u32,
    /// Their prompt tokens. What came out of them is not counted: a gateway that passes streams on
    /// does not count tokens.
    pub prompt_tokens: u64,
}

/// What the router knows of the engines' caches.
#[derive(Debug, Clone, Copy)]
pub struct Caches<'a>(Known<'a>);

#[derive(Debug, Clone, Copy)]
enum Known<'a> {
    Nothing,
    Live(&'a [Instance]),
    Pictures(&'a [CacheContent]),
}

impl<'a> Caches<'a> {
    /// Nothing.
    pub const UNKNOWN: Self = Self(Known::Nothing);

    /// What they hold now.
    pub fn live(instances: &'a [Instance]) -> Self {
        Self(Known::Live(instances))
    }

    /// What they held when the last picture was taken.
    pub fn known(caches: &'a [CacheContent]) -> Self {
        Self(Known::Pictures(caches))
    }

    /// How many tokens of a prompt the cache of an instance holds, as far as the router knows.
    pub fn tokens(&self, id: InstanceId, request: RequestView<'_>) -> u32 {
        match self.0 {
            Known::Nothing => 0,
            Known::Live(instances) => instances[id.index()].cached_tokens(request),
            Known::Pictures(caches) => caches[id.index()].cached_tokens(request),
        }
    }
}

/// What steps of instances would take.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a>(&'a [Instance]);

impl<'a> Steps<'a> {
    /// Of these instances.
    pub fn of(instances: &'a [Instance]) -> Self {
        Self(instances)
    }

    /// A step of nothing, of which the cost model of an instance can be told.
    pub fn empty(&self, id: InstanceId) -> StepShape {
        self.0[id.index()].empty_shape()
    }

    /// How long the device of an instance takes for a step of this shape.
    pub fn price(&self, id: InstanceId, shape: StepShape) -> SimDuration {
        self.0[id.index()].price(shape)
    }

    /// The most tokens that a step of an instance computes.
    pub fn token_budget(&self, id: InstanceId) -> u32 {
        self.0[id.index()].scheduler().token_budget()
    }

    /// The blocks of KV memory of an instance, where they are counted.
    pub fn kv_blocks(&self, id: InstanceId) -> Option<u32> {
        let blocks = self.0[id.index()].scheduler().load().kv_blocks;
        (blocks > 0).then_some(blocks)
    }
}

/// The instances as a router sees them. What it does not [need](super::router::Needs) is empty.
#[derive(Debug, Clone, Copy)]
pub struct ClusterView<'a> {
    /// When it looks.
    pub now: SimTime,
    /// How many instances there are, at least 1.
    pub instances: u32,
    /// Per instance, what was sent to it and has not left.
    pub outstanding: &'a [Outstanding],
    /// Per instance, conversations that have such requests.
    pub sessions: &'a [u32],
    /// Per instance, queues and memory as its engine last reported them.
    pub signals: &'a [Load],
    /// How old the reports are; all were made at one moment.
    pub signals_age: SimDuration,
    /// What their caches hold.
    pub caches: Caches<'a>,
    /// What is known of their adapters.
    pub adapters: AdapterView<'a>,
    /// What their steps would take.
    pub steps: Steps<'a>,
    /// The instances that get no requests, by id; never all of them. The gateway knows them to be down,
    /// or they have as many outstanding requests as they may.
    pub down: &'a [InstanceId],
}

impl<'a> ClusterView<'a> {
    /// Of instances, of which some get no requests, with nothing that was counted or reported.
    pub fn plain(now: SimTime, instances: &'a [Instance], down: &'a [InstanceId]) -> Self {
        Self {
            now,
            instances: instances.len() as u32,
            outstanding: &[],
            sessions: &[],
            signals: &[],
            signals_age: SimDuration::ZERO,
            caches: Caches::UNKNOWN,
            adapters: AdapterView::default(),
            steps: Steps::of(instances),
            down,
        }
    }
}

impl ClusterView<'_> {
    /// Whether requests may be sent to an instance, as far as the gateway knows.
    #[inline]
    pub fn is_up(&self, id: InstanceId) -> bool {
        self.down.is_empty() || self.down.binary_search(&id).is_err()
    }

    /// The instances that requests may be sent to, by id.
    pub fn up(&self) -> impl Iterator<Item = InstanceId> {
        (0..self.instances).map(InstanceId).filter(|&id| self.is_up(id))
    }

    /// How many instances requests may be sent to, at least 1.
    #[inline]
    pub fn count_up(&self) -> u32 {
        self.instances - self.down.len() as u32
    }

    /// One of those instances by its place among them.
    #[inline]
    pub fn nth_up(&self, place: u32) -> InstanceId {
        // Each one below that is down moves it on by one: of those that are down, the one at `i` has so many
        // less `i` before it that are up.
        let ups_before = |i: usize| self.down[i].0 - i as u32;
        let (mut low, mut high) = (0, self.down.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if ups_before(middle) <= place {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        InstanceId(place + low as u32)
    }

    /// The instance that comes first by a key, of those that are up; of equal ones that with the lowest
    /// id.
    ///
    /// # Panics
    /// When there is no instance.
    pub fn least<K: Ord>(&self, mut key: impl FnMut(InstanceId) -> K) -> InstanceId {
        let mut least = None;
        for id in self.up() {
            let own = key(id);
            if least.as_ref().is_none_or(|(_, other)| own < *other) {
                least = Some((id, own));
            }
        }
        least.expect("an instance is up").0
    }

    /// The instance with the fewest outstanding requests; of equal ones that with the lowest id.
    ///
    /// # Panics
    /// When there is no instance, or the router does not need what is outstanding.
    pub fn least_requests(&self) -> InstanceId {
        self.least(|id| self.outstanding[id.index()].requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_up_are_counted_through_whoever_is_down() {
        for mask in 0..1_u32 << 8 {
            let down: Vec<_> = (0..8).filter(|id| mask >> id & 1 == 1).map(InstanceId).collect();
            let nobody = ClusterView::plain(SimTime::ZERO, &[], &down);
            let view = ClusterView { instances: 8, ..nobody };
            let by_place: Vec<_> = (0..view.count_up()).map(|place| view.nth_up(place)).collect();
            assert_eq!(by_place, view.up().collect::<Vec<_>>(), "{down:?}");
        }
    }
}

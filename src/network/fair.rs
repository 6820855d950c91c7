//! Max-min fair rates, kept up to date by repairing what a change disturbs.
//!
//! Rates are max-min fair when every flow has a bottleneck: a link that is full and on which no
//! flow is faster (Bertsekas, Gallager: Data Networks, 2nd edition, 6.5.2). A flow's own cap is a
//! link of its own here. Every flow is *held* by one link, its bottleneck; the flows that a link
//! holds run at one rate, its *level*, which is known for the link and not for each flow.
//!
//! A change leaves links too full or with room. [`repair`] gives each a level at which it is full,
//! which may take flows over from links that held them at more, and disturbs links of higher
//! levels in turn, until none is left. Rates are then the max-min fair ones, which are unique, but
//! for some units (less than flows share a link) where several links have one level: which of
//! them holds a flow decides where the rest of the division stays. Sums are exact, so that this does
//! not grow from change to change.
//!
//! Most links are never near full. A level has a *ceiling* somewhat above it; while the ceilings of
//! a link's flows fit into it, the link is *asleep*: changes below the ceilings do not reach it.

mod holding;
mod queue;
mod repair;

use crate::ids::LinkId;
use crate::network::quantity::Rate;
use queue::Queue;

/// What holds a flow that is on no link.
const NO_LINK: u32 = u32::MAX;

/// A flow's place in the arrays.
#[derive(Debug, Clone, Copy)]
struct Share {
    /// The link that holds it, or [`NO_LINK`].
    held_by: u32,
    hops: u32,
}

/// A link of a flow, and the flow's place in the link's list.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    link: u32,
    at: u32,
}

/// A flow on a link: its slot, and the index of its [`Place`].
#[derive(Debug, Clone, Copy)]
struct Member {
    slot: u32,
    place: u32,
}

/// How many of the flows that a link holds are on another link, which is awake.
#[derive(Debug, Clone, Copy)]
struct Reach {
    link: u32,
    flows: u32,
}

#[derive(Debug, Clone)]
struct Link {
    /// The capacity less the rates of all flows; below zero when it is too full. While awake.
    room: i128,
    /// The rate of the flows that this link holds.
    level: Rate,
    /// No flow that another link holds is faster. While awake.
    fastest: Rate,
    /// Flows that this link holds.
    held: u32,
    is_queued: bool,
    is_awake: bool,
    /// Named in [`Shares::changed`].
    is_changed: bool,
    /// At least the level.
    ceiling: Rate,
    capacity: Rate,
    /// Sum of the ceilings of all flows.
    reserved: i128,
}

/// A flow that another link holds now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub slot: u32,
    pub from: u32,
    pub to: u32,
}

/// The rates of all flows, by slot.
#[derive(Debug)]
pub(super) struct Shares {
    /// The links of the topology, then the cap of each slot.
    links: Vec<Link>,
    /// The flows of each link, those it holds first.
    members: Vec<Vec<Member>>,
    /// By link, whom a change of its level reaches.
    reaches: Vec<Vec<Reach>>,
    flows: Vec<Share>,
    /// The links of every flow, `hops_max` to a slot.
    places: Vec<Place>,
    hops_max: usize,
    queue: Queue,
    /// Links whose level or whose held flows are others, until the reader takes them out.
    changed: Vec<u32>,
    /// Flows that are held by another link, in order, until the reader takes them out.
    moved: Vec<Move>,
    /// Flows that are too fast for a link, for the time of a call.
    too_fast: Vec<(Rate, u32)>,
}

impl Shares {
    /// No flows on links of these capacities; a flow takes `hops_max` of them at most.
    pub(super) fn new(capacities: impl Iterator<Item = Rate>, hops_max: usize) -> Self {
        let mut shares = Self {
            links: Vec::new(),
            members: Vec::new(),
            reaches: Vec::new(),
            flows: Vec::new(),
            places: Vec::new(),
            hops_max: hops_max + 1, // and its cap
            queue: Queue::new(),
            changed: Vec::new(),
            moved: Vec::new(),
            too_fast: Vec::new(),
        };
        capacities.for_each(|capacity| shares.push_link(capacity));
        shares
    }

    fn push_link(&mut self, capacity: Rate) {
        self.links.push(Link {
            room: 0,
            level: 0,
            fastest: 0,
            held: 0,
            is_queued: false,
            is_awake: false,
            is_changed: false,
            ceiling: 0,
            capacity,
            reserved: 0,
        });
        self.members.push(Vec::new());
        self.reaches.push(Vec::new());
        self.queue.push_link();
    }

    /// Makes room for one more slot.
    pub(super) fn push(&mut self) {
        self.flows.push(Share { held_by: NO_LINK, hops: 0 });
        self.places.resize(self.places.len() + self.hops_max, Place::default());
        self.push_link(0);
    }

    /// Puts a flow onto its links. Its rate is right after the next repair.
    pub(super) fn join(&mut self, slot: u32, links: &[LinkId], cap: Rate) {
        assert!(self.flows[slot as usize].held_by == NO_LINK, "flow {slot} is on its links");
        let own = (self.links.len() - self.flows.len()) as u32 + slot;
        let limit = &mut self.links[own as usize];
        limit.room += i128::from(cap) - i128::from(limit.capacity); // it may be awake from the last flow
        limit.capacity = cap;
        let own = (cap != Rate::MAX).then_some(own);
        let links = links.iter().map(|link| link.0).chain(own);
        let holder = links.clone().min_by_key(|link| self.links[*link as usize].offer());
        let holder = holder.expect("a route has links");
        if !self.links[holder as usize].is_awake {
            self.wake(holder);
        }
        let first = slot as usize * self.hops_max;
        let mut hops = 0;
        for link in links {
            let members = &mut self.members[link as usize];
            self.places[first + hops] = Place { link, at: members.len() as u32 };
            members.push(Member { slot, place: (first + hops) as u32 });
            hops += 1;
        }
        self.flows[slot as usize].hops = hops as u32;
        let held_by = &mut self.links[holder as usize];
        if held_by.held == 0 {
            (held_by.level, held_by.ceiling) = (0, 0);
        }
        self.hold(slot, holder);
        self.count(slot, None, Some(holder));
    }

    /// Takes a flow from its links.
    pub(super) fn leave(&mut self, slot: u32) {
        let holder = self.flows[slot as usize].held_by;
        assert!(holder != NO_LINK, "flow {slot} is on no link");
        self.count(slot, Some(holder), None);
        self.release(slot, holder);
        for place in self.places_of(slot) {
            let Place { link, at } = self.places[place];
            let members = &mut self.members[link as usize];
            members.swap_remove(at as usize);
            if let Some(moved) = members.get(at as usize) {
                self.places[moved.place as usize].at = at;
            }
        }
        self.flows[slot as usize].held_by = NO_LINK;
    }

    /// Gives a link of the topology another capacity. Rates are right after the next repair.
    pub(super) fn set_capacity(&mut self, link: LinkId, capacity: Rate) {
        let changed = &mut self.links[link.index()];
        changed.room += i128::from(capacity) - i128::from(changed.capacity);
        changed.capacity = capacity;
        self.enqueue(link.0);
    }

    /// The rate of a flow on its links.
    pub(super) fn rate(&self, slot: u32) -> Rate {
        self.links[self.flows[slot as usize].held_by as usize].level
    }

    /// The link that holds a flow on its links; past those of the topology, the flow's cap.
    pub(super) fn holder(&self, slot: u32) -> u32 {
        self.flows[slot as usize].held_by
    }

    /// The rate of the flows that a link holds.
    pub(super) fn level(&self, link: u32) -> Rate {
        self.links[link as usize].level
    }

    /// Slots of the flows that a link holds.
    pub(super) fn held(&self, link: u32) -> impl Iterator<Item = u32> {
        let held = self.links[link as usize].held as usize;
        self.members[link as usize][..held].iter().map(|member| member.slot)
    }

    /// Slots of the flows on a link.
    pub(super) fn on_link(&self, link: LinkId) -> impl ExactSizeIterator<Item = u32> {
        self.members[link.index()].iter().map(|member| member.slot)
    }

    /// Names a link in what changed.
    pub(super) fn mark_changed(&mut self, link: u32) {
        if !std::mem::replace(&mut self.links[link as usize].is_changed, true) {
            self.changed.push(link);
        }
    }

    /// Flows that another link holds since they were last named here.
    pub(super) fn moves(&mut self) -> std::vec::Drain<'_, Move> {
        self.moved.drain(..)
    }

    /// A link whose level or whose held flows are others since it was last named here.
    pub(super) fn pop_changed(&mut self) -> Option<u32> {
        let link = self.changed.pop()?;
        self.links[link as usize].is_changed = false;
        Some(link)
    }

    #[cfg(test)]
    pub(super) fn capacities(&self) -> impl Iterator<Item = Rate> {
        let count = self.links.len() - self.flows.len();
        self.links[..count].iter().map(|link| link.capacity)
    }

    fn places_of(&self, slot: u32) -> std::ops::Range<usize> {
        let first = slot as usize * self.hops_max;
        first..first + self.flows[slot as usize].hops as usize
    }
}

//! Max-min fair rates, kept up to date by filling again only what a change reaches.
//!
//! Rates are max-min fair when every flow has a bottleneck: a link that is full and on which no
//! flow is faster, or its own cap (Bertsekas, Gallager: Data Networks, 2nd edition, 6.5.2).
//! Progressive filling finds them: all rates rise together like water; a link that is full stops
//! the flows on it. A link is full at the level at which what is left of it, divided by the flows
//! that still rise and rounded down to a unit, is reached.
//!
//! After a change the filling is done again from level zero, but only for what differs
//! ([`filling`]): a link whose flows are those of before, at rates of before, fills as it did and is
//! not looked at. Rates found so are those of a filling from nothing, but for some units (less than
//! flows share a link) where several links fill at one level: which of them stops a flow
//! decides where the rest of the division stays. What is added and taken away is exact, so that
//! this does not grow from change to change.

mod filling;

use crate::ids::LinkId;
use crate::network::quantity::Rate;
use crate::network::turns::Turns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// On no link.
    Out,
    /// At the rate of before.
    Settled,
    /// Rises with the water.
    Rising,
    /// Stopped at its new rate.
    Stopped,
}

/// The rate of a flow, and why it is not higher.
#[derive(Debug, Clone, Copy)]
struct Share {
    rate: Rate,
    cap: Rate,
    /// The full link that holds it, or [`NO_LINK`].
    held_by: u32,
    stage: Stage,
    hops: u32,
}

/// No link: the flow rises, or its own cap holds it.
const NO_LINK: u32 = u32::MAX;

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

/// A link while it fills.
#[derive(Debug, Clone)]
struct Fill {
    capacity: Rate,
    /// Sum of the rates of the flows that do not rise.
    taken: Rate,
    /// The rate of the flows that this link holds.
    level: Rate,
    /// The level at which it waits to be looked at, or [`NEVER`].
    queued: Rate,
    /// Flows that rise.
    rising: u32,
    /// Flows that this link holds.
    held: u32,
    is_touched: bool,
}

const NEVER: Rate = Rate::MAX;

/// The rates of all flows, by slot.
#[derive(Debug)]
pub(super) struct Shares {
    links: Vec<Fill>,
    members: Vec<Vec<Member>>,
    flows: Vec<Share>,
    /// The links of every flow, `hops_max` to a slot.
    places: Vec<Place>,
    hops_max: usize,
    /// Links that changed since their turn was last worked out.
    touched: Vec<u32>,
    /// Levels at which a link, or past the links a flow with a cap, is looked at.
    turns: Turns,
    /// Flows that rise.
    rising: usize,
    /// Flows that are not settled, with the rates they had.
    unsettled: Vec<(u32, Rate)>,
}

impl Shares {
    /// No flows on links of these capacities; a flow takes `hops_max` of them at most.
    pub(super) fn new(capacities: impl Iterator<Item = Rate>, hops_max: usize) -> Self {
        let fill = |capacity| Fill {
            capacity,
            taken: 0,
            level: 0,
            queued: NEVER,
            rising: 0,
            held: 0,
            is_touched: false,
        };
        let links: Vec<Fill> = capacities.map(fill).collect();
        let mut turns = Turns::default();
        turns.grow(links.len());
        Self {
            members: vec![Vec::new(); links.len()],
            links,
            flows: Vec::new(),
            places: Vec::new(),
            hops_max,
            touched: Vec::new(),
            turns,
            rising: 0,
            unsettled: Vec::new(),
        }
    }

    /// Makes room for one more slot.
    pub(super) fn push(&mut self) {
        let stage = Stage::Out;
        self.flows.push(Share { rate: 0, cap: 0, held_by: NO_LINK, stage, hops: 0 });
        self.places.resize(self.places.len() + self.hops_max, Place::default());
        self.turns.grow(self.links.len() + self.flows.len());
    }

    /// Puts a flow onto its links. It has no rate before the next filling.
    pub(super) fn join(&mut self, slot: u32, links: &[LinkId], cap: Rate) {
        assert!(self.flows[slot as usize].stage == Stage::Out, "flow {slot} is on its links");
        let first = slot as usize * self.hops_max;
        for (hop, link) in links.iter().enumerate() {
            let (place, members) = (first + hop, &mut self.members[link.index()]);
            self.places[place] = Place { link: link.0, at: members.len() as u32 };
            members.push(Member { slot, place: place as u32 });
        }
        let hops = links.len() as u32;
        self.flows[slot as usize] =
            Share { rate: 0, cap, held_by: NO_LINK, stage: Stage::Settled, hops };
        self.raise(slot);
    }

    /// Takes a flow from its links.
    pub(super) fn leave(&mut self, slot: u32) {
        let share = self.flows[slot as usize];
        assert!(share.stage != Stage::Out, "flow {slot} is on no link");
        for place in self.places_of(slot) {
            let Place { link, at } = self.places[place];
            let members = &mut self.members[link as usize];
            members.swap_remove(at as usize);
            if let Some(moved) = members.get(at as usize) {
                self.places[moved.place as usize].at = at;
            }
            let fill = &mut self.links[link as usize];
            if share.stage == Stage::Rising {
                fill.rising -= 1;
            } else {
                fill.taken -= share.rate;
            }
            self.touch(link);
        }
        if share.held_by != NO_LINK {
            self.links[share.held_by as usize].held -= 1;
        }
        if share.stage == Stage::Rising {
            self.rising -= 1;
            self.turns.remove(self.links.len() as u32 + slot);
        }
        self.flows[slot as usize].stage = Stage::Out;
    }

    /// Slots of the flows on a link.
    pub(super) fn on_link(&self, link: LinkId) -> impl ExactSizeIterator<Item = u32> {
        self.members[link.index()].iter().map(|member| member.slot)
    }

    #[cfg(test)]
    pub(super) fn capacities(&self) -> impl Iterator<Item = Rate> {
        self.links.iter().map(|fill| fill.capacity)
    }

    fn places_of(&self, slot: u32) -> std::ops::Range<usize> {
        let first = slot as usize * self.hops_max;
        first..first + self.flows[slot as usize].hops as usize
    }

    fn touch(&mut self, link: u32) {
        let fill = &mut self.links[link as usize];
        if !fill.is_touched {
            fill.is_touched = true;
            self.touched.push(link);
        }
    }
}

//! What is on its way of one kind.

use super::Cargo;
use crate::ids::FlowId;

/// The kinds of cargo, in the order in which they are told of at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Kv,
    Chunks,
    Weights,
}

/// Cargo of one kind in places of its own, so that the order of what ends at one instant does not hang on what
/// else is on its way.
#[derive(Debug, Default)]
pub(super) struct Hold {
    cargo: Vec<Option<(FlowId, Cargo)>>,
    free: Vec<u32>,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Kv, Self::Chunks, Self::Weights];

    pub(super) fn of(cargo: &Cargo) -> Self {
        match cargo {
            Cargo::Kv(_) => Self::Kv,
            Cargo::Chunks(..) => Self::Chunks,
            Cargo::Weights(_) => Self::Weights,
        }
    }
}

impl Hold {
    pub(super) fn is_empty(&self) -> bool {
        self.cargo.len() == self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cargo> + '_ {
        self.cargo.iter().flatten().map(|(_, cargo)| *cargo)
    }

    /// A flow begins; the place of its cargo.
    pub(super) fn put(&mut self, flow: FlowId, cargo: Cargo) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.cargo.push(None);
            u32::try_from(self.cargo.len() - 1).expect("fewer than 2^32 flows")
        });
        self.cargo[place as usize] = Some((flow, cargo));
        place
    }

    /// A flow has ended.
    pub(super) fn take(&mut self, place: u32) -> Cargo {
        let (_, cargo) = self.cargo[place as usize].take().expect("a flow carries something");
        self.free.push(place);
        cargo
    }

    /// Flows end that carry what is meant, in the order of their places.
    pub(super) fn take_all(
        &mut self,
        is_meant: impl Fn(Cargo) -> bool,
        mut ended: impl FnMut(FlowId),
    ) {
        for (place, carried) in (0..).zip(&mut self.cargo) {
            if let Some((flow, _)) = carried.take_if(|(_, cargo)| is_meant(*cargo)) {
                self.free.push(place);
                ended(flow);
            }
        }
    }
}

//! Blocks that an engine removes, as it tells of them.

use crate::kv::{NameSlice, Order};

/// Blocks that went, in the order in which they did.
#[derive(Clone, Copy)]
pub(super) struct Gone<'a> {
    blocks: NameSlice<'a>,
    order: Order,
}

impl<'a> Gone<'a> {
    pub(super) fn new(blocks: NameSlice<'a>, order: Order) -> Self {
        Self { blocks, order }
    }

    fn len(self) -> usize {
        self.blocks.len()
    }

    pub(super) fn get(self, at: usize) -> Option<u64> {
        match self.order {
            Order::Forward => self.blocks.get(at),
            Order::Backward => self.blocks.get(self.len().checked_sub(at + 1)?),
        }
    }

    pub(super) fn last(self) -> Option<u64> {
        self.get(self.len().checked_sub(1)?)
    }

    /// How many of the first ones are the last of others, the last first.
    pub(super) fn are_last_of(self, others: NameSlice<'_>) -> usize {
        match self.order {
            Order::Backward => others.common_at_end(self.blocks),
            Order::Forward => {
                let both = others.iter().rev().zip(self.blocks.iter());
                both.take_while(|(one, other)| one == other).count()
            }
        }
    }

    /// Those behind the first so many.
    pub(super) fn behind(self, at: usize) -> Self {
        let blocks = match self.order {
            Order::Forward => self.blocks.behind(at),
            Order::Backward => self.blocks.slice(0..self.len() - at),
        };
        Self { blocks, ..self }
    }
}

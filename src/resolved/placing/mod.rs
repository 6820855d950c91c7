//! Placements of adapters on replicas that are computed before a run, from the shares of requests that use
//! each. One policy, one file.
//!
//! They know shares and room, and neither ranks, lengths nor speeds of replicas.

mod greedy;
mod load_balanced;

#[cfg(test)]
mod tests;

pub(super) use greedy::greedy;
pub(super) use load_balanced::load_balanced;

/// What is placed, and where there is room for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToPlace<'a> {
    /// The share of requests that use each adapter; they add up to 1.
    pub(super) shares: &'a [f64],
    /// How many adapters each replica may hold; together no fewer than there are adapters.
    pub(super) room: &'a [u32],
    /// Adapters on all replicas together, each counted wherever it is; the policy's own choice if absent.
    pub(super) copies: Option<u32>,
}

impl ToPlace<'_> {
    /// The most copies there can be: no replica holds an adapter twice.
    fn copies_max(&self) -> u32 {
        let adapters = self.shares.len() as u32;
        self.room.iter().map(|room| (*room).min(adapters)).sum()
    }
}

/// The holders of each adapter, by number.
fn sorted(mut holders: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    for of in &mut holders {
        of.sort_unstable();
    }
    holders
}

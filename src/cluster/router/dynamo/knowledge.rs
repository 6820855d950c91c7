//! What a router believes to be cached: by events of engines, in tiers, or by what it sent.

use super::approximate::Sent;
use super::index::{Index, Threads};
use super::owners::Owners;
use super::{Overlap, Prompt, Rank};
use crate::kv::{Names, Order};
use crate::scenario::DynamoConfig;
use crate::units::{SimDuration, SimTime};

/// Where a block is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// In device memory.
    Device,
    /// In host memory.
    Host,
    /// On disk, or further away.
    Disk,
}

/// What is believed to be cached.
#[derive(Debug, Clone)]
pub(super) enum Knowledge {
    /// By events of engines; and perhaps what was sent lately.
    Told(Box<Told>),
    /// By what was sent.
    Guessed(Sent),
}

#[derive(Debug, Clone)]
pub(super) struct Told {
    device: Index,
    host: Owners<()>,
    disk: Owners<()>,
    predicted: Option<Sent>,
    inside: Vec<Rank>,
}

impl Told {
    fn lower(&mut self, tier: Tier) -> Option<&mut Owners<()>> {
        match tier {
            Tier::Device => None,
            Tier::Host => Some(&mut self.host),
            Tier::Disk => Some(&mut self.disk),
        }
    }
}

impl Knowledge {
    pub(super) fn new(config: &DynamoConfig) -> Self {
        let secs = SimDuration::from_secs_f64;
        if !config.use_kv_events {
            return Self::Guessed(Sent::new(secs(config.router_ttl_secs)));
        }
        let is_one = config.router_event_threads <= 1;
        Self::Told(Box::new(Told {
            device: Index::new(if is_one { Threads::One } else { Threads::Several }),
            host: Owners::default(),
            disk: Owners::default(),
            predicted: config.router_predicted_ttl_secs.map(|ttl| Sent::new(secs(ttl))),
            inside: Vec::new(),
        }))
    }

    /// An engine has stored blocks behind one, or at the begin of a prompt.
    pub(super) fn stored(&mut self, rank: Rank, tier: Tier, parent: Option<u64>, blocks: &Names) {
        let Self::Told(told) = self else { return };
        match told.lower(tier) {
            None => told.device.store(rank, parent, blocks),
            Some(lower) => {
                for block in blocks.all().iter() {
                    lower.hold(block, rank, ());
                }
            }
        }
    }

    /// An engine has removed blocks.
    pub(super) fn removed(&mut self, rank: Rank, tier: Tier, blocks: &Names, order: Order) {
        let Self::Told(told) = self else { return };
        match told.lower(tier) {
            None => told.device.remove(rank, blocks, order),
            Some(lower) => {
                for block in blocks.all().iter() {
                    lower.drop(block, rank);
                }
            }
        }
    }

    /// An engine has removed all blocks.
    pub(super) fn cleared(&mut self, rank: Rank) {
        if let Self::Told(told) = self {
            told.device.clear(rank);
            told.host.clear(rank);
            told.disk.clear(rank);
        }
    }

    /// A rank is gone.
    pub(super) fn clear(&mut self, rank: Rank) {
        self.cleared(rank);
        match self {
            Self::Guessed(sent) => sent.clear(rank),
            Self::Told(told) => {
                if let Some(predicted) = &mut told.predicted {
                    predicted.clear(rank);
                }
            }
        }
    }

    /// A prompt is sent to a rank.
    pub(super) fn sent(&mut self, now: SimTime, rank: Rank, prompt: &Prompt) {
        match self {
            Self::Guessed(sent) => sent.book(now, rank, prompt),
            Self::Told(told) => {
                if let Some(predicted) = &mut told.predicted {
                    predicted.book(now, rank, prompt);
                }
            }
        }
    }

    /// What each rank has of a prompt, into overlaps that are all zero.
    pub(super) fn look_up(&mut self, now: SimTime, prompt: &Prompt, overlaps: &mut [Overlap]) {
        if prompt.named.is_empty() {
            return;
        }
        let told = match self {
            Self::Guessed(sent) => {
                let inside = &mut Vec::new();
                return sent.runs(now, prompt, inside, |rank, run| see(overlaps, rank, run));
            }
            Self::Told(told) => told,
        };
        told.device.runs(&prompt.named, |rank, run| see(overlaps, rank, run));
        if let Some(predicted) = &told.predicted {
            let inside = &mut told.inside;
            predicted.runs(now, prompt, inside, |rank, run| see(overlaps, rank, run));
        }
        if told.host.len() + told.disk.len() == 0 {
            return;
        }
        for (rank, overlap) in overlaps.iter_mut().enumerate() {
            let rank = Rank(rank as u32);
            let behind = prompt.named.all().behind(overlap.device as usize);
            overlap.host = told.host.run(behind, rank);
            overlap.disk = told.disk.run(behind.behind(overlap.host as usize), rank);
        }
    }
}

fn see(overlaps: &mut [Overlap], rank: Rank, run: u32) {
    if let Some(overlap) = overlaps.get_mut(rank.index()) {
        overlap.device = overlap.device.max(run);
    }
}

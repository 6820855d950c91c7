//! Requests and adapters that moved between replicas.

use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::ids::RequestId;
use crate::sim::Occurrence;

/// What moved in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MigrationFigures {
    /// Plans that took effect: a solver ran for each.
    pub plans: u64,
    /// Those by which a request or an adapter moved.
    pub migrations: u64,
    /// Moves of requests; one that moves twice counts twice.
    pub moved_requests: u64,
    /// Those of requests that were decoding.
    pub moved_while_decoding: u64,
    /// Tokens whose KV was given up by that.
    pub tokens_given_up: u64,
    /// Adapters that a replica came to hold by a plan.
    pub moved_adapters: u64,
    /// Those that one came to hold for a request that was sent to it.
    pub swapped_adapters: u64,
}

/// Hears of moves.
#[derive(Debug, Clone, Default)]
pub struct MigrationLog {
    figures: MigrationFigures,
    moved: FxHashSet<RequestId>,
}

impl MigrationLog {
    /// What moved so far.
    pub fn figures(&self) -> MigrationFigures {
        self.figures
    }

    #[inline]
    pub(in crate::metrics) fn has_moved(&self, id: RequestId) -> bool {
        !self.moved.is_empty() && self.moved.contains(&id)
    }

    pub(in crate::metrics) fn hear(&mut self, what: Occurrence<'_>) {
        let figures = &mut self.figures;
        match what {
            Occurrence::Rebalanced { requests, adapters, .. } => {
                figures.plans += 1;
                figures.migrations += u64::from(requests + adapters > 0);
                figures.moved_adapters += u64::from(adapters);
            }
            Occurrence::Swapped(_) => figures.swapped_adapters += 1,
            Occurrence::Moved { life, .. } => {
                self.moved.insert(life.id);
                figures.moved_requests += 1;
                if life.first_token.is_some() {
                    figures.moved_while_decoding += 1;
                    figures.tokens_given_up += u64::from(life.prompt_tokens + life.generated);
                }
            }
            _ => {}
        }
    }
}

impl MigrationFigures {
    /// A line of text.
    pub(super) fn text(&self) -> String {
        format!(
            "{} plans for two replicas; moved: {} requests, {} of them while decoding, and {} adapters; \
             {} adapters exchanged at dispatch\n",
            self.plans,
            self.moved_requests,
            self.moved_while_decoding,
            self.moved_adapters,
            self.swapped_adapters
        )
    }
}

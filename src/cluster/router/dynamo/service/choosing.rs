//! Which of the eligible ranks a request is sent to, by what it costs on each.

use super::super::choice::Draw;
use super::super::cost::{State, Weights, preferred};
use super::super::two_tier;
use super::super::{Ask, Overlap, Rank};
use super::{KvRouter, Scratch};
use crate::scenario::DynamoSelection;

impl KvRouter {
    /// Finds how much of a prompt is active on each rank, where that counts.
    pub(super) fn find_active(&mut self, ask: &Ask) {
        let shares = self.shares(ask.options.as_deref());
        let Scratch { inside, active, .. } = &mut self.scratch;
        active.clear();
        active.resize(self.fleet.len(), 0);
        if self.config.router_track_active_blocks && shares {
            self.loads.active_runs(&ask.prompt, inside, |rank, run| active[rank.index()] = run);
        }
    }

    /// What a rank has to do with a request, once it is found what is active.
    #[inline]
    pub(super) fn state(&self, ask: &Ask, overlaps: &[Overlap], rank: Rank) -> State {
        let load = self.loads.of(rank);
        let more = ask.prompt.blocks - self.scratch.active[rank.index()];
        let tracks_blocks = self.config.router_track_active_blocks;
        State {
            overlap: overlaps.get(rank.index()).copied().unwrap_or_default(),
            prefill_tokens: load.prefill_tokens,
            blocks: if tracks_blocks { load.blocks + u64::from(more) } else { 0 },
            requests: load.requests,
        }
    }

    /// Chooses among the eligible ranks, of which there is one, once it is found what is active. Returns what the chosen
    /// one costs, too.
    pub(super) fn choose(
        &mut self,
        ask: &Ask,
        overlaps: &[Overlap],
        draw: &mut impl Draw,
    ) -> (Rank, f64) {
        let options = ask.options.as_deref();
        if let Some(DynamoSelection::TwoTier(config)) = &self.config.worker_selection {
            let blocks = ask.prompt_tokens.div_ceil(u64::from(self.block_size));
            let eligible = self.scratch.eligible.iter();
            let states: Vec<_> =
                eligible.map(|&rank| (rank, self.state(ask, overlaps, rank))).collect();
            let ties = &mut self.scratch.ties;
            two_tier::best(config, blocks, &states, ties);
            return (draw.first(ask.key, ties), 0.0);
        }
        let prefill_tokens = |rank: &Rank| self.loads.of(*rank).prefill_tokens;
        let decays = self.config.overlap_score_credit_decay > 0.0;
        let least = || self.scratch.eligible.iter().map(prefill_tokens).min();
        let weights = Weights::new(
            &self.config,
            self.pool,
            self.block_size,
            ask.prompt_tokens,
            self.tracks_prefill(options),
            if decays { least().unwrap_or(0) } else { 0 },
        );
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        let temperature = self.config.router_temperature;
        if options.is_none() && self.are_all_weighed(overlaps) && weights.know_fresh() {
            let blocks = f64::from(ask.prompt.blocks);
            let each = self.loads.standings().iter().zip(overlaps).zip(&self.scratch.active);
            let costs = (0..).map(Rank).zip(each).map(|(rank, ((load, overlap), active))| {
                if *active == 0 && overlap.is_none() {
                    return (rank, weights.fresh(load, blocks));
                }
                (rank, weights.cost(&self.state(ask, overlaps, rank)))
            });
            let chosen = candidates.choose(costs, temperature, ask.key, draw);
            self.scratch.candidates = candidates;
            return chosen;
        }
        let options = options.filter(|one| !one.preferred_taints.is_empty());
        let costs = self.scratch.eligible.iter().map(|&rank| {
            let cost = weights.cost(&self.state(ask, overlaps, rank));
            let Some(options) = options else { return (rank, cost) };
            let weights = self.fleet.get(rank).map_or(0.0, |one| one.preference(options));
            (rank, preferred(cost, weights))
        });
        let chosen = candidates.choose(costs, temperature, ask.key, draw);
        self.scratch.candidates = candidates;
        chosen
    }

    /// Whether all ranks that ever were may be chosen, each by what is booked on it and cached there.
    fn are_all_weighed(&self, overlaps: &[Overlap]) -> bool {
        let ranks = self.loads.standings().len();
        self.config.router_track_active_blocks
            && [self.scratch.eligible.len(), self.scratch.active.len(), overlaps.len()]
                == [ranks; 3]
    }
}

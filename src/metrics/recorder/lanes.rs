//! Recorders of lanes, whose requests are simulated beside each other, and how one is made of them.

use super::Recorder;
use crate::metrics::aside::Aside;
use crate::metrics::breakdown::Phases;
use crate::metrics::gaps::GapCounter;
use crate::metrics::records;
use crate::metrics::replica::ReplicaLog;
use crate::sim::{Lane, Separable};
use crate::threads;

impl Separable for Recorder {
    type Lane = Self;
    type Aside = Aside;

    fn lane(&mut self, lane: Lane) -> Self {
        Self {
            lane,
            phases: Phases::of_lane(lane),
            first_sent: Some(lane.first_sent),
            adapters: self.adapters.lane(),
            gaps: GapCounter::in_parts(lane.count),
            folding: self.folding.clone(),
            sets_aside: true,
            ..Self::default()
        }
    }

    fn set_aside(lane: &mut Self, aside: &mut Aside) {
        aside.take(lane);
    }

    fn count(aside: &mut Aside) {
        aside.count();
    }

    fn take_back(lane: &mut Self, aside: Aside) {
        aside.give_back(lane);
    }

    fn join(&mut self, mut lanes: Vec<Self>) {
        if self.join_folded(&mut lanes) {
            return self.join_logs(lanes);
        }
        let records = lanes.iter_mut().map(|lane| std::mem::take(&mut lane.requests)).collect();
        (self.requests, ()) = threads::both(|| records::in_turn(records), || self.join_logs(lanes));
    }
}

impl Recorder {
    /// What lanes recorded beside requests.
    fn join_logs(&mut self, lanes: Vec<Self>) {
        if lanes.iter().any(|lane| !lane.drafts_by_request.is_empty()) {
            let drafts = |place: usize| lanes[place % lanes.len()].drafts_of(place / lanes.len());
            let most = lanes.iter().map(|lane| lane.drafts_by_request.len()).max().unwrap_or(0);
            self.drafts_by_request = (0..most * lanes.len()).map(drafts).collect();
        }
        self.adapters.join(lanes.iter().map(|lane| &lane.adapters));
        for lane in lanes {
            self.gaps.join_with(lane.gaps);
            self.tokens_by_second.join(&lane.tokens_by_second);
            self.drafts.add(&lane.drafts);
            self.cut.join(lane.cut);
            self.steps += lane.steps;
            self.carried.join(&lane.carried);
            self.timeline.join(lane.timeline);
            let first = lane.lane.first as usize;
            for (place, replica) in lane.replicas.into_iter().enumerate() {
                if self.replicas.len() <= first + place {
                    self.replicas.resize(first + place + 1, ReplicaLog::default());
                }
                self.replicas[first + place] = replica;
            }
            self.end = self.end.max(lane.end);
        }
    }
}

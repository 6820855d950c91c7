//! Requests of two replicas to be shared out between them, with the adapters they need.

use crate::ids::RequestId;

/// A request of one of the replicas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Movable {
    /// Its id.
    pub id: RequestId,
    /// The place of its adapter among those of the problem; none if it uses none.
    pub adapter: Option<usize>,
    /// Its context, in tokens.
    pub tokens: u32,
    /// The replica where it is: 0 or 1.
    pub at: usize,
    /// Whether it can be served on the other one.
    pub may_move: bool,
}

/// What is shared out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Problem {
    /// The requests of both replicas.
    pub requests: Vec<Movable>,
    /// By replica and adapter, whether it holds it now.
    pub holds: [Vec<bool>; 2],
    /// By adapter, whether no other replica holds it: one of the two goes on to.
    pub is_only_here: Vec<bool>,
    /// By adapter, what a request takes on average, in seconds.
    pub service_s: Vec<f64>,
    /// What a request without an adapter takes on average, in seconds.
    pub plain_service_s: f64,
    /// How many adapters each replica may hold.
    pub room: [u32; 2],
    /// KV memory of each replica, in tokens.
    pub memory_tokens: [f64; 2],
    /// What it costs to move a request, in seconds.
    pub move_s: f64,
    /// What a token costs for which there is no KV memory, in seconds.
    pub swap_s_per_token: f64,
}

/// Who serves which request, and who holds which adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// By request, the replica.
    pub to: Vec<usize>,
    /// By replica and adapter.
    pub holds: [Vec<bool>; 2],
}

impl Problem {
    /// How many adapters there are.
    pub fn adapters(&self) -> usize {
        self.service_s.len()
    }

    pub(super) fn service_s(&self, request: &Movable) -> f64 {
        request.adapter.map_or(self.plain_service_s, |adapter| self.service_s[adapter])
    }

    /// Nothing moves.
    pub fn as_it_is(&self) -> Plan {
        Plan {
            to: self.requests.iter().map(|request| request.at).collect(),
            holds: self.holds.clone(),
        }
    }

    /// What a replica takes for the requests that it is given, in seconds: their service one after the
    /// other, what moving them costs, and what does not fit into its memory.
    pub fn time_s(&self, replica: usize, to: &[usize]) -> f64 {
        let (mut time, mut tokens) = (0.0, 0.0);
        for (request, to) in self.requests.iter().zip(to) {
            if *to == replica {
                time += self.service_s(request);
                tokens += f64::from(request.tokens);
                if request.at != replica {
                    time += self.move_s;
                }
            }
        }
        time + (tokens - self.memory_tokens[replica]).max(0.0) * self.swap_s_per_token
    }

    /// What the busier replica takes, in seconds.
    pub fn makespan_s(&self, to: &[usize]) -> f64 {
        self.time_s(0, to).max(self.time_s(1, to))
    }

    /// Whether all requests are where their adapters are, no replica holds more than it may, and no adapter is
    /// lost.
    pub fn allows(&self, plan: &Plan) -> bool {
        let placed = |(request, to): (&Movable, &usize)| {
            request.adapter.is_none_or(|adapter| plan.holds[*to][adapter])
        };
        let fits = |replica: usize| {
            plan.holds[replica].iter().filter(|holds| **holds).count() as u32 <= self.room[replica]
        };
        let kept = |adapter: usize| plan.holds[0][adapter] || plan.holds[1][adapter];
        let stays = |(request, to): (&Movable, &usize)| request.may_move || *to == request.at;
        self.requests.iter().zip(&plan.to).all(placed)
            && self.requests.iter().zip(&plan.to).all(stays)
            && (0..2).all(fits)
            && (0..self.adapters()).all(|id| !self.is_only_here[id] || kept(id))
    }

    /// Replicas keep what they held where there is room for it.
    #[cfg(feature = "ilp")]
    pub(super) fn keep_adapters(&self, plan: &mut Plan) {
        for (replica, holds) in plan.holds.iter_mut().enumerate() {
            let mut held = holds.iter().filter(|holds| **holds).count() as u32;
            for (now, before) in holds.iter_mut().zip(&self.holds[replica]) {
                if *before && !*now && held < self.room[replica] {
                    (*now, held) = (true, held + 1);
                }
            }
        }
    }

    /// Requests of one adapter that change places for nothing stay where they are.
    #[cfg(feature = "ilp")]
    pub(super) fn undo_exchanges(&self, plan: &mut Plan) {
        for first in 0..self.requests.len() {
            let one = self.requests[first];
            let crosses = |second: &usize| {
                let other = self.requests[*second];
                other.adapter == one.adapter
                    && other.at != one.at
                    && plan.to[*second] == one.at
                    && plan.to[first] == other.at
            };
            let Some(second) = (first + 1..self.requests.len()).find(crosses) else { continue };
            let mut to = plan.to.clone();
            (to[first], to[second]) = (one.at, self.requests[second].at);
            if self.makespan_s(&to) <= self.makespan_s(&plan.to) {
                plan.to = to;
            }
        }
    }
}

//! The integer linear programme of dLoRA (`migration_ilp.py`), solved by branch and bound (microlp).
//!
//! Request i goes to replica j by `x_ij`, which holds adapter k where `y_kj` = 1. Least T such that
//!
//! * `Σ_j` `x_ij` = 1, and for requests i of adapter k: `Σ_i` `x_ij` ≤ `n_k` · `y_kj`
//! * `Σ_k` `y_kj` ≤ `room_j`, and `Σ_j` `y_kj` ≥ 1 for adapters that no other replica holds
//! * T ≥ `Σ_i` `service_i` · `x_ij` + Σ_(i moved) move · `x_ij` + `z_j`, `z_j` ≥ (`Σ_i` `tokens_i` · `x_ij` − `memory_j`) · swap, `z_j` ≥ 0
//!
//! There x is a share of a request, and the larger one decides; here whole requests can be asked for. Of plans
//! that take equally long those with fewer moves are preferred, by a millionth of a second a move.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Programme, SolveOptions, Variable};

use super::problem::{Plan, Problem};

/// The weight of a move beside the time, in seconds.
const MOVE_TIE_S: f64 = 1e-6;

/// Nodes that branch and bound looks at; then the best plan so far is taken.
const NODES: u64 = 20_000;

/// What x may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    /// A share of a request.
    Divided,
    /// 0 or 1.
    Whole,
}

/// The plan that takes the least time; nothing where the solver finds none.
pub fn ilp(problem: &Problem, requests: Requests) -> Option<Plan> {
    let mut programme = Programme::new(OptimizationDirection::Minimize);
    let time = programme.add_var(1.0, (0.0, f64::INFINITY));
    let held: Vec<[Variable; 2]> =
        (0..problem.adapters()).map(|_| [0, 1].map(|_| programme.add_binary_var(0.0))).collect();
    let goes: Vec<[Variable; 2]> = problem
        .requests
        .iter()
        .map(|request| {
            [0, 1].map(|to| {
                let weight = if to == request.at { 0.0 } else { MOVE_TIE_S };
                match requests {
                    _ if !request.may_move => {
                        let share = f64::from(u8::from(to == request.at));
                        programme.add_var(0.0, (share, share))
                    }
                    Requests::Divided => programme.add_var(weight, (0.0, 1.0)),
                    Requests::Whole => programme.add_binary_var(weight),
                }
            })
        })
        .collect();
    for pair in &goes {
        programme.add_constraint([(pair[0], 1.0), (pair[1], 1.0)], ComparisonOp::Eq, 1.0);
    }
    for (adapter, pair) in held.iter().enumerate() {
        let of = || {
            let uses = problem.requests.iter().zip(&goes);
            uses.filter(|(request, _)| request.adapter == Some(adapter)).map(|(_, goes)| goes)
        };
        let count = of().count() as f64;
        for (to, holds) in pair.iter().enumerate() {
            let mut terms: Vec<_> = of().map(|goes| (goes[to], 1.0)).collect();
            terms.push((*holds, -count));
            if count > 0.0 {
                programme.add_constraint(terms, ComparisonOp::Le, 0.0);
            }
        }
        if problem.is_only_here[adapter] {
            programme.add_constraint([(pair[0], 1.0), (pair[1], 1.0)], ComparisonOp::Ge, 1.0);
        }
    }
    for to in 0..2 {
        let terms: Vec<_> = held.iter().map(|pair| (pair[to], 1.0)).collect();
        if !terms.is_empty() {
            programme.add_constraint(terms, ComparisonOp::Le, f64::from(problem.room[to]));
        }
        let beyond = programme.add_var(0.0, (0.0, f64::INFINITY));
        let each = || problem.requests.iter().zip(&goes);
        let swap = problem.swap_s_per_token;
        let mut memory = vec![(beyond, 1.0)];
        memory.extend(each().map(|(it, goes)| (goes[to], -f64::from(it.tokens) * swap)));
        let least = -problem.memory_tokens[to] * swap;
        programme.add_constraint(memory, ComparisonOp::Ge, least);
        let mut busy = vec![(time, 1.0), (beyond, -1.0)];
        busy.extend(each().map(|(request, goes)| {
            let moved = if request.at == to { 0.0 } else { problem.move_s };
            (goes[to], -problem.service_s(request) - moved)
        }));
        programme.add_constraint(busy, ComparisonOp::Ge, 0.0);
    }
    let mut options = SolveOptions::default();
    options.node_limit = Some(NODES);
    let outcome = programme.solve_with(options).ok()?;
    let solution = outcome.solution()?;
    let holds = [0, 1]
        .map(|replica| held.iter().map(|pair| solution.var_value(pair[replica]) > 0.5).collect());
    let to = problem.requests.iter().zip(&goes).map(|(request, goes)| {
        let share = solution.var_value(goes[1 - request.at]);
        if share > 0.5 { 1 - request.at } else { request.at }
    });
    let mut plan = Plan { to: to.collect(), holds };
    problem.undo_exchanges(&mut plan);
    problem.keep_adapters(&mut plan);
    problem.allows(&plan).then_some(plan)
}

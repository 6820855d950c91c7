//! A plan without a solver: what makes the busier replica quickest is done, again and again, until nothing does.
//!
//! That is to move a request from it to the other one, of those of an adapter the one with the shortest context; or to
//! move an adapter with all its requests, also in exchange for another adapter with all of its own. A request
//! goes where its adapter is, where there is room for it, or where an adapter gives way that no request there
//! uses and that stays held elsewhere.

use super::problem::{Plan, Problem};

/// A plan that takes no longer than what is.
pub fn greedy(problem: &Problem) -> Plan {
    let mut plan = problem.as_it_is();
    // Every round makes the plan quicker; the bound is for sums that differ by rounding alone.
    for _ in 0..problem.requests.len() + problem.adapters() {
        let times = [problem.time_s(0, &plan.to), problem.time_s(1, &plan.to)];
        let from = usize::from(times[1] > times[0]);
        let mut best: Option<(f64, Plan)> = None;
        let mut consider = |candidate: Option<Plan>| {
            let Some(candidate) = candidate.filter(|it| problem.allows(it)) else { return };
            let time = problem.makespan_s(&candidate.to);
            if time < best.as_ref().map_or(times[from], |(least, _)| *least) {
                best = Some((time, candidate));
            }
        };
        for adapter in std::iter::once(None).chain((0..problem.adapters()).map(Some)) {
            consider(one_request(problem, &plan, adapter, from));
        }
        for adapter in held_by_one(problem, &plan, from) {
            consider(Some(with_all(problem, &plan, adapter, 1 - from)));
            for other in held_by_one(problem, &plan, 1 - from) {
                let exchanged = with_all(problem, &plan, adapter, 1 - from);
                consider(Some(with_all(problem, &exchanged, other, from)));
            }
        }
        let Some((_, better)) = best else { break };
        plan = better;
    }
    plan
}

/// The adapters that a replica holds and the other does not.
fn held_by_one<'a>(
    problem: &'a Problem,
    plan: &'a Plan,
    replica: usize,
) -> impl Iterator<Item = usize> + 'a {
    (0..problem.adapters())
        .filter(move |id| plan.holds[replica][*id] && !plan.holds[1 - replica][*id])
}

/// The plan in which a replica takes an adapter from the other one, with all its requests that can move.
fn with_all(problem: &Problem, plan: &Plan, adapter: usize, to: usize) -> Plan {
    let mut plan = plan.clone();
    plan.holds[to][adapter] = true;
    plan.holds[1 - to][adapter] = false;
    for (request, goes) in problem.requests.iter().zip(&mut plan.to) {
        if request.may_move && request.adapter == Some(adapter) {
            *goes = to;
        }
    }
    plan
}

/// The plan in which a request of an adapter goes to the other replica, if one can.
fn one_request(
    problem: &Problem,
    plan: &Plan,
    adapter: Option<usize>,
    from: usize,
) -> Option<Plan> {
    let places = 0..problem.requests.len();
    let can = |place: &usize| {
        let request = &problem.requests[*place];
        request.may_move && request.adapter == adapter && plan.to[*place] == from
    };
    let place = places.filter(can).min_by_key(|place| problem.requests[*place].tokens)?;
    let mut plan = plan.clone();
    plan.to[place] = 1 - from;
    if let Some(adapter) = adapter.filter(|adapter| !plan.holds[1 - from][*adapter]) {
        let held = plan.holds[1 - from].iter().filter(|holds| **holds).count() as u32;
        if held >= problem.room[1 - from] {
            let given_up = idle(problem, &plan, 1 - from)?;
            plan.holds[1 - from][given_up] = false;
        }
        plan.holds[1 - from][adapter] = true;
    }
    Some(plan)
}

/// An adapter that a replica can give up.
fn idle(problem: &Problem, plan: &Plan, replica: usize) -> Option<usize> {
    let is_used = |adapter: usize| {
        let mut requests = problem.requests.iter().zip(&plan.to);
        requests.any(|(request, to)| *to == replica && request.adapter == Some(adapter))
    };
    let stays = |adapter: usize| !problem.is_only_here[adapter] || plan.holds[1 - replica][adapter];
    (0..problem.adapters()).find(|id| plan.holds[replica][*id] && !is_used(*id) && stays(*id))
}

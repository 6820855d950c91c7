//! Plans: laws on random problems, against all plans there are, then examples by hand.

use rand::RngExt;

use super::*;
use crate::ids::{InstanceId, RequestId};
use crate::rng::Seed;

/// A small problem: up to six requests of up to three adapters.
fn random(seed: u64) -> Problem {
    let mut stream = Seed(seed).stream("migration", 0);
    let adapters = stream.random_range(1..=3_usize);
    let mut holds = [vec![false; adapters], vec![false; adapters]];
    let [first, second] = &mut holds;
    for (first, second) in first.iter_mut().zip(second) {
        let by = stream.random_range(1..=3_u32);
        (*first, *second) = (by & 1 == 1, by & 2 == 2);
    }
    let count = |holds: &Vec<bool>| holds.iter().filter(|held| **held).count() as u32;
    let room = [0, 1].map(|replica| count(&holds[replica]) + stream.random_range(0..=1));
    let mut requests = Vec::new();
    for id in 0..stream.random_range(0..=6_u32) {
        let adapter = stream.random_range(0..adapters);
        let is_first = holds[0][adapter] && (!holds[1][adapter] || stream.random_bool(0.7));
        let at = usize::from(!is_first);
        requests.push(Movable {
            id: RequestId(id),
            adapter: stream.random_bool(0.9).then_some(adapter),
            tokens: stream.random_range(1..400),
            at,
            may_move: stream.random_bool(0.9),
        });
    }
    Problem {
        requests,
        is_only_here: (0..adapters).map(|_| stream.random_bool(0.5)).collect(),
        service_s: (0..adapters).map(|_| stream.random_range(0.5..6.0)).collect(),
        plain_service_s: 2.0,
        room,
        memory_tokens: [600.0, 500.0],
        move_s: 0.05,
        swap_s_per_token: 0.01,
        holds,
    }
}

/// The least time of all plans.
fn least_s(problem: &Problem) -> f64 {
    let (requests, adapters) = (problem.requests.len(), problem.adapters());
    let mut least = f64::INFINITY;
    for code in 0..1_u32 << (requests + 2 * adapters) {
        let bit = |place: usize| code >> place & 1 == 1;
        let to = (0..requests).map(|place| usize::from(bit(place))).collect();
        let holds = [0, 1].map(|replica| {
            (0..adapters).map(|adapter| bit(requests + replica * adapters + adapter)).collect()
        });
        let plan = Plan { to, holds };
        if problem.allows(&plan) {
            least = least.min(problem.makespan_s(&plan.to));
        }
    }
    least
}

#[test]
fn a_greedy_plan_is_allowed_and_takes_no_longer_than_what_is() {
    for seed in 0..400 {
        let problem = random(seed);
        let (before, after) = (problem.as_it_is(), greedy(&problem));
        assert!(problem.allows(&before), "seed {seed}");
        assert!(problem.allows(&after), "seed {seed}: {problem:?}\n{after:?}");
        let least = least_s(&problem);
        let (before, after) = (problem.makespan_s(&before.to), problem.makespan_s(&after.to));
        assert!(least <= after + 1e-9 && after <= before, "seed {seed}: {least} {after} {before}");
    }
}

#[cfg(feature = "ilp")]
#[test]
fn the_ilp_finds_the_least_time_of_all_plans() {
    for seed in 0..200 {
        let problem = random(seed);
        let plan = ilp(&problem, Requests::Whole).expect("nothing has to move");
        assert!(problem.allows(&plan), "seed {seed}: {problem:?}\n{plan:?}");
        let (ours, least) = (problem.makespan_s(&plan.to), least_s(&problem));
        // The solver keeps constraints within 1e-7, and up to six moves weigh 1e-6 each.
        assert!((ours - least).abs() < 1e-5, "seed {seed}: {ours} is not {least}");
    }
}

#[cfg(feature = "ilp")]
#[test]
fn shares_of_requests_round_to_a_plan_that_is_allowed() {
    for seed in 0..200 {
        let problem = random(seed);
        let plan = ilp(&problem, Requests::Divided).expect("nothing has to move");
        assert!(problem.allows(&plan), "seed {seed}: {problem:?}\n{plan:?}");
        let longest = problem.service_s.iter().copied().fold(problem.plain_service_s, f64::max);
        let (ours, least) = (problem.makespan_s(&plan.to), least_s(&problem));
        // Rounding moves at most one request of each adapter and those of none, with 400 tokens each.
        let off = (longest + problem.move_s + 4.0) * (problem.adapters() + 1) as f64;
        assert!(ours <= least + off, "seed {seed}: {ours} is far from {least}");
    }
}

fn waiting(adapter: usize, count: usize) -> impl Iterator<Item = Movable> {
    (0..count).map(move |_| Movable {
        id: RequestId(0),
        adapter: Some(adapter),
        tokens: 10,
        at: 0,
        may_move: true,
    })
}

#[test]
fn half_of_a_burst_goes_to_an_idle_replica_that_holds_the_adapter() {
    // Six requests of 1 s each on the first: 6 s. Three there, three moved for 0.05 s each: 3.15 s.
    let problem = Problem {
        requests: waiting(0, 6).collect(),
        holds: [vec![true], vec![true]],
        is_only_here: vec![true],
        service_s: vec![1.0],
        room: [1, 1],
        memory_tokens: [1e9; 2],
        move_s: 0.05,
        ..Problem::default()
    };
    let plan = greedy(&problem);
    assert_eq!(plan.to.iter().sum::<usize>(), 3);
    assert!((problem.makespan_s(&plan.to) - 3.15).abs() < 1e-12);
    #[cfg(feature = "ilp")]
    assert!(
        ilp(&problem, Requests::Whole)
            .is_some_and(|plan| (problem.makespan_s(&plan.to) - 3.15).abs() < 1e-6)
    );
}

#[test]
fn an_adapter_gives_way_only_where_nobody_uses_it_and_it_stays_elsewhere() {
    // The second replica has one place, with adapter 1 in it.
    let problem = |is_only_here| Problem {
        requests: waiting(0, 4).collect(),
        holds: [vec![true, false], vec![false, true]],
        is_only_here: vec![true, is_only_here],
        service_s: vec![1.0, 1.0],
        room: [1, 1],
        memory_tokens: [1e9; 2],
        ..Problem::default()
    };
    let plan = greedy(&problem(false));
    assert_eq!((plan.to.iter().sum::<usize>(), &plan.holds[1][..]), (2, &[true, false][..]));
    // To exchange both leaves the other replica as busy: nothing is quicker.
    assert_eq!(greedy(&problem(true)), problem(true).as_it_is());
}

#[test]
fn adapters_are_exchanged_with_all_their_requests() {
    // The first replica holds 0 and 1 with 4 and 3 requests of 1 s, the second 2 and 3 with 1 and none, all of
    // them nowhere else and without room for more: 7 s and 1 s. Adapter 1 for 3, or 0 for 2: 4 s and 4 s.
    let requests: Vec<Movable> = waiting(0, 4).chain(waiting(1, 3)).collect();
    let other = waiting(2, 1).map(|request| Movable { at: 1, ..request });
    let problem = Problem {
        requests: requests.into_iter().chain(other).collect(),
        holds: [vec![true, true, false, false], vec![false, false, true, true]],
        is_only_here: vec![true; 4],
        service_s: vec![1.0; 4],
        room: [2, 2],
        memory_tokens: [1e9; 2],
        ..Problem::default()
    };
    let plan = greedy(&problem);
    assert!(problem.allows(&plan));
    assert_ne!(plan.holds, problem.holds);
    assert!((problem.makespan_s(&plan.to) - 4.0).abs() < 1e-12);
}

#[test]
fn memory_comes_before_requests_and_thresholds_decide() {
    let load = |requests, kv_share| ReplicaLoad { requests, kv_share };
    let named = |most, least| Some([InstanceId(most), InstanceId(least)]);
    let loads = [load(10, 0.2), load(4, 0.95), load(1, 0.5)];
    assert_eq!(pair(&loads, 5.0, 0.9), named(1, 0), "memory of the second is full");
    // The mean is 5: the first has 5 more.
    assert_eq!(pair(&loads, 5.0, 0.96), named(0, 2));
    assert_eq!(pair(&loads, 5.1, 0.96), None);
    let full = [load(3, 0.95), load(3, 0.95)];
    assert_eq!(pair(&full, 1.0, 0.9), None, "nobody has less");
}

//! Laws of computed placements, then examples by hand.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Policy = fn(&ToPlace<'_>) -> Vec<Vec<u32>>;
const POLICIES: [Policy; 2] = [greedy, load_balanced];

fn shares(weights: &[u32]) -> Vec<f64> {
    let total: u32 = weights.iter().sum();
    weights.iter().map(|weight| f64::from(*weight) / f64::from(total)).collect()
}

/// The largest sum of shares on a replica, where each adapter is on one.
fn largest(shares: &[f64], of: impl Fn(usize) -> usize, replicas: usize) -> f64 {
    let mut loads = vec![0.0; replicas];
    for (adapter, share) in shares.iter().enumerate() {
        loads[of(adapter)] += share;
    }
    loads.into_iter().fold(0.0, f64::max)
}

proptest! {
    #[test]
    fn every_adapter_is_somewhere_and_no_replica_holds_more_than_it_may(
        weights in vec(1_u32..100, 1..12), mut room in vec(0_u32..8, 1..6),
        copies in prop::option::of(1_u32..60),
    ) {
        let missing = (weights.len() as u32).saturating_sub(room.iter().sum());
        room[0] += missing;
        let shares = shares(&weights);
        let of = ToPlace { shares: &shares, room: &room, copies };
        for policy in POLICIES {
            let holders = policy(&of);
            prop_assert_eq!(holders.len(), weights.len());
            let mut held = vec![0; room.len()];
            for of in &holders {
                prop_assert!(!of.is_empty(), "{holders:?}");
                prop_assert!(of.windows(2).all(|pair| pair[0] < pair[1]), "{holders:?}");
                for id in of {
                    held[*id as usize] += 1;
                }
            }
            prop_assert!(held.iter().zip(&room).all(|(held, room)| held <= room), "{holders:?}");
            let count: u32 = held.iter().sum();
            let asked = copies.unwrap_or(u32::MAX).max(weights.len() as u32);
            prop_assert!(count <= asked, "{count} copies");
            prop_assert_eq!(policy(&of), holders, "it repeats itself");
        }
    }

    #[test]
    fn longest_first_is_within_four_thirds_of_the_least_largest_load(
        weights in vec(1_u32..50, 1..8), replicas in 1_usize..4,
    ) {
        let shares = shares(&weights);
        let room = vec![weights.len() as u32; replicas];
        let copies = Some(weights.len() as u32);
        let holders = load_balanced(&ToPlace { shares: &shares, room: &room, copies });
        prop_assert!(holders.iter().all(|of| of.len() == 1));
        let ours = largest(&shares, |adapter| holders[adapter][0] as usize, replicas);
        let all = 0..replicas.pow(weights.len() as u32);
        let best = all.map(|code| {
            largest(&shares, |adapter| code / replicas.pow(adapter as u32) % replicas, replicas)
        });
        let best = best.fold(f64::INFINITY, f64::min);
        // A sum of shares may be off by a rounding.
        prop_assert!(ours <= 4.0 / 3.0 * best + 1e-12, "{ours} is more than 4/3 of {best}");
    }
}

#[test]
fn copies_go_to_whom_has_fewer_of_them_than_of_requests() {
    // Shares 0.6, 0.3, 0.1 on two replicas of two slots. Adapters 0, 1 and 2 go to replicas 0, 1 and 0, which
    // then is full. The fourth copy: shares of copies are all 1/3, least below is adapter 0, by 0.27; replica 1
    // takes it.
    let room = [2, 2];
    let of = ToPlace { shares: &[0.6, 0.3, 0.1], room: &room, copies: None };
    assert_eq!(greedy(&of), [vec![0, 1], vec![1], vec![0]]);
    let asked = ToPlace { copies: Some(3), ..of };
    assert_eq!(greedy(&asked), [vec![0], vec![1], vec![0]]);
}

#[test]
fn an_adapter_that_is_more_than_a_replica_takes_is_on_several() {
    // 0.6 is more than a third and so is half of it no longer: two copies of 0.3. Then 0.3 and 0.3 of adapter 0
    // on replicas 0 and 1, 0.2 on 2, 0.1 on 2, 0.1 on 0 (0.3 everywhere, the first).
    let room = [4, 4, 4];
    let of = ToPlace { shares: &[0.6, 0.2, 0.1, 0.1], room: &room, copies: None };
    assert_eq!(load_balanced(&of), [vec![0, 1], vec![2], vec![2], vec![0]]);
}

//! The rule by hand: llama-7b's 15 and 27 ms, 20 ms for a switch.

use super::*;
use crate::ids::AdapterId;

const SECONDS: StepSeconds = StepSeconds { merged: 0.015, unmerged: 0.027 };
const ROOM: Room = Room { requests: 4, adapters: 8 };

/// With thresholds that stay where they are.
fn rule(credit: f64) -> DloraCredit {
    let (threshold_step, threshold_factor) = (0.0, 1.0);
    let defaults = DloraCreditConfig::default();
    let config = DloraCreditConfig { credit, threshold_step, threshold_factor, ..defaults };
    DloraCredit::new(&config, (2, ROOM.requests), SECONDS)
}

/// Requests with these adapters, in places by their order.
fn present(adapters: &[u32]) -> Present {
    let mut present = Present::new(2);
    for (slot, adapter) in (0..).zip(adapters) {
        present.insert(slot, Some(AdapterId(*adapter)));
    }
    present
}

fn choose(rule: &mut DloraCredit, adapters: &[u32]) -> (Execution, Vec<u32>) {
    let mut chosen = Vec::new();
    (rule.choose(&present(adapters), ROOM, &mut chosen), chosen)
}

const IN_0: Execution = Execution::Merged(Some(AdapterId(0)));
const IN_1: Execution = Execution::Merged(Some(AdapterId(1)));

fn is_near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}

#[test]
fn an_adapter_is_merged_from_the_right_threshold_on_and_down_to_the_left_one() {
    let mut rule = rule(10_000.0);
    // Three of four, below 1.
    assert_eq!(choose(&mut rule, &[0, 0, 1, 0]), (Execution::Unmerged, vec![0, 1, 2, 3]));
    // Four of the first four.
    assert_eq!(choose(&mut rule, &[0, 0, 0, 0, 1]), (IN_0, vec![0, 1, 2, 3]));
    // Three of four, at least 15/27.
    assert_eq!(choose(&mut rule, &[0, 1, 0, 0]), (IN_0, vec![0, 2, 3]));
    assert_eq!(choose(&mut rule, &[0, 1, 1, 0]), (Execution::Unmerged, vec![0, 1, 2, 3]));
    // Five that wait are more than the first four: those of adapter 1 are merged behind two others.
    assert_eq!(choose(&mut rule, &[0, 0, 1, 1, 1, 1, 1]), (IN_1, vec![2, 3, 4, 5]));
    // More of another adapter do not end that, too few of its own do.
    assert_eq!(choose(&mut rule, &[1, 1, 1, 0, 0, 0, 0]).0, IN_1);
    assert_eq!(choose(&mut rule, &[1, 1, 0, 0, 0, 0]).0, IN_0);
}

#[test]
fn who_is_passed_over_gains_credit_and_then_goes_first() {
    // Two adapters: both have 0.2, from 0.4 on an adapter goes first, down to 0.3.
    let mut rule = rule(0.2);
    assert_eq!(choose(&mut rule, &[0, 0, 0, 0]).0, IN_0);
    assert_eq!(rule.credit[..2], [0.2, 0.2]);
    // One is passed over for three: half of 27/15/4.
    assert_eq!(choose(&mut rule, &[0, 0, 0, 1]).0, IN_0);
    is_near(rule.credit[1], 0.425);
    is_near(rule.credit[0], -0.025);
    // It goes first, the rest is filled up in order; who stands in the first four pays nobody.
    let (execution, chosen) = choose(&mut rule, &[0, 0, 0, 0, 1]);
    assert_eq!((execution, chosen), (Execution::Unmerged, vec![4, 0, 1, 2]));
    // Of these the one of adapter 1 is not among the first four: it pays the last of them.
    is_near(rule.credit[1], 0.175);
    is_near(rule.credit[0], 0.225);
    // It has less than 0.3: adapter 0 is merged again.
    assert_eq!(choose(&mut rule, &[0, 0, 0, 0, 1]).0, IN_0);
}

#[test]
fn an_adapter_with_less_credit_than_none_is_not_merged() {
    let mut rule = rule(0.2);
    rule.credit = vec![-0.1, 0.2, 0.2];
    assert_eq!(choose(&mut rule, &[0, 0, 0, 0]).0, Execution::Unmerged);
}

#[test]
fn a_batch_has_no_more_adapters_than_slots() {
    let mut rule = rule(10_000.0);
    let mut chosen = Vec::new();
    let room = Room { adapters: 1, ..ROOM };
    rule.choose(&present(&[0, 1, 0, 1]), room, &mut chosen);
    assert_eq!(chosen, [0, 2]);
}

fn learned(was_merged: bool, merged_requests: usize, virtual_switches: u32) -> (f64, f64) {
    let rule = DloraCredit::new(&DloraCreditConfig::default(), (2, ROOM.requests), SECONDS);
    let mut thresholds = rule.thresholds;
    thresholds.iterations = 10;
    (thresholds.merged_requests, thresholds.unmerged_requests) = (merged_requests, 160);
    thresholds.virtual_switches = virtual_switches;
    thresholds.learn(was_merged);
    assert_eq!((thresholds.merged_requests, thresholds.unmerged_requests), (0, 0));
    (thresholds.right, thresholds.left)
}

#[test]
fn thresholds_move_a_step_towards_what_was_better_and_give_way_by_a_factor() {
    let (right, left) = (1.0, 15.0 / 27.0);
    let near = |(a, b): (f64, f64), (c, d): (f64, f64)| {
        is_near(a, c);
        is_near(b, d);
    };
    // Ten merged steps and a switch: 170 ms; unmerged 270 ms. 160 / 0.17 > 160 / 0.27.
    near(learned(true, 160, 0), (right - 0.05, left));
    // 80 / 0.17 < 160 / 0.27.
    near(learned(true, 80, 0), (right * 1.1, left));
    // Ten unmerged steps and a switch: 290 ms; merged with two switches 190 ms. 100 / 0.19 < 160 / 0.29.
    near(learned(false, 100, 2), (right, left + 0.05));
    // 110 / 0.19 > 160 / 0.29.
    near(learned(false, 110, 2), (right, left / 1.1));
}

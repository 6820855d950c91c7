//! The parts of a replay.

use super::*;

#[test]
fn orders_are_tried_in_all_ways() {
    assert_eq!(permutations(&[1, 2, 3]).len(), 6);
    assert_eq!(permutations::<u8>(&[]), [[0_u8; 0]]);
}

//! Adapters come to slots and give way.

use super::*;

fn loads(adapters: &mut Adapters, adapter: u32) -> [u32; 2] {
    let mut loads = AdapterLoads::default();
    adapters.join(AdapterId(adapter), &mut loads);
    [loads.from_disk[0], loads.to_gpu[0]]
}

#[test]
fn the_adapter_unused_for_longest_gives_up_its_slot() {
    // Four adapters, two slots, three places in host memory.
    let mut adapters = Adapters::new(Arc::from([8, 8, 16, 64]), 2, 3);
    assert_eq!(loads(&mut adapters, 0), [0, 0]);
    assert_eq!(loads(&mut adapters, 0), [0, 0]);
    adapters.leave(AdapterId(0));
    adapters.leave(AdapterId(0));
    // Adapter 1 was never used, 0 was: 2 takes the slot of 1.
    assert_eq!(loads(&mut adapters, 2), [0, 1]);
    assert_eq!(loads(&mut adapters, 0), [0, 0]);
    adapters.leave(AdapterId(2));
    // 3 is on disk; 1 leaves host memory for it, 2 its slot.
    assert_eq!(loads(&mut adapters, 3), [1, 1]);
    adapters.leave(AdapterId(3));
    assert_eq!(loads(&mut adapters, 1), [1, 1]);
}

#[test]
fn an_adapter_in_use_is_never_given_up() {
    let mut adapters = Adapters::new(Arc::from([8, 8, 8]), 1, 3);
    assert_eq!(loads(&mut adapters, 0), [0, 0]);
    assert_eq!(loads(&mut adapters, 1), [0, 1]);
    assert_eq!(loads(&mut adapters, 0), [0, 0]);
}

#[test]
fn a_pinned_adapter_keeps_its_slot() {
    let mut adapters = Adapters::new(Arc::from([8; 4]), 2, 4).pinning(vec![AdapterId(3)]);
    // It is there from the start, beside the first other one.
    assert_eq!(loads(&mut adapters, 3), [0, 0]);
    adapters.leave(AdapterId(3));
    assert_eq!(loads(&mut adapters, 0), [0, 0]);
    adapters.leave(AdapterId(0));
    for other in [1, 2, 0] {
        assert_eq!(loads(&mut adapters, other), [0, 1]);
        adapters.leave(AdapterId(other));
    }
    assert_eq!(loads(&mut adapters, 3), [0, 0]);
}

#[test]
fn for_a_step_the_adapter_with_the_fewest_requests_gives_way() {
    let mut adapters = Adapters::new(Arc::from([8, 8, 8, 16]), 3, 4);
    let mut loads = AdapterLoads::default();
    let requests = |adapter: AdapterId| [5, 2, 9, 1][adapter.index()];
    adapters.bring(&[AdapterId(0), AdapterId(2)], requests, &mut loads);
    assert_eq!(loads, AdapterLoads::default());
    // 1 has two requests, 0 has five, and 2 is needed.
    adapters.bring(&[AdapterId(2), AdapterId(3)], requests, &mut loads);
    let (adapter, evicted) = (AdapterId(3), Some(AdapterId(1)));
    assert_eq!(loads.moves, [AdapterMove { adapter, from_disk: false, evicted }]);
    assert_eq!((loads.from_disk, loads.to_gpu), ([0, 0], [1, 16]));
}

#[test]
fn a_step_counts_adapters_once_and_rows_each() {
    let mut adapters = Adapters::new(Arc::from([8, 16, 64]), 3, 3);
    for adapter in [0, 1, 1] {
        loads(&mut adapters, adapter);
    }
    let mut shape = StepShape::default();
    adapters.add_decodes(&mut shape);
    assert_eq!((shape.adapters, shape.adapter_ranks), (2, 24));
    assert_eq!((shape.lora_tokens, shape.lora_rank_tokens), (3, 40));
    adapters.add_tokens(AdapterId(0), 100, &mut shape);
    assert_eq!((shape.lora_tokens, shape.lora_rank_tokens), (102, 40 + 8 * 99));
    adapters.leave(AdapterId(0));
    adapters.leave(AdapterId(1));
    assert_eq!((adapters.distinct(), adapters.is_running(AdapterId(1))), (1, true));
}

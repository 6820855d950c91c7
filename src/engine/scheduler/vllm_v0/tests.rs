//! Examples of its schedules.

use super::super::baseline::tests::{Arrivals, steps};
use super::*;
use crate::engine::scheduler::Memory;

fn settings(blocks: u32) -> VllmV0Settings {
    VllmV0Settings {
        memory: Memory { block_size: 4, blocks, max_model_len: 16 },
        max_num_batched_tokens: 16,
        max_num_seqs: 3,
        enable_chunked_prefill: false,
    }
}

#[test]
fn decoding_stalls_while_prompts_come() {
    // Budget 16. Step 0: prompts of 6 and 9 tokens. Before step 1 another comes: it is
    // prefilled alone (three sequences are the limit). Step 2: all three decode, which is the
    // last token of request 2. Step 3: the place is free, prompt 3 is prefilled. Steps 4 and
    // 5: those that are left decode.
    let arrivals: Arrivals = &[(0, 6, 4), (0, 9, 3), (1, 8, 2), (1, 5, 2)];
    let expected = ["0:6 1:9", "2:8", "0:1 1:1 2:1", "3:5", "0:1 1:1 3:1", "0:1"];
    assert_eq!(steps(&mut VllmV0::new(settings(100)), arrivals), expected);
}

#[test]
fn a_prompt_that_exceeds_the_budget_of_the_step_waits_for_the_next() {
    // 10 + 10 tokens are more than 16.
    let arrivals: Arrivals = &[(0, 10, 1), (0, 10, 1), (0, 2, 1)];
    assert_eq!(steps(&mut VllmV0::new(settings(100)), arrivals), ["0:10", "1:10 2:2"]);
}

#[test]
fn with_chunks_prompts_share_the_budget_with_decodes() {
    // Budget 8. Step 0: prompt 0 (6), 2 tokens of prompt 1 (9). Step 1: request 0 decodes,
    // prompt 1 gets the other 7. Step 2: both decode, prompt 2 is prefilled beside them.
    let chunked =
        VllmV0Settings { enable_chunked_prefill: true, max_num_batched_tokens: 8, ..settings(100) };
    let arrivals: Arrivals = &[(0, 6, 4), (0, 9, 3), (1, 3, 2)];
    let expected = ["0:6 1:2", "0:1 1:7", "0:1 1:1 2:3", "0:1 1:1 2:1"];
    assert_eq!(steps(&mut VllmV0::new(chunked), arrivals), expected);
}

#[test]
fn the_last_admitted_loses_its_memory_and_starts_over_first() {
    // 4 blocks of 4 tokens. Prompts of 7 and 6 tokens hold 2 blocks each, none is free: in
    // step 1 request 0 takes those of request 1, though its own last block has room. Step 2:
    // the two are free, request 1 is prefilled again (6 + 1 tokens); the one block of request
    // 2 is not there. Step 3: request 0 fills a third block and takes them once more. Step 4:
    // one block is free, request 1 needs two, and request 2 does not overtake. Request 0 has
    // its four tokens; step 5: both are prefilled.
    let arrivals: Arrivals = &[(0, 7, 4), (0, 6, 3), (1, 3, 1)];
    let served = steps(&mut VllmV0::new(settings(4)), arrivals);
    assert_eq!(served, ["0:7 1:6", "0:1 !1", "1:7", "0:1 !1", "0:1", "1:8 2:3"]);
}

#[test]
fn the_watermark_is_kept_free_of_newcomers() {
    // 100 blocks, one of which is kept free: 33 prompts of 12 tokens take 99.
    let many = VllmV0Settings { max_num_seqs: 200, max_num_batched_tokens: 4000, ..settings(100) };
    let arrivals = [(0, 12, 1); 34];
    let served = steps(&mut VllmV0::new(many), &arrivals);
    assert_eq!(served[0].split(' ').count(), 33);
}

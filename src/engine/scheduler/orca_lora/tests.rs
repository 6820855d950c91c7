//! Examples of its schedules.

use std::sync::Arc;

use super::*;
use crate::engine::scheduler::Memory;
use crate::scenario::{DloraCreditConfig, MergedOnlyConfig, SloraClustersConfig};
use crate::units::SimDuration;

/// Before which step it comes, prompt and answer tokens, adapter.
type Arrival = (u32, u32, u32, Option<u32>);

fn engine(batching: AdapterBatchingConfig, (batch, slots, kv_tokens): (u32, u32, u32)) -> OrcaLora {
    let settings = OrcaSettings {
        memory: Memory::unpaged(kv_tokens, 20),
        max_batch_size: batch,
        max_loras: Some(slots),
        reservation: Reservation::Request,
    };
    let adapters = Adapters::new(Arc::from([8, 8, 8]), slots, 3);
    let steps = StepSeconds { merged: 0.015, unmerged: 0.027 };
    OrcaLora::new(settings, &batching, (adapters, 3), steps)
}

const UNMERGED: AdapterBatchingConfig = AdapterBatchingConfig::Unmerged {};

fn merged_only() -> AdapterBatchingConfig {
    AdapterBatchingConfig::MergedOnly(MergedOnlyConfig::default())
}

/// The steps, one after the other: what is merged, `+n` where n merges come before, loads as `<adapter`,
/// who computes how many tokens as `id:tokens`, who lost its memory as `!id`.
fn steps(engine: &mut OrcaLora, arrivals: &[Arrival]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut arrivals = (0..).map(RequestId).zip(arrivals).peekable();
    let mut now = SimTime::ZERO;
    loop {
        let step = lines.len() as u32;
        while let Some((id, (_, prompt, output, adapter))) =
            arrivals.next_if(|(_, (before, ..))| *before <= step)
        {
            let adapter = adapter.map(AdapterId);
            let request = Request { adapter, ..Request::new(now, *prompt, *output) };
            engine.enqueue(id, &request, Handoff::None).expect("it is taken");
        }
        let mut plan = StepPlan::default();
        engine.schedule(now, &mut plan);
        assert!(engine.is_balanced(), "memory adds up after step {step}");
        if plan.is_empty() {
            assert_eq!((engine.load().waiting, engine.load().running), (0, 0), "nobody is stuck");
            return lines;
        }
        let execution = match plan.execution {
            Execution::Unmerged => "apart".to_owned(),
            Execution::Merged(None) => "base".to_owned(),
            Execution::Merged(Some(adapter)) => format!("in {adapter}"),
        };
        let merges = (plan.merges > 0).then(|| format!("+{}", plan.merges));
        let loads = plan.adapter_loads.moves.iter().map(|moved| format!("<{}", moved.adapter));
        let shares = plan.entries.iter().map(|e| format!("{}:{}", e.request, e.tokens));
        let losses = plan.preempted.iter().map(|id| format!("!{id}"));
        let words = std::iter::once(execution).chain(merges).chain(loads).chain(shares);
        lines.push(words.chain(losses).collect::<Vec<_>>().join(" "));
        now += SimDuration::from_millis(1);
        engine.complete(now, &plan, &mut StepResult::default());
        assert!(lines.len() < 1000, "the example ends");
    }
}

#[test]
fn unmerged_batches_are_those_of_orca_as_slots_allow() {
    // Two slots: request 2 waits for the end of 1, and 3 waits behind it, though its adapter is there.
    let arrivals = [(0, 5, 3, Some(0)), (0, 3, 2, Some(1)), (0, 4, 2, Some(2)), (0, 2, 1, Some(0))];
    let expected = ["apart 0:5 1:3", "apart 0:1 1:1", "apart <2 0:1 2:4 3:2", "apart 2:1"];
    assert_eq!(steps(&mut engine(UNMERGED, (4, 2, 100)), &arrivals), expected);
    // With a slot for each: the three places are taken first.
    let expected = ["apart 0:5 1:3 2:4", "apart 0:1 1:1 2:1", "apart 0:1 3:2"];
    assert_eq!(steps(&mut engine(UNMERGED, (3, 3, 100)), &arrivals), expected);
}

#[test]
fn merged_batches_are_of_the_adapter_of_who_came_first() {
    // Request 2 overtakes 1. Where 0 and 2 have left, adapter 0 is taken out and 1 is merged; request 3
    // uses none: 1 is taken out.
    let arrivals = [(0, 5, 3, Some(0)), (0, 3, 2, Some(1)), (0, 4, 2, Some(0)), (0, 2, 1, None)];
    let expected =
        ["in 0 +1 0:5 2:4", "in 0 0:1 2:1", "in 0 0:1", "in 1 +2 1:3", "in 1 1:1", "base +1 3:2"];
    assert_eq!(steps(&mut engine(merged_only(), (4, 3, 100)), &arrivals), expected);
}

#[test]
fn dlora_goes_from_one_mode_to_the_other_and_whoever_waits_keeps_its_memory() {
    // All four places would be of adapter 0: merged. Before step 1 comes one of adapter 1: three quarters
    // are above the left threshold of 15/27. In step 2 request 0 alone uses adapter 0, a third of those that are there
    // (3 has come): all are computed unmerged, and request 0 goes on where it was.
    let dlora = AdapterBatchingConfig::DloraCredit(DloraCreditConfig::default());
    let arrivals = [
        (0, 5, 4, Some(0)),
        (0, 3, 2, Some(0)),
        (0, 4, 2, Some(0)),
        (1, 2, 2, Some(1)),
        (2, 2, 1, Some(2)),
    ];
    let expected =
        ["in 0 +1 0:5 1:3 2:4", "in 0 0:1 1:1 2:1", "apart +1 0:1 3:2 4:2", "apart 0:1 3:1"];
    assert_eq!(steps(&mut engine(dlora, (4, 3, 100)), &arrivals), expected);
}

#[test]
fn where_those_that_wait_hold_all_memory_the_last_admitted_lose_theirs() {
    // 20 tokens. Requests 0 and 2 reserve 8 and 9 of them, request 1 needs 7. When 0 has left, 1 came before
    // 2: its adapter is merged, and 2 loses its memory. After 1, request 2 computes its prompt of 4 and its
    // four tokens anew.
    let arrivals = [(0, 4, 4, Some(0)), (0, 5, 2, Some(1)), (0, 4, 5, Some(0))];
    let kv_tokens = 20;
    let expected = [
        "in 0 +1 0:4 2:4",
        "in 0 0:1 2:1",
        "in 0 0:1 2:1",
        "in 0 0:1 2:1",
        "in 1 +2 1:5",
        "in 1 1:1",
        "in 0 +2 2:1",
    ];
    assert_eq!(steps(&mut engine(merged_only(), (4, 3, kv_tokens)), &arrivals), expected);
    // Had it fitted beside 2, that would have kept its memory: with 3 more tokens for request 1 it does not.
    let arrivals = [(0, 4, 4, Some(0)), (0, 8, 4, Some(1)), (0, 4, 5, Some(0))];
    let mut served = steps(&mut engine(merged_only(), (4, 3, kv_tokens)), &arrivals);
    assert_eq!(served.remove(4), "in 1 +2 1:8 !2");
    assert_eq!(served.last().map(String::as_str), Some("in 0 +2 2:8"));
}

fn slora(max_adapters: u32, fills_with_others: bool) -> AdapterBatchingConfig {
    AdapterBatchingConfig::SloraClusters(SloraClustersConfig { max_adapters, fills_with_others })
}

#[test]
fn clustered_batches_take_those_of_their_adapters_first_and_fill_up_or_not() {
    // One adapter to a batch of three: request 2 overtakes 1, which fills the third place; who runs stays. Request 3 fills
    // the places of 1 and 2.
    let arrivals = [(0, 5, 3, Some(0)), (0, 3, 2, Some(1)), (0, 4, 2, Some(0)), (0, 2, 1, Some(1))];
    let expected = ["apart 0:5 2:4 1:3", "apart 0:1 1:1 2:1", "apart 0:1 3:2"];
    assert_eq!(steps(&mut engine(slora(1, true), (3, 3, 100)), &arrivals), expected);
    // Without filling, adapter 1 has to wait for the end of request 0.
    let expected = ["apart 0:5 2:4", "apart 0:1 2:1", "apart 0:1", "apart 1:3 3:2", "apart 1:1"];
    assert_eq!(steps(&mut engine(slora(1, false), (3, 3, 100)), &arrivals), expected);
}

#[test]
fn requests_without_an_adapter_are_in_every_cluster_and_slots_bound_it() {
    let arrivals = [(0, 5, 2, Some(0)), (0, 3, 2, Some(1)), (0, 4, 2, Some(2)), (0, 2, 1, None)];
    let expected = ["apart 0:5 1:3 3:2", "apart 0:1 1:1", "apart 2:4", "apart 2:1"];
    assert_eq!(steps(&mut engine(slora(2, false), (4, 3, 100)), &arrivals), expected);
    // One slot, and places for three: request 1 waits until adapter 0 is used no longer, and holds nobody back.
    let arrivals = [(0, 5, 2, Some(0)), (0, 3, 2, Some(1)), (0, 4, 2, Some(0))];
    let expected = ["apart 0:5 2:4", "apart 0:1 2:1", "apart <1 1:3", "apart 1:1"];
    assert_eq!(steps(&mut engine(slora(2, true), (3, 1, 100)), &arrivals), expected);
}

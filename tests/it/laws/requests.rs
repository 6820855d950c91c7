//! L1, L4, L6, L10: no request is lost, none waits without a reason, every token comes out once.
//! L1, L2 and L4 are what `sim::laws::Watch` checks at every occurrence of every run below.

use proptest::prelude::*;

use servecast::engine::Instance;
use servecast::ids::RequestId;
use servecast::metrics::{Recorder, Status};
use servecast::request::Request;
use servecast::resolved::Scenario;
use servecast::scenario::{
    AcceptanceConfig, Policy, SpeculationConfig, SpeculationMethod, VllmConfig,
};
use servecast::units::SimTime;

use super::random::{Case, cases, laws, served};
use crate::support::{cluster, drive, instance, law, records, small_engine};

/// Whether the request that is to be admitted next can never run: the tokens it knows, with drafts
/// and their look-ahead, need more blocks than there are.
pub(super) fn can_never_run(case: &Case, instance: &Instance) -> bool {
    let head = instance.scheduler().head().expect("somebody waits");
    let life = instance.scheduler().life(head).expect("it is inside");
    let drafts = case.engine.speculation.as_ref().map_or(0, |s| 2 * s.num_speculative_tokens);
    let tokens = life.prompt_tokens + life.generated + drafts;
    let model_len = case.engine.max_model_len.expect("resolved");
    let blocks = tokens.min(model_len).div_ceil(case.engine.block_size);
    blocks > instance.scheduler().load().kv_blocks
}

proptest! {
    #![proptest_config(crate::support::random_cases(400))]

    #[test]
    fn every_request_leaves_once_or_can_never_run(case in cases()) {
        let idle_engine = instance(&case.engine, case.law);
        let usable = idle_engine.scheduler().load().kv_blocks;
        let (counts, engine) =
            drive(idle_engine, &case.requests, &case.aborts, &mut (), |engine, is_idle| {
                let load = engine.scheduler().load();
                if is_idle && load.waiting + load.running > 0 {
                    assert_eq!(load.running, 0, "an idle instance has running requests");
                    assert!(can_never_run(&case, engine), "an idle instance could work");
                }
            });
        prop_assert_eq!(counts.arrived, case.requests.len() as u64);
        let model_len = case.engine.max_model_len.expect("resolved");
        let too_long = |r: &&Request| r.prompt_tokens >= model_len;
        prop_assert_eq!(counts.rejected, case.requests.iter().filter(too_long).count() as u64);
        if model_len.div_ceil(case.engine.block_size) <= usable {
            prop_assert_eq!(counts.stuck, 0, "memory for one longest sequence is enough for all");
        }
        let out = counts.finished + counts.rejected + counts.aborted + counts.stuck;
        prop_assert_eq!(out, counts.arrived);
        let load = engine.scheduler().load();
        prop_assert_eq!(u64::from(load.waiting + load.running), counts.stuck);
    }

    #[test]
    fn every_token_comes_out_once_whatever_was_preempted(case in cases()) {
        let mut recorder = Recorder::default();
        let engine = instance(&case.engine, case.law);
        let (_, engine) =
            drive(engine, &case.requests, &case.aborts, &mut recorder, |_, _| {});
        let model_len = case.engine.max_model_len.expect("resolved");
        let mut tokens = 0;
        for (index, (request, record)) in case.requests.iter().zip(&recorder.requests).enumerate() {
            let whole = request.output_tokens.min(model_len.saturating_sub(request.prompt_tokens));
            match record.status {
                Status::Finished => prop_assert_eq!(record.output_tokens, whole),
                Status::Aborted => prop_assert!(record.output_tokens <= whole),
                Status::Rejected => prop_assert_eq!(record.output_tokens, 0),
                Status::TimedOut | Status::Failed => prop_assert!(false, "nothing fails here"),
                Status::Unfinished => {
                    let id = RequestId::from_index(index);
                    tokens += engine.scheduler().life(id).expect("it is inside").generated;
                }
            }
            tokens += record.output_tokens;
        }
        prop_assert_eq!(recorder.tokens_by_second.total(), u64::from(tokens));
    }

    #[test]
    fn first_come_is_first_scheduled(mut case in cases()) {
        case.engine.policy = Policy::Fcfs;
        let mut recorder = Recorder::default();
        let engine = instance(&case.engine, case.law);
        drive(engine, &case.requests, &case.aborts, &mut recorder, |_, _| {});
        let finished = recorder.requests.iter().filter(|record| record.status == Status::Finished);
        let order: Vec<_> = finished.map(|record| record.first_scheduled).collect();
        prop_assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn a_cluster_loses_no_request(
        (engine, requests) in served(), law in laws(), replicas in 1_u32..4,
    ) {
        let (counts, recorder) = records(cluster(replicas, &engine, law), &requests);
        let with = |status| recorder.requests.iter().filter(|r| r.status == status).count() as u64;
        prop_assert_eq!(counts.arrived, requests.len() as u64);
        prop_assert_eq!(counts.finished, with(Status::Finished));
        prop_assert_eq!(counts.rejected, with(Status::Rejected));
        prop_assert_eq!(counts.stuck, with(Status::Unfinished));
    }
}

#[test]
fn an_engine_asks_again_when_its_only_decode_lost_its_memory() {
    // Prefill runs in one of three steps at most: the long prompt gets 13 tokens in steps 1, 4, …,
    // 16 and pauses in between, while the short one decodes. In step 17 they own 78 and 22 of 100
    // blocks; the decode needs a 23rd and loses all. Nothing is computed, and nobody would look
    // again, though the long prompt could go on.
    let engine = VllmConfig {
        block_size: 1,
        num_gpu_blocks: Some(101),
        max_num_batched_tokens: Some(21),
        max_num_seqs: Some(2),
        max_model_len: Some(100),
        async_scheduling: false,
        enable_prefix_caching: false,
        long_prefill_token_threshold: 13,
        prefill_schedule_interval: 3,
        ..VllmConfig::default()
    };
    let requests = [Request::new(SimTime::ZERO, 79, 1), Request::new(SimTime::ZERO, 7, 20)];
    let (counts, recorder) = records(cluster(1, &engine, law(1, 0, 0)), &requests);
    assert_eq!(counts.finished, 2);
    assert!(recorder.requests[1].preemptions > 0);
}

#[test]
fn a_chunk_limit_below_the_drafts_cuts_them_off() {
    // One-token prompts admitted beside a decode are padded to 1 + 2 rows, of which a limit of one
    // token leaves one.
    let engine = VllmConfig {
        long_prefill_token_threshold: 1,
        async_scheduling: false,
        speculation: Some(SpeculationConfig::new(
            SpeculationMethod::Ngram,
            2,
            AcceptanceConfig::PerPosition { probability: 0.0 },
        )),
        ..small_engine()
    };
    let at = |micros: u64| SimTime::from_nanos(micros * 1000);
    let requests =
        [Request::new(at(0), 5, 20), Request::new(at(1), 1, 1), Request::new(at(1), 1, 1)];
    let (counts, recorder) = records(cluster(1, &engine, law(511, 29, 49)), &requests);
    assert_eq!(counts.finished, 3);
    assert_eq!(recorder.tokens_by_second.total(), 22);
}

#[test]
fn a_pool_that_starts_its_longest_sequence_over_forever_is_refused() {
    let scenario = |blocks: u32, reserve: bool| {
        let text = format!(
            "name = 'as long as the pool'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\n\
             gpu = 'H100-SXM5-80GB'\nengine = {{ type = 'vllm_v1', num_gpu_blocks = {blocks}, \
             max_model_len = 1600, scheduler_reserve_full_isl = {reserve} }}\n\
             [workload]\nnum_requests = 1\narrivals = {{ type = 'all_at_once' }}\n\
             lengths = {{ type = 'fixed', input_tokens = 10, output_tokens = 10 }}\n"
        );
        Scenario::resolve(toml::from_str(&text).expect("the scenario is TOML"), None)
    };
    // 1600 tokens are 100 blocks of 16, to which the null block comes.
    assert!(scenario(100, true).is_ok());
    assert!(scenario(101, false).is_ok());
    let error = scenario(100, false).expect_err("it is refused").to_string();
    assert!(error.starts_with("cluster.engine.max_model_len: with speculation, or"), "{error}");
    assert!(error.ends_with("set max_model_len to at most 1584"), "{error}");
}

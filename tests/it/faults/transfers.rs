//! Lost KV and slow links where replicas prefill or decode only, worked out by hand.

use servecast::metrics::{Recorder, Status};
use servecast::model::KvDtype;
use servecast::profiles;
use servecast::sim::Counts;

use super::{crash, ms, run};

/// Requests of 160 tokens in and 5 out, on one replica that prefills and some that decode, 100 ms a step.
fn apart(requests: u32, decodes: u32, faults: &str) -> String {
    // A KV cache takes a second to travel.
    let rate = kv_bytes() as f64 / 1e9;
    format!(
        "name = 'apart'\n[workload]\nnum_requests = {requests}\narrivals.type = 'all_at_once'\n\
         lengths = {{ type = 'fixed', input_tokens = 160, output_tokens = 5 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         [cluster.disaggregation]\nprefill_replicas = 1\ndecode_replicas = {decodes}\n\
         transfer = {{ nic_gb_per_s = {rate} }}\n\
         [cluster.engine]\ntype = 'vllm_v1'\nasync_scheduling = false\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 100000.0\nprefill_token_us = 0.0\n\
         decode_seq_us = 0.0\n{faults}"
    )
}

fn kv_bytes() -> u64 {
    let model = profiles::model("Qwen/Qwen3-8B").expect("it is in the catalogue");
    160 * model.kv_bytes_per_token(1, KvDtype::default())
}

fn one(faults: &str) -> (Counts, u64, Recorder) {
    let (counts, recorder) = run(&apart(1, 1, faults));
    (counts, ms(recorder.requests[0].finish), recorder)
}

#[test]
fn without_faults_a_kv_cache_travels_for_a_second() {
    // 100 ms of prefill, 1 s of transfer, 5 steps, the first of which computes the last token again.
    let (counts, finish, recorder) = one("");
    assert_eq!((counts.finished, finish), (1, 1600));
    assert_eq!(recorder.carried.bytes, kv_bytes());
}

#[test]
fn a_slow_link_carries_its_share() {
    // 0.1 to 0.5 s at the whole rate, 1 s at a quarter, the rest at the whole rate.
    let slow =
        "[[faults]]\ntype = 'slow_link'\nreplica = 1\nat_s = 0.5\nfor_s = 1.0\nshare = 0.25\n";
    let (counts, finish, _) = one(slow);
    assert_eq!((counts.finished, finish), (1, 1600 + 750));
    // The way out of the other replica is as good as the way in.
    let (_, same, _) = one(&slow.replace("replica = 1", "replica = 0"));
    assert_eq!(same, finish);
}

#[test]
fn a_prompt_whose_transfer_is_lost_is_computed_where_it_is_decoded() {
    for replica in [0, 1] {
        let lost =
            format!("[[faults]]\ntype = 'lost_transfers'\nreplica = {replica}\nat_s = 0.6\n");
        let (counts, finish, recorder) = one(&lost);
        // Five steps from 600 ms on, the first for the whole prompt.
        assert_eq!((counts.finished, finish), (1, 1100), "replica {replica}");
        assert_eq!(recorder.carried.transfers, 0);
        assert_eq!(recorder.fault_report().transfers_failed, 1);
        let record = &recorder.requests[0];
        let parts = record.breakdown().expect("it is answered");
        assert_eq!(parts.total(), record.e2e());
    }
}

#[test]
fn what_a_prefill_replica_held_is_lost_with_it() {
    // One request is on its way, the others wait behind it for memory where they decode.
    let (counts, finish, _) = one(&crash(0, 0.6, 0.2, 0.0));
    assert_eq!((counts.finished, counts.failed, finish), (1, 0, 1100));
    // Nobody holds anything after it: the law of memory is watched.
    let (counts, _) = run(&apart(6, 2, &crash(0, 0.35, 0.2, 0.1)));
    assert_eq!((counts.finished, counts.failed), (6, 0));
}

#[test]
fn the_requests_of_a_decode_replica_fail_and_their_kv_is_let_go() {
    let (counts, recorder) = run(&apart(4, 2, &crash(1, 0.6, 9.0, 0.0)));
    assert_eq!((counts.finished, counts.failed), (2, 2));
    let failed = recorder.requests.iter().filter(|record| record.status == Status::Failed);
    assert!(failed.into_iter().all(|record| ms(record.finish) == 600 && record.instance.0 == 1));
}

#[test]
fn without_a_replica_to_decode_what_is_prefilled_fails() {
    let (counts, finish, _) = one(&crash(1, 0.05, 9.0, 0.0));
    assert_eq!((counts.finished, counts.failed, finish), (0, 1, 100));
}

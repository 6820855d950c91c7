//! Random clusters under random faults where Dynamo's router has some prompts computed by those that decode: nothing is
//! lost, nothing stays booked, and equal seeds give equal runs.

use std::fmt::Write;

use rand::RngExt;
use servecast::metrics::{Recorder, Status};
use servecast::rng::{Seed, Stream};
use servecast::sim::Counts;
use servecast::units::SimDuration;

use super::observe;
use super::soak::{May, faults, one, scaled, workload};
use crate::support::{Digest, resolve};

const CLUSTERS: u64 = 60;

fn rules(random: &mut Stream) -> String {
    let policy = one(random, &["isl_bounding", "prefill_load", "isl_or_load"]);
    let mut rules = format!("conditional_disagg = {{ policy = '{policy}'");
    if policy != "isl_bounding" {
        let _ = write!(rules, ", prefill_busy_threshold = {}", random.random_range(0.0..2.0));
    }
    if random.random_bool(0.5) {
        let _ = write!(rules, ", eff_isl_threshold = {}", random.random_range(0..200));
    }
    if random.random_bool(0.3) {
        let _ = write!(rules, ", decode_busy_threshold = {}", random.random_range(0.0..1.0));
    }
    rules += " }";
    if random.random_bool(0.6) {
        let _ = write!(rules, ", router_queue_threshold = {}", random.random_range(0.0..1.0));
    }
    if random.random_bool(0.3) {
        rules += ", session_affinity_ttl_secs = 5.0";
    }
    rules
}

fn scenario(seed: u64) -> String {
    let random = &mut Seed(seed).stream("conditional soak", 0);
    let mut text = format!("name = 'soak'\nseed = {seed}\n");
    let crashes = random.random_bool(0.7);
    workload(random, crashes, &mut text);
    let parts: [u32; 2] = [random.random_range(1..4), random.random_range(1..4)];
    let _ = writeln!(
        text,
        "[cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         disaggregation = {{ prefill_replicas = {}, decode_replicas = {}, transfer = {{ \
         nic_gb_per_s = {}, latency_us = 50.0 }} }}\napi_delay_ms = {}\n\
         router = {{ dynamo = {{ {} }} }}\n[cluster.engine]\ntype = 'vllm_v1'\nnum_gpu_blocks = {}\n\
         max_model_len = 320\nmax_num_seqs = {}\nmax_num_batched_tokens = {}\nasync_scheduling = {}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = {}\nprefill_token_us = 20.0\n\
         decode_seq_us = 50.0",
        parts[0],
        parts[1],
        random.random_range(0.05..5.0),
        one(random, &["0.0", "2.0", "100.0"]),
        rules(random),
        random.random_range(22..80),
        random.random_range(1..12),
        random.random_range(16..400),
        random.random_bool(0.5),
        random.random_range(500.0..20_000.0),
    );
    let may = May { replicas: parts[0] + parts[1], crashes, network: true, caches: true };
    faults(random, &may, &mut text);
    scaled(seed, &parts, may.replicas, &text)
}

fn outcome(text: &str) -> (Counts, Digest, Recorder) {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut seen = (Digest::default(), Recorder::default());
    let counts = observe(&scenario, &mut seen);
    (counts, seen.0, seen.1)
}

/// Debug builds watch every run for the laws: memory adds up, and routers forget who has left.
#[test]
fn nothing_is_lost_where_prompts_are_computed_in_two_places() {
    let (mut finished, mut failed, mut carried, mut here) = (0, 0, 0, 0);
    for seed in 0..CLUSTERS {
        println!("seed {seed}");
        let text = scenario(seed);
        let (counts, digest, recorder) = outcome(&text);
        let (again, same, _) = outcome(&text);
        assert_eq!((&counts, digest), (&again, same), "seed {seed}");
        assert_eq!(counts.stuck, 0, "seed {seed}: {counts:?}");
        finished += counts.finished;
        failed += counts.failed + counts.timed_out;
        carried += recorder.carried.transfers;
        let answered = recorder.requests.iter().filter(|one| one.status == Status::Finished);
        here += answered.filter(|one| one.transfer == SimDuration::ZERO).count();
    }
    println!("{finished} finished, {failed} failed, {carried} carried, {here} computed in place");
    let is_mixed = finished > 1000 && failed > 300 && carried > 300 && here > 300;
    assert!(is_mixed, "{finished}, {failed}, {carried}, {here}");
}

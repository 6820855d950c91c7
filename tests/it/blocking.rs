//! KV caches handed over as vLLM 0.6 did with Mooncake's pipe: whoever fetches or sends one does nothing
//! else.

use proptest::prelude::*;
use servecast::engine::Instance;
use servecast::metrics::{Recorder, RequestRecord, Status};
use servecast::sim::{Counts, Simulation, cluster as cluster_of};
use servecast::units::SimDuration;
use servecast::workload::{Client, Workload};

use super::support::resolve;

const MODEL: &str = "meta-llama/Llama-3.1-8B";

/// 128 KiB of keys and values, 8 KiB of hidden states, an id and a flag.
const BYTES_PER_TOKEN: f64 = 139_273.0;

fn scenario(cluster: &str, workload: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = '{MODEL}'\ngpu = 'H100-SXM5-80GB'\n{cluster}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\nprefill_token_us = 20.0\n\
         decode_seq_us = 50.0\n[workload]\n{workload}"
    )
}

fn parts(prefill: u32, decode: u32, nic_gb_per_s: f64) -> String {
    format!(
        "disaggregation = {{ prefill_replicas = {prefill}, decode_replicas = {decode}, \
         protocol = {{ type = 'blocking' }}, \
         transfer = {{ nic_gb_per_s = {nic_gb_per_s}, latency_us = 1000.0 }} }}"
    )
}

fn engine(settings: &str) -> String {
    format!("engine = {{ type = 'vllm_v0', max_model_len = 2000{settings} }}")
}

fn simulate(text: &str, is_single: bool) -> (Counts, Recorder) {
    let scenario = resolve(text).expect("the scenario holds together");
    let mut cluster = cluster_of(&scenario).expect("step times are known");
    if is_single {
        let instances = cluster.instances.into_iter().map(Instance::step_by_step);
        cluster.instances = instances.collect();
    }
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let client = Client::new(&scenario.workload.client);
    let [delay, _] = scenario.api_delays();
    let mut recorder = Recorder::default();
    let run = Simulation::new(workload, client, cluster, delay);
    let counts = run.until(scenario.workload.client.stops_at()).run(&mut recorder);
    (counts.expect("no trace is read"), recorder)
}

fn run(cluster: &str, workload: &str) -> (Counts, Recorder) {
    simulate(&scenario(cluster, workload), false)
}

fn ms(duration: SimDuration) -> f64 {
    duration.as_millis_f64()
}

fn near(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-3, "{actual} ms, not {expected} ms");
}

/// Two requests of 1000/10 tokens, the second so much later.
fn two(gap_ms: f64) -> String {
    format!(
        "num_requests = 2\narrivals = {{ type = 'constant', rate_per_s = {:?} }}\n\
         lengths = {{ type = 'fixed', input_tokens = 1000, output_tokens = 10 }}",
        1e3 / gap_ms
    )
}

#[test]
fn a_request_alone_prefills_is_fetched_and_decodes() {
    let one = two(1.0).replace("num_requests = 2", "num_requests = 1");
    let (counts, recorder) = run(&format!("{}\n{}", parts(1, 1, 1.0), engine("")), &one);
    assert_eq!(counts.finished, 1);
    let record = recorder.requests[0];
    let travels = 1.0 + 1000.0 * BYTES_PER_TOKEN / 1e6;
    near(ms(record.transfer), travels);
    // The prompt, 5 ms + 1000 · 20 us, and the step that draws the token from what was fetched.
    near(ms(record.ttft()), 25.0 + travels + 5.0);
    near(ms(record.e2e()), 25.0 + travels + 5.0 + 9.0 * 5.05);
    assert_eq!(recorder.carried.bytes, 1000 * BYTES_PER_TOKEN as u64);
}

#[test]
fn decodes_wait_while_the_kv_of_others_is_fetched() {
    let (_, recorder) = run(&format!("{}\n{}", parts(1, 1, 1.0), engine("")), &two(170.0));
    let travels = 1.0 + 1000.0 * BYTES_PER_TOKEN / 1e6;
    // The first begins to decode at 170.3 ms; the second is there at 195 ms, in its fifth step.
    let first = recorder.requests[0];
    near(ms(first.finish - first.first_token), 5.0 * 5.05 + travels + 5.0 + 4.0 * 5.1);
    let parts = first.breakdown().expect("it left");
    near(ms(parts.stalled), travels + 5.0);
}

#[test]
fn prompts_of_one_step_are_fetched_one_after_the_other() {
    let both = two(1.0).replace("type = 'constant', rate_per_s = 1000.0", "type = 'all_at_once'");
    let (_, recorder) = run(&format!("{}\n{}", parts(1, 1, 1.0), engine("")), &both);
    let travels = 1.0 + 1000.0 * BYTES_PER_TOKEN / 1e6;
    for record in &recorder.requests {
        // One prefill step of both, both transfers, one step for both tokens.
        near(ms(record.ttft()), 45.0 + 2.0 * travels + 5.0);
    }
}

#[test]
fn a_kv_cache_waits_for_the_step_of_its_sender_and_the_next_step_for_it() {
    // The first is prefilled at 25 ms, the second from 25 to 50; nothing of a launch takes time.
    let (_, recorder) = run(&format!("{}\n{}", parts(1, 1, 1.0), engine("")), &two(24.0));
    let flows = 1000.0 * BYTES_PER_TOKEN / 1e6;
    near(ms(recorder.requests[0].transfer), 25.0 + flows);
    // With a launch of 25 ms it is asked for when a 25th of the step is launched, and done: the step
    // stands still while it is sent.
    let slow = engine(", host = { eager_launch_us = 25000.0 }");
    let (_, recorder) = run(&format!("{}\n{slow}", parts(1, 1, 1.0)), &two(24.0));
    near(ms(recorder.requests[0].transfer), 1.0 + flows);
    let second = recorder.requests[1];
    // Its prefill lasts from 25 to 26 ms and, after the copy, 24 ms more.
    let prefilled = 26.0 + flows + 24.0;
    near(ms(second.first_scheduled - second.arrival), 1.0);
    // Then the first token of the other is drawn, and decodes begin.
    assert!(ms(second.ttft()) > prefilled - 24.0 + 1.0 + flows, "{}", ms(second.ttft()));
}

#[test]
fn a_full_buffer_holds_the_prefill_side_back() {
    let cluster = |size: &str| {
        let buffer = format!("type = 'blocking', kv_buffer_size = {size}");
        let parts = parts(1, 1, 50.0).replace("type = 'blocking'", &buffer);
        format!("{parts}\n{}", engine(", max_num_seqs = 1"))
    };
    let workload = "num_requests = 4\narrivals.type = 'all_at_once'\n\
                    lengths = { type = 'fixed', input_tokens = 1000, output_tokens = 100 }";
    let begun = |size: &str| {
        let (counts, recorder) = run(&cluster(size), workload);
        assert_eq!(counts.finished, 4);
        recorder.requests.iter().map(|r| ms(r.first_scheduled - r.arrival)).collect::<Vec<_>>()
    };
    // One after the other, while the first decodes for half a second.
    let wide = begun("1e10");
    assert!(wide[3] < 100.0, "{wide:?}");
    // One copy is more than the buffer takes. It is gone when the third prompt begins; the second's goes
    // when the first request has left.
    let narrow = begun("1e6");
    near(narrow[1], wide[1]);
    assert!(narrow[2] < 100.0 && narrow[3] > 500.0, "{narrow:?}");
}

#[test]
fn who_loses_its_memory_is_computed_where_it_decodes() {
    let cluster = format!(
        "{}\n{}",
        parts(1, 1, 50.0),
        engine(", num_gpu_blocks = 140").replace("2000", "1500")
    );
    let workload = "num_requests = 2\narrivals.type = 'all_at_once'\n\
                    lengths = { type = 'fixed', input_tokens = 1000, output_tokens = 200 }";
    let (counts, recorder) = run(&cluster, workload);
    assert_eq!(counts.finished, 2);
    let preempted: Vec<&RequestRecord> =
        recorder.requests.iter().filter(|record| record.preemptions > 0).collect();
    assert_eq!(preempted.len(), 1, "the last admitted");
    assert_eq!(recorder.carried.transfers, 2, "a KV cache is fetched once");
}

fn random(seed: u64, engine: &str, parts: &str, rate: f64, router: &str) -> String {
    let client = match seed % 3 {
        0 => "client = { max_concurrency = 7 }\n",
        1 => "client = { stop_after_s = 2.0 }\n",
        _ => "",
    };
    let cluster = format!(
        "{parts}\napi_delay_ms = {:?}\nrouter = {{ type = '{router}' }}\n{engine}",
        (seed % 5) as f64
    );
    let workload = format!(
        "num_requests = 100\narrivals = {{ type = 'poisson', rate_per_s = {rate} }}\n{client}\
         [workload.lengths]\ntype = 'sampled'\n\
         input_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 700 }}\n\
         output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 80 }}\n"
    );
    format!("seed = {seed}\n{}", scenario(&cluster, &workload))
}

proptest! {
    #![proptest_config(crate::support::random_cases(80))]

    #[test]
    fn nothing_is_lost_and_times_add_up(
        seed in 0_u64..1000, prefill in 1_u32..4, decode in 1_u32..4, blocks in 60_u32..400,
        rate in 2.0_f64..200.0, nic in 0.05_f64..50.0, launch in 0.0_f64..30_000.0,
        size in 1e6_f64..1e9,
        router in prop::sample::select(vec!["round_robin", "least_outstanding_requests"]),
    ) {
        let engine = format!(
            "engine = {{ type = 'vllm_v0', num_gpu_blocks = {blocks}, max_model_len = 850, \
             max_num_batched_tokens = 1500, host = {{ eager_launch_us = {launch} }} }}"
        );
        let buffer = format!("type = 'blocking', kv_buffer_size = {size}");
        let parts = parts(prefill, decode, nic).replace("type = 'blocking'", &buffer);
        let text = random(seed, &engine, &parts, rate, router);
        // Debug builds watch the laws: requests, blocks, tokens.
        let (counts, recorder) = simulate(&text, false);
        let stops = seed % 3 == 1;
        prop_assert_eq!(counts.stuck, 0);
        prop_assert!(stops || counts.finished + counts.rejected == 100);
        for record in recorder.requests.iter().filter(|record| record.status == Status::Finished) {
            let parts = record.breakdown().expect("it left");
            prop_assert_eq!(parts.total(), record.e2e());
            prop_assert!(record.instance.0 >= prefill, "an instance that decodes");
            prop_assert!(ms(record.transfer) >= 1.0, "it was fetched");
        }
        let (again, single) = simulate(&text, true);
        prop_assert_eq!(counts, again);
        prop_assert_eq!(&recorder.requests, &single.requests);
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let wrong = [
        (engine(", enable_chunked_prefill = true"), parts(1, 1, 1.0), "enable_chunked_prefill"),
        (
            "engine = { type = 'vllm_v1' }".to_owned(),
            parts(1, 1, 1.0),
            "cluster.disaggregation.protocol: only vllm_v0",
        ),
        (
            engine(""),
            parts(1, 1, 1.0).replace("'blocking'", "'pull'"),
            "cluster.disaggregation.protocol: only vllm_v1",
        ),
        (
            engine(""),
            parts(1, 1, 1.0).replace("'blocking'", "'blocking', kv_buffer_size = 0.0"),
            "cluster.disaggregation.protocol.kv_buffer_size",
        ),
        (engine(""), parts(1, 1, 1.0).replace("'blocking'", "'push'"), "push"),
    ];
    for (engine, parts, expected) in wrong {
        let error = resolve(&scenario(&format!("{parts}\n{engine}"), &two(1.0)))
            .expect_err("it is refused");
        assert!(error.contains(expected), "{error}");
    }
}

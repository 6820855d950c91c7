//! Prefill on some replicas, decode on others, and KV caches on their way between them.

use proptest::prelude::*;
use servecast::engine::Instance;
use servecast::io::timeline::{TimelineWriter, Window};
use servecast::metrics::{Recorder, RequestRecord, Status, TransferReport};
use servecast::model::KvDtype;
use servecast::profiles;
use servecast::sim::{Simulation, cluster as cluster_of, simulation, step_times};
use servecast::units::SimDuration;
use servecast::workload::{Client, Workload};

use super::support::{resolve, run_text as run};
use super::timeline::shows;

const MODEL: &str = "meta-llama/Llama-3.1-8B";

fn scenario(cluster: &str, workload: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = '{MODEL}'\ngpu = 'H100-SXM5-80GB'\n{cluster}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\nprefill_token_us = 20.0\n\
         decode_seq_us = 50.0\n[workload]\n{workload}"
    )
}

/// The same with a timeline.
fn run_with_timeline(text: &str) -> (Recorder, String) {
    let scenario = resolve(text).expect("the scenario holds together");
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let timeline = TimelineWriter::new(Vec::new(), Window::ALL, scenario.replicas(), "a model");
    let mut observers = (Recorder::default(), timeline);
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    run.run(&mut observers).expect("no trace is read");
    let (written, _) = observers.1.finish().expect("memory takes everything");
    (observers.0, String::from_utf8(written).expect("JSON is UTF-8"))
}

fn parts(prefill: u32, decode: u32, nic_gb_per_s: f64) -> String {
    format!(
        "disaggregation = {{ prefill_replicas = {prefill}, decode_replicas = {decode}, \
         transfer = {{ nic_gb_per_s = {nic_gb_per_s}, latency_us = 100.0 }} }}"
    )
}

const ONE: &str = "num_requests = 1\narrivals.type = 'all_at_once'\n\
                   lengths = { type = 'fixed', input_tokens = 1000, output_tokens = 10 }";

/// KV bytes of a token of the model on one GPU.
fn kv_bytes() -> u64 {
    let model = profiles::model(MODEL).expect("it is in the catalogue");
    model.kv_bytes_per_token(1, KvDtype::default())
}

fn ms(duration: SimDuration) -> f64 {
    duration.as_millis_f64()
}

#[test]
fn a_request_alone_prefills_travels_and_decodes() {
    let (counts, recorder) = run(&scenario(&parts(1, 1, 10.0), ONE));
    assert_eq!(counts.finished, 1);
    let record = recorder.requests[0];
    // 63 blocks of 16 tokens at 10 bytes/ns after 100 us.
    let travels = 0.1 + (1008 * kv_bytes()) as f64 / 10e6;
    assert!((ms(record.transfer) - travels).abs() < 1e-6, "{} ms", ms(record.transfer));
    // The prompt, 5 ms + 1000 · 20 us; then its last token again, 5 ms + 20 us.
    let parts = record.breakdown().expect("it left");
    assert!((ms(parts.prefill) - 25.0 - 5.02).abs() < 1e-6, "{} ms", ms(parts.prefill));
    assert!((ms(record.ttft()) - 30.02 - travels).abs() < 1e-6, "{} ms", ms(record.ttft()));
    assert_eq!((record.output_tokens, record.instance.0), (10, 1));
    let report = TransferReport::new(&recorder, &[10e9; 2]).expect("a KV cache travelled");
    assert_eq!((report.transfers, report.bytes), (1, 1008 * kv_bytes()));
    let share = (1008 * kv_bytes()) as f64 / 10e9 / recorder.end.as_secs_f64();
    assert!((report.nic_use - share).abs() < 1e-9 && (report.busiest_nic_use - share).abs() < 1e-9);
    assert_eq!(recorder.tokens_by_second.total(), 10, "the prefill's token is not seen");
}

#[test]
fn a_request_of_sglang_has_its_first_token_when_its_kv_has_landed() {
    let engine = "engine = { type = 'sglang', disable_overlap_schedule = true }";
    let (counts, recorder) = run(&scenario(&format!("{}\n{engine}", parts(1, 1, 10.0)), ONE));
    assert_eq!(counts.finished, 1);
    let record = recorder.requests[0];
    // 1000 tokens in pages of one, after 100 us.
    let travels = 0.1 + (1000 * kv_bytes()) as f64 / 10e6;
    assert!((ms(record.transfer) - travels).abs() < 1e-6, "{} ms", ms(record.transfer));
    // The prompt, 5 ms + 1000 · 20 us, gives the first token.
    assert!((ms(record.ttft()) - 25.0 - travels).abs() < 1e-6, "{} ms", ms(record.ttft()));
    // Each other token takes 5 ms + 50 us.
    assert!((ms(record.finish - record.first_token) - 9.0 * 5.05).abs() < 1e-6);
    assert_eq!((record.output_tokens, record.instance.0), (10, 1));
    assert_eq!(recorder.tokens_by_second.total(), 10);
}

/// So many prompts at once, where either side has memory for so many tokens.
fn prompts_of_600_in_sglang(requests: u32, tokens: u32) -> String {
    let engine = format!(
        "engine = {{ type = 'sglang', max_total_tokens = {tokens}, context_length = 800 }}"
    );
    let workload = format!(
        "num_requests = {requests}\narrivals.type = 'all_at_once'\n\
         lengths = {{ type = 'fixed', input_tokens = 600, output_tokens = 30 }}"
    );
    scenario(&format!("{}\n{engine}", parts(1, 1, 10.0)), &workload)
}

#[test]
fn sglang_prefills_only_what_the_decode_side_has_room_for() {
    // 512 tokens of each request that is under way are kept free: two of 600 fit in 2,500.
    let (counts, recorder) = run(&prompts_of_600_in_sglang(6, 2500));
    assert_eq!(counts.finished, 6);
    let first: Vec<f64> = recorder.requests.iter().map(|record| ms(record.ttft())).collect();
    let finish: Vec<f64> = recorder.requests.iter().map(|record| ms(record.e2e())).collect();
    assert!(first[2] > finish[0], "the third waits for the first: {first:?} {finish:?}");
    assert!(first[1] < finish[0], "the second does not: {first:?} {finish:?}");
}

#[test]
fn a_prompt_that_never_has_its_reserve_waits_forever_in_sglang() {
    let (counts, _) = run(&prompts_of_600_in_sglang(2, 1100));
    assert_eq!((counts.finished, counts.stuck), (0, 2), "600 and 512 tokens do not fit");
}

#[test]
fn transfers_to_one_instance_share_its_nic() {
    let two = ONE.replace("num_requests = 1", "num_requests = 2");
    let transfer = |prefills| {
        let (_, recorder) = run(&scenario(&parts(prefills, 1, 0.5), &two));
        recorder.requests.iter().map(|record| ms(record.transfer)).fold(0.0, f64::max)
    };
    let alone = 0.1 + (1008 * kv_bytes()) as f64 / 0.5e6;
    // Two prefill instances end at the same time, so that both flows share the way in.
    assert!((transfer(2) - 0.1 - 2.0 * (alone - 0.1)).abs() < 1e-3, "{}", transfer(2));
}

#[test]
fn a_full_decode_side_holds_the_prefill_side_back() {
    // One request fits where they decode; blocks of those that wait stay taken where they prefill.
    let engine = "engine = { type = 'vllm_v1', num_gpu_blocks = 60, max_model_len = 800 }";
    let workload = "num_requests = 20\narrivals = { type = 'constant', rate_per_s = 50.0 }\n\
                    lengths = { type = 'fixed', input_tokens = 600, output_tokens = 30 }";
    let (counts, recorder) = run(&scenario(&format!("{}\n{engine}", parts(1, 1, 10.0)), workload));
    assert_eq!(counts.finished, 20);
    // Each decodes alone for thirty steps of 5.05 ms.
    let gaps = recorder.requests.windows(2).map(|pair| ms(pair[1].finish - pair[0].finish));
    assert!(gaps.into_iter().all(|gap| gap > 150.0), "they decode one after the other");
    let waited = recorder.requests[19].breakdown().expect("it left").queued;
    // The last comes 380 ms after the first.
    assert!(ms(waited) > 19.0 * 150.0 - 380.0, "{} ms", ms(waited));
}

#[test]
fn decodes_are_not_held_up_by_prefills_of_others() {
    let workload = "num_requests = 400\narrivals = { type = 'poisson', rate_per_s = 8.0 }\n\
                    lengths = { type = 'fixed', input_tokens = 3000, output_tokens = 100 }";
    let tpot = |cluster: &str| {
        let (_, recorder) = run(&scenario(cluster, workload));
        let all: Vec<f64> =
            recorder.requests.iter().filter_map(RequestRecord::tpot).map(ms).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let (mixed, apart) = (tpot("replicas = 2"), tpot(&parts(1, 1, 50.0)));
    assert!(apart < 0.9 * mixed, "{apart} ms apart, {mixed} ms mixed");
}

proptest! {
    #![proptest_config(crate::support::random_cases(60))]

    #[test]
    fn nothing_is_lost_and_times_add_up(
        seed in 0_u64..1000, prefill in 1_u32..4, decode in 1_u32..4, blocks in 60_u32..400,
        rate in 5.0_f64..200.0, nic in 0.05_f64..50.0, api_ms in 0.0_f64..3.0,
        is_sglang in any::<bool>(),
        router in prop::sample::select(vec![
            "round_robin", "random", "least_outstanding_requests", "least_outstanding_tokens",
            "power_of_two_choices", "prefix_aware", "prefix_exact", "weighted", "dynamo",
        ]),
    ) {
        let router = match router {
            "dynamo" => "dynamo = {}".to_owned(),
            typed => format!("type = '{typed}'"),
        };
        let cluster = format!(
            "{}\napi_delay_ms = {api_ms}\nrouter = {{ {router} }}\n{}",
            parts(prefill, decode, nic),
            engine(is_sglang, blocks, seed)
        );
        let workload = format!(
            "num_requests = 150\narrivals = {{ type = 'poisson', rate_per_s = {rate} }}\n\
             [workload.lengths]\ntype = 'sampled'\n\
             input_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 700 }}\n\
             output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 150 }}\n"
        );
        let text = format!("seed = {seed}\n{}", scenario(&cluster, &workload));
        // Debug builds watch the laws: requests, blocks, tokens.
        let (counts, recorder) = run(&text);
        prop_assert_eq!(counts.finished + counts.rejected, 150);
        for record in recorder.requests.iter().filter(|record| record.status == Status::Finished) {
            let parts = record.breakdown().expect("it left");
            prop_assert_eq!(parts.total(), record.e2e());
            prop_assert!(record.instance.0 >= prefill, "an instance that decodes");
        }
        let (shown, timeline) = run_with_timeline(&text);
        prop_assert_eq!(&recorder.requests, &shown.requests);
        shows(&shown, &timeline)?;
    }
}

/// An engine with so many blocks of 16 tokens, or a few more, for prompts of at most 700 tokens.
fn engine(is_sglang: bool, blocks: u32, flags: u64) -> String {
    if is_sglang {
        let (page, running) = ([1, 16][flags as usize % 2], [4, 64][flags as usize / 2 % 2]);
        let serial = (flags / 4).is_multiple_of(2);
        format!(
            "engine = {{ type = 'sglang', max_total_tokens = {}, context_length = 900, \
             page_size = {page}, max_running_requests = {running}, chunked_prefill_size = 256, \
             disable_overlap_schedule = {serial} }}",
            // 512 tokens stay free beside the longest prompt.
            (blocks + 30) * 16
        )
    } else {
        format!("engine = {{ type = 'vllm_v1', num_gpu_blocks = {blocks}, max_model_len = 900 }}")
    }
}

/// Requests with beginnings in common, in and out of step, with or without a bound on those in flight
/// and an end.
fn workload_of(seed: u64, rate: f64) -> String {
    let client = match seed % 4 {
        0 => "client = { max_concurrency = 7 }\n",
        1 => "client = { stop_after_s = 0.7 }\n",
        _ => "",
    };
    format!(
        "num_requests = 150\narrivals = {{ type = 'poisson', rate_per_s = {rate} }}\n{client}\
         [workload.lengths]\ntype = 'prefix_repetition'\nprefixes = 5\nprefix_tokens = 200\n\
         suffix_tokens = 100\noutput_tokens = 40\n"
    )
}

proptest! {
    #![proptest_config(crate::support::random_cases(60))]

    #[test]
    fn a_run_of_steps_equals_its_steps(
        seed in 0_u64..1000, prefill in 1_u32..4, decode in 1_u32..4, blocks in 60_u32..400,
        rate in 5.0_f64..300.0, nic in 0.05_f64..50.0, equal_steps in any::<bool>(),
        is_sglang in any::<bool>(),
    ) {
        let cluster =
            format!("{}\n{}", parts(prefill, decode, nic), engine(is_sglang, blocks, seed / 4));
        let mut text = format!("seed = {seed}\n{}", scenario(&cluster, &workload_of(seed, rate)));
        if equal_steps {
            text = text.replace("prefill_token_us = 20.0", "prefill_token_us = 0.0");
            text = text.replace("decode_seq_us = 50.0", "decode_seq_us = 0.0");
        }
        let scenario = resolve(&text).expect("the scenario holds together");
        let run = |is_single: bool| {
            let mut cluster = cluster_of(&scenario).expect("step times are known");
            if is_single {
                let instances = cluster.instances.into_iter().map(Instance::step_by_step);
                cluster.instances = instances.collect();
            }
            let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
            let client = Client::new(&scenario.workload.client);
            let mut recorder = Recorder::default();
            let counts = Simulation::new(workload, client, cluster, SimDuration::ZERO)
                .until(scenario.workload.client.stops_at())
                .run(&mut recorder);
            (counts.expect("no trace is read"), recorder)
        };
        let ((counts, runs), (single_counts, single)) = (run(false), run(true));
        prop_assert_eq!(counts, single_counts);
        prop_assert_eq!(&runs.requests, &single.requests);
        prop_assert_eq!(&runs.carried, &single.carried);
        let full: u64 = (0..counts.arrived).map(|_| 304 * kv_bytes()).sum();
        prop_assert!(runs.carried.bytes <= full, "what a cache has does not travel");
    }
}

#[test]
fn what_the_decode_side_has_does_not_travel() {
    let workload = workload_of(3, 20.0);
    let cluster = format!("{}\nengine = {{ type = 'vllm_v1' }}", parts(1, 1, 50.0));
    let (counts, recorder) = run(&scenario(&cluster, &workload));
    assert_eq!(counts.finished, 150);
    // Of 19 blocks a prompt, 12 are a prefix that all but the first of its kind find there.
    let bytes = (150 * 19 - 145 * 12) * 16 * kv_bytes();
    assert_eq!(recorder.carried.bytes, bytes);
}

/// Where the decode side computes some prompts itself.
fn local(conditions: &str, protocol: &str) -> String {
    let more = format!("local_prefill = {conditions}, protocol = {{ type = '{protocol}' }}");
    parts(1, 1, 1.0).replace("transfer", &format!("{more}, transfer"))
}

/// How many requests have their prompts computed where they decode, and how many KV caches travel.
fn computed_locally(conditions: &str, workload: &str) -> (usize, u64) {
    let cluster = local(conditions, "pull");
    let (counts, recorder) = run(&scenario(&cluster, workload));
    assert_eq!(counts.finished, recorder.requests.len() as u64);
    let decoded = recorder.requests.iter().filter(|record| record.instance.0 == 1).count();
    assert_eq!(decoded, recorder.requests.len(), "all decode on the second replica");
    let here = recorder.requests.iter().filter(|record| record.transfer == SimDuration::ZERO);
    (here.count(), recorder.carried.transfers)
}

#[test]
fn the_decode_side_computes_prompts_that_meet_a_condition() {
    // Prompts of 300 tokens, one a second, of which 200 are one of five beginnings.
    let workload = workload_of(2, 1.0);
    for (most, expected) in [(299, (0, 150)), (300, (150, 0))] {
        let conditions = format!("{{ max_prompt_tokens = {most} }}");
        assert_eq!(computed_locally(&conditions, &workload), expected);
    }
    // Twelve blocks of a beginning are cached on the decode side once one of its kind has been there: 108 or
    // more tokens are new, and 300 of the first of each kind.
    for (most, expected) in [(107, (0, 150)), (108, (145, 5)), (300, (150, 0))] {
        let conditions = format!("{{ max_new_tokens = {most} }}");
        assert_eq!(computed_locally(&conditions, &workload), expected);
    }
}

#[test]
fn of_decode_replicas_that_lack_as_much_of_a_prompt_the_least_loaded_computes_it() {
    let burst = "num_requests = 40\narrivals = { type = 'constant', rate_per_s = 200.0 }\n\
                 lengths = { type = 'fixed', input_tokens = 800, output_tokens = 200 }";
    let local = "local_prefill = { max_new_tokens = 800 }, transfer";
    let (_, recorder) = run(&scenario(&parts(1, 2, 1.0).replace("transfer", local), burst));
    let on = |replica: u32| {
        recorder.requests.iter().filter(|record| record.instance.0 == replica).count()
    };
    assert_eq!([on(0), on(1), on(2)], [0, 20, 20]);
}

#[test]
fn the_decode_side_helps_while_the_prefill_side_is_busy() {
    let burst = "num_requests = 40\narrivals = { type = 'constant', rate_per_s = 200.0 }\n\
                 lengths = { type = 'fixed', input_tokens = 8000, output_tokens = 2 }";
    let (helped, _) = computed_locally("{ max_prefill_queue = 3 }", burst);
    assert!((10..40).contains(&helped), "{helped} of 40 while more than 3 wait");
    assert_eq!(computed_locally("{ max_prefill_queue = 40 }", burst), (0, 40));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let wrong = [
        (parts(0, 1, 1.0), "cluster.disaggregation.prefill_replicas"),
        (parts(1, 0, 1.0), "cluster.disaggregation.decode_replicas"),
        (parts(1, 1, 0.0), "cluster.disaggregation.transfer.nic_gb_per_s"),
        (local("{}", "pull"), "cluster.disaggregation.local_prefill: one of max_prompt_tokens"),
        (
            local("{ max_prompt_tokens = 9 }", "reserve"),
            "cluster.disaggregation.local_prefill: needs the protocol `pull`",
        ),
        (
            format!(
                "engine = {{ type = 'vllm_v1', enable_prefix_caching = false }}\n{}",
                local("{ max_new_tokens = 9 }", "pull")
            ),
            "cluster.disaggregation.local_prefill.max_new_tokens: reads the prefix caches",
        ),
        (
            format!(
                "engine = {{ type = 'vllm_v1', enable_prefix_caching = false }}\nrouter = {{ type = \
                 'prefix_exact' }}\n{}",
                parts(1, 1, 1.0)
            ),
            "cluster.router: `prefix_exact` reads prefix caches, and no replica",
        ),
        (format!("replicas = 3\n{}", parts(1, 1, 1.0)), "cluster.replicas"),
        (
            format!("router = {{ type = 'latency_predicting' }}\n{}", parts(1, 1, 1.0)),
            "cluster.router: `latency_predicting` with cluster.disaggregation is not modelled",
        ),
        (parts(u32::MAX, u32::MAX, 1.0), "cluster.replicas"),
        (parts(1, 1, 1.0).replace("100.0", "1e30"), "cluster.disaggregation.transfer.latency_us"),
        (
            format!("{}\nengine = {{ type = 'vllm_v1', policy = 'priority' }}", parts(1, 1, 1.0)),
            "cluster.engine.policy",
        ),
        (
            format!("{}\nengine = {{ type = 'orca' }}", parts(1, 1, 1.0)),
            "cluster.disaggregation.protocol: only vllm_v1",
        ),
        (
            format!(
                "{}\nengine = {{ type = 'vllm_v0' }}",
                parts(1, 1, 1.0).replace("transfer", "protocol = { type = 'reserve' }, transfer")
            ),
            "cluster.disaggregation.protocol: only sglang",
        ),
        (
            format!(
                "{}\nengine = {{ type = 'sglang' }}",
                parts(1, 1, 1.0).replace("transfer", "protocol = { type = 'pull' }, transfer")
            ),
            "cluster.disaggregation.protocol: only vllm_v1",
        ),
        (
            format!(
                "{}\nengine = {{ type = 'sglang', enable_priority_scheduling = true }}",
                parts(1, 1, 1.0)
            ),
            "cluster.engine.enable_priority_scheduling",
        ),
    ];
    for (cluster, expected) in wrong {
        let error = resolve(&scenario(&cluster, ONE)).expect_err("it is refused");
        assert!(error.contains(expected), "{error}");
    }
}

/// Prompt lengths and mean times of KV transfers in ms: vLLM 0.11.2 with Mooncake as its connector, on two nodes
/// of H800 (kvcache-ai/Mooncake, documentation).
const MEASURED: [(u32, f64); 9] = [
    (128, 0.54),
    (256, 0.61),
    (512, 0.92),
    (1024, 1.5),
    (2048, 2.51),
    (4096, 4.75),
    (8192, 8.84),
    (16_384, 16.43),
    (32_768, 31.65),
];

/// Bytes in whole blocks of 16 tokens, with ten tokens of a chat template.
fn kv_of(tokens: u32) -> f64 {
    let model = profiles::model("Qwen/Qwen3-8B").expect("it is in the catalogue");
    let tokens = (tokens + 10).next_multiple_of(16);
    f64::from(8 * tokens) * model.kv_bytes_per_token(8, KvDtype::default()) as f64
}

/// The latency in ms and the bytes per ms with the least squares of relative errors.
fn fitted(runs: &[(u32, f64)]) -> (f64, f64) {
    let mut sums = [0.0; 5];
    for &(tokens, ms) in runs {
        let (one, bytes) = (1.0 / ms, kv_of(tokens) / ms);
        let terms = [one * one, one * bytes, bytes * bytes, one, bytes];
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
    }
    let [aa, ab, bb, a, b] = sums;
    let determinant = aa * bb - ab * ab;
    ((a * bb - b * ab) / determinant, determinant / (b * aa - a * ab))
}

#[test]
fn transfers_take_as_long_as_measured() {
    let text = include_str!("../../profiles/reference-runs/mooncake-h800-1p1d.toml");
    let text: String =
        text.lines().filter(|line| !line.starts_with("calibration")).collect::<Vec<_>>().join("\n");
    let mut file: toml::Table = toml::from_str(&text).expect("it is TOML");
    for key in ["variants", "fit", "measured"] {
        file.remove(key);
    }
    let resolved = resolve(&file.to_string()).expect("it holds together");
    let transfer = resolved.disaggregation().expect("it has parts").transfer;
    // What the file says is the fit of every second length.
    let half: Vec<(u32, f64)> = MEASURED.iter().copied().step_by(2).collect();
    let (latency_ms, bytes_per_ms) = fitted(&half);
    assert!((transfer.latency_us / 1e3 / latency_ms - 1.0).abs() < 1e-3, "{latency_ms} ms");
    let rate = transfer.nic_gb_per_s * transfer.efficiency * 1e6;
    assert!((rate / bytes_per_ms - 1.0).abs() < 1e-3, "{bytes_per_ms} bytes/ms");
    for (index, (tokens, measured)) in MEASURED.into_iter().enumerate() {
        let length = format!("input_tokens = {}", tokens + 10);
        let (_, recorder) = run(&file.to_string().replace("input_tokens = 138", &length));
        let times: Vec<f64> = recorder.requests.iter().map(|record| ms(record.transfer)).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let error = 100.0 * (mean / measured - 1.0);
        let split = if index % 2 == 0 { "fitted" } else { "held out" };
        println!(
            "{tokens} tokens: {mean:.2} ms, measured {measured:.2} ms, {error:+.1} % ({split})"
        );
        assert!(error.abs() <= 10.0, "{tokens} tokens: {error:+.1} %");
    }
}

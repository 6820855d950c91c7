//! LoRA adapters in whole runs: who waits for a slot, what is loaded, what steps take.

use servecast::metrics::{BenchReport, Recorder};
use servecast::model::{LoraModules, LoraShape};
use servecast::profiles;
use servecast::sim::{Counts, Simulation, cluster};
use servecast::units::{Bytes, SimDuration, SimTime};
use servecast::workload::{Client, Workload};

use super::support::resolve;

/// A scenario with adapters; `more` is appended to its tables.
fn scenario(engine: &str, more: &str) -> String {
    format!(
        "name = 'adapters'\n\
         [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         engine = {{ {engine} }}\nstep_time = {{ type = 'roofline' }}\n\
         [workload]\nnum_requests = 300\n\
         arrivals = {{ type = 'poisson', rate_per_s = 20.0 }}\n\
         lengths = {{ type = 'fixed', input_tokens = 200, output_tokens = 100 }}\n{more}"
    )
}

fn run(text: &str) -> (BenchReport, Counts) {
    let scenario = resolve(text).expect("the scenario holds together");
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let client = Client::new(&scenario.workload.client);
    let mut recorder = Recorder::default();
    let cluster = cluster(&scenario).expect("step times are known");
    let counts = Simulation::new(workload, client, cluster, SimDuration::ZERO)
        .until(scenario.workload.client.stops_at())
        .run(&mut recorder)
        .expect("no trace is read");
    (BenchReport::new(&recorder, &scenario), counts)
}

const ENGINES: [(&str, &str); 2] = [("vllm_v1", "max_loras"), ("sglang", "max_loras_per_batch")];

fn adapters(count: u32, rank: u32) -> String {
    format!(
        "[workload.adapters]\nkinds = [{{ count = {count}, rank = {rank} }}]\n\
         popularity = {{ type = 'round_robin' }}\n"
    )
}

fn mean_ttft_ms(report: &BenchReport) -> f64 {
    report.summary.ttft.mean_ms()
}

#[test]
fn adapters_make_every_engine_slower_and_more_of_them_slower_still() {
    for (engine, slots) in ENGINES {
        let engine = format!("type = '{engine}', {slots} = 64");
        let [none, few, many] = [String::new(), adapters(2, 16), adapters(64, 16)]
            .map(|more| run(&scenario(&engine, &more)).0.summary.e2e.mean_ms());
        assert!(none < few && few < many, "{engine}: {none} {few} {many}");
    }
}

#[test]
fn requests_wait_where_slots_are_short() {
    for (engine, slots) in ENGINES {
        let with = |count: u32| {
            let engine = format!("type = '{engine}', {slots} = {count}");
            run(&scenario(&engine, &adapters(16, 16))).0
        };
        let (few, enough) = (with(3), with(32));
        assert!(mean_ttft_ms(&few) > 3.0 * mean_ttft_ms(&enough), "{engine}");
        assert_eq!(few.summary.completed, 300, "{engine}: nobody starves");
    }
}

#[test]
fn slots_take_memory_from_the_kv_cache() {
    for (engine, slots) in ENGINES {
        let tokens = |count: u32, rank: u32| {
            let engine = format!("type = '{engine}', {slots} = {count}");
            let scenario = resolve(&scenario(&engine, &adapters(1, rank))).expect("it fits");
            match scenario.first().kv {
                servecast::resolved::KvSource::Derived(kv) => {
                    u64::from(kv.blocks) * kv.block_bytes.0
                }
                servecast::resolved::KvSource::Given => panic!("it is derived"),
            }
        };
        // Adapters of Llama-3.1-8B have 41,943,040 / 8 elements a rank, of two bytes.
        let freed = tokens(4, 16) - tokens(8, 16);
        let slots_bytes = 4 * 16 * 5_242_880;
        assert!(freed.abs_diff(slots_bytes) < 2_100_000, "{engine}: {freed}");
    }
}

#[test]
fn adapters_that_are_not_in_host_memory_cost_more() {
    let with = |in_host: u32| {
        let more = format!("{}[cluster.lora]\nmax_host_adapters = {in_host}\n", adapters(40, 32));
        let (report, _) = run(&scenario("type = 'vllm_v1', max_loras = 4", &more));
        report.summary.duration_s
    };
    assert!(with(4) > 1.1 * with(40), "{} {}", with(4), with(40));
}

#[test]
fn a_client_that_stops_leaves_requests_unfinished_and_counts_the_rest() {
    let text = scenario("type = 'vllm_v1'", "client = { stop_after_s = 5.0 }\n");
    let (report, counts) = run(&text);
    assert!(counts.unfinished > 0 && counts.stuck == 0, "{counts:?}");
    assert_eq!(counts.arrived, counts.finished + counts.unfinished);
    assert_eq!(report.summary.completed, counts.finished);
    assert!(report.summary.duration_s <= 5.0);
    // Without an end nothing else changes before it.
    let whole = run(&scenario("type = 'vllm_v1'", ""));
    assert_eq!((whole.1.finished, whole.1.unfinished), (300, 0));
    assert!(SimTime::from_secs_f64(5.0) < SimTime::MAX);
}

fn shape(model: &str, modules: LoraModules, tp: u32) -> LoraShape {
    let spec = profiles::model(model).expect("in the catalogue");
    spec.lora_shape(modules, tp).expect("it has adapters")
}

#[test]
fn adapters_weigh_what_those_of_llama_2_7b_were_measured_to() {
    // 4.997 MB per rank for all seven modules, 2.10 MB for those of attention (16 bits).
    let all = shape("meta-llama/Llama-2-7b-hf", LoraModules::All, 1);
    assert_eq!(all.bytes(1), Bytes(4_997_120));
    assert_eq!((all.products, all.tensors), (4 * 32, 14 * 32));
    let attention = shape("meta-llama/Llama-2-7b-hf", LoraModules::Attention, 1);
    assert_eq!(attention.bytes(1), Bytes(2_097_152));
    assert_eq!(attention.bytes(64), Bytes(64 * 2_097_152));
}

#[test]
fn gpus_share_the_side_of_an_adapter_that_is_split() {
    // Of q, k, v and o only one side each is split.
    let whole = shape("meta-llama/Llama-2-7b-hf", LoraModules::Attention, 1);
    let half = shape("meta-llama/Llama-2-7b-hf", LoraModules::Attention, 2);
    assert_eq!(half.elements_per_rank * 4, whole.elements_per_rank * 3);
}

#[test]
fn adapters_of_experts_and_of_latent_attention_are_refused() {
    let mixtral = profiles::model("Mixtral-8x7B-v0.1").expect("in the catalogue");
    assert!(mixtral.lora_shape(LoraModules::All, 1).is_err());
    assert!(mixtral.lora_shape(LoraModules::Attention, 1).is_ok());
    let deepseek = profiles::model("DeepSeek-V3").expect("in the catalogue");
    assert!(deepseek.lora_shape(LoraModules::Attention, 1).is_err());
}

#[test]
fn what_is_not_modelled_or_does_not_fit_together_is_refused_by_name() {
    let mix = adapters(4, 32);
    let cases = [
        (scenario("type = 'vllm_v0'", &mix), "workload.adapters: vllm_v0 serves no adapters"),
        (
            scenario("type = 'vllm_v1'", &format!("{mix}[cluster.lora]\nmax_rank = 16\n")),
            "cluster.lora.max_rank: must be at least the largest rank of the adapters, 32, got 16",
        ),
        (
            scenario(
                "type = 'vllm_v1', max_loras = 8",
                &format!("{mix}[cluster.lora]\nmax_host_adapters = 2\n"),
            ),
            "cluster.lora.max_host_adapters: must be at least the slots on the GPU, 8, got 2",
        ),
        (scenario("type = 'vllm_v1'", &adapters(4, 0)), "workload.adapters.kinds[0].rank"),
        (
            scenario("type = 'vllm_v1'", "[workload.adapters]\nkinds = []\n"),
            "workload.adapters.kinds: must be at least one kind",
        ),
        (
            scenario("type = 'vllm_v1'", "client = { stop_after_s = 0.0 }\n"),
            "workload.client.stop_after_s",
        ),
    ];
    for (text, expected) in cases {
        let error = resolve(&text).expect_err(expected);
        assert!(error.contains(expected), "{error}\nis not: {expected}");
    }
}

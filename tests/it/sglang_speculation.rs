//! Speculation of SGLang: laws of whole runs, what drafts take of memory, and what SGLang fills in.

use proptest::prelude::*;
use serde_json::Value;
use servecast::load;
use servecast::model::layout::{Machine, SglangLayout};
use servecast::model::{Generation, KvDtype, ModelSpec};
use servecast::profiles;
use servecast::resolved::{KvSource, Scenario, ScenarioError};
use servecast::scenario::{EngineConfig, SglangConfig};
use servecast::study::Case;
use servecast::units::Bytes;

use crate::speculation::DEEPSEEK;

const PROMPT: u32 = 500;
const ANSWER: u32 = 121;

fn deepseek() -> ModelSpec {
    ModelSpec::from_hf_config(DEEPSEEK, None, "deepseek-v3").expect("a config that is read")
}

/// What serves a model, and how steps are priced.
struct Server {
    model: &'static str,
    gpu: &'static str,
    tp: u32,
    step_time: &'static str,
}

const V3: Server =
    Server { model: "deepseek-v3", gpu: "H200", tp: 8, step_time: "{ type = 'roofline' }" };
const LLAMA: Server = Server { model: "meta-llama/Llama-3.1-8B", gpu: "H100", tp: 1, ..V3 };
const MIMO: Server = Server { model: "XiaomiMiMo/MiMo-7B-Base", ..LLAMA };
/// Steps that cost what they compute, and drafts that cost nothing.
const LINEAR: Server = Server {
    step_time: "{ type = 'linear', base_us = 2000.0, prefill_token_us = 20.0, decode_seq_us = 50.0 }",
    ..LLAMA
};

impl Server {
    /// Requests that all come at once, so many of which are served at a time.
    fn serving(&self, seqs: u32, engine: &str, speculation: &str) -> String {
        let Self { model, gpu, tp, step_time } = self;
        let speculation = match speculation {
            "" => String::new(),
            some => format!("[cluster.engine.speculation]\n{some}\n"),
        };
        format!(
            "name = 'drafts'\nseed = 3\n[workload]\nnum_requests = {}\narrivals = {{ type = 'all_at_once' }}\n\
             lengths = {{ type = 'fixed', input_tokens = {PROMPT}, output_tokens = {ANSWER} }}\n\
             client = {{ max_concurrency = {seqs} }}\n[cluster]\n\
             host = 'none'\nmodel = '{model}'\ngpu = '{gpu}'\ntensor_parallel_size = {tp}\nstep_time = {step_time}\n\
             [cluster.engine]\ntype = 'sglang'\n{engine}\n{speculation}",
            2 * seqs
        )
    }
}

fn drafts(algorithm: &str, steps: u32, tokens: f64) -> String {
    format!(
        "speculative_algorithm = '{algorithm}'\nspeculative_num_steps = {steps}\n\
         acceptance = {{ type = 'mean_length', tokens = {tokens:?} }}"
    )
}

fn resolve(text: &str) -> Result<Scenario, ScenarioError> {
    let file = toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    Scenario::resolve(file, text.contains("'deepseek-v3'").then(deepseek))
}

fn engine(text: &str) -> SglangConfig {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let EngineConfig::Sglang(sglang) = &scenario.first().cluster.engine else { panic!("SGLang") };
    sglang.clone()
}

fn summary(text: &str) -> Value {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let run = Case::new(scenario, None).and_then(|case| case.run()).expect("it runs");
    serde_json::to_value(run.summary()).expect("a summary is written")
}

fn steps(summary: &Value) -> u64 {
    summary["engine"]["steps"].as_u64().expect("steps are counted")
}

fn tokens(summary: &Value) -> u64 {
    let benchmark = &summary["benchmark"];
    let told = benchmark["total_output_tokens"].as_u64();
    told.expect("tokens are counted")
}

fn seconds(summary: &Value) -> f64 {
    summary["benchmark"]["duration"].as_f64().expect("time is counted")
}

fn machine(server: &Server, draft_tokens: u32) -> Machine {
    Machine {
        generation: Generation::Hopper,
        tp: server.tp,
        kv_cache_dtype: KvDtype::Auto,
        draft_tokens,
    }
}

fn refused(text: &str, message: &str) {
    let error = resolve(text).expect_err(message).to_string();
    assert!(error.contains(message), "{error}");
}

const SERIAL: &str = "disable_overlap_schedule = true";

#[test]
fn drafts_that_are_never_accepted_bring_out_a_token_a_step() {
    for overlap in [SERIAL, ""] {
        let without = summary(&V3.serving(1, overlap, ""));
        let with = summary(&V3.serving(1, overlap, &drafts("NEXTN", 3, 1.0)));
        assert_eq!((steps(&with), tokens(&with)), (steps(&without), tokens(&without)));
        assert!(seconds(&with) > seconds(&without));
        assert_eq!(with["engine"]["speculation"]["acceptance_length"], 1.0);
    }
}

/// The prompt's step brings out one token of 121; the 120 others come in steps of k + 1.
#[test]
fn drafts_that_are_all_accepted_come_out_with_one_more() {
    for k in [1, 2, 3, 5] {
        let with = summary(&V3.serving(1, SERIAL, &drafts("NEXTN", k, f64::from(k) + 1.0)));
        // Two requests, one after the other.
        assert_eq!(steps(&with), 2 * (1 + u64::from(120_u32.div_ceil(k + 1))), "{k}");
        assert_eq!(tokens(&with), u64::from(2 * ANSWER));
    }
}

#[test]
fn the_more_is_accepted_the_fewer_steps_it_takes() {
    let ran = [1.0, 1.5, 2.0, 2.8, 3.5, 4.0].map(|mean| {
        let ran = summary(&V3.serving(8, "", &drafts("NEXTN", 3, mean)));
        assert_eq!(tokens(&ran), u64::from(16 * ANSWER), "whatever is accepted");
        (steps(&ran), seconds(&ran))
    });
    assert!(ran.is_sorted_by(|a, b| a.0 > b.0 && a.1 > b.1), "{ran:?}");
}

#[test]
fn refused_drafts_are_never_faster_than_none() {
    for (seqs, k) in [(1, 1), (4, 3), (16, 5)] {
        let free = format!(
            "speculative_algorithm = 'NGRAM'\nspeculative_num_draft_tokens = {}\n\
             acceptance = {{ type = 'mean_length', tokens = 1.0 }}",
            k + 1
        );
        let took =
            |server: &Server, drafts: &str| seconds(&summary(&server.serving(seqs, "", drafts)));
        // By a law that has no time for them, and by one that has time to verify them, and to make them.
        assert!(took(&LINEAR, &free) >= took(&LINEAR, ""), "{seqs} {k}");
        let times = [took(&LLAMA, ""), took(&LLAMA, &free), took(&LLAMA, &drafts("EAGLE", k, 1.0))];
        assert!(times.is_sorted_by(|a, b| a < b), "{seqs} {k}: {times:?}");
    }
}

#[test]
fn a_step_that_verifies_makes_the_drafts_too() {
    let per_token = |speculation: &str| {
        let ran = summary(&LLAMA.serving(1, SERIAL, speculation));
        ran["benchmark"]["mean_tpot_ms"].as_f64().expect("a mean")
    };
    let plain = per_token("");
    let eagle = per_token(&drafts("EAGLE", 3, 1.0));
    let standalone = per_token(&format!(
        "{}\nspeculative_draft_model_path = 'meta-llama/Llama-3.2-1B'",
        drafts("STANDALONE", 3, 1.0)
    ));
    // Llama 3.2 1B passes three times, a head of one layer with the head of the model too.
    assert!(plain < eagle && eagle < standalone, "{plain} {eagle} {standalone}");
}

#[test]
fn what_sglang_chooses_is_filled_in() {
    let acceptance = "acceptance = { type = 'mean_length', tokens = 2.0 }";
    let told = |server: &Server, algorithm: &str, more: &str| {
        let speculation = format!("speculative_algorithm = '{algorithm}'\n{acceptance}\n{more}");
        engine(&server.serving(4, "", &speculation))
    };
    let v3 = told(&V3, "NEXTN", "");
    let speculation = v3.speculation.as_ref().expect("it speculates");
    assert_eq!(
        (
            speculation.speculative_num_steps,
            speculation.speculative_eagle_topk,
            speculation.speculative_num_draft_tokens
        ),
        (Some(3), Some(1), Some(4))
    );
    assert_eq!(v3.max_running_requests, Some(48));
    // Graphs are chosen before running requests are.
    let graphs = v3.cuda_graph_bs_decode.expect("graphs are captured");
    assert_eq!((&graphs[..10], graphs.last()), (&[1, 2, 3, 4, 5, 6, 7, 8, 10, 12][..], Some(&512)));
    assert_eq!(told(&LLAMA, "NGRAM", "").speculation.map(|it| it.drafts()), Some(11));
    let small = "speculative_draft_model_path = 'meta-llama/Llama-3.2-1B'";
    assert_eq!(told(&LLAMA, "STANDALONE", small).speculation.map(|it| it.drafts()), Some(3));
    // The model's own name is where its layers are anyway.
    assert_eq!(told(&V3, "EAGLE", "speculative_draft_model_path = 'deepseek-v3'"), {
        let mut v3 = told(&V3, "EAGLE", "");
        v3.speculation.as_mut().expect("it speculates").speculative_draft_model_path = None;
        v3
    });
    let trees = format!("speculative_algorithm = 'EAGLE'\n{acceptance}");
    let why =
        "speculative_num_steps: must be set for meta-llama/Llama-3.1-8B: by itself SGLang takes 5";
    refused(&LLAMA.serving(4, "", &trees), why);
}

#[test]
fn no_steps_are_no_speculation() {
    let without = resolve(&V3.serving(4, "", "")).expect("it holds together");
    for none in [
        drafts("NEXTN", 0, 2.5),
        "speculative_algorithm = 'NGRAM'\nspeculative_num_draft_tokens = 1\n\
         acceptance = { type = 'per_position', probability = 0.5 }"
            .to_owned(),
    ] {
        let text = V3.serving(4, "enable_mixed_chunk = false", &none);
        assert_eq!(resolve(&text).expect("it holds together").first(), without.first());
    }
}

#[test]
fn layers_that_draft_share_the_slots_of_tokens() {
    let kv = |server: &Server, speculation: &str| {
        let scenario = resolve(&server.serving(4, "", speculation)).expect("it fits");
        let KvSource::Derived(kv) = scenario.first().kv else { panic!("derived from memory") };
        kv
    };
    let (with, without) = (kv(&V3, &drafts("NEXTN", 3, 2.0)), kv(&V3, ""));
    assert_eq!(61 * with.block_bytes.0, 62 * without.block_bytes.0, "one layer of 61 more");
    // Beside the layer that drafts, the table of embeddings until it is shared: 129 280 rows of 7168 on 8 GPUs.
    let table = 129_280 * 7168 * 2 / 8;
    let gigabytes = (with.drafts.0 - table) as f64 / 1e9;
    assert!((1.4..2.0).contains(&gigabytes), "{gigabytes}");
    assert!(with.blocks < without.blocks && without.drafts.0 == 0);
    // Of a head SGLang believes that its layer is like the model's.
    let (with, without) = (kv(&LLAMA, &drafts("EAGLE3", 3, 2.0)), kv(&LLAMA, ""));
    assert_eq!(32 * with.block_bytes.0, 33 * without.block_bytes.0);
    // And of the 16 layers of a model of its own.
    let small = "speculative_draft_model_path = 'meta-llama/Llama-3.2-1B'";
    let with = kv(&LLAMA, &format!("{}\n{small}", drafts("STANDALONE", 3, 2.0)));
    assert_eq!(32 * with.block_bytes.0, 48 * without.block_bytes.0);
    let ngram =
        "speculative_algorithm = 'NGRAM'\nacceptance = { type = 'mean_length', tokens = 2.0 }";
    let looked_up = kv(&LLAMA, ngram);
    assert_eq!((looked_up.block_bytes, looked_up.drafts), (without.block_bytes, without.drafts));
}

#[test]
fn the_layout_that_is_shown_is_that_of_the_run() {
    let of_catalogue = |name: &str| profiles::model(name).expect("in the catalogue");
    for (server, model) in [(V3, deepseek()), (MIMO, of_catalogue(MIMO.model))] {
        for steps in [0, 1, 3] {
            let scenario = resolve(&server.serving(4, "", &drafts("NEXTN", steps, 1.0)));
            let scenario = scenario.expect("it fits");
            let KvSource::Derived(kv) = scenario.first().kv else { panic!("derived from memory") };
            let shown = SglangLayout::of(&model, machine(&server, steps));
            assert_eq!(kv.block_bytes.0, shown.cell_size as u64, "{} {steps}", server.model);
        }
    }
}

#[test]
fn states_of_verified_tokens_take_their_memory() {
    let server = Server { model: "nvidia/Qwen3.5-122B-A10B-NVFP4", gpu: "H200", tp: 4, ..V3 };
    let model = profiles::model(server.model).expect("in the catalogue");
    let text = server.serving(4, "", &drafts("NEXTN", 3, 2.0));
    let scenario = resolve(&text).expect("it fits");
    let group = scenario.first();
    let KvSource::Derived(kv) = group.kv else { panic!("derived from memory") };
    let left = group.gpu.memory().0 - kv.reserve.0 - kv.weights.0 - kv.drafts.0;
    let pools = SglangLayout::of(&model, machine(&server, 3)).pools(Bytes(left));
    let with = engine(&text);
    assert_eq!((with.max_running_requests, pools.max_running_requests), (Some(48), 48));
    let tokens = u64::from(with.max_total_tokens.expect("derived"));
    assert!(tokens.abs_diff(pools.max_total_num_tokens) <= 1, "{tokens}, {pools:?}");
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    let at = "cluster.engine.speculation";
    let nextn = |more: &str| format!("{}\n{more}", drafts("NEXTN", 3, 2.0));
    let with = |more: &str| V3.serving(4, "", &nextn(more));
    refused(&with("speculative_eagle_topk = 4"), "topk: must be 1: trees of drafts");
    refused(&with("speculative_num_draft_tokens = 8"), "or speculative_num_steps + 1");
    refused(&with("lookup_us = 3.0"), &format!("{at}.lookup_us: is of NGRAM"));
    refused(&with("draft_vocab_size = 32000"), "draft_vocab_size: is of EAGLE3");
    refused(&V3.serving(4, "enable_mixed_chunk = true", &nextn("")), "enable_mixed_chunk: steps");
    refused(
        &V3.serving(4, "", &drafts("NEXTN", 3, 4.5)),
        "to speculative_num_steps + 1, which is 4",
    );
    refused(&V3.serving(4, "", &drafts("STANDALONE", 3, 2.0)), "must name the model that drafts");
    refused(&V3.serving(4, "", &drafts("NGRAM", 3, 2.0)), "set speculative_num_draft_tokens");
    refused(&LLAMA.serving(4, "", &drafts("NEXTN", 3, 2.0)), "has no layers that draft");
    let mimo = Server { model: "XiaomiMiMo/MiMo-V2-Flash", ..V3 };
    refused(&mimo.serving(4, "", &drafts("NEXTN", 3, 2.0)), "drafts with a module for each step");
    let v4 = Server { model: "deepseek-ai/DeepSeek-V4-Flash", gpu: "B200", tp: 4, ..V3 };
    let running = engine(&v4.serving(4, "", &drafts("NEXTN", 3, 2.0))).max_running_requests;
    assert_eq!(running, Some(256));
    refused(&v4.serving(4, "", &drafts("EAGLE3", 3, 2.0)), "must be EAGLE or NEXTN, with which");
    refused(&v4.serving(4, "", &drafts("NEXTN", 10, 2.0)), "must be at most 9");
    let text = |from: &str, to: &str| with("").replace(from, to);
    let ranks =
        text("tensor_parallel_size = 8", "tensor_parallel_size = 8\ndata_parallel_size = 2");
    refused(&ranks, "ranks with speculation are not modelled");
    let stages =
        text("tensor_parallel_size = 8", "tensor_parallel_size = 8\npipeline_parallel_size = 2");
    refused(&stages, "cluster.pipeline_parallel_size");
    let apart = text(
        "host = 'none'",
        "host = 'none'\ndisaggregation = { prefill_replicas = 1, decode_replicas = 1, \
         transfer = { nic_gb_per_s = 50.0 } }",
    );
    refused(&apart, "speculation where other replicas decode is not modelled");
    let adapters = text(
        "[cluster]",
        "adapters = { kinds = [{ count = 2, rank = 8 }], popularity = { type = 'uniform' } }\n[cluster]",
    );
    refused(&adapters, "drafts for requests with adapters are not modelled of SGLang");
    let table = text("{ type = 'roofline' }", "{ type = 'step_table' }");
    refused(&table, "a step_table holds no steps that verify drafts");
}

#[test]
fn a_scenario_that_is_written_out_drafts_as_before() {
    for speculation in [
        format!(
            "{}\nspeculative_draft_model_path = 'meta-llama/Llama-3.2-1B'",
            drafts("STANDALONE", 2, 2.0)
        ),
        drafts("EAGLE3", 4, 2.0),
        "speculative_algorithm = 'NGRAM'\nacceptance = { type = 'mean_length', tokens = 2.0 }"
            .to_owned(),
    ] {
        let draft = load::from_text(&LLAMA.serving(4, "", &speculation)).expect("it is read");
        let loaded = draft.resolve().expect("it holds together");
        let again = toml::to_string(&loaded.relocated()).expect("it is written");
        let again =
            load::from_text(&again).and_then(|draft| draft.resolve()).expect("it is read again");
        assert_eq!(again.scenario.first(), loaded.scenario.first());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is accepted, with memory that is short or not, the same tokens come out, and no step of nothing.
    #[test]
    fn the_same_requests_give_the_same_tokens(
        seqs in 1_u32..12,
        k in 1_u32..6,
        share in 0.0_f64..=1.0,
        (memory, page) in (1500_u32..12_000, prop::sample::select(vec![1_u32, 16])),
        overlaps: bool,
    ) {
        let flags = format!(
            "max_total_tokens = {memory}\npage_size = {page}\ncontext_length = 1000\n\
             disable_overlap_schedule = {overlaps}"
        );
        let plain = summary(&LINEAR.serving(seqs, &flags, ""));
        let mean = 1.0 + share * f64::from(k);
        let drafting = summary(&LINEAR.serving(seqs, &flags, &drafts("EAGLE", k, mean)));
        prop_assert_eq!(tokens(&drafting), tokens(&plain));
        prop_assert_eq!(&drafting["requests"]["finished"], &plain["requests"]["finished"]);
    }
}

//! Speculation has a price: laws of whole runs, and what drafts take of memory.

use servecast::load;
use servecast::model::layout::Machine;
use servecast::model::{DraftHead, Drafter, Generation, KvDtype, ModelSpec};
use servecast::profiles;
use servecast::resolved::{KvSource, Scenario, ScenarioError};
use servecast::study::Case;

const MACHINE: Machine = Machine {
    generation: Generation::Hopper,
    tp: 1,
    kv_cache_dtype: KvDtype::Auto,
    draft_tokens: 3,
};

/// DeepSeek-V3 as its `config.json` has it, with one layer that drafts.
pub(crate) const DEEPSEEK: &str = r#"{"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": 61, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
    "moe_layer_freq": 1, "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 129280, "max_position_embeddings": 163840, "num_nextn_predict_layers": 1,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "topk_method": "noaux_tc",
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128],
    "activation_scheme": "dynamic"}}"#;

fn deepseek() -> ModelSpec {
    ModelSpec::from_hf_config(DEEPSEEK, None, "deepseek-v3").expect("a config that is read")
}

fn llama() -> ModelSpec {
    profiles::model("meta-llama/Llama-3.1-8B").expect("in the catalogue")
}

/// Requests that all come at once and are served by Llama 3.1 8B on one H100, so many at a time.
fn of_llama(seqs: u32, speculation: &str) -> String {
    served("model = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100'", seqs, speculation)
}

fn of_deepseek(seqs: u32, speculation: &str) -> String {
    let cluster = "model = 'deepseek-v3'\ngpu = 'H200'\ntensor_parallel_size = 8";
    served(cluster, seqs, speculation)
}

fn served(cluster: &str, seqs: u32, speculation: &str) -> String {
    let requests = 2 * seqs;
    let speculation = match speculation {
        "" => String::new(),
        some => format!("[cluster.engine.speculation]\n{some}\n"),
    };
    format!(
        "name = 'drafts'\nseed = 3\n[workload]\nnum_requests = {requests}\narrivals = {{ type = 'all_at_once' }}\n\
         lengths = {{ type = 'fixed', input_tokens = 500, output_tokens = 120 }}\n[cluster]\n{cluster}\n\
         step_time = {{ type = 'roofline' }}\n[cluster.engine]\ntype = 'vllm_v1'\nmax_num_seqs = {seqs}\n\
         max_model_len = 2048\nenable_prefix_caching = false\n{speculation}"
    )
}

fn resolve(text: &str) -> Result<Scenario, ScenarioError> {
    let file = toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    Scenario::resolve(file, text.contains("'deepseek-v3'").then(deepseek))
}

fn figure(text: &str, name: &str) -> f64 {
    let scenario = resolve(text).expect("the scenario holds together");
    let case = Case::new(scenario, None).expect("its step times are known");
    let run = case.run().expect("it runs");
    run.figures().get(name).unwrap_or_else(|| panic!("{name}"))
}

fn throughput(text: &str) -> f64 {
    figure(text, "output_throughput")
}

fn speculation(method: &str, drafts: u32, probability: f64) -> String {
    format!(
        "{method}\nnum_speculative_tokens = {drafts}\nacceptance = {{ type = 'per_position', probability = {probability} }}"
    )
}

const HEAD: &str = "method = 'eagle'";
const SMALL: &str = "method = 'draft_model'\nmodel = 'meta-llama/Llama-3.2-1B'";
const FREE: &str = "";

fn refused(text: &str, message: &str) {
    let error = resolve(text).expect_err(message).to_string();
    assert!(error.contains(message), "{error}");
}

/// `yuhuili/EAGLE-LLaMA3-Instruct-8B` has 0.25 · 10⁹ parameters, `EAGLE3-LLaMA3.1-Instruct-8B` 0.42 · 10⁹ with a head
/// for 32 000 tokens.
#[test]
fn heads_of_llama_are_as_large_as_published_ones() {
    let billions = |head| {
        let drafter = Drafter::of_head(&llama(), head, None, MACHINE).expect("it has a head");
        drafter.weights.0 as f64 / 2e9
    };
    // 218 million of a layer, 34 of the join.
    let eagle = billions(DraftHead::Eagle);
    assert!((eagle - 0.252).abs() < 0.002, "{eagle}");
    // 25 million more of wider projections, 50 of the fusing matrix, 131 of the head.
    let eagle3 = billions(DraftHead::Eagle3 { vocab: Some(32_000) });
    assert!((eagle3 - 0.425).abs() < 0.002, "{eagle3}");
}

/// The layer that drafts in DeepSeek-V3 has 11.5 · 10⁹ parameters of its own, its head among them (the README of its
/// weights), and 8 bits for most.
#[test]
fn layers_that_draft_take_their_weights_and_their_kv() {
    let drafter = Drafter::of_modules(&deepseek(), MACHINE).expect("it has a layer that drafts");
    let gigabytes = drafter.weights.0 as f64 / 1e9;
    assert!((12.0..14.0).contains(&gigabytes), "{gigabytes}");
    let kv = |drafts: &str| {
        let scenario = resolve(&of_deepseek(64, drafts)).expect("it fits");
        let KvSource::Derived(kv) = scenario.first().kv else { panic!("derived from memory") };
        kv
    };
    let (with, without) = (kv(&speculation("method = 'mtp'", 1, 0.5)), kv(""));
    assert_eq!(62 * without.block_bytes.0, 61 * with.block_bytes.0, "one layer more");
    assert!(with.blocks < without.blocks && with.drafts.0 > 0 && without.drafts.0 == 0);
    // What looks drafts up takes none.
    let looked_up = kv(&speculation("method = 'ngram'", 1, 0.5));
    assert_eq!((looked_up.block_bytes, looked_up.drafts.0), (without.block_bytes, 0));
}

#[test]
fn drafts_that_are_never_accepted_cost_throughput() {
    let without = throughput(&of_llama(16, ""));
    let mut before = without;
    for (method, drafts) in [(FREE, 1), (HEAD, 1), (HEAD, 3), (SMALL, 3)] {
        let with = throughput(&of_llama(16, &speculation(method, drafts, 1e-9)));
        assert!(with < before, "{method} {drafts}: {with} of {before}");
        before = with;
    }
}

#[test]
fn free_drafts_speed_up_as_much_as_is_accepted_at_most() {
    let rate = |drafts: &str| figure(&of_llama(1, drafts), "mean_tpot_ms").recip();
    let without = rate("");
    for drafts in [1, 3] {
        let mean = f64::from(drafts) + 1.0;
        let law = format!(
            "num_speculative_tokens = {drafts}\nacceptance = {{ type = 'mean_length', tokens = {mean:?} }}"
        );
        let gain = rate(&law) / without;
        assert!(gain <= mean && gain > 0.85 * mean, "{gain} of {mean}");
        let priced = rate(&format!("{HEAD}\n{law}")) / without;
        assert!(priced < gain, "{priced} of {gain}");
    }
}

#[test]
fn more_drafts_that_are_refused_take_longer() {
    let tpot = |drafts| figure(&of_llama(4, &speculation(HEAD, drafts, 1e-9)), "mean_tpot_ms");
    let times = [1, 2, 4, 8].map(tpot);
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
}

#[test]
fn multi_token_prediction_helps_few_requests_more_than_many() {
    let gain = |seqs| {
        let drafts = speculation("method = 'mtp'", 1, 0.7);
        throughput(&of_deepseek(seqs, &drafts)) / throughput(&of_deepseek(seqs, ""))
    };
    let (few, many) = (gain(1), gain(256));
    assert!(few > 1.3 && many < few, "{few} of one, {many} of 256");
}

#[test]
fn who_cannot_draft_is_refused_by_name() {
    let at = "cluster.engine.speculation.method: `mtp`: meta-llama/Llama-3.1-8B has no layers that draft";
    refused(&of_llama(4, &speculation("method = 'mtp'", 1, 0.5)), at);
    let model = "cluster.engine.speculation.model";
    let unnamed = speculation("method = 'draft_model'", 1, 0.5);
    refused(&of_llama(4, &unnamed), &format!("{model}: must name the model that drafts"));
    let other = speculation("method = 'draft_model'\nmodel = 'Qwen/Qwen3-30B-A3B'", 1, 0.5);
    refused(&of_llama(4, &other), &format!("{model}: has 151936 tokens in its vocabulary"));
    let nobody = speculation("method = 'draft_model'\nmodel = 'meta-llama/Llama-3.2-1'", 1, 0.5);
    refused(&of_llama(4, &nobody), "did you mean `meta-llama/Llama-3.2-1B`?");
    let unread = speculation("method = 'ngram'\nmodel = 'meta-llama/Llama-3.2-1B'", 1, 0.5);
    refused(&of_llama(4, &unread), &format!("{model}: is of the methods"));
    let vocab = speculation("method = 'eagle'\ndraft_vocab_size = 32000", 1, 0.5);
    refused(&of_llama(4, &vocab), "draft_vocab_size: is of the method `eagle3`");
    let micros = speculation("method = 'eagle'\nlookup_us = 20.0", 1, 0.5);
    refused(&of_llama(4, &micros), "lookup_us: is of the methods `ngram` and `suffix`");
    refused(&of_deepseek(4, &speculation(HEAD, 1, 0.5)), "name the head's own config.json");
}

#[test]
fn no_drafts_are_no_speculation() {
    let none = resolve(&of_llama(4, &speculation(HEAD, 0, 0.5))).expect("it holds together");
    let without = resolve(&of_llama(4, "")).expect("it holds together");
    assert_eq!(none.first(), without.first());
    // A length that more drafts would have says nothing of none.
    let length = format!(
        "{HEAD}\nnum_speculative_tokens = 0\nacceptance = {{ type = 'mean_length', tokens = 2.5 }}"
    );
    assert!(resolve(&of_llama(4, &length)).is_ok());
}

#[test]
fn only_drafts_that_cost_nothing_are_warned_of() {
    let caveats = |drafts: &str| resolve(&of_llama(4, drafts)).expect("it holds").caveats().len();
    assert_eq!(caveats(&speculation(HEAD, 2, 0.5)), 0);
    assert_eq!(caveats(&speculation(SMALL, 2, 0.5)), 0);
    assert_eq!(caveats(&speculation("method = 'suffix'\nlookup_us = 20.0", 2, 0.5)), 0);
    assert_eq!(caveats(&speculation("method = 'suffix'", 2, 0.5)), 1);
    assert_eq!(caveats(&speculation(FREE, 2, 0.5)), 1);
}

#[test]
fn a_scenario_that_is_written_out_drafts_as_before() {
    let draft = load::from_text(&of_llama(4, &speculation(SMALL, 2, 0.5))).expect("it is read");
    let loaded = draft.resolve().expect("it holds together");
    let again = toml::to_string(&loaded.relocated()).expect("it is written");
    let again =
        load::from_text(&again).and_then(|draft| draft.resolve()).expect("it is read again");
    assert_eq!(again.scenario.first(), loaded.scenario.first());
}

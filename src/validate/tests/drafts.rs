//! Servers that draft, and what their records say of it.

use serde_json::{Value, json};

use super::plan;
use crate::resolved::Scenario;
use crate::scenario::{
    AcceptanceConfig, EngineConfig, SpeculationConfig, SpeculationMethod, SpeculativeAlgorithm,
};

const NOT_STATED: &str = "not modelled: drafts whose method or number is not stated";
const NOT_MEASURED: &str = "not modelled: drafts of which neither the record nor a measurement says how many were accepted";

fn gpt_oss(config: &Value, more: &[(&str, Value)]) -> Result<SpeculationConfig, String> {
    let mut changes = vec![
        ("engine", json!({"name": "vLLM", "version": "0.22.0"})),
        ("hardware.gpu", json!("H200")),
        ("model", json!({"name": "openai/gpt-oss-120b"})),
        ("engine_flags", json!({"speculative-config": config, "max-model-len": 10240})),
    ];
    changes.extend_from_slice(more);
    let plan = plan(&changes)?;
    let scenario = Scenario::resolve(plan.scenario.clone(), None);
    assert!(scenario.is_ok(), "{scenario:?}");
    let EngineConfig::VllmV1(config) = plan.scenario.cluster.engine else { panic!("vLLM") };
    Ok(config.speculation.expect("it drafts"))
}

fn head(tokens: u32) -> Value {
    json!({
        "method": "eagle3", "model": "nvidia/gpt-oss-120b-Eagle3-v3",
        "num_speculative_tokens": tokens, "draft_tensor_parallel_size": 1,
    })
}

fn mean(speculation: &SpeculationConfig) -> f64 {
    let AcceptanceConfig::MeanLength { tokens } = speculation.acceptance else { panic!("a mean") };
    tokens
}

#[test]
fn as_many_drafts_are_accepted_as_the_record_says_or_else_as_were_measured() {
    let told = [("metrics.spec_decode_acceptance_length", json!(2.75))];
    let stated = gpt_oss(&head(7), &told).unwrap();
    assert_eq!(
        (stated.method, stated.num_speculative_tokens),
        (Some(SpeculationMethod::Eagle3), 7)
    );
    assert!((mean(&stated) - 2.75).abs() < 1e-9);
    let [one, three, seven] = [1, 3, 7].map(|tokens| mean(&gpt_oss(&head(tokens), &[]).unwrap()));
    // More drafts bring out more, of which each adds less.
    assert!(1.0 < one && one < three && three < seven && seven < 3.0, "{one} {three} {seven}");
    assert!((three - one) / 2.0 > (seven - three) / 4.0);
    assert_eq!(stated.model.as_deref(), Some("nvidia/gpt-oss-120b-Eagle3"));
    let as_text = gpt_oss(&json!(head(7).to_string()), &[]).unwrap();
    assert_eq!(as_text, gpt_oss(&head(7), &[]).unwrap());
}

#[test]
fn no_acceptance_is_made_up() {
    // Five drafts were not measured, nor another head, nor other prompts.
    assert_eq!(gpt_oss(&head(5), &[]), Err(NOT_MEASURED.to_owned()));
    let mut other = head(7);
    other["model"] = json!("nvidia/gpt-oss-120b-Eagle3-v2");
    assert_eq!(gpt_oss(&other, &[]), Err(NOT_MEASURED.to_owned()));
    let sharegpt = [("workload.dataset", json!("sharegpt")), ("workload.client", json!("vllm"))];
    assert_eq!(gpt_oss(&head(7), &sharegpt), Err(NOT_MEASURED.to_owned()));
    let too_many = [("metrics.accept_length", json!(8.5))];
    let contradiction = "contradiction: 8.5 tokens of a step with 7 drafts";
    assert_eq!(gpt_oss(&head(7), &too_many), Err(contradiction.to_owned()));
}

#[test]
fn drafts_are_those_of_the_flags_or_a_reason() {
    let mut medusa = head(7);
    medusa["method"] = json!("medusa");
    let mut padded = head(7);
    padded["disable_padded_drafter_batch"] = json!(true);
    let mut apart = head(7);
    apart["draft_tensor_parallel_size"] = json!(2);
    let unnamed = json!({"num_speculative_tokens": 3});
    for (config, reason) in [
        (medusa, "unmodelled flag: speculative-config.method=medusa"),
        (padded, "unmodelled flag: speculative-config.disable_padded_drafter_batch=true"),
        (apart, "not modelled: drafts made on another number of GPUs than the model is on"),
        (unnamed, NOT_STATED),
        (json!("seven"), "unmodelled flag: speculative-config=seven"),
    ] {
        assert_eq!(gpt_oss(&config, &[]), Err(reason.to_owned()));
    }
    // Modules that draft are one method, whatever model they belong to.
    let modules = json!({"method": "deepseek_mtp", "num_speculative_tokens": 1});
    let model = json!({"name": "deepseek-ai/DeepSeek-V3.2"});
    let flags = json!({"speculative-config": modules});
    let changes = [
        ("engine", json!({"name": "vLLM", "version": "0.22.0"})),
        ("hardware", json!({"gpu": "H200", "gpus_used": 8})),
        ("model", model),
        ("parallel.tp", json!(8)),
        ("engine_flags", flags),
        ("metrics.accept_length", json!(1.8)),
    ];
    let EngineConfig::VllmV1(config) = plan(&changes).unwrap().scenario.cluster.engine else {
        panic!("vLLM")
    };
    assert_eq!(config.speculation.unwrap().method, Some(SpeculationMethod::Mtp));
    let v0 = [
        ("engine.version", json!("0.6.6")),
        ("engine_flags", json!({"speculative-config": head(7)})),
    ];
    assert_eq!(plan(&v0).map(|_| ()), Err("not modelled: drafts of vLLM's V0 engine".to_owned()));
    assert_eq!(
        plan(&[("engine_flags", json!({"spec_decoding": "mtp"}))]).map(|_| ()),
        Err(NOT_STATED.to_owned())
    );
}

#[test]
fn accepted_drafts_without_flags_that_draft_are_a_contradiction() {
    let accepted = |tokens: f64| plan(&[("metrics.accept_length", json!(tokens))]).map(|_| ());
    let reason = "contradiction: accepted drafts, and no flag that asks for some";
    assert_eq!(accepted(3.48), Err(reason.to_owned()));
    assert_eq!(accepted(1.0), Ok(()));
}

#[test]
fn chains_of_sglang_are_read_and_trees_refused() {
    let sglang = |flags: Value| {
        let changes = [
            ("engine", json!({"name": "SGLang", "version": "0.5.9"})),
            ("hardware", json!({"gpu": "H200", "gpus_used": 8})),
            ("model", json!({"name": "deepseek-ai/DeepSeek-V3"})),
            ("parallel.tp", json!(8)),
            ("engine_flags", flags),
            ("metrics.accept_length", json!(2.6)),
        ];
        match plan(&changes)?.scenario.cluster.engine {
            EngineConfig::Sglang(config) => Ok(config.speculation.expect("it drafts")),
            _ => panic!("SGLang"),
        }
    };
    let flags = |algorithm: &str, topk: u32, verified: u32| {
        json!({
            "speculative-algorithm": algorithm, "speculative-num-steps": 3,
            "speculative-eagle-topk": topk, "speculative-num-draft-tokens": verified,
        })
    };
    for name in ["EAGLE", "NEXTN"] {
        let found = sglang(flags(name, 1, 4)).unwrap();
        let of = (found.speculative_algorithm, found.speculative_num_steps);
        assert_eq!(of, (SpeculativeAlgorithm::Eagle, Some(3)), "{name}");
        assert_eq!(found.speculative_draft_model_path, None);
        assert_eq!(found.acceptance, AcceptanceConfig::MeanLength { tokens: 2.6 });
    }
    // A head that is named is no layer of the model.
    let mut headed = flags("EAGLE", 1, 4);
    headed["speculative-draft-model-path"] = json!("who/Heads-1B");
    let head = sglang(headed).unwrap().speculative_draft_model_path;
    assert_eq!(head.as_deref(), Some("who/Heads-1B"));
    let tree = sglang(flags("EAGLE", 4, 4)).unwrap_err();
    assert_eq!(tree, "unmodelled flag: speculative-eagle-topk=4");
    let longer = sglang(flags("EAGLE", 1, 8)).unwrap_err();
    assert_eq!(longer, "contradiction: 8 tokens verified of a chain of 3 drafts");
    let other = sglang(json!({"speculative-algorithm": "NGRAM"})).unwrap_err();
    assert_eq!(other, "unmodelled flag: speculative-algorithm=NGRAM");
    assert_eq!(sglang(json!({"speculative-algorithm": "EAGLE"})), Err(NOT_STATED.to_owned()));
}

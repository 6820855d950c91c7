//! Rules and derived values of speculative decoding in SGLang (SGLang 0.5.23,
//! `sglang/srt/arg_groups/speculative_hook.py`).

use super::super::{Rules, ScenarioError, acceptance, drafting};
use crate::model::checkpoint::{Drafts, Mixer};
use crate::model::layout::{Machine, SglangLayout};
use crate::model::{DraftMemory, Drafter, ModelSpec};
use crate::problem::Problem;
use crate::profiles;
use crate::scenario::{
    ClusterConfig, EngineConfig, SglangConfig, SglangSpeculationConfig, SpeculativeAlgorithm,
};
use crate::units::Bytes;

const KEY: &str = "cluster.engine.speculation";

/// Architectures for which SGLang drafts trees unless told otherwise: 5 steps of 4 candidates, of which 8 tokens are
/// verified (`_auto_choose_speculative_params`). For all others it takes a chain of 3.
const TREES: [&str; 3] = ["LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM"];

/// Families for which SGLang takes a module for each step (`enable_multi_layer_eagle`, in
/// `sglang/srt/arg_groups/model_overrides/mimo_v2.py`).
const MANY_MODULES: [&str; 1] = ["mimo_v2_flash"];

/// Rules that need no look-up.
pub(in crate::resolved) fn rules(cluster: &ClusterConfig, has_adapters: bool, rules: &mut Rules) {
    let EngineConfig::Sglang(sglang) = &cluster.engine else { return };
    let Some(speculation) = &sglang.speculation else { return };
    shape_rules(speculation, rules);
    drafter_rules(speculation, rules);
    if let Some(common) = cluster.engine.speculation() {
        acceptance::rules(common, rules);
    }
    if speculation.drafts() == 0 {
        return;
    }
    if sglang.enable_mixed_chunk {
        let message = "steps that prefill and verify drafts at once are not modelled of SGLang";
        rules.broken("cluster.engine.enable_mixed_chunk", message);
    }
    if has_adapters || cluster.lora.is_some() {
        rules.broken(KEY, "drafts for requests with adapters are not modelled of SGLang");
    }
}

/// How many drafts there are.
fn shape_rules(speculation: &SglangSpeculationConfig, rules: &mut Rules) {
    let path = |key: &str| format!("{KEY}.{key}");
    let steps = speculation.speculative_num_steps;
    let tokens = speculation.speculative_num_draft_tokens;
    rules.count(&path("speculative_num_draft_tokens"), tokens.unwrap_or(1));
    if speculation.speculative_algorithm == SpeculativeAlgorithm::Ngram {
        let chains = [
            ("speculative_num_steps", steps.is_some()),
            ("speculative_eagle_topk", speculation.speculative_eagle_topk.is_some()),
        ];
        for (key, _) in chains.into_iter().filter(|(_, is_given)| *is_given) {
            rules.broken(&path(key), "is not of NGRAM: set speculative_num_draft_tokens");
        }
        return;
    }
    if let Some(topk) = speculation.speculative_eagle_topk {
        let rule = "1: trees of drafts are not modelled";
        rules.check(topk == 1, &path("speculative_eagle_topk"), rule, topk);
    }
    let Some(tokens) = tokens else { return };
    match steps {
        None => {
            let message = "needs speculative_num_steps, without which SGLang chooses both";
            rules.broken(&path("speculative_num_draft_tokens"), message);
        }
        Some(steps) => {
            let rule = "absent, or speculative_num_steps + 1, to which SGLang sets it";
            let holds = steps.checked_add(1) == Some(tokens);
            rules.check(holds, &path("speculative_num_draft_tokens"), rule, tokens);
        }
    }
}

/// Who drafts.
fn drafter_rules(speculation: &SglangSpeculationConfig, rules: &mut Rules) {
    let path = |key: &str| format!("{KEY}.{key}");
    let algorithm = speculation.speculative_algorithm;
    match (algorithm, &speculation.speculative_draft_model_path) {
        (SpeculativeAlgorithm::Standalone, None) => {
            let message = "must name the model that drafts, as with STANDALONE";
            rules.broken(&path("speculative_draft_model_path"), message);
        }
        (SpeculativeAlgorithm::Ngram, Some(_)) => {
            rules.broken(&path("speculative_draft_model_path"), "has no effect with NGRAM");
        }
        _ => {}
    }
    if let Some(vocab) = speculation.draft_vocab_size {
        rules.count(&path("draft_vocab_size"), vocab);
        if algorithm != SpeculativeAlgorithm::Eagle3 {
            rules.broken(&path("draft_vocab_size"), "is of EAGLE3");
        }
    }
    if let Some(micros) = speculation.lookup_us {
        drafting::look_up_rule(micros, rules);
        if algorithm != SpeculativeAlgorithm::Ngram {
            rules.broken(&path("lookup_us"), "is of NGRAM");
        }
    }
}

/// Fills in what SGLang chooses by the model.
pub(in crate::resolved) fn settle(
    speculation: &mut SglangSpeculationConfig,
    name: &str,
    model: &ModelSpec,
) -> Result<(), ScenarioError> {
    let algorithm = speculation.speculative_algorithm;
    let is_compressed = model.each_mixer().any(|mixer| matches!(mixer, Mixer::Compressed(_)));
    if is_compressed
        && !matches!(algorithm, SpeculativeAlgorithm::Eagle | SpeculativeAlgorithm::Nextn)
    {
        let rule = format!("EAGLE or NEXTN, with which alone SGLang starts {}", model.name);
        let at = format!("{KEY}.speculative_algorithm");
        return Err(Problem::must_be(at, rule, algorithm.name()).into());
    }
    if algorithm == SpeculativeAlgorithm::Ngram {
        speculation.speculative_num_draft_tokens = Some(speculation.drafts() + 1);
        return Ok(());
    }
    let is_chosen = speculation.speculative_num_steps.is_none();
    let drafts_trees = TREES.contains(&model.architecture.as_str())
        && algorithm != SpeculativeAlgorithm::Standalone;
    if is_chosen && drafts_trees {
        let problem = format!(
            "must be set for {}: by itself SGLang takes 5 with speculative_eagle_topk 4 for its architecture, and trees \
             of drafts are not modelled",
            model.name
        );
        return Err(Problem::new(format!("{KEY}.speculative_num_steps"), problem).into());
    }
    if algorithm != SpeculativeAlgorithm::Standalone {
        // As SGLang fills it in where the model brings the layers.
        let is_itself = |path: &mut String| {
            path == name || profiles::model(path).is_some_and(|known| known.name == model.name)
        };
        speculation.speculative_draft_model_path.take_if(is_itself);
    }
    let steps = speculation.drafts();
    speculation.speculative_num_steps = Some(steps);
    speculation.speculative_eagle_topk = Some(1);
    speculation.speculative_num_draft_tokens = Some(steps + 1);
    Ok(())
}

/// The layers that the model brings to draft with; nothing where it brings none, and `EAGLE` goes with a head.
pub(in crate::resolved) fn own_layers(
    sglang: &SglangConfig,
    model: &ModelSpec,
    machine: Machine,
) -> Result<Option<Drafter>, ScenarioError> {
    let algorithm = sglang.speculation.as_ref().map(|it| it.speculative_algorithm);
    if algorithm == Some(SpeculativeAlgorithm::Eagle) && model.drafts == Drafts::None {
        return Ok(None);
    }
    let refused = |key: &str, why: String| -> ScenarioError {
        let hint = "`EAGLE3`, `STANDALONE` and `NGRAM` need no such layers";
        Problem::new(format!("{KEY}.{key}"), why).with_hint(hint).into()
    };
    let drafter =
        Drafter::of_modules(model, machine).map_err(|why| refused("speculative_algorithm", why))?;
    let is_deep = model.draft_modules().is_some_and(|modules| modules.modules > 1);
    if is_deep || MANY_MODULES.contains(&model.family.as_str()) {
        let why = format!(
            "{} drafts with a module for each step; of SGLang one module for all is modelled",
            model.name
        );
        return Err(refused("speculative_algorithm", why));
    }
    SglangLayout::check(model, machine)
        .map_err(|refusal| refused("speculative_num_steps", refusal.why))?;
    Ok(Some(drafter))
}

/// What drafts take of memory beside their tokens, which count in the pools. Pools are sized while what drafts still has
/// tables of its own beside those that it will share with the model (`sglang/srt/managers/scheduler.py`,
/// `init_memory_pools`, and `sglang/srt/mem_cache/kv_cache_configurator.py`, `_profile_available_bytes`).
pub(super) fn weights(drafter: &Drafter) -> DraftMemory {
    let weights = Bytes(drafter.weights.0 + drafter.shared.0);
    DraftMemory { weights, kv_bytes_per_token: None }
}

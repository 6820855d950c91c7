//! What makes the drafts of a scenario: looked up, checked, and what of it is not known to cost anything.

use super::models::Models;
use super::{Rules, ScenarioError, kv, sglang};
use crate::hardware::GpuSpec;
use crate::model::layout::Machine;
use crate::model::{DraftHead, Drafter, ModelSpec};
use crate::problem::Problem;
use crate::scenario::{
    ClusterConfig, EngineConfig, SpeculationConfig, SpeculationKeys, SpeculationMethod,
    StepTimeConfig,
};

const KEY: &str = "cluster.engine.speculation";

/// What is looked up at most, in µs for each sequence.
const LOOK_UP_US_MAX: f64 = 1e6;

/// Rules on who drafts in vLLM that need no look-up.
pub(super) fn rules(speculation: &SpeculationConfig, rules: &mut Rules) {
    let method = speculation.method;
    let of = |methods: &[SpeculationMethod]| method.is_some_and(|it| methods.contains(&it));
    let heads = [SpeculationMethod::Eagle, SpeculationMethod::Eagle3];
    let path = |key: &str| format!("{KEY}.{key}");
    if of(&[SpeculationMethod::DraftModel]) && speculation.model.is_none() {
        rules.broken(&path("model"), "must name the model that drafts, as method is `draft_model`");
    }
    if speculation.model.is_some() && !of(&[SpeculationMethod::DraftModel]) && !of(&heads) {
        rules.broken(&path("model"), "is of the methods `draft_model`, `eagle` and `eagle3`");
    }
    if let Some(vocab) = speculation.draft_vocab_size {
        rules.count(&path("draft_vocab_size"), vocab);
        if !of(&[SpeculationMethod::Eagle3]) {
            rules.broken(&path("draft_vocab_size"), "is of the method `eagle3`");
        }
    }
    if let Some(micros) = speculation.lookup_us {
        look_up_rule(micros, rules);
        if !method.is_some_and(SpeculationMethod::is_looked_up) {
            rules.broken(&path("lookup_us"), "is of the methods `ngram` and `suffix`");
        }
    }
}

/// How long looking up takes.
pub(super) fn look_up_rule(micros: f64, rules: &mut Rules) {
    rules.brief(&format!("{KEY}.lookup_us"), micros, LOOK_UP_US_MAX);
}

/// No drafts are no speculation; of others, what follows from the model is filled in.
pub(super) fn settle(cluster: &mut ClusterConfig, model: &ModelSpec) -> Result<(), ScenarioError> {
    match &mut cluster.engine {
        EngineConfig::VllmV1(vllm) => {
            vllm.speculation.take_if(|speculation| speculation.num_speculative_tokens == 0);
        }
        EngineConfig::Sglang(sglang) => {
            sglang.speculation.take_if(|speculation| speculation.drafts() == 0);
            if let Some(speculation) = &mut sglang.speculation {
                return sglang::speculation::settle(speculation, &cluster.model, model);
            }
        }
        _ => {}
    }
    Ok(())
}

/// What drafts on the GPUs, if something does.
pub(super) fn resolve(
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
    models: &Models<'_>,
) -> Result<Option<Drafter>, ScenarioError> {
    let Some(speculation) = cluster.engine.speculation() else { return Ok(None) };
    let machine = Machine { draft_tokens: speculation.drafts, ..kv::machine(cluster, gpu) };
    let keys = speculation.keys;
    let own = speculation.model.map(|name| own_model(name, keys, cluster, models)).transpose()?;
    let at = |key: &str| {
        let at = format!("{KEY}.{key}");
        move |why: String| ScenarioError::from(Problem::new(at.clone(), why))
    };
    let head = |head| {
        let key = if own.is_some() { keys.model } else { keys.method };
        Drafter::of_head(model, head, own.as_ref(), machine).map_err(at(key))
    };
    let drafter = match speculation.method {
        None | Some(SpeculationMethod::Ngram | SpeculationMethod::Suffix) => return Ok(None),
        Some(SpeculationMethod::Mtp) => match &cluster.engine {
            EngineConfig::Sglang(sglang) => {
                match sglang::speculation::own_layers(sglang, model, machine)? {
                    Some(drafter) => drafter,
                    None => head(DraftHead::Eagle)?,
                }
            }
            _ => own_layers(speculation.drafts, model, machine)?,
        },
        Some(SpeculationMethod::Eagle) => head(DraftHead::Eagle)?,
        Some(SpeculationMethod::Eagle3) => {
            head(DraftHead::Eagle3 { vocab: speculation.draft_vocab_size })?
        }
        Some(SpeculationMethod::DraftModel) => {
            let own = own.expect("a rule demands it");
            Drafter::of_model(model, own, machine).map_err(at(keys.model))?
        }
    };
    check_windows(model, &drafter, keys)?;
    Ok(Some(drafter))
}

/// A model that drafts, or whose layers a head has.
fn own_model(
    name: &str,
    keys: SpeculationKeys,
    cluster: &ClusterConfig,
    models: &Models<'_>,
) -> Result<ModelSpec, ScenarioError> {
    let path = format!("{KEY}.{}", keys.model);
    let named = |problem: Problem| Problem { at: path.clone(), ..problem };
    let own = models.spec(name).map_err(|error| ScenarioError {
        problems: error.problems.into_iter().map(named).collect(),
    })?;
    own.check_tensor_parallel(cluster.tensor_parallel_size)
        .map_err(|error| ScenarioError::at(&path, error))?;
    if own.state_layers() > 0 {
        let problem =
            "has layers with linear attention, whose states are not modelled of what drafts";
        return Err(ScenarioError::at(&path, problem));
    }
    Ok(own)
}

/// The layers that the model brings to draft with, as vLLM takes them.
fn own_layers(drafts: u32, model: &ModelSpec, machine: Machine) -> Result<Drafter, ScenarioError> {
    let drafter = Drafter::of_modules(model, machine).map_err(|why| {
        let others = "`eagle3`, `draft_model`, `ngram` and `suffix` need none";
        Problem::new(format!("{KEY}.method"), format_args!("`mtp`: {why}")).with_hint(others)
    })?;
    check_count(drafts, model)?;
    Ok(drafter)
}

/// Passes take modules in turn, each as often (vLLM 0.33.0, `vllm/config/speculative.py`).
fn check_count(drafts: u32, model: &ModelSpec) -> Result<(), ScenarioError> {
    let modules = model.draft_modules().map_or(1, |modules| modules.modules);
    if drafts <= modules || drafts.is_multiple_of(modules) {
        return Ok(());
    }
    let rule = format!("at most {modules}, the modules that draft, or a multiple of it");
    Err(Problem::must_be(format!("{KEY}.num_speculative_tokens"), rule, drafts).into())
}

/// Of prefills only what windows of one size see is counted.
fn check_windows(
    model: &ModelSpec,
    drafter: &Drafter,
    keys: SpeculationKeys,
) -> Result<(), ScenarioError> {
    match drafter.model.window() {
        Some(window) if model.window().map(|own| own.tokens) != Some(window.tokens) => {
            let problem = "layers that draft have a window that those of the model do not have, which is not modelled";
            Err(ScenarioError::at(&format!("{KEY}.{}", keys.method), problem))
        }
        _ => Ok(()),
    }
}

/// Whether something drafts whose time is not counted.
pub(super) fn is_free(cluster: &ClusterConfig) -> bool {
    let Some(speculation) = cluster.engine.speculation() else { return false };
    match speculation.method {
        None => true,
        Some(method) if method.is_looked_up() => speculation.lookup_us.is_none(),
        Some(_) => matches!(cluster.step_time, StepTimeConfig::Linear { .. }),
    }
}

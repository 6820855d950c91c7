//! Which step times a scenario gets.

use super::{Rules, ScenarioError, fail};
use crate::hardware::GpuSpec;
use crate::model::ModelSpec;
use crate::problem::Problem;
use crate::profiles::{self, ModelTable};
use crate::scenario::{
    Calibration, ClusterConfig, Communication, EngineConfig, LayerTableConfig, Sampler,
    StepTimeConfig,
};

/// Rules that need no look-up.
pub(super) fn rules(config: &StepTimeConfig, rules: &mut Rules) {
    match config {
        StepTimeConfig::Auto { calibration, .. } => {
            calibration_rules(&calibration.unwrap_or_default(), rules);
        }
        StepTimeConfig::OperatorTable { calibration, .. }
        | StepTimeConfig::Roofline { calibration, .. } => calibration_rules(calibration, rules),
        StepTimeConfig::LayerTable(config) => layer_table_rules(config, rules),
        StepTimeConfig::StepTable { .. } => {}
        StepTimeConfig::Linear {
            base_us,
            prefill_token_us,
            decode_seq_us,
            prefill_base_us,
            prefill_seq_us,
            context_token_us,
        } => {
            let rule = "a finite number of 0.001 (a nanosecond) at least";
            let holds = *base_us >= 1e-3 && base_us.is_finite();
            rules.check(holds, "cluster.step_time.base_us", rule, *base_us);
            rules.brief("cluster.step_time.base_us", *base_us, 1e6);
            rules.brief("cluster.step_time.prefill_token_us", *prefill_token_us, 1e6);
            rules.brief("cluster.step_time.decode_seq_us", *decode_seq_us, 1e6);
            rules.brief("cluster.step_time.context_token_us", *context_token_us, 1e6);
            let prefill_base_us = prefill_base_us.unwrap_or(*base_us);
            let holds = prefill_base_us >= 1e-3 && prefill_base_us.is_finite();
            rules.check(holds, "cluster.step_time.prefill_base_us", rule, prefill_base_us);
            rules.brief("cluster.step_time.prefill_base_us", prefill_base_us, 1e6);
            let rule =
                "finite and not below −prefill_token_us, so that no prompt takes less than nothing";
            let holds = prefill_seq_us.is_finite() && prefill_seq_us + prefill_token_us >= 0.0;
            rules.check(holds, "cluster.step_time.prefill_seq_us", rule, *prefill_seq_us);
            rules.brief("cluster.step_time.prefill_seq_us", prefill_seq_us.max(0.0), 1e6);
        }
    }
}

/// What a host's own all-reduces have to be, and what has to have any.
pub(super) fn all_reduce_rules(cluster: &ClusterConfig, rules: &mut Rules) {
    let Some(own) = &cluster.all_reduce else { return };
    rules.carried("cluster.all_reduce.gb_per_s", own.gb_per_s);
    rules.brief("cluster.all_reduce.latency_us", own.latency_us, 1e6);
    let useless = match &cluster.step_time {
        config if config.ignores_communication() => {
            "has no effect with step_time.communication = \"ignored\"; leave one out"
        }
        StepTimeConfig::LayerTable(config) if config.all_reduce_gb_s.is_some() => {
            "and step_time.all_reduce_gb_s say the same; leave one out"
        }
        StepTimeConfig::StepTable { .. } | StepTimeConfig::Linear { .. } => {
            "has no effect where step_time holds whole steps; leave it out"
        }
        _ => return,
    };
    rules.broken("cluster.all_reduce", useless);
}

fn calibration_rules(calibration: &Calibration, rules: &mut Rules) {
    for (key, value) in calibration.entries() {
        let path = format!("cluster.step_time.calibration.{key}");
        if key.ends_with("_us") {
            rules.brief(&path, value, 1e6);
        } else {
            rules.factor(&path, value);
        }
    }
}

fn layer_table_rules(config: &LayerTableConfig, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.step_time.{key}");
    if config.all_reduce_latency_us.is_some() != config.all_reduce_gb_s.is_some() {
        let message = "and all_reduce_gb_s are given together";
        rules.broken(&path("all_reduce_latency_us"), message);
    }
    if let Some(latency) = config.all_reduce_latency_us {
        rules.brief(&path("all_reduce_latency_us"), latency, 1e6);
    }
    if let Some(rate) = config.all_reduce_gb_s {
        rules.positive(&path("all_reduce_gb_s"), rate);
    }
    calibration_rules(&config.calibration, rules);
    let Calibration { products_compute, experts_compute, .. } = config.calibration;
    let factors = [("products_compute", products_compute), ("experts_compute", experts_compute)];
    for (key, _) in factors.into_iter().filter(|(_, factor)| !is_one(*factor)) {
        let message = "must be 1.0: measured products of a layer are not split into reading and \
                       multiplying";
        rules.broken(&path(&format!("calibration.{key}")), message);
    }
}

fn is_one(factor: f64) -> bool {
    factor.to_bits() == 1.0_f64.to_bits()
}

/// Settles `auto` and the name of an operator table. Returns the table; none where the step time
/// needs none, or is read from a file, which only the caller can do.
pub(super) fn resolve(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<Option<&'static str>, ScenarioError> {
    let tp = cluster.tensor_parallel_size;
    let engine = kernels_of(&cluster.engine);
    // A layer table has the experts of tokens that are spread evenly.
    let is_even = cluster.expert_parallel.is_none_or(|parallel| super::experts::is_even(&parallel));
    let is_whole = cluster.pipeline_parallel_size == 1 && is_even;
    let config = &mut cluster.step_time;
    if let Some(layers) = automatic_layers(config, engine, model, gpu, tp).filter(|_| is_whole) {
        *config = StepTimeConfig::LayerTable(layers);
    }
    if let StepTimeConfig::LayerTable(config) = config {
        let shipped = ("layer", profiles::layer_tables());
        return resolve_shipped(&mut config.profile, shipped, model, gpu, tp);
    }
    if let StepTimeConfig::StepTable { profile } = config {
        refuse_drafts(&cluster.engine)?;
        let shipped = ("step", profiles::step_tables());
        return resolve_shipped(profile, shipped, model, gpu, tp);
    }
    if let StepTimeConfig::Auto { engine_version, sampler, communication, calibration, .. } = config
    {
        let (sampler, communication) = (*sampler, *communication);
        let calibration = calibration.unwrap_or_default();
        let table = profiles::operator_table_for(&gpu.name, engine, engine_version.as_deref());
        let Some(table) = table else {
            *config = StepTimeConfig::Roofline { sampler, communication, calibration };
            return Ok(None);
        };
        *config = StepTimeConfig::OperatorTable {
            profile: Some(table.name.to_owned()),
            engine_version: None,
            sampler,
            communication,
            calibration,
        };
    }
    let StepTimeConfig::OperatorTable { profile, engine_version, .. } = config else {
        return Ok(None);
    };
    if profile.is_some() && engine_version.is_some() {
        let problem = "must be absent where profile is given";
        return Err(fail("cluster.step_time.engine_version", problem));
    }
    let Some(name) = profile else {
        let version = engine_version.take();
        let table = profiles::operator_table_for(&gpu.name, engine, version.as_deref());
        let Some(table) = table else {
            return Err(fail(
                "cluster.step_time",
                &format!(
                    "there is no operator table of {engine} on {}; `auto` takes the roofline there, \
                 and `servecast profile list cost` names the tables",
                    gpu.name
                ),
            ));
        };
        *profile = Some(table.name.to_owned());
        return Ok(Some(table.text));
    };
    if StepTimeConfig::is_file(name) {
        return Ok(None);
    }
    let Some(table) = profiles::operator_table(name) else {
        let names = profiles::operator_tables().iter().map(|table| table.name);
        let what = format!("`{name}` is neither in the catalogue nor a file ending in .toml");
        return Err(Problem::new("cluster.step_time.profile", what)
            .or_near(profiles::closest(name, names))
            .with_hint("`servecast profile list cost` names the tables")
            .into());
    };
    if !table.gpu().eq_ignore_ascii_case(&gpu.name) {
        return Err(fail(
            "cluster.step_time.profile",
            &format!("`{name}` was measured on another GPU than cluster.gpu ({})", gpu.name),
        ));
    }
    Ok(Some(table.text))
}

/// The layer table that `auto` takes: one of exactly this model, GPU and tensor parallel size, whose
/// settings are those it was measured with.
fn automatic_layers(
    config: &StepTimeConfig,
    engine: &str,
    model: &ModelSpec,
    gpu: &GpuSpec,
    tp: u32,
) -> Option<LayerTableConfig> {
    let StepTimeConfig::Auto { sampler, communication, calibration, .. } = config else {
        return None;
    };
    let calibration = calibration.unwrap_or_default();
    let is_as_measured =
        *sampler == Sampler::default() && *communication == Communication::default();
    let is_split = !is_one(calibration.products_compute) || !is_one(calibration.experts_compute);
    // Tables of shared experts were measured with whole experts on each GPU.
    let is_whole = tp == 1 || model.experts().is_none();
    if engine != "vllm" || !is_as_measured || !is_whole || is_split {
        return None;
    }
    ModelTable::of(profiles::layer_tables(), &model.name, &gpu.name, tp)?;
    Some(LayerTableConfig { calibration, ..LayerTableConfig::default() })
}

/// Verification of drafts was not measured in whole steps.
fn refuse_drafts(engine: &EngineConfig) -> Result<(), ScenarioError> {
    if engine.speculation().is_none() {
        return Ok(());
    }
    let problem = "a step_table holds no steps that verify drafts; leave speculation out, \
                   or take another type";
    Err(fail("cluster.step_time.type", problem))
}

/// Names the table of a kind that a scenario gets: the one it names, or that of its model and GPUs. Its
/// text, unless it is a file.
fn resolve_shipped(
    profile: &mut Option<String>,
    (kind, tables): (&str, &'static [ModelTable]),
    model: &ModelSpec,
    gpu: &GpuSpec,
    tp: u32,
) -> Result<Option<&'static str>, ScenarioError> {
    let names = || tables.iter().map(|table| table.name);
    let shipped = match profile {
        Some(name) if StepTimeConfig::is_file(name) => return Ok(None),
        Some(name) => ModelTable::named(tables, name).ok_or_else(|| {
            let what = format!("`{name}` is neither in the catalogue nor a file ending in .toml");
            Problem::new("cluster.step_time.profile", what)
                .or_near(profiles::closest(name, names()))
        })?,
        None => ModelTable::of(tables, &model.name, &gpu.name, tp).ok_or_else(|| {
            let problem = format!(
                "no {kind} table of {} on {} with tensor_parallel_size {tp} is shipped; there are {}",
                model.name,
                gpu.name,
                names().collect::<Vec<_>>().join(", ")
            );
            fail("cluster.step_time.profile", &problem)
        })?,
    };
    *profile = Some(shipped.name.to_owned());
    Ok(Some(shipped.text))
}

/// The engine whose kernels an engine runs: schedulers of papers stand on vLLM's.
fn kernels_of(engine: &EngineConfig) -> &'static str {
    match engine {
        EngineConfig::Sglang(_) => "sglang",
        EngineConfig::VllmV1(_)
        | EngineConfig::VllmV0(_)
        | EngineConfig::Sarathi(_)
        | EngineConfig::Orca(_)
        | EngineConfig::FasterTransformer(_)
        | EngineConfig::StaticBatching(_) => "vllm",
    }
}

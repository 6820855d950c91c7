//! Rules and derived values of LoRA adapters.

use super::{Rules, ScenarioError, fail};
use crate::cost::LoraTimes;
use crate::hardware::GpuSpec;
use crate::model::{LoraShape, ModelSpec};
use crate::profiles;
use crate::scenario::{
    AdapterBatchingConfig, AdapterMix, AdapterPopularity, ArrivalConfig, ClusterConfig,
    EngineConfig, LoraConfig, LoraKernels, ScenarioFile,
};
use crate::units::Bytes;

/// No matrix of a model has a larger rank; ranks of all adapters together stay countable.
const RANK_MAX: u32 = 1 << 16;
/// vLLM's `--max-loras` and `--max-lora-rank` unless told otherwise (vLLM 0.33.0,
/// `vllm/config/lora.py`).
const VLLM_SLOTS: u32 = 1;
const VLLM_RANK: u32 = 16;
/// SGLang's `--max-loras-per-batch` unless told otherwise (SGLang 0.5.23,
/// `sglang/srt/server_args.py`).
const SGLANG_SLOTS: u32 = 8;

/// Rules that need no look-up.
pub(super) fn rules(cluster: &ClusterConfig, has_adapters: bool, rules: &mut Rules) {
    let engine = &cluster.engine;
    if has_adapters && !engine.serves_adapters() {
        let message = format!("{} serves no adapters; vllm_v1, sglang and orca do", engine.name());
        rules.broken("workload.adapters", &message);
    }
    if let EngineConfig::Orca(orca) = engine
        && orca.max_loras.is_some()
        && !has_adapters
        && cluster.lora.is_none()
    {
        rules.broken("cluster.engine.max_loras", "needs workload.adapters");
    }
    let Some(lora) = &cluster.lora else { return };
    batching_rules(&lora.batching, (engine, has_adapters), rules);
    rank_rule("cluster.lora.max_rank", lora.max_rank.unwrap_or(1), rules);
    rules.count("cluster.lora.max_host_adapters", lora.max_host_adapters.unwrap_or(1));
    let kernels = &lora.kernels;
    let times = [
        ("kernels.per_product_us", kernels.per_product_us),
        ("kernels.per_adapter_product_us", kernels.per_adapter_product_us),
        ("kernels.per_slot_block_us", kernels.per_slot_block_us),
        ("per_passed_over_us", lora.per_passed_over_us),
    ];
    for (key, value) in times {
        rules.brief(&format!("cluster.lora.{key}"), value.unwrap_or(0.0), 1e6);
    }
    if let (EngineConfig::Orca(_), Some(block_us)) = (engine, kernels.per_slot_block_us)
        && block_us != 0.0
    {
        let message = format!("has no effect with engine orca, which has no slots; got {block_us}");
        rules.broken("cluster.lora.kernels.per_slot_block_us", &message);
    }
    let shares = [
        ("memory_efficiency", kernels.memory_efficiency),
        ("compute_efficiency", kernels.compute_efficiency),
    ];
    for (key, value) in shares {
        rules.efficiency(&format!("cluster.lora.kernels.{key}"), value.unwrap_or(1.0));
    }
    let load = &lora.load;
    rules.brief("cluster.lora.load.to_gpu_per_tensor_us", load.to_gpu_per_tensor_us, 1e6);
    rules.carried("cluster.lora.load.to_gpu_gb_per_s", load.to_gpu_gb_per_s.unwrap_or(1.0));
    rules.brief("cluster.lora.load.to_host_per_tensor_us", load.to_host_per_tensor_us, 1e6);
    rules.carried("cluster.lora.load.to_host_gb_per_s", load.to_host_gb_per_s);
}

fn batching_rules(
    batching: &AdapterBatchingConfig,
    (engine, has_adapters): (&EngineConfig, bool),
    rules: &mut Rules,
) {
    let path = |key: &str| format!("cluster.lora.batching.{key}");
    let (name, engine_name) = (batching.name(), engine.name());
    let is_other = !matches!(batching, AdapterBatchingConfig::Unmerged {});
    if is_other && !matches!(engine, EngineConfig::Orca(_)) {
        let message = format!("{name} is not modelled with engine {engine_name}; with orca it is");
        rules.broken(&path("type"), &message);
    }
    if is_other && !has_adapters {
        rules.broken(&path("type"), &format!("{name} needs workload.adapters"));
    }
    rules.brief(&path("switch_ms"), batching.switch_ms(), 1e3);
    if let AdapterBatchingConfig::SloraClusters(clusters) = batching {
        rules.count(&path("max_adapters"), clusters.max_adapters);
    }
    let AdapterBatchingConfig::DloraCredit(dlora) = batching else { return };
    let steps =
        [("merged_step_ms", dlora.merged_step_ms), ("unmerged_step_ms", dlora.unmerged_step_ms)];
    for (key, value) in steps {
        rules.positive(&path(key), value.unwrap_or(1.0));
        rules.brief(&path(key), value.unwrap_or(1.0), 1e3);
    }
    if let (Some(merged), Some(unmerged)) = (dlora.merged_step_ms, dlora.unmerged_step_ms) {
        let rule = format!("at most unmerged_step_ms, {unmerged}");
        rules.check(merged <= unmerged, &path("merged_step_ms"), &rule, merged);
    }
    let given = dlora.merged_step_ms.is_some();
    if given != dlora.unmerged_step_ms.is_some() {
        let (there, absent) = if given {
            ("merged_step_ms", "unmerged_step_ms")
        } else {
            ("unmerged_step_ms", "merged_step_ms")
        };
        rules.broken(&path(there), &format!("needs {absent}: both are given or neither"));
    }
    rules.positive(&path("credit"), dlora.credit);
    rules.not_negative(&path("threshold_step"), dlora.threshold_step);
    let rule = "a finite number of at least 1";
    let factor = dlora.threshold_factor;
    rules.check(factor >= 1.0 && factor.is_finite(), &path("threshold_factor"), rule, factor);
}

/// Whether two names are of one model: the same text, or names of one entry of the catalogue.
fn is_same_model(one: &str, other: &str) -> bool {
    let entry = |name: &str| profiles::model(name).map(|model| model.name);
    one == other || entry(one).is_some_and(|one| entry(other) == Some(one))
}

/// Rules of the adapters that requests ask for.
pub(super) fn mix_rules(mix: &AdapterMix, cluster: &ClusterConfig, rules: &mut Rules) {
    if mix.kinds.is_empty() {
        rules.broken("workload.adapters.kinds", "must be at least one kind");
    }
    for (index, kind) in mix.kinds.iter().enumerate() {
        let path = |key: &str| format!("workload.adapters.kinds[{index}].{key}");
        rules.count(&path("count"), kind.count);
        rank_rule(&path("rank"), kind.rank, rules);
        rules.positive(&path("weight"), kind.weight);
        let base = kind.base_model.as_ref().unwrap_or(&cluster.model);
        let rule = format!("the model of the cluster, {}", cluster.model);
        rules.check(is_same_model(base, &cluster.model), &path("base_model"), &rule, base);
    }
    let count: u64 = mix.kinds.iter().map(|kind| u64::from(kind.count)).sum();
    let is_countable = u16::try_from(count).is_ok();
    rules.check(is_countable, "workload.adapters.kinds", "at most 65535 adapters", count);
    if is_countable {
        name_rules(mix, rules);
    }
    drift_rules(mix, rules);
    match mix.popularity {
        AdapterPopularity::Zipf { exponent } => {
            rules.not_negative("workload.adapters.popularity.exponent", exponent);
        }
        AdapterPopularity::Geometric { base } => {
            let holds = base >= 1.0 && base.is_finite();
            rules.check(holds, "workload.adapters.popularity.base", "at least 1", base);
        }
        AdapterPopularity::Uniform {}
        | AdapterPopularity::RoundRobin {}
        | AdapterPopularity::Weights {}
        | AdapterPopularity::AsGiven {} => {}
    }
}

fn rank_rule(path: &str, rank: u32, rules: &mut Rules) {
    let is_rank = (1..=RANK_MAX).contains(&rank);
    rules.check(is_rank, path, &format!("from 1 to {RANK_MAX}"), rank);
}

fn name_rules(mix: &AdapterMix, rules: &mut Rules) {
    let mut names: Vec<String> = mix.names().collect();
    names.sort_unstable();
    if let Some([name, ..]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = format!("names must differ, `{name}` is that of two adapters");
        rules.broken("workload.adapters.kinds", &message);
    }
}

fn drift_rules(mix: &AdapterMix, rules: &mut Rules) {
    let Some(drift) = &mix.drift else { return };
    let path = "workload.adapters.drift";
    let prefers = matches!(
        mix.popularity,
        AdapterPopularity::Zipf { .. }
            | AdapterPopularity::Geometric { .. }
            | AdapterPopularity::Weights {}
    );
    if !prefers {
        rules.broken(path, "needs a popularity of type zipf, geometric or weights, which it moves");
    }
    let is_even = match mix.popularity {
        AdapterPopularity::Zipf { exponent } => exponent.total_cmp(&0.0).is_eq(),
        AdapterPopularity::Geometric { base } => base.total_cmp(&1.0).is_eq(),
        AdapterPopularity::Weights {} => {
            mix.kinds.windows(2).all(|pair| pair[0].weight.total_cmp(&pair[1].weight).is_eq())
        }
        _ => false,
    };
    if is_even {
        rules.broken(path, "moves nothing, since all adapters are equally popular");
    }
    rules.lasting(&format!("{path}.interval_s"), drift.interval_s);
    rules.count(&format!("{path}.shift"), drift.shift);
    let count = mix.count();
    if drift.shift > 0 && drift.shift.is_multiple_of(count.max(1)) {
        let (rule, got) = ("must be no multiple of the number of adapters", drift.shift);
        let problem = format!("{rule}, {count}, got {got}: it moves nothing");
        rules.broken(&format!("{path}.shift"), &problem);
    }
}

/// Who says which adapter a request uses, where it is not drawn.
pub(super) fn given_rules(file: &ScenarioFile, rules: &mut Rules) {
    let named = file.trace.as_ref().is_some_and(|trace| trace.columns.adapter.is_some());
    let is_given = file.workload.adapters.as_ref().map(|mix| mix.popularity)
        == Some(AdapterPopularity::AsGiven {});
    let by_arrivals = matches!(file.workload.arrivals, ArrivalConfig::AdapterCounts(_));
    let path = "trace.columns.adapter";
    match (named, is_given, by_arrivals) {
        (true, false, _) => {
            rules.broken(path, "needs workload.adapters with a popularity of type as_given");
        }
        (true, true, true) => {
            rules.broken(path, "is given, but workload.arrivals of type adapter_counts say it too");
        }
        (false, true, false) => rules.broken(
            "workload.adapters.popularity",
            "as_given needs trace.columns.adapter, or arrivals of type adapter_counts",
        ),
        _ => {}
    }
}

/// Fills in what adapters take by default, where the workload has some or the engine is to serve
/// some.
pub(super) fn resolve(
    mix: Option<&AdapterMix>,
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
) -> Result<(), ScenarioError> {
    if mix.is_some() {
        cluster.lora.get_or_insert_default();
    }
    let Some(lora) = &mut cluster.lora else { return Ok(()) };
    let largest = mix.and_then(|mix| mix.ranks().max());
    let max_rank = *lora.max_rank.get_or_insert(largest.unwrap_or(VLLM_RANK));
    if let Some(rank) = largest.filter(|rank| *rank > max_rank) {
        let message = format!("must be at least the largest rank of the adapters, {rank}");
        return Err(fail("cluster.lora.max_rank", &format!("{message}, got {max_rank}")));
    }
    let slots = match &mut cluster.engine {
        EngineConfig::VllmV1(vllm) => {
            lora.kernels = lora.kernels.or(LoraKernels::VLLM);
            lora.per_passed_over_us.get_or_insert(LoraConfig::VLLM_PER_PASSED_OVER_US);
            *vllm.max_loras.get_or_insert(VLLM_SLOTS)
        }
        EngineConfig::Sglang(sglang) => {
            lora.kernels = lora.kernels.or(LoraKernels::SGLANG);
            *sglang.max_loras_per_batch.get_or_insert(SGLANG_SLOTS)
        }
        EngineConfig::Orca(orca) => {
            lora.kernels = lora.kernels.or(LoraKernels::DLORA);
            *orca.max_loras.get_or_insert(mix.map_or(1, AdapterMix::count))
        }
        _ => return Err(fail("cluster.lora", "this engine serves no adapters")),
    };
    let in_host = match &cluster.engine {
        EngineConfig::Sglang(_) | EngineConfig::Orca(_) => {
            lora.max_host_adapters.unwrap_or(u32::MAX)
        }
        _ => *lora.max_host_adapters.get_or_insert(slots),
    };
    if in_host < slots {
        let message = format!("must be at least the slots on the GPU, {slots}, got {in_host}");
        return Err(fail("cluster.lora.max_host_adapters", &message));
    }
    pinned_rules(lora, mix, (cluster.engine.name(), slots))?;
    shape(lora, model, cluster.tensor_parallel_size).map(|_| ())
}

/// SGLang keeps a slot for others (0.5.23, `sglang/srt/lora/lora_manager.py`, `validate_new_adapter`).
fn pinned_rules(
    lora: &LoraConfig,
    mix: Option<&AdapterMix>,
    (engine, slots): (&str, u32),
) -> Result<(), ScenarioError> {
    let (pinned, path) = (&lora.pinned, "cluster.lora.pinned");
    if pinned.is_empty() {
        return Ok(());
    }
    if engine != "sglang" {
        return Err(fail(path, &format!("is not modelled with engine {engine}")));
    }
    let Some(mix) = mix else { return Err(fail(path, "needs workload.adapters")) };
    let names: Vec<String> = mix.names().collect();
    if let Some(name) = pinned.iter().find(|name| !names.contains(name)) {
        return Err(fail(path, &format!("must be names of adapters, got `{name}`")));
    }
    if (1..pinned.len()).any(|place| pinned[..place].contains(&pinned[place])) {
        return Err(fail(path, &format!("must differ, got {pinned:?}")));
    }
    let most = slots - 1;
    if pinned.len() as u32 > most {
        let message = format!("must be at most max_loras_per_batch less one, {most}");
        return Err(fail(path, &format!("{message}, got {}", pinned.len())));
    }
    Ok(())
}

/// Times of its adapters, all of whose settings are filled in.
pub(super) fn times(
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<Option<LoraTimes>, ScenarioError> {
    let Some(lora) = &cluster.lora else { return Ok(None) };
    let shape = shape(lora, model, cluster.tensor_parallel_size)?;
    let slots = cluster.engine.adapter_slots().unwrap_or(0);
    let times = LoraTimes::new(&shape, slots, gpu, lora);
    times.map(Some).ok_or_else(|| fail("cluster.lora.kernels", "times of kernels are missing"))
}

fn shape(lora: &LoraConfig, model: &ModelSpec, tp: u32) -> Result<LoraShape, ScenarioError> {
    model.lora_shape(lora.modules, tp).map_err(|error| fail("cluster.lora", &error.to_string()))
}

/// The memory of the slots on each GPU.
pub(super) fn slot_bytes(
    cluster: &ClusterConfig,
    model: &ModelSpec,
    slots: Option<u32>,
) -> Result<Bytes, ScenarioError> {
    let Some(lora) = &cluster.lora else { return Ok(Bytes(0)) };
    let shape = shape(lora, model, cluster.tensor_parallel_size)?;
    let slot = shape.bytes(lora.max_rank.unwrap_or(VLLM_RANK));
    Ok(Bytes(u64::from(slots.unwrap_or(0)) * slot.0))
}

//! What SGLang keeps beside the tokens of layers that see everything: slots of windows, and of states.

use super::super::{Rules, ScenarioError, fail, kv};
use crate::engine::scheduler::{
    SglangHybrid, SglangSettings, SglangStatePool, SglangWindowPool, StateStrategy,
};
use crate::hardware::GpuSpec;
use crate::model::layout::{
    DraftLayers, Machine, MambaStrategy, SglangLayout, SglangPoolFlags, SglangPools,
};
use crate::model::{Drafter, ModelSpec};
use crate::scenario::{ClusterConfig, ReplicaRole, SglangConfig, WorkloadConfig};

/// Rules that need no look-up.
pub(super) fn rules(sglang: &SglangConfig, rules: &mut Rules) {
    let is_share = |share: f64| share > 0.0 && share <= 1.0;
    let is_ratio = |ratio: f64| ratio > 0.0 && ratio.is_finite();
    if let Some(share) = sglang.swa_full_tokens_ratio {
        let rule = "above 0 and at most 1";
        rules.check(is_share(share), "cluster.engine.swa_full_tokens_ratio", rule, share);
    }
    if let Some(ratio) = sglang.mamba_full_memory_ratio {
        rules.check(is_ratio(ratio), "cluster.engine.mamba_full_memory_ratio", "above 0", ratio);
    }
    for (key, count) in [
        ("max_mamba_cache_size", sglang.max_mamba_cache_size),
        ("mamba_track_interval", sglang.mamba_track_interval),
    ] {
        rules.count(&format!("cluster.engine.{key}"), count.unwrap_or(1));
    }
}

/// The pools of a model on the GPUs of a replica.
pub(super) fn layout(
    sglang: &SglangConfig,
    cluster: &ClusterConfig,
    (model, drafter): (&ModelSpec, Option<&Drafter>),
    gpu: &GpuSpec,
) -> SglangLayout {
    let flags = SglangPoolFlags {
        page_size: sglang.page_size,
        context_length: sglang.context_length,
        max_running_requests: sglang.max_running_requests,
        swa_full_tokens_ratio: sglang.swa_full_tokens_ratio,
        disable_hybrid_swa_memory: sglang.disable_hybrid_swa_memory,
        mamba_full_memory_ratio: sglang.mamba_full_memory_ratio,
        max_mamba_cache_size: sglang.max_mamba_cache_size,
        mamba_radix_cache_strategy: sglang.mamba_radix_cache_strategy,
        disable_radix_cache: sglang.disable_radix_cache,
        disable_overlap_schedule: sglang.disable_overlap_schedule,
        draft_layers: match drafter {
            Some(drafter) if drafter.is_own => DraftLayers::Own,
            Some(drafter) => DraftLayers::Beside(drafter.cached_layers()),
            None => DraftLayers::Beside(0),
        },
    };
    let machine = Machine { draft_tokens: sglang.drafts(), ..kv::machine(cluster, gpu) };
    SglangLayout::told(model, machine, &flags)
}

/// Fills in which states are kept, and with it whether steps overlap.
pub(super) fn choose_states(
    sglang: &mut SglangConfig,
    model: &ModelSpec,
    layout: &SglangLayout,
) -> Result<(), ScenarioError> {
    if layout.state_bytes == 0 {
        let given = [
            ("mamba_full_memory_ratio", sglang.mamba_full_memory_ratio.is_some()),
            ("max_mamba_cache_size", sglang.max_mamba_cache_size.is_some()),
            ("mamba_radix_cache_strategy", sglang.mamba_radix_cache_strategy.is_some()),
            ("mamba_track_interval", sglang.mamba_track_interval.is_some()),
        ];
        return match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => {
                let why = format!("must be left out: {} has no layers with states", model.name);
                Err(fail(&format!("cluster.engine.{key}"), &why))
            }
            None => Ok(()),
        };
    }
    let (asked, kept) = (sglang.mamba_radix_cache_strategy, layout.strategy);
    let no_effect = match kept {
        _ if asked.is_some() && kept != asked => {
            let why = match kept {
                None => "has no effect with disable_radix_cache".to_owned(),
                Some(_) => {
                    format!("must be `no_buffer` for {}, with which alone it runs", model.name)
                }
            };
            Some(("mamba_radix_cache_strategy", why))
        }
        Some(MambaStrategy::ExtraBuffer) => None,
        Some(MambaStrategy::NoBuffer) | None => sglang.mamba_track_interval.map(|_| {
            ("mamba_track_interval", "is of `extra_buffer`, with a radix cache".to_owned())
        }),
    };
    if let Some((key, why)) = no_effect {
        return Err(fail(&format!("cluster.engine.{key}"), &why));
    }
    if asked.is_none() {
        sglang.disable_overlap_schedule |= layout.strategy == Some(MambaStrategy::NoBuffer);
        sglang.mamba_radix_cache_strategy = layout.strategy;
    }
    Ok(())
}

/// Fills in how much the pools hold.
pub(super) fn fill(sglang: &mut SglangConfig, pools: SglangPools) -> Result<(), ScenarioError> {
    let whole = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    if let Some(slots) = pools.max_mamba_cache_size
        && pools.max_running_requests == 0
    {
        let why = format!("leaves {slots} slots for states, of which one request needs more");
        let key = match sglang.max_mamba_cache_size {
            Some(_) => "max_mamba_cache_size",
            None => "mamba_full_memory_ratio",
        };
        return Err(fail(&format!("cluster.engine.{key}"), &why));
    }
    sglang.max_running_requests = Some(whole(pools.max_running_requests).max(1));
    sglang.max_mamba_cache_size = pools.max_mamba_cache_size.map(whole);
    Ok(())
}

/// Adds to the settings of a scheduler what its model keeps beside the tokens of layers that see everything.
///
/// Where prompts share nothing no state is found again, and windows whose pool is large enough for all that may run
/// decide nothing: requests then go on as those of other models, which takes fast paths.
pub(in crate::resolved) fn keep(
    settings: &mut SglangSettings,
    (sglang, cluster): (&SglangConfig, &ClusterConfig),
    (model, gpu): (&ModelSpec, &GpuSpec),
    (workload, role): (&WorkloadConfig, ReplicaRole),
) -> Result<(), ScenarioError> {
    // What drafts has no say in which pools there are.
    let layout = layout(sglang, cluster, (model, None), gpu);
    let pools = layout.holding(settings.max_total_tokens.into(), None);
    let is_shared = workload.may_share_prefixes();
    if let (Some(strategy), Some(slots)) = (layout.strategy, sglang.max_mamba_cache_size) {
        let strategy = strategy_of(strategy, sglang, model);
        settings.hybrid = Some(SglangHybrid::State(SglangStatePool { slots, strategy }));
    } else if let (Some(window), Some(tokens)) = (layout.window, pools.swa_max_total_num_tokens)
        && role == ReplicaRole::Mixed
        && cluster.kv_tiers.is_none()
    {
        settings.hybrid = Some(SglangHybrid::Window(SglangWindowPool {
            window,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            eviction_interval: SglangWindowPool::EVICTION_INTERVAL,
        }));
    }
    if let Some((key, conflict)) = settings.conflict() {
        return Err(fail(&format!("cluster.engine.{key}"), &conflict));
    }
    let decides = match settings.hybrid {
        Some(SglangHybrid::Window(pool)) => is_shared || !is_never_short(pool, settings),
        Some(SglangHybrid::State(_)) | None => is_shared,
    };
    settings.hybrid = settings.hybrid.filter(|_| decides);
    Ok(())
}

/// Whether as many requests as may run at once, each with a window and what it has not given back yet, leave room for
/// the largest step.
fn is_never_short(pool: SglangWindowPool, settings: &SglangSettings) -> bool {
    let page = u64::from(settings.page_size);
    let each = u64::from(pool.window) + u64::from(pool.eviction_interval) + 2 * page;
    let step = settings.chunked_prefill_size.unwrap_or(settings.context_length);
    let prefill = 2 * u64::from(step.max(settings.max_prefill_tokens));
    u64::from(settings.max_running_requests) * each + prefill < u64::from(pool.tokens)
}

/// The strategy with its grid.
fn strategy_of(strategy: MambaStrategy, sglang: &SglangConfig, model: &ModelSpec) -> StateStrategy {
    match strategy {
        MambaStrategy::ExtraBuffer => StateStrategy::ExtraBuffer {
            chunk: model.state_chunk(),
            track_interval: sglang.mamba_track_interval.unwrap_or(StateStrategy::TRACK_INTERVAL),
        },
        MambaStrategy::NoBuffer => StateStrategy::NoBuffer,
    }
}

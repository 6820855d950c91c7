//! Rules and derived values of captured CUDA graphs.

use super::{Rules, ScenarioError, fail};
use crate::cost::{CapturedSizes, CudaGraphs};
use crate::hardware::GpuSpec;
use crate::scenario::{EngineConfig, SglangConfig, VllmConfig};

/// Captured sizes count something and ascend.
pub(super) fn size_rules(key: &str, sizes: Option<&Vec<u32>>, rules: &mut Rules) {
    let Some(sizes) = sizes else { return };
    let path = format!("cluster.engine.{key}");
    if sizes.is_empty() {
        rules.broken(&path, "must hold at least one size, got none");
    }
    rules.check(!sizes.contains(&0), &path, "sizes of at least 1", 0);
    let mut pairs = sizes.iter().zip(sizes.iter().skip(1));
    if let Some((first, second)) = pairs.find(|(first, second)| first >= second) {
        let message = format!("must ascend, got {first} before {second}");
        rules.broken(&path, &message);
    }
}

/// The largest of the captured sizes, where both are set, is the one that is said to be.
pub(super) fn largest_rule(
    (key, most): (&str, Option<u32>),
    (sizes_key, sizes): (&str, Option<&Vec<u32>>),
    rules: &mut Rules,
) {
    if let (Some(most), Some(&last)) = (most, sizes.and_then(|sizes| sizes.last())) {
        let rule = format!("the last of {sizes_key} ({last})");
        rules.check(most == last, &format!("cluster.engine.{key}"), &rule, most);
    }
}

/// Settings of graphs that are not captured would be ignored.
pub(super) fn ignored_rules(switch: &str, given: &[(&str, bool)], rules: &mut Rules) {
    for (key, _) in given.iter().filter(|(_, is_given)| *is_given) {
        let message = format!("has no effect with {switch}; leave one of them out");
        rules.broken(&format!("cluster.engine.{key}"), &message);
    }
}

pub(super) fn vllm_rules(vllm: &VllmConfig, rules: &mut Rules) {
    let (most, sizes) = (vllm.max_cudagraph_capture_size, vllm.cudagraph_capture_sizes.as_ref());
    if vllm.enforce_eager {
        let given = [
            ("max_cudagraph_capture_size", most.is_some()),
            ("cudagraph_capture_sizes", sizes.is_some()),
        ];
        ignored_rules("enforce_eager", &given, rules);
    }
    size_rules("cudagraph_capture_sizes", sizes, rules);
    rules.count("cluster.engine.max_cudagraph_capture_size", most.unwrap_or(1));
    let sizes = ("cudagraph_capture_sizes", sizes);
    largest_rule(("max_cudagraph_capture_size", most), sizes, rules);
}

/// Tokens of the largest step that vLLM captures on a GPU by itself: 1024 on GPUs of compute
/// capability 10, else 512 (vLLM 0.33.0, `vllm/config/vllm.py`).
fn capture_ceiling(gpu: &GpuSpec) -> u32 {
    if gpu.name.contains("B200") || gpu.name.contains("B300") { 1024 } else { 512 }
}

/// Fills in vLLM's captured sizes.
pub(super) fn resolve_vllm(vllm: &mut VllmConfig, gpu: &GpuSpec) -> Result<(), ScenarioError> {
    if vllm.enforce_eager {
        return Ok(());
    }
    let budget = vllm.max_num_batched_tokens.unwrap_or(1);
    let sizes = match (&vllm.cudagraph_capture_sizes, vllm.max_cudagraph_capture_size) {
        (Some(sizes), _) => sizes.clone(),
        (None, Some(most)) => vllm.capture_sizes_up_to(most),
        (None, None) => vllm.capture_sizes_for(capture_ceiling(gpu)),
    };
    let last = *sizes.last().unwrap_or(&1);
    if last > budget {
        let message = format!("must be at most max_num_batched_tokens ({budget}), got {last}");
        return Err(fail("cluster.engine.cudagraph_capture_sizes", &message));
    }
    vllm.max_cudagraph_capture_size = Some(last);
    vllm.cudagraph_capture_sizes = Some(sizes);
    Ok(())
}

/// The graphs that SGLang captures where every request of a decode batch has so many tokens.
pub(crate) fn captured_of_requests(config: &SglangConfig, tokens: u32) -> CudaGraphs {
    let requests = config.cuda_graph_bs_decode.iter().flatten();
    let decode = requests.map(|size| size.saturating_mul(tokens));
    let decode = if config.disable_cuda_graph_padding {
        CapturedSizes::exact(decode)
    } else {
        CapturedSizes::new(decode)
    };
    let prefill = config.cuda_graph_bs_prefill.iter().flatten().copied();
    CudaGraphs::new(decode, CapturedSizes::new(prefill))
}

/// The graphs that an engine captures; the baselines capture none.
pub(super) fn captured(engine: &EngineConfig) -> CudaGraphs {
    let sizes = |sizes: &Option<Vec<u32>>| CapturedSizes::new(sizes.iter().flatten().copied());
    match engine {
        EngineConfig::VllmV1(config) => {
            let sizes = sizes(&config.cudagraph_capture_sizes);
            CudaGraphs::new(sizes.clone(), sizes)
        }
        EngineConfig::Sglang(config) => {
            // Sizes are of requests, each of which has all its drafts in a step.
            let tokens = 1 + config.drafts();
            captured_of_requests(config, tokens)
        }
        EngineConfig::VllmV0(config) if !config.enforce_eager => {
            let decode = CapturedSizes::new(config.capture_sizes());
            CudaGraphs::new(decode, CapturedSizes::default()).up_to(config.max_seq_len_to_capture)
        }
        EngineConfig::VllmV0(_)
        | EngineConfig::Sarathi(_)
        | EngineConfig::Orca(_)
        | EngineConfig::FasterTransformer(_)
        | EngineConfig::StaticBatching(_) => CudaGraphs::default(),
    }
}

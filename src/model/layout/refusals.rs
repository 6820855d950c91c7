//! What engines do not start with, as far as it follows from the checkpoint, the GPUs and what is asked.

use std::fmt;

use super::{Machine, SglangLayout, VllmLayout};
use crate::model::checkpoint::{
    Checkpoint, Component, DraftModules, Drafts, Mixer, Packing, Place, Tensor,
};
use crate::model::precision::KvDtype;

/// The setting that an engine does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedSetting {
    /// The GPUs that share each layer.
    TensorParallel,
    /// The number format of the KV cache.
    KvCacheDtype,
    /// The drafted tokens.
    Drafts,
}

/// Why an engine does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// What it does not take.
    pub setting: RefusedSetting,
    /// Why.
    pub why: String,
}

fn refuse(setting: RefusedSetting, why: impl fmt::Display) -> Result<(), Refusal> {
    Err(Refusal { setting, why: why.to_string() })
}

impl VllmLayout {
    /// Whether vLLM 0.33.0 starts with a checkpoint on a machine, memory aside.
    ///
    /// # Errors
    /// When nothing drafts in the model, or not so many tokens (`config/speculative.py`); when kernels do not take
    /// caches of 8 bits; when GPUs would cut blocks of weights that share a scale
    /// (`layers/quantization/utils/fp8_utils.py`).
    pub fn check(model: &Checkpoint, machine: Machine) -> Result<(), Refusal> {
        check_drafts(model, machine)?;
        if let Some(modules) = model.draft_modules().map(|drafts| drafts.modules)
            && machine.draft_tokens > modules
            && !machine.draft_tokens.is_multiple_of(modules)
        {
            let got = machine.draft_tokens;
            let right = format!("must be at most {modules} or a multiple of it: {}", of(modules));
            return refuse(RefusedSetting::Drafts, format!("{right}, got {got}"));
        }
        let is_fp8 = model.stored_kv(machine) == KvDtype::Fp8;
        let is_uneven = |mixer: &Mixer| match mixer {
            Mixer::Grouped(grouped) => grouped.head_dim != grouped.value_dim,
            _ => false,
        };
        if is_fp8 && machine.is_blackwell() && model.each_mixer().any(is_uneven) {
            let why = "FlashAttention, which takes layers whose values have another width than keys, does not \
                       support an FP8 KV cache on Blackwell (vLLM 0.33.0)";
            return refuse(RefusedSetting::KvCacheDtype, why);
        }
        check_blocks(model, machine)
    }
}

impl SglangLayout {
    /// Whether SGLang 0.5.23 starts with a checkpoint on a machine, memory aside.
    ///
    /// # Errors
    /// When nothing drafts in the model, or not so many tokens (`srt/configs/model_config.py`,
    /// `srt/model_executor/pool_configurator.py`).
    pub fn check(model: &Checkpoint, machine: Machine) -> Result<(), Refusal> {
        check_drafts(model, machine)?;
        if machine.draft_tokens > 0 && model.family == "minimax_m3" {
            let why =
                format!("{} drafts in vLLM only; SGLang 0.5.23 has no class for it", model.name);
            return refuse(RefusedSetting::Drafts, why);
        }
        let is_compressed = |mixer: &Mixer| matches!(mixer, Mixer::Compressed(_));
        if machine.draft_tokens > DRAFTED_V4 && model.each_mixer().any(is_compressed) {
            let why = format!(
                "must be at most {DRAFTED_V4}, for which SGLang 0.5.23 keeps sums of compressed entries, got {}",
                machine.draft_tokens
            );
            return refuse(RefusedSetting::Drafts, why);
        }
        Ok(())
    }
}

/// Tokens that DeepSeek-V4 drafts at most in SGLang: rings of 16 sums for entries of eight tokens serve ten tokens a
/// step, one of which is not drafted (`srt/mem_cache/deepseek_v4_memory_pool.py`, `get_compress_state_write_pad`).
const DRAFTED_V4: u32 = 9;

fn of(modules: u32) -> String {
    match modules {
        1 => "one module drafts".to_owned(),
        modules => format!("{modules} modules draft"),
    }
}

pub(in crate::model) fn check_drafts(model: &Checkpoint, machine: Machine) -> Result<(), Refusal> {
    if machine.draft_tokens == 0 {
        return Ok(());
    }
    match &model.drafts {
        Drafts::Read(DraftModules { .. }) => Ok(()),
        Drafts::None => {
            refuse(RefusedSetting::Drafts, format!("{} has no layers that draft", model.name))
        }
        Drafts::Unread { modules, why } => {
            refuse(RefusedSetting::Drafts, format!("{}: {}, but {why}", model.name, of(*modules)))
        }
    }
}

/// Blocks of outputs may be cut, blocks of inputs not.
fn check_blocks(model: &Checkpoint, machine: Machine) -> Result<(), Refusal> {
    let Some(weights) = model.quantization.as_ref().filter(|_| machine.tp > 1) else {
        return Ok(());
    };
    let layers = model.layers.iter().enumerate().flat_map(|(index, layer)| {
        let tensors = model.layer_tensors(layer, machine.tp).into_iter();
        tensors.map(move |tensor| (Place::Layer(index), tensor))
    });
    let drafts =
        if machine.draft_tokens > 0 { model.draft_tensors(machine.tp) } else { Vec::new() };
    for (place, tensor) in layers.chain(drafts) {
        let Some(Packing::Fp8Blocks { block: [_, inputs], .. }) = weights.packing(place, &tensor)
        else {
            continue;
        };
        if has_shared_inputs(model, &tensor) && !tensor.inputs.is_multiple_of(u64::from(inputs)) {
            let why = format!(
                "{}: each of {} GPUs has {} of the inputs of `{}`, which are no whole blocks of {inputs} that share \
                 a scale",
                model.name, machine.tp, tensor.inputs, tensor.name
            );
            return refuse(RefusedSetting::TensorParallel, why);
        }
    }
    Ok(())
}

/// Whether GPUs share the inputs of a matrix, and vLLM takes whole blocks only: it refines those of routed experts, and
/// pads the shared experts of DeepSeek-V4.
fn has_shared_inputs(model: &Checkpoint, tensor: &Tensor) -> bool {
    let is_padded = model.family == "deepseek_v4" && tensor.component == Component::SharedExperts;
    let ends = ["down_proj", "o_proj", "out_proj", "wo_b"];
    tensor.component != Component::RoutedExperts
        && !is_padded
        && ends.iter().any(|end| tensor.name.ends_with(end))
}

//! What stands around the layers.

use super::families::Family;
use super::known;
use crate::model::checkpoint::Tower;
use crate::model::checkpoint::towers::Projector;
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;

/// What vLLM takes where a config names no bound and positions need none.
const UNBOUND: u32 = 2048;

/// The longest context in tokens, as each engine derives it where nobody asks for another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// vLLM's (0.33.0, `config/model.py`).
    pub(super) vllm: u32,
    /// SGLang's (0.5.23, `srt/utils/hf_transformers/common.py`).
    pub(super) sglang: u32,
}

/// How far positions reach, and the stretched ones.
pub(super) fn reach(keys: &Keys<'_>, family: &Family) -> Result<Reach, ModelError> {
    let names = ["max_position_embeddings", "max_seq_len", "seq_length", "n_positions"];
    let named = match keys.optional(&names)? {
        None if family.is(&["bloom"]) => UNBOUND,
        _ => keys.required(&names)?,
    };
    let original = keys.optional(&["original_max_position_embeddings"])?;
    let plain = Reach { vllm: named, sglang: named };
    let mut longest = plain;
    for name in ["rope_scaling", "rope_parameters"] {
        let Some(rope) = keys.object(name)? else { continue };
        // Some have one for each kind of layer.
        let kinds = ["full_attention", "sliding_attention"];
        for kind in kinds {
            if let Some(rope) = rope.object(kind)? {
                let reach = stretched(&rope, named, original, family)?;
                longest.vllm = longest.vllm.max(reach.vllm);
            }
        }
        if !kinds.iter().any(|kind| rope.find(&[kind]).is_some()) {
            let reach = stretched(&rope, named, original, family)?;
            if reach.vllm != named {
                longest.vllm = reach.vllm;
            }
            longest.sglang = longest.sglang.max(reach.sglang);
        }
        rope.refuse_the_rest(&known::rope())?;
    }
    Ok(longest)
}

fn stretched(
    rope: &Keys<'_>,
    named: u32,
    original: Option<u32>,
    family: &Family,
) -> Result<Reach, ModelError> {
    let kind = rope.text(&["rope_type", "type"])?.unwrap_or("default");
    let factor = rope.number("factor")?.unwrap_or(1.0);
    let says_original = rope.optional(&["original_max_position_embeddings"])?.is_some();
    let times = (f64::from(named) * factor) as u32;
    let vllm = match kind {
        // What is named is stretched already: `_get_and_verify_max_len` of vLLM 0.33.0 (`vllm/config/model.py`) leaves
        // out the factor of YaRN.
        "default" | "llama3" | "mrope" | "proportional" | "yarn" | "deepseek_yarn" => named,
        // Longer contexts would cost short ones quality.
        "longrope" | "su" => original.unwrap_or(named),
        "linear" | "dynamic" if family.is(&["gemma3_text"]) => named,
        "linear" | "dynamic" => times,
        other => {
            let known =
                "default, llama3, longrope, su, mrope, proportional, linear, dynamic or yarn";
            return Err(rope.error("rope_type", format!("must be {known}, got {other}")));
        }
    };
    let sglang = if says_original || kind == "llama3" { named } else { times };
    rope.refuse_the_rest(&known::rope())?;
    Ok(Reach { vllm, sglang })
}

/// The encoder of images of a model of this width.
pub(super) fn tower(
    outer: &Keys<'_>,
    hidden: u32,
    family: &Family,
    is_nested: bool,
) -> Result<Option<Tower>, ModelError> {
    // The same as in the part of the encoder.
    outer.pass("img_token_compression_config");
    if outer.optional(&["projector_hidden_size"])?.is_some_and(|size| size != hidden) {
        return Err(
            outer.error("projector_hidden_size", format!("must be the hidden size, {hidden}"))
        );
    }
    // Without its own biases only the projector of Mistral 3 is read.
    let projector = Projector {
        has_bias: outer.flag(&["multimodal_projector_bias"])?,
        merged: outer.optional(&["spatial_merge_size"])?.unwrap_or(2),
    };
    match outer.object("vision_config")?.filter(|vision| vision.entries().next().is_some()) {
        Some(vision) => Tower::read(&vision, u64::from(hidden), projector).map(Some),
        None if is_nested && family.is(&["llama4_text"]) => {
            Ok(Some(Tower::of_llama4(u64::from(hidden))))
        }
        None => Ok(None),
    }
}

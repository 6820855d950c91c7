//! What stands around the layers.

use super::families::Family;
use crate::model::checkpoint::Tower;
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;
use crate::model::hf::known;

/// The longest context in tokens, as vLLM 0.33 derives it: positions that are stretched reach further.
pub(super) fn reach(keys: &Keys<'_>) -> Result<u32, ModelError> {
    let reach = keys.required(&["max_position_embeddings", "max_seq_len", "seq_length"])?;
    let mut longest = reach;
    for name in ["rope_scaling", "rope_parameters"] {
        let Some(rope) = keys.object(name)? else { continue };
        // Some have one for each kind of layer.
        let kinds = ["full_attention", "sliding_attention"];
        for kind in kinds {
            if let Some(rope) = rope.object(kind)? {
                longest = longest.max(stretched(&rope, reach)?);
            }
        }
        if !kinds.iter().any(|kind| rope.find(&[kind]).is_some()) {
            longest = longest.max(stretched(&rope, reach)?);
        }
        rope.refuse_the_rest(known::ROPE)?;
    }
    Ok(longest)
}

fn stretched(rope: &Keys<'_>, reach: u32) -> Result<u32, ModelError> {
    let kind = rope.text(&["rope_type", "type"])?.unwrap_or("default");
    let factor = rope.number("factor")?;
    let original = rope.optional(&["original_max_position_embeddings"])?;
    let stretched = |from: u32| (f64::from(from) * factor.unwrap_or(1.0)) as u32;
    let longest = match kind {
        "default" | "llama3" | "longrope" | "su" | "mrope" | "proportional" => reach,
        "linear" | "dynamic" => stretched(reach),
        "yarn" | "deepseek_yarn" => stretched(original.unwrap_or(reach)),
        other => {
            let known =
                "default, llama3, longrope, su, mrope, proportional, linear, dynamic or yarn";
            return Err(rope.error("rope_type", format!("must be {known}, got {other}")));
        }
    };
    rope.refuse_the_rest(known::ROPE)?;
    Ok(longest)
}

/// The encoder of images of a model of this width.
pub(super) fn tower(
    outer: &Keys<'_>,
    hidden: u32,
    family: &Family,
) -> Result<Option<Tower>, ModelError> {
    // The same as in the part of the encoder.
    outer.pass("img_token_compression_config");
    if outer.flag(&["multimodal_projector_bias"])? == Some(false) {
        return Err(outer.error("multimodal_projector_bias", "must be true"));
    }
    if outer.optional(&["projector_hidden_size"])?.is_some_and(|size| size != hidden) {
        return Err(
            outer.error("projector_hidden_size", format!("must be the hidden size, {hidden}"))
        );
    }
    match outer.object("vision_config")? {
        Some(vision) => Tower::read(&vision, u64::from(hidden)).map(Some),
        None if family.is(&["llama4_text"]) => Ok(Some(Tower::of_llama4(u64::from(hidden)))),
        None => Ok(None),
    }
}

//! Layers that draft.
//!
//! Configs say little of them: how many there are, and in some families of which kind. What else they are made of
//! follows from the layers of the model, as vLLM 0.33.0 builds them (`config/speculative.py`,
//! `model_executor/models/*_mtp.py`).

use super::families::Family;
use crate::model::checkpoint::{
    Compressed, DenseMlp, DraftModules, Drafts, GroupedAttention, Join, Layer, Mixer, Reach,
};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;

/// Modules that no model has.
const MODULES_MAX: u32 = 64;

/// What the modules of a family are made of, or why that is not known.
type Made = Result<Vec<Layer>, &'static str>;

pub(super) fn read(
    keys: &Keys<'_>,
    family: &Family,
    architecture: &str,
    layers: &[Layer],
) -> Result<Drafts, ModelError> {
    let nextn = keys.optional(&["num_nextn_predict_layers"])?;
    let modules = match family.types[0] {
        "qwen3_5_text" => keys.optional(&["mtp_num_hidden_layers"])?,
        "minimax_m2" | "minimax_m3" => keys.optional(&["num_mtp_modules"])?.or(nextn),
        // Their checkpoints have such layers though the config may be silent; of MiMo-V2's engines take the first.
        "mimo_v2_flash" => Some(1),
        "qwen3_next" => nextn.or(Some(1)),
        _ => nextn,
    };
    let Some(modules) = modules.filter(|modules| *modules > 0) else { return Ok(Drafts::None) };
    if modules > MODULES_MAX {
        let problem = format!("must be at most {MODULES_MAX}, got {modules}");
        return Err(keys.error("num_nextn_predict_layers", problem));
    }
    let made = match family.types[0] {
        "deepseek_v3" | "deepseek_v32" | "glm_moe_dsa" | "glm4_moe" => {
            each(modules, like(layers, |layer| layer.experts.is_some() && chooses(layer)))
        }
        "mimo" => each(modules, like(layers, |_| true)),
        "deepseek_v4" => compressed(keys, layers, modules)?,
        "mimo_v2_flash" => each(modules, mimo_v2(keys, layers)?),
        "qwen3_next" | "qwen3_5_text" => {
            each(modules, like(layers, |layer| matches!(layer.mixer, Some(Mixer::Grouped(_)))))
        }
        // The language model on its own has another class, which engines do not draft with.
        "minimax_m3" if architecture == "MiniMaxM3SparseForConditionalGeneration" => {
            let is_sparse = |layer: &Layer| {
                let attention = grouped(layer).and_then(|attention| attention.indexer);
                layer.experts.is_some() && attention.is_some()
            };
            each(modules, like(layers, is_sparse))
        }
        "nemotron_h" => nemotron_h(keys, layers, modules)?,
        "step3p5" => Err("`layer_types` names none of them, by which engines know their kind"),
        _ => Err("engines have no class for those of its architecture"),
    };
    let join = match family.types[0] {
        "deepseek_v4" => Join::Apart("e_proj", "h_proj"),
        "qwen3_next" | "qwen3_5_text" => Join::Shared("fc"),
        "nemotron_h" => Join::Shared("eh_proj"),
        "minimax_m3" => Join::Whole(Some("eh_proj")),
        _ => Join::Whole(None),
    };
    Ok(match made {
        Ok(layers) => Drafts::Read(DraftModules {
            modules,
            layers,
            join,
            is_joined_once: matches!(join, Join::Shared("fc")),
            has_head: family.is(&[
                "deepseek_v3",
                "deepseek_v32",
                "deepseek_v4",
                "glm4_moe",
                "glm_moe_dsa",
            ]),
            nextn,
        }),
        Err(why) => Drafts::Unread { modules, why: why.to_owned() },
    })
}

/// One layer for each module.
fn each(modules: u32, layer: Result<Layer, &'static str>) -> Made {
    layer.map(|layer| vec![layer; modules as usize])
}

/// The last layer of a kind.
fn like(layers: &[Layer], is: impl Fn(&Layer) -> bool) -> Result<Layer, &'static str> {
    let found = layers.iter().rev().find(|layer| is(layer));
    found.copied().ok_or("the model has no layer of the kind that they are")
}

const fn grouped(layer: &Layer) -> Option<&GroupedAttention> {
    match &layer.mixer {
        Some(Mixer::Grouped(attention)) => Some(attention),
        _ => None,
    }
}

/// Whether it has an indexer of its own where it needs one: layers that draft share none.
fn chooses(layer: &Layer) -> bool {
    match &layer.mixer {
        Some(Mixer::Latent(latent)) => !latent.is_sparse || latent.indexer.is_some(),
        _ => true,
    }
}

/// Layers that draft have entries in `compress_ratios` behind those of the model, and experts that a router chooses.
fn compressed(keys: &Keys<'_>, layers: &[Layer], modules: u32) -> Result<Made, ModelError> {
    let ratios = keys.whole_numbers("compress_ratios")?.unwrap_or_default();
    let Some(ratios) = ratios.get(layers.len()..layers.len() + modules as usize) else {
        return Ok(Err("`compress_ratios` has no entries for them"));
    };
    let routed = |layer: &Layer| layer.experts.is_some_and(|experts| !experts.router.table);
    let Ok(last) = like(layers, routed) else {
        return Ok(Err("the model has no layer whose router chooses its experts"));
    };
    if ratios.iter().any(|ratio| *ratio != 0) {
        return Ok(Err("`compress_ratios` gives them more than a window"));
    }
    let mixer = last.mixer.map(|mixer| match mixer {
        Mixer::Compressed(shape) => {
            Mixer::Compressed(Compressed { ratio: 0, indexer: None, ..shape })
        }
        other => other,
    });
    Ok(Ok(vec![Layer { mixer, ..last }; modules as usize]))
}

/// MiMo-V2's see a window, and have a dense MLP.
fn mimo_v2(keys: &Keys<'_>, layers: &[Layer]) -> Result<Result<Layer, &'static str>, ModelError> {
    let width = keys.required(&["intermediate_size"])?;
    let has_window = |layer: &Layer| {
        grouped(layer).is_some_and(|attention| matches!(attention.reach, Reach::Window(_)))
    };
    let dense = Some(DenseMlp { width, gated: true, bias: false });
    Ok(like(layers, has_window).map(|layer| Layer { dense, experts: None, ..layer }))
}

/// Nemotron-H names the layers of a module as it does those of the model.
fn nemotron_h(keys: &Keys<'_>, layers: &[Layer], modules: u32) -> Result<Made, ModelError> {
    let letters = keys.text(&["mtp_hybrid_override_pattern"])?;
    let words = keys.list("mtp_layers_block_type")?.unwrap_or_default();
    let words = words.iter().map(|word| word.as_str().unwrap_or_default());
    let kinds: Vec<&str> = match letters {
        Some(letters) => letters.split("").filter(|letter| !letter.is_empty()).collect(),
        None => words.collect(),
    };
    if modules != 1 || kinds.is_empty() {
        return Ok(Err("engines take one module whose layers are named"));
    }
    let layer = |kind: &&str| match *kind {
        "*" | "attention" => like(layers, |layer| grouped(layer).is_some()),
        "E" | "moe" => like(layers, |layer| layer.experts.is_some()),
        _ => Err("engines know only attention and experts among them"),
    };
    Ok(kinds.iter().map(layer).collect())
}

//! Layers of several kinds of mixers, and those that hold more than one.

use serde_json::Value;

use super::families::Family;
use super::layers::count;
use super::{mixers, mlps, states};
use crate::model::checkpoint::{Layer, Mixer, ShortConv};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;

const NOTHING: Layer = Layer { mixer: None, dense: None, experts: None, norms: 0 };

/// Falcon-H1: every layer has a state space and attention side by side. They are two entries of the list here, the
/// MLP with the attention.
pub(super) fn falcon_h1(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
) -> Result<Vec<Layer>, ModelError> {
    let count = count(keys)?;
    if keys.flag(&["projectors_bias"])? == Some(true) {
        return Err(keys.error("projectors_bias", "must be false"));
    }
    let attention = Mixer::Grouped(mixers::grouped(keys, family, hidden)?);
    let mut state = states::mamba2(keys, hidden)?;
    // Its class says no where the config says nothing.
    state.has_norm = keys.flag(&["mamba_rms_norm"])?.unwrap_or(false);
    let dense = Some(mlps::dense(keys, family)?);
    let pair = [
        Layer { mixer: Some(attention), dense, norms: 2, ..NOTHING },
        Layer { mixer: Some(Mixer::StateSpace(state)), ..NOTHING },
    ];
    Ok((0..count).flat_map(|_| pair).collect())
}

/// Granite 4: `layer_types` says which layers are attention; each has experts and a shared one, or that alone.
pub(super) fn granite(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
) -> Result<Vec<Layer>, ModelError> {
    let count = count(keys)?;
    let kinds = kinds(keys, &["layer_types", "layers_block_type"], count)?;
    let attention = Mixer::Grouped(mixers::grouped(keys, family, hidden)?);
    let state = Mixer::StateSpace(states::mamba2(keys, hidden)?);
    let shared = keys.optional(&["shared_intermediate_size"])?.unwrap_or(0);
    let has_experts = keys.optional(&["num_local_experts", "num_experts"])?.unwrap_or(0) > 0;
    keys.pass("intermediate_size");
    keys.pass("position_embedding_type");
    let rest = if has_experts {
        Layer { experts: Some(mlps::experts(keys, family)?), ..NOTHING }
    } else {
        keys.pass("num_experts_per_tok");
        Layer { dense: Some(mlps::gated(shared)), ..NOTHING }
    };
    let layer = |kind: &str| {
        let mixer = match kind {
            "attention" | "full_attention" => attention,
            "mamba" | "linear_attention" => state,
            other => return Err(other_kind(keys, "layer_types", other)),
        };
        Ok(Layer { mixer: Some(mixer), norms: 2, ..rest })
    };
    kinds.into_iter().map(layer).collect()
}

/// Jamba: attention and experts every so many layers.
pub(super) fn jamba(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
) -> Result<Vec<Layer>, ModelError> {
    let count = count(keys)?;
    let attention = Mixer::Grouped(mixers::grouped(keys, family, hidden)?);
    let state = Mixer::Selective(states::selective(keys, hidden)?);
    let every = |period: &'static str, usual: u32, offset: &'static str, first: u32| {
        let period = keys.optional(&[period])?.unwrap_or(usual).max(1);
        let offset = keys.optional(&[offset])?.unwrap_or(first);
        Ok(move |index: u32| index % period == offset)
    };
    let is_attention = every("attn_layer_period", 8, "attn_layer_offset", 4)?;
    let has_experts = every("expert_layer_period", 2, "expert_layer_offset", 1)?;
    for name in ["layers_block_type", "layers_num_experts", "use_associative_scan", "use_mambapy"] {
        keys.pass(name);
    }
    let (dense, experts) = (mlps::dense(keys, family)?, mlps::experts(keys, family)?);
    let has_several = experts.count > 1;
    let layer = |index: u32| {
        let mixer = if is_attention(index) { attention } else { state };
        let is_sparse = has_several && has_experts(index);
        let (dense, experts) = if is_sparse { (None, Some(experts)) } else { (Some(dense), None) };
        Layer { mixer: Some(mixer), dense, experts, norms: 2 }
    };
    Ok((0..count).map(layer).collect())
}

/// LFM2: `layer_types`, or a list of those with attention.
pub(super) fn lfm2(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
) -> Result<Vec<Layer>, ModelError> {
    let count = count(keys)?;
    let full = keys.whole_numbers("full_attn_idxs")?;
    let attention = Mixer::Grouped(mixers::grouped(keys, family, hidden)?);
    for (name, right) in [("conv_dim", hidden), ("conv_dim_out", hidden)] {
        if keys.optional(&[name])?.is_some_and(|size| size != right) {
            return Err(keys.error(name, format!("must be the hidden size, {right}")));
        }
    }
    keys.pass("conv_use_xavier_init");
    let conv = Mixer::ShortConv(ShortConv {
        channels: hidden,
        conv_kernel: keys.required(&["conv_L_cache"])?,
        bias: keys.flag(&["conv_bias"])?.unwrap_or(false),
    });
    let is_full: Vec<bool> = match (keys.list("layer_types")?, full) {
        (Some(_), _) => {
            let is_full = |kind: &str| match kind {
                "full_attention" => Ok(true),
                "conv" | "short_conv" => Ok(false),
                other => Err(other_kind(keys, "layer_types", other)),
            };
            kinds(keys, &["layer_types"], count)?
                .into_iter()
                .map(is_full)
                .collect::<Result<_, _>>()?
        }
        (None, Some(full)) => (0..count).map(|index| full.contains(&u64::from(index))).collect(),
        (None, None) => return Err(keys.error("layer_types", "is missing")),
    };
    let mlps = mlps::read(keys, family, count)?;
    let layer = |(is_full, mlp): (bool, Layer)| {
        let mixer = if is_full { attention } else { conv };
        Layer { mixer: Some(mixer), norms: 2, ..mlp }
    };
    Ok(is_full.into_iter().zip(mlps).map(layer).collect())
}

/// LongCat-Flash: every layer is two of attention and a dense MLP, and experts beside them, some of which do nothing.
pub(super) fn longcat(keys: &Keys<'_>, family: &Family) -> Result<Vec<Layer>, ModelError> {
    let count = keys.required(&["num_layers"])?;
    let latent = Mixer::Latent(mixers::latent(keys)?);
    keys.pass("num_hidden_layers");
    for name in ["mla_scale_q_lora", "mla_scale_kv_lora", "zero_expert_type"] {
        keys.pass(name);
    }
    let dense = Some(mlps::gated(keys.required(&["ffn_hidden_size", "intermediate_size"])?));
    let experts = Some(mlps::experts(keys, family)?);
    let plain = Layer { mixer: Some(latent), dense, experts: None, norms: 2 };
    let pair = [Layer { experts, ..plain }, plain];
    Ok((0..count).flat_map(|_| pair).collect())
}

/// The words of the first of these lists that is there, one for each layer.
fn kinds<'a>(
    keys: &Keys<'a>,
    names: &[&'static str],
    count: u32,
) -> Result<Vec<&'a str>, ModelError> {
    let Some((name, value)) = keys.find(names) else {
        return Err(keys.error(names[0], "is missing"));
    };
    let list = value.as_array().ok_or_else(|| keys.must_be(name, "a list", value))?;
    if list.len() != count as usize {
        return Err(keys.error(name, format!("must name {count} layers, got {}", list.len())));
    }
    Ok(list.iter().map(|word: &'a Value| word.as_str().unwrap_or_default()).collect())
}

fn other_kind(keys: &Keys<'_>, name: &str, got: &str) -> ModelError {
    keys.error(name, format!("must be of kinds that this family has, got {got:?}"))
}

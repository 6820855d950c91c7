//! Mixers that keep states in place of keys and values.

use super::families::Family;
use super::mixers;
use crate::model::checkpoint::{
    DeltaNet, Gate, GroupedAttention, KimiDelta, Mixer, Selective, StateSpace,
};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;

/// Gated delta nets in those layers that `layer_types` says, else all but every `full_attention_interval`-th.
pub(super) fn delta(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
    count: u32,
) -> Result<Vec<Mixer>, ModelError> {
    let gated = keys.flag(&["attn_output_gate"])?.unwrap_or(!family.is(&["olmo_hybrid"]));
    let gate = if gated { Gate::Elements } else { Gate::None };
    let attention = GroupedAttention { gate, ..mixers::grouped(keys, family, hidden)? };
    let net = DeltaNet {
        key_heads: keys.required(&["linear_num_key_heads"])?,
        value_heads: keys.required(&["linear_num_value_heads"])?,
        key_dim: keys.required(&["linear_key_head_dim"])?,
        value_dim: keys.required(&["linear_value_head_dim"])?,
        conv_kernel: keys.required(&["linear_conv_kernel_dim"])?,
        is_wide: keys.text(&["mamba_ssm_dtype"])?.is_some_and(is_wide),
    };
    if let Some(dtype) = keys.text(&["mamba_ssm_dtype"])?.filter(|dtype| !is_wide(dtype)) {
        return Err(keys.error("mamba_ssm_dtype", format!("must be float32, got {dtype}")));
    }
    let interval = keys.optional(&["full_attention_interval"])?.unwrap_or(4).max(1);
    let kinds = keys.list("layer_types")?;
    if let Some(kinds) = kinds.filter(|kinds| kinds.len() != count as usize) {
        return Err(
            keys.error("layer_types", format!("must name {count} layers, got {}", kinds.len()))
        );
    }
    let mixer = |index: u32| {
        let is_full = match kinds.and_then(|kinds| kinds.get(index as usize)) {
            None => (index + 1).is_multiple_of(interval),
            Some(kind) => match kind.as_str().unwrap_or_default() {
                "full_attention" => true,
                "linear_attention" => false,
                other => {
                    let problem = format!("must be full or linear attention, got {other}");
                    return Err(keys.error("layer_types", problem));
                }
            },
        };
        Ok(if is_full { Mixer::Grouped(attention) } else { Mixer::Delta(net) })
    };
    (0..count).map(mixer).collect()
}

pub(super) fn kimi(keys: &Keys<'_>, count: u32) -> Result<Vec<Mixer>, ModelError> {
    let latent = mixers::latent(keys)?;
    let Some(linear) = keys.object("linear_attn_config")? else {
        return Err(keys.error("linear_attn_config", "is missing"));
    };
    let delta = KimiDelta {
        heads: linear.required(&["num_heads"])?,
        head_dim: linear.required(&["head_dim"])?,
        conv_kernel: linear.required(&["short_conv_kernel_size"])?,
        has_full_rank_gate: linear.flag(&["use_full_rank_gate"])?.unwrap_or(false),
    };
    // Both lists count layers from one.
    let full = linear.whole_numbers("full_attn_layers")?.unwrap_or_default();
    let delta_layers = linear.whole_numbers("kda_layers")?;
    if delta_layers.is_some_and(|layers| layers.len() + full.len() != count as usize) {
        return Err(linear.error(
            "kda_layers",
            format!("must be those of {count} layers that are not in full_attn_layers"),
        ));
    }
    linear.refuse_the_rest(crate::model::hf::known::LINEAR_ATTENTION)?;
    let mixer = |index: u32| {
        if full.contains(&u64::from(index + 1)) {
            Mixer::Latent(latent)
        } else {
            Mixer::KimiDelta(delta)
        }
    };
    Ok((0..count).map(mixer).collect())
}

fn is_wide(dtype: &str) -> bool {
    dtype == "float32"
}

/// Tokens that a kernel takes at once where the config does not say, as transformers has them.
const NEMOTRON_CHUNK: u32 = 128;
const MAMBA2_CHUNK: u32 = 256;

pub(super) fn state_space(keys: &Keys<'_>) -> Result<StateSpace, ModelError> {
    let state = StateSpace {
        heads: keys.required(&["mamba_num_heads"])?,
        head_dim: keys.required(&["mamba_head_dim"])?,
        state: keys.required(&["ssm_state_size"])?,
        groups: keys.required(&["n_groups"])?,
        conv_kernel: keys.required(&["conv_kernel"])?,
        conv_bias: keys.flag(&["use_conv_bias"])?.unwrap_or(true),
        proj_bias: keys.flag(&["mamba_proj_bias"])?.unwrap_or(false),
        has_norm: true,
        is_wide: true,
        chunk: keys.optional(&["chunk_size"])?.unwrap_or(NEMOTRON_CHUNK),
    };
    if let Some(dtype) = keys.text(&["mamba_ssm_cache_dtype"])?
        && dtype != "float32"
    {
        return Err(keys.error("mamba_ssm_cache_dtype", format!("must be float32, got {dtype}")));
    }
    // It follows from the heads.
    keys.pass("expand");
    keys.pass("time_step_rank");
    Ok(state)
}

/// What Falcon-H1 and Granite 4 call the parts of a Mamba-2 layer.
pub(super) fn mamba2(keys: &Keys<'_>, hidden: u32) -> Result<StateSpace, ModelError> {
    let heads = keys.required(&["mamba_n_heads"])?;
    let expanded = keys.optional(&["mamba_expand"])?.unwrap_or(2).checked_mul(hidden);
    let expanded = expanded.ok_or_else(|| keys.error("mamba_expand", "is too large"))?;
    let width = keys.optional(&["mamba_d_ssm"])?.unwrap_or(expanded);
    if !width.is_multiple_of(heads) {
        let problem = format!("must divide the width of the states, {width}, got {heads}");
        return Err(keys.error("mamba_n_heads", problem));
    }
    let head_dim = width / heads;
    let is_auto = |value: &serde_json::Value| value.as_str() == Some("auto");
    if !keys.find(&["mamba_d_head"]).is_some_and(|(_, value)| is_auto(value))
        && keys.optional(&["mamba_d_head"])?.is_some_and(|size| size != head_dim)
    {
        return Err(keys.error("mamba_d_head", format!("must be {head_dim}, or auto")));
    }
    // Norms before and behind the gate are as large.
    keys.pass("mamba_norm_before_gate");
    Ok(StateSpace {
        heads,
        head_dim,
        state: keys.required(&["mamba_d_state"])?,
        groups: keys.required(&["mamba_n_groups"])?,
        conv_kernel: keys.required(&["mamba_d_conv"])?,
        conv_bias: keys.flag(&["mamba_conv_bias"])?.unwrap_or(true),
        proj_bias: keys.flag(&["mamba_proj_bias"])?.unwrap_or(false),
        has_norm: keys.flag(&["mamba_rms_norm"])?.unwrap_or(true),
        is_wide: false,
        chunk: keys.optional(&["mamba_chunk_size"])?.unwrap_or(MAMBA2_CHUNK),
    })
}

/// A Mamba layer of Jamba.
pub(super) fn selective(keys: &Keys<'_>, hidden: u32) -> Result<Selective, ModelError> {
    let channels = keys.optional(&["mamba_expand"])?.unwrap_or(2).checked_mul(hidden);
    let is_auto = |value: &serde_json::Value| value.as_str() == Some("auto");
    let step_rank = match keys.find(&["mamba_dt_rank"]) {
        Some((_, value)) if !is_auto(value) => keys.required(&["mamba_dt_rank"])?,
        _ => hidden.div_ceil(16),
    };
    Ok(Selective {
        channels: channels.ok_or_else(|| keys.error("mamba_expand", "is too large"))?,
        state: keys.required(&["mamba_d_state"])?,
        step_rank,
        conv_kernel: keys.required(&["mamba_d_conv"])?,
        conv_bias: keys.flag(&["mamba_conv_bias"])?.unwrap_or(true),
        proj_bias: keys.flag(&["mamba_proj_bias"])?.unwrap_or(false),
    })
}

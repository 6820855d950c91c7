//! What follows the mixer in each layer.

use super::families::{Family, Layers};
use crate::model::checkpoint::{DenseMlp, Experts, Layer, Router};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;
use crate::model::hf::read_router_method;

const NOTHING: Layer = Layer { mixer: None, dense: None, experts: None, norms: 0 };

/// The MLP or the experts of each layer, or both (Gemma 4).
pub(super) fn read(keys: &Keys<'_>, family: &Family, count: u32) -> Result<Vec<Layer>, ModelError> {
    if family.is(&["ernie4_5_moe"]) {
        keys.pass("use_moe");
    }
    let names = ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"];
    let may_have_experts = !matches!(family.layers, Layers::Dense);
    let has_both = family.is(&["gemma4_text"]);
    let may_lack_them = family.is(&[
        "gemma4_text",
        "qwen3_5_text",
        "deepseek_v2",
        "lfm2",
        "minicpm3",
        "olmo_hybrid",
    ]);
    let count_of_experts = if may_have_experts { keys.optional(&names)? } else { None };
    if may_have_experts && !may_lack_them {
        keys.required(&names)?;
    }
    let has_experts = count_of_experts.unwrap_or(0) > 0;
    if has_both && keys.flag(&["enable_moe_block"])?.unwrap_or(false) != has_experts {
        return Err(
            keys.error("enable_moe_block", "must be true where there are experts, and only there")
        );
    }
    // Files of models without dense layers name a width all the same.
    keys.pass("intermediate_size");
    if !has_experts {
        if let Some(layers) = keys.list("mlp_only_layers")?
            && !layers.is_empty()
        {
            return Err(keys.error("mlp_only_layers", "must be empty without experts"));
        }
        let dense = Some(dense(keys, family)?);
        return Ok(vec![Layer { dense, ..NOTHING }; count as usize]);
    }
    let experts = experts(keys, family)?;
    if has_both {
        let layer = Layer { dense: Some(dense(keys, family)?), experts: Some(experts), ..NOTHING };
        return Ok(vec![layer; count as usize]);
    }
    let is_dense = dense_layers(keys, count)?;
    let dense = if is_dense.contains(&true) { Some(dense(keys, family)?) } else { None };
    let ignored =
        ["intermediate_size_mlp", "dense_intermediate_size", "prefix_dense_intermediate_size"];
    for width in ignored {
        keys.pass(width);
    }
    let hashed = keys.optional(&["num_hash_layers"])?.unwrap_or(0);
    let layer = |(index, is_dense): (usize, bool)| {
        if is_dense {
            return Layer { dense, ..NOTHING };
        }
        let is_hashed = index < hashed as usize;
        let router =
            Router { table: is_hashed, bias: experts.router.bias && !is_hashed, ..experts.router };
        Layer { experts: Some(Experts { router, ..experts }), ..NOTHING }
    };
    Ok(is_dense.into_iter().enumerate().map(layer).collect())
}

/// An MLP with a gate and without biases.
pub(super) const fn gated(width: u32) -> DenseMlp {
    DenseMlp { width, gated: true, bias: false }
}

pub(super) fn dense(keys: &Keys<'_>, family: &Family) -> Result<DenseMlp, ModelError> {
    let width = match family.types[0] {
        "llama4_text" => "intermediate_size_mlp",
        "minimax_m3" => "dense_intermediate_size",
        "cohere2_moe" if keys.find(&["prefix_dense_intermediate_size"]).is_some() => {
            "prefix_dense_intermediate_size"
        }
        _ => "intermediate_size",
    };
    if keys.flag(&["use_double_wide_mlp"])? == Some(true) {
        return Err(keys.error("use_double_wide_mlp", "must be false"));
    }
    let says_bias = match family.types[0] {
        "starcoder2" | "bailing_moe" | "bailing_moe_v2" => keys.flag(&["use_bias"])?,
        _ => keys.flag(&["mlp_bias", "use_mlp_bias"])?,
    };
    let bias = says_bias.unwrap_or(family.is(&["gpt_neox", "jais2", "phi", "starcoder2"]));
    let gated = !family.has_plain_mlps();
    if !gated {
        plain_activation(keys)?;
    }
    let width = keys.required(&[width])?;
    let width = if family.is(&["lfm2"]) { width_of_lfm2(keys, width)? } else { width };
    Ok(DenseMlp { width, gated, bias })
}

/// Activations of MLPs of two matrices.
fn plain_activation(keys: &Keys<'_>) -> Result<(), ModelError> {
    let known = [
        "relu2",
        "xielu",
        "gelu",
        "gelu_new",
        "gelu_fast",
        "gelu_pytorch_tanh",
        "relu",
        "quick_gelu",
    ];
    match keys.text(&["hidden_act"])? {
        Some(other) if !known.contains(&other) => {
            Err(keys
                .error("hidden_act", format!("must be one of {}, got {other}", known.join(", "))))
        }
        _ => Ok(()),
    }
}

/// LFM2 makes two thirds of what its config says, times a factor, to the next multiple.
fn width_of_lfm2(keys: &Keys<'_>, width: u32) -> Result<u32, ModelError> {
    let factor = keys.number("block_ffn_dim_multiplier")?;
    let multiple = keys.optional(&["block_multiple_of"])?.unwrap_or(256).max(1);
    for name in [
        "block_dim",
        "block_ff_dim",
        "block_mlp_init_scale",
        "block_norm_eps",
        "block_out_init_scale",
        "block_use_swiglu",
        "block_use_xavier_init",
    ] {
        keys.pass(name);
    }
    if keys.flag(&["block_auto_adjust_ff_dim"])? == Some(false) {
        return Ok(width);
    }
    let two_thirds = f64::from(u32::try_from(u64::from(width) * 2 / 3).unwrap_or(u32::MAX));
    let adjusted = (factor.unwrap_or(1.0) * two_thirds) as u32;
    let wide = || keys.error("intermediate_size", "is too large");
    adjusted.checked_next_multiple_of(multiple).ok_or_else(wide)
}

pub(super) fn experts(keys: &Keys<'_>, family: &Family) -> Result<Experts, ModelError> {
    let names = ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"];
    let count = keys.required(&names)?;
    let per_token = [
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "top_k_experts",
        "moe_topk",
        "moe_k",
    ];
    let per_token = uniform(keys, &per_token)?
        .filter(|count| *count > 0)
        .ok_or_else(|| keys.error("num_experts_per_tok", "is missing"))?;
    if per_token > count {
        let problem = format!("must be at most the {count} experts, got {per_token}");
        return Err(keys.error("num_experts_per_tok", problem));
    }
    let width = match uniform(
        keys,
        &["moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim"],
    )? {
        Some(width) => width,
        None => keys.required(&["intermediate_size"])?,
    };
    let shared =
        ["n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"];
    let shared = uniform(keys, &shared)?;
    let shared_width = keys.optional(&[
        "shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
        "moe_shared_expert_intermediate_size",
    ])?;
    let implied = if family.is(&["llama4_text", "hunyuan_v1_moe"]) { width } else { 0 };
    let of_count = |shared: u32| {
        let product = shared.checked_mul(width);
        product.ok_or_else(|| keys.error("n_shared_experts", format!("are too many: {shared}")))
    };
    let shared_width = match (shared_width, shared) {
        (_, Some(0)) => 0,
        (Some(width), Some(shared)) if family.is(&["bailing_moe", "bailing_moe_v2"]) => {
            shared.saturating_mul(width)
        }
        (Some(_), Some(shared)) if shared != 1 => {
            return Err(keys.error("n_shared_experts", "must be 1 where their width is given"));
        }
        (Some(width), _) => width,
        (None, Some(shared)) => of_count(shared)?,
        (None, None) => implied,
    };
    let method = read_router_method(keys)?;
    let says_bias = keys.flag(&[
        "use_routing_bias",
        "use_moe_router_bias",
        "moe_use_aux_free",
        "use_expert_bias",
        "moe_router_enable_expert_bias",
    ])?;
    let has_bias = [
        "gpt_oss",
        "glm4_moe",
        "glm4_moe_lite",
        "glm_moe_dsa",
        "kimi_linear",
        "afmoe",
        "ernie4_5_moe",
        "exaone_moe",
        "longcat_flash",
        "lfm2_moe",
        "hy_v3",
        "laguna",
    ];
    // Experts that pass on what they get have a place in the router.
    let nothing = keys.optional(&["zero_expert_num"])?.unwrap_or(0);
    // What the checkpoint says of the router's type changes nothing that is counted here.
    keys.pass("moe_router_dtype");
    let latent = keys.optional(&["moe_latent_size", "routed_expert_hidden_size"])?;
    // Routers that vLLM holds in 32 bits.
    let is_wide = family.is(&["mimo_v2_flash", "minimax_m2", "minimax_m3", "step3p5"])
        || family.is(&["afmoe", "ernie4_5_moe", "glm4_moe", "hy_v3", "longcat_flash"]);
    Ok(Experts {
        count,
        per_token,
        width,
        latent,
        latent_norm: keys.flag(&["latent_moe_use_norm"])?.unwrap_or(false),
        gated: true,
        bias: family.is(&["gpt_oss"]),
        shared_width,
        shared_gate: (family.is(&["qwen2_moe"]) || family.layers == Layers::Delta)
            && shared_width > 0,
        router: Router {
            bias: says_bias.unwrap_or(method == Some("noaux_tc") || family.is(&has_bias)),
            table: false,
            is_wide,
            scales: family.is(&["gemma4_text"]),
            idle: nothing,
        },
    })
}

/// A number that some files say once and others for each layer.
pub(super) fn uniform(keys: &Keys<'_>, names: &[&'static str]) -> Result<Option<u32>, ModelError> {
    let Some((name, value)) = keys.find(names) else { return Ok(None) };
    let Some(list) = value.as_array() else { return keys.optional(names) };
    let Some(first) = list.first() else { return Ok(None) };
    let number = first.as_u64().and_then(|number| u32::try_from(number).ok());
    match number {
        Some(number) if list.iter().all(|other| other == first) => Ok(Some(number)),
        _ => Err(keys.must_be(name, "the same number for every layer", value)),
    }
}

/// The layers without experts: the first `first_k_dense_replace`, those named in `mlp_only_layers`, and all but
/// every `step`-th; or those that a list says.
fn dense_layers(keys: &Keys<'_>, count: u32) -> Result<Vec<bool>, ModelError> {
    let first = ["first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"];
    let first = keys.optional(&first)?.unwrap_or(0);
    // ERNIE counts the last layer with experts from either end.
    let last = match keys.find(&["moe_layer_end_index"]) {
        Some((name, value)) => match value.as_i64() {
            Some(-1) => count,
            Some(last) if (0..i64::from(count)).contains(&last) => last as u32,
            _ => return Err(keys.must_be(name, "-1 or the number of a layer", value)),
        },
        None => count,
    };
    let named = keys.whole_numbers("mlp_only_layers")?.unwrap_or_default();
    let kinds = keys.list("mlp_layer_types")?.unwrap_or_default();
    let marks = if keys.holds_list("moe_layer_freq") {
        keys.whole_numbers("moe_layer_freq")?
    } else {
        None
    };
    let of_length = |name: &'static str, length: usize| match length {
        length if length == count as usize => Ok(()),
        length => Err(keys.error(name, format!("must name {count} layers, got {length}"))),
    };
    if let Some(marks) = marks {
        of_length("moe_layer_freq", marks.len())?;
        return Ok(marks.iter().map(|mark| *mark == 0).collect());
    }
    if !kinds.is_empty() {
        of_length("mlp_layer_types", kinds.len())?;
        keys.pass("moe_layer_freq");
        let is_dense = |kind: &serde_json::Value| match kind.as_str().unwrap_or_default() {
            "dense" => Ok(true),
            "sparse" => Ok(false),
            _ => Err(keys.must_be("mlp_layer_types", "dense or sparse", kind)),
        };
        return kinds.iter().map(is_dense).collect();
    }
    if let Some(sparse) = keys.whole_numbers("moe_layers")? {
        keys.pass("interleave_moe_layer_step");
        return Ok((0..count).map(|layer| !sparse.contains(&u64::from(layer))).collect());
    }
    let names = [
        "decoder_sparse_step",
        "moe_layer_freq",
        "interleave_moe_layer_step",
        "moe_layer_interval",
    ];
    let step = keys.optional(&names)?.unwrap_or(1).max(1);
    // `decoder_sparse_step` counts layers from one, `moe_layer_freq` from zero.
    let from_zero = u32::from(keys.find(&names).is_some_and(|(name, _)| name == "moe_layer_freq"));
    let is_dense = |layer: u32| {
        let place = layer + 1 - from_zero;
        layer < first
            || layer > last
            || named.contains(&u64::from(layer))
            || !place.is_multiple_of(step)
    };
    Ok((0..count).map(is_dense).collect())
}

pub(super) fn of_nemotron_h(keys: &Keys<'_>) -> Result<DenseMlp, ModelError> {
    let bias = keys.flag(&["mlp_bias"])?.unwrap_or(false);
    Ok(DenseMlp { width: keys.required(&["intermediate_size"])?, gated: false, bias })
}

pub(super) fn experts_of_nemotron_h(keys: &Keys<'_>) -> Result<Experts, ModelError> {
    let shared = keys.optional(&["n_shared_experts"])?.unwrap_or(0);
    let width = keys.required(&["moe_intermediate_size", "intermediate_size"])?;
    let shared_width = keys.optional(&["moe_shared_expert_intermediate_size"])?.unwrap_or(width);
    keys.pass("moe_shared_expert_overlap");
    Ok(Experts {
        count: keys.required(&["n_routed_experts"])?,
        per_token: keys.required(&["num_experts_per_tok"])?,
        width,
        latent: keys.optional(&["moe_latent_size"])?,
        latent_norm: false,
        gated: false,
        bias: false,
        shared_width: shared_width.saturating_mul(shared),
        shared_gate: false,
        router: Router { bias: true, ..Router::default() },
    })
}

/// The width that Nemotron-NAS means by a factor: of two thirds of the hidden width, to the next multiple of 256.
///
/// Nothing where that is more than any model has.
pub(super) fn of_factor(factor: f64, hidden: u32) -> Option<DenseMlp> {
    const MULTIPLE: u32 = 256;
    let width = (2.0 * factor * f64::from(hidden) / 3.0) as u32;
    let width = width.checked_next_multiple_of(MULTIPLE).filter(|width| *width < 1 << 20)?;
    Some(DenseMlp { width, gated: true, bias: false })
}

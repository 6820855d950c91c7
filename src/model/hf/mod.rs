//! Reading a model from the `config.json` of a Hugging Face checkpoint.
//!
//! Keys and their aliases follow the `transformers` configuration classes (4.5x). Families whose layers are
//! those of a [`ModelSpec`] are listed in `known`, with the keys that only describe. Every key is read,
//! known to describe, or refused by name: what nobody looked at may change memory or time.

pub(super) mod keys;
pub(super) mod known;
pub(super) mod quantization;

use serde_json::Value;

use self::keys::Keys;
use self::known::{FAMILIES, Family, Parts};
use super::error::ModelError;
use super::precision::{Dtype, KvDtype, WeightFormat};
use super::spec::{
    Attention, Grouped, Latent, LinearAttention, Mlp, ModelSpec, Moe, SlidingWindow,
};

impl ModelSpec {
    /// Reads a model called `name` from the text of its `config.json`. Of a multimodal model without
    /// towers the language model in `text_config` is read.
    ///
    /// # Errors
    /// When a key is missing or out of range, describes layers that are not modelled, or is not known.
    pub fn from_hf_config(json: &str, name: &str) -> Result<Self, ModelError> {
        let problem = |problem: String| ModelError::Json { model: name.to_owned(), problem };
        let value = crate::json::parse(&keys::without_infinities(json))
            .map_err(|error| problem(format!("is no JSON: {error}")))?;
        let root = value.as_object().ok_or_else(|| problem("must be an object".to_owned()))?;
        let outer = Keys::new(name, root, "");
        outer.refuse_what_is_on(known::DESCRIPTIONS)?;
        let Some(text) = outer.object("text_config")? else {
            let model = read(&outer, None)?;
            outer.refuse_the_rest(known::DESCRIPTIONS)?;
            return sized(model);
        };
        text.refuse_what_is_on(known::DESCRIPTIONS)?;
        let model = read(&text, Some(&outer))?;
        text.refuse_the_rest(known::DESCRIPTIONS)?;
        outer.refuse_the_rest(known::DESCRIPTIONS)?;
        sized(model)
    }
}

/// Layers that no model has: a list of layers is made of each kind.
const LAYERS_MAX: u32 = 10_000;
/// Parameters that no model has: a thousand times those of the largest there are.
const PARAMS_MAX: f64 = 1e15;

/// A model whose sizes, each within its bounds, are so together too.
fn sized(model: ModelSpec) -> Result<ModelSpec, ModelError> {
    let params = model.params_roughly();
    if params <= PARAMS_MAX {
        return Ok(model);
    }
    let problem = format!("its sizes make {params:.0e} parameters, more than {PARAMS_MAX:.0e}");
    Err(ModelError::Json { model: model.name, problem })
}

/// The language model of these keys; `outer` holds them where it is a part of a larger model.
fn read(keys: &Keys<'_>, outer: Option<&Keys<'_>>) -> Result<ModelSpec, ModelError> {
    let (family, architecture) = family_of(keys, outer)?;
    refuse_kinds(keys, family)?;
    let layers = keys.required(&["num_hidden_layers", "n_layer"])?;
    if layers > LAYERS_MAX {
        let message = format!("must be at most {LAYERS_MAX}, got {layers}");
        return Err(keys.error("num_hidden_layers", message));
    }
    let hidden = keys.required(&["hidden_size"])?;
    let moe = if family.parts == Parts::Dense { None } else { read_moe(keys, family, layers)? };
    let is_llama4 = family.is("llama4_text");
    let dense = if is_llama4 { "intermediate_size_mlp" } else { "intermediate_size" };
    let has_dense_layers = moe.is_none_or(|moe| moe.dense_layers > 0);
    // Files of models without dense layers name a width all the same.
    keys.pass("intermediate_size");
    keys.pass(dense);
    let tied = keys.flag(&["tie_word_embeddings"])?;
    let tied_outside = outer.map(|outer| outer.flag(&["tie_word_embeddings"])).transpose()?;
    let formats = (quantization_of(keys)?, outer.map(quantization_of).transpose()?.flatten());
    let quantization = formats.0.or(formats.1);
    let (quantization, kv_cache_dtype) = quantization.unzip();
    let dtypes = (read_dtype(keys)?, outer.map(read_dtype).transpose()?.flatten());
    let dtype = dtypes.0.or(dtypes.1).unwrap_or_default();
    Ok(ModelSpec {
        name: keys.model().to_owned(),
        architecture,
        layers,
        hidden,
        vocab: keys.required(&["vocab_size"])?,
        // `transformers` ties by default; the Llama-like classes do not.
        tied_embeddings: tied.or(tied_outside.flatten()).unwrap_or_else(|| family.is("gemma")),
        intermediate: if has_dense_layers { keys.required(&[dense])? } else { 0 },
        mlp: Mlp::Gated,
        attention: read_attention(keys, family, hidden)?,
        linear: read_linear(keys, family, layers)?,
        moe,
        max_position: read_reach(keys)?,
        sliding_window: read_window(keys, layers)?,
        weights: WeightFormat { dtype, quantization },
        kv_cache_dtype: kv_cache_dtype.unwrap_or(KvDtype::Auto),
    })
}

/// The family, and what its class is called.
fn family_of(
    keys: &Keys<'_>,
    outer: Option<&Keys<'_>>,
) -> Result<(&'static Family, String), ModelError> {
    let kind = keys.text(&["model_type"])?;
    let class_of = |keys: &Keys<'_>| -> Result<Option<String>, ModelError> {
        let list = keys.list("architectures")?;
        Ok(list.and_then(|list| list.first()).and_then(Value::as_str).map(str::to_owned))
    };
    let own = class_of(keys)?;
    let whole = outer.map(class_of).transpose()?.flatten();
    if let Some(outer) = outer {
        outer.pass("model_type");
    }
    let by_class =
        own.as_deref().and_then(|class| FAMILIES.iter().find(|one| one.architecture == class));
    let by_kind = kind.and_then(|kind| FAMILIES.iter().find(|one| one.types.contains(&kind)));
    let family = match (&own, by_class.or(by_kind)) {
        (Some(class), _) if by_class.is_none() => {
            let known: Vec<&str> = FAMILIES.iter().map(|one| one.architecture).collect();
            let problem = format!("{class} is not read; known are {}", known.join(", "));
            return Err(keys.error("architectures", problem));
        }
        (_, Some(family)) => family,
        (_, None) => {
            let known: Vec<&str> = FAMILIES.iter().flat_map(|one| one.types).copied().collect();
            let problem = match kind {
                Some(kind) => format!("{kind} is not read; known are {}", known.join(", ")),
                None => format!("is missing; known are {}", known.join(", ")),
            };
            return Err(keys.error("model_type", problem));
        }
    };
    if let Some(kind) = kind.filter(|kind| !family.types.contains(kind)) {
        let right = family.types.join(" or ");
        let problem = format!("must be {right} for {}, got {kind}", family.architecture);
        return Err(keys.error("model_type", problem));
    }
    let class = own.or(whole).unwrap_or_else(|| family.architecture.to_owned());
    Ok((family, class))
}

/// Layers of other kinds than attention over all tokens or the latest ones.
fn refuse_kinds(keys: &Keys<'_>, family: &Family) -> Result<(), ModelError> {
    for kind in keys.list("layer_types")?.unwrap_or_default() {
        let kind = kind.as_str().unwrap_or_default();
        let is_known = match kind {
            "full_attention" => true,
            "linear_attention" => family.has_states,
            _ => ["sliding_attention", "chunked_attention"].contains(&kind) && !family.has_states,
        };
        if !is_known {
            let problem = format!("only full, sliding and chunked attention are read, got {kind}");
            return Err(keys.error("layer_types", problem));
        }
    }
    // MiniMax: 1 is softmax attention, 0 lightning attention.
    let is_linear = |kind: &&Value| kind.as_u64() != Some(1);
    if let Some(kind) = keys.list("attn_type_list")?.unwrap_or_default().iter().find(is_linear) {
        let problem = format!("linear attention is not modelled, got {kind} for a layer");
        return Err(keys.error("attn_type_list", problem));
    }
    Ok(())
}

fn read_attention(keys: &Keys<'_>, family: &Family, hidden: u32) -> Result<Attention, ModelError> {
    let heads = keys.required(&["num_attention_heads", "n_head"])?;
    let says_bias = keys.flag(&["attention_bias", "qkv_bias"])?;
    if family.parts == Parts::LatentExperts {
        if says_bias == Some(true) {
            return Err(keys.error("attention_bias", "biases of latent attention are not modelled"));
        }
        let latent = Latent {
            heads,
            q_lora_rank: keys.optional(&["q_lora_rank"])?,
            kv_lora_rank: keys.required(&["kv_lora_rank"])?,
            qk_nope_head_dim: keys.required(&["qk_nope_head_dim"])?,
            qk_rope_head_dim: keys.required(&["qk_rope_head_dim"])?,
            v_head_dim: keys.required(&["v_head_dim"])?,
        };
        // They follow from the others.
        for key in ["num_key_value_heads", "head_dim", "qk_head_dim"] {
            keys.pass(key);
        }
        return Ok(Attention::Latent(latent));
    }
    let kv_heads = keys.optional(&["num_key_value_heads", "num_kv_heads"])?.unwrap_or(heads);
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        let problem = format!("must divide the {heads} heads, got {kv_heads}");
        return Err(keys.error("num_key_value_heads", problem));
    }
    let head_dim = match keys.optional(&["head_dim"])? {
        Some(head_dim) if head_dim > 0 => head_dim,
        _ if hidden.is_multiple_of(heads) => hidden / heads,
        _ => return Err(keys.error("head_dim", format!("is missing, and {hidden}/{heads} is odd"))),
    };
    let qwen2 = family.is("qwen2") || family.is("qwen2_moe");
    let bias = says_bias.unwrap_or(qwen2);
    // Qwen3 and its kin normalise without saying so; others say `use_qk_norm`.
    let qk_norm = keys.flag(&["use_qk_norm"])?.unwrap_or(false)
        || family.is("qwen3")
        || family.is("qwen3_moe")
        || family.has_states;
    Ok(Attention::Grouped(Grouped {
        heads,
        kv_heads,
        head_dim,
        qkv_bias: bias,
        // Qwen2 has biases on query, key and value only; GLM-4 likewise.
        output_bias: bias && !qwen2 && !family.is("glm4_moe"),
        qk_norm,
        sinks: family.is("gpt_oss"),
        output_gate: family.has_states && keys.flag(&["attn_output_gate"])?.unwrap_or(true),
    }))
}

/// The layers with gated delta nets: those that `layer_types` says, else all but every `full_attention_interval`-th.
fn read_linear(
    keys: &Keys<'_>,
    family: &Family,
    layers: u32,
) -> Result<Option<LinearAttention>, ModelError> {
    if !family.has_states {
        return Ok(None);
    }
    let interval = keys.optional(&["full_attention_interval"])?.unwrap_or(4);
    let count = match keys.list("layer_types")? {
        Some(kinds) => {
            kinds.iter().filter(|kind| kind.as_str() == Some("linear_attention")).count() as u32
        }
        None => layers - layers / interval.max(1),
    };
    if count >= layers {
        let problem = format!("must leave a layer with keys and values, got {count} of {layers}");
        return Err(keys.error("layer_types", problem));
    }
    let linear = LinearAttention {
        layers: count,
        key_heads: keys.required(&["linear_num_key_heads"])?,
        value_heads: keys.required(&["linear_num_value_heads"])?,
        key_dim: keys.required(&["linear_key_head_dim"])?,
        value_dim: keys.required(&["linear_value_head_dim"])?,
        conv_kernel: keys.required(&["linear_conv_kernel_dim"])?,
    };
    Ok((count > 0).then_some(linear))
}

fn read_moe(keys: &Keys<'_>, family: &Family, layers: u32) -> Result<Option<Moe>, ModelError> {
    let names = ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"];
    let experts = keys.required(&names)?;
    let per_token = ["num_experts_per_tok", "experts_per_token", "moe_topk", "moe_k"];
    let experts_per_token = keys.required(&per_token)?;
    if experts_per_token > experts {
        let problem = format!("must be at most the {experts} experts, got {experts_per_token}");
        return Err(keys.error("num_experts_per_tok", problem));
    }
    let intermediate = match keys.optional(&["moe_intermediate_size"])? {
        Some(width) => width,
        None => keys.required(&["intermediate_size"])?,
    };
    let count = keys.optional(&["n_shared_experts", "num_shared_experts"])?;
    let shared_width = keys.optional(&["shared_expert_intermediate_size"])?;
    let implied = if family.is("llama4_text") { intermediate } else { 0 };
    let of_count = |count: u32| {
        let width = count.checked_mul(intermediate);
        width.ok_or_else(|| keys.error("n_shared_experts", format!("are too many: {count}")))
    };
    let shared_intermediate = match (shared_width, count) {
        (Some(width), _) => width,
        (None, Some(count)) => of_count(count)?,
        (None, None) => implied,
    };
    let method = read_router_method(keys)?;
    let router_bias = family.is("gpt_oss")
        || method == Some("noaux_tc")
        || keys.flag(&["use_routing_bias"])? == Some(true);
    Ok(Some(Moe {
        experts,
        experts_per_token,
        intermediate,
        shared_intermediate,
        shared_gate: (family.is("qwen2_moe") || family.has_states) && shared_intermediate > 0,
        dense_layers: dense_layers(keys, layers)?,
        router_bias,
        expert_bias: family.is("gpt_oss"),
    }))
}

/// How a router chooses among groups of experts.
pub(super) fn read_router_method<'a>(keys: &Keys<'a>) -> Result<Option<&'a str>, ModelError> {
    let method = keys.text(&["topk_method"])?;
    let methods = ["noaux_tc", "greedy", "group_limited_greedy"];
    if let Some(method) = method.filter(|method| !methods.contains(method)) {
        let problem = format!("must be one of {}, got {method}", methods.join(", "));
        return Err(keys.error("topk_method", problem));
    }
    Ok(method)
}

/// The layers without experts: the first `first_k_dense_replace`, those named in
/// `mlp_only_layers`, and all but every `step`-th.
fn dense_layers(keys: &Keys<'_>, layers: u32) -> Result<u32, ModelError> {
    let first = keys.optional(&["first_k_dense_replace"])?.unwrap_or(0);
    let named = keys.whole_numbers("mlp_only_layers")?.unwrap_or_default();
    let marks = if keys.holds_list("moe_layer_freq") {
        keys.whole_numbers("moe_layer_freq")?
    } else {
        None
    };
    if let Some(marks) = marks {
        return Ok(marks.iter().filter(|mark| **mark == 0).count() as u32);
    }
    if let Some(sparse) = keys.whole_numbers("moe_layers")? {
        keys.pass("interleave_moe_layer_step");
        let sparse = (0..layers).filter(|layer| sparse.contains(&u64::from(*layer))).count();
        return Ok(layers - sparse as u32);
    }
    let names = ["decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step"];
    let step = keys.optional(&names)?.unwrap_or(1).max(1);
    // `decoder_sparse_step` counts layers from one, `moe_layer_freq` from zero.
    let from_zero = u32::from(keys.find(&names).is_some_and(|(name, _)| name == "moe_layer_freq"));
    let dense = (0..layers).filter(|layer| {
        let place = layer + 1 - from_zero;
        *layer < first || named.contains(&u64::from(*layer)) || !place.is_multiple_of(step)
    });
    Ok(dense.count() as u32)
}

fn read_window(keys: &Keys<'_>, layers: u32) -> Result<Option<SlidingWindow>, ModelError> {
    let read = |name: &'static str| -> Result<Option<u32>, ModelError> {
        Ok(keys.optional(&[name])?.filter(|tokens| *tokens > 0))
    };
    let (sliding, chunk) = (read("sliding_window")?, read("attention_chunk_size")?);
    let first = keys.optional(&["max_window_layers"])?;
    let is_used = keys.flag(&["use_sliding_window"])?;
    // Llama 4 marks layers without positions with 0: those see all tokens.
    let marks = keys.whole_numbers("no_rope_layers")?;
    keys.pass("no_rope_layer_interval");
    let (tokens, chunked) = match (sliding, chunk) {
        (Some(tokens), _) => (tokens, false),
        (None, Some(tokens)) => (tokens, true),
        (None, None) => return Ok(None),
    };
    // Qwen2 and Qwen3 write a window they do not use.
    if is_used == Some(false) {
        return Ok(None);
    }
    let kinds = keys.list("layer_types")?.unwrap_or_default();
    let windowed = kinds.iter().filter(|kind| kind.as_str() != Some("full_attention")).count();
    let layers = match (kinds, marks) {
        ([], Some(marks)) if chunked && !marks.is_empty() => {
            marks.iter().filter(|mark| **mark != 0).count() as u32
        }
        // Qwen2 gives a window to the layers from this one on.
        ([], _) if is_used == Some(true) => layers.saturating_sub(first.unwrap_or(0)),
        ([], _) => layers,
        _ => windowed as u32,
    };
    Ok((layers > 0).then_some(SlidingWindow { tokens, layers, chunked }))
}

/// The longest context in tokens, as vLLM 0.33 derives it: positions that are stretched reach further.
fn read_reach(keys: &Keys<'_>) -> Result<u32, ModelError> {
    let reach = keys.required(&["max_position_embeddings", "max_seq_len", "seq_length"])?;
    let mut longest = reach;
    for name in ["rope_scaling", "rope_parameters"] {
        let Some(rope) = keys.object(name)? else { continue };
        let kind = rope.text(&["rope_type", "type"])?.unwrap_or("default");
        let factor = rope.number("factor")?;
        let original = rope.optional(&["original_max_position_embeddings"])?;
        let stretched = |from: u32| (f64::from(from) * factor.unwrap_or(1.0)) as u32;
        longest = match kind {
            "default" | "llama3" | "longrope" | "su" | "mrope" => longest,
            "linear" | "dynamic" => stretched(reach),
            "yarn" | "deepseek_yarn" => stretched(original.unwrap_or(reach)),
            other => {
                let known = "default, llama3, longrope, su, mrope, linear, dynamic or yarn";
                return Err(rope.error("rope_type", format!("must be {known}, got {other}")));
            }
        };
        rope.refuse_the_rest(known::ROPE)?;
    }
    Ok(longest)
}

pub(super) fn read_dtype(keys: &Keys<'_>) -> Result<Option<Dtype>, ModelError> {
    Ok(match keys.text(&["torch_dtype", "dtype"])? {
        None => None,
        // What was saved in 32 bits is served in 16 unless it is asked for: vLLM `config/model.py`
        // (`_resolve_auto_dtype`), SGLang `configs/model_config.py`.
        Some("bfloat16" | "auto" | "float32" | "float") => Some(Dtype::Bfloat16),
        Some("float16" | "half") => Some(Dtype::Float16),
        Some(other) => {
            let problem = format!("must be bfloat16, float16 or float32, got {other}");
            return Err(keys.error("torch_dtype", problem));
        }
    })
}

/// The quantisation, and the type of KV that goes with it.
fn quantization_of(
    keys: &Keys<'_>,
) -> Result<Option<(super::precision::Quantization, KvDtype)>, ModelError> {
    for name in ["quantization_config", "compression_config"] {
        if let Some(config) = keys.object(name)? {
            return quantization::read(&config).map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

//! Reading a model from the `config.json` of a Hugging Face checkpoint.
//!
//! Keys and their aliases follow the `transformers` configuration classes (4.5x). Families whose
//! layers are not those of a [`ModelSpec`] (state-space or linear attention, MLPs of two matrices,
//! encoders, shared KV layers, indexed attention) are refused with the key that shows it. A family
//! not known by name is read by its keys as a Llama-like model.

use serde_json::Map;
use serde_json::Value;

use super::error::ModelError;
use super::hf_quantization;
use super::precision::{Dtype, WeightFormat};
use super::spec::{Attention, Grouped, Latent, Mlp, ModelSpec, Moe, SlidingWindow};

/// Keys whose presence with a value other than null, false, 0 or [] means layers not modelled.
const REFUSED: [(&str, &str); 16] = [
    ("linear_num_key_heads", "linear attention"),
    ("linear_attn_config", "linear attention"),
    ("mamba_d_state", "state-space layers"),
    ("mamba_num_heads", "state-space layers"),
    ("mamba_expand", "state-space layers"),
    ("ssm_cfg", "state-space layers"),
    ("state_size", "state-space layers"),
    ("hybrid_override_pattern", "layers of several kinds"),
    ("attn_type_list", "linear attention"),
    ("block_types", "recurrent layers"),
    ("index_topk", "sparse attention with an indexer"),
    ("num_kv_shared_layers", "layers that share a KV cache"),
    ("altup_num_inputs", "alternating updates"),
    ("is_encoder_decoder", "an encoder"),
    ("block_configs", "layers of several shapes"),
    ("use_mla_lora", "adapters inside attention"),
];

/// Families whose MLPs have two matrices or whose layers are otherwise not those of a Llama.
const REFUSED_TYPES: [&str; 20] = [
    "bert",
    "bloom",
    "dbrx",
    "falcon",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gptj",
    "mamba",
    "mamba2",
    "mpt",
    "nemotron",
    "opt",
    "phi",
    "roberta",
    "rwkv",
    "starcoder2",
    "t5",
    "whisper",
];

impl ModelSpec {
    /// Reads a model called `name` from the text of its `config.json`. Of a multimodal model the
    /// language model in `text_config` is read.
    ///
    /// # Errors
    /// When a key is missing or out of range, or describes layers that are not modelled.
    pub fn from_hf_config(json: &str, name: &str) -> Result<Self, ModelError> {
        let problem = |problem: String| ModelError::Json { model: name.to_owned(), problem };
        let value: Value =
            serde_json::from_str(json).map_err(|error| problem(error.to_string()))?;
        let root = value.as_object().ok_or_else(|| problem("must be an object".to_owned()))?;
        let outer = Keys { model: name, root, map: root, prefix: "" };
        let nested = root.get("text_config").and_then(Value::as_object);
        let keys = nested.map_or(outer, |map| Keys { map, prefix: "text_config.", ..outer });
        read(&keys)
    }
}

/// An object of `config.json`, with what an error needs to name a key.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    model: &'a str,
    root: &'a Map<String, Value>,
    map: &'a Map<String, Value>,
    prefix: &'a str,
}

impl<'a> Keys<'a> {
    /// The value of the first of these keys that is present and not null, with the key.
    fn find(&self, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        names.iter().find_map(|name| {
            let value = self.map.get(*name).filter(|value| !value.is_null())?;
            Some((*name, value))
        })
    }

    pub(super) fn error(&self, key: &str, problem: String) -> ModelError {
        ModelError::Key {
            model: self.model.to_owned(),
            key: format!("{}{key}", self.prefix),
            problem,
        }
    }

    fn optional(&self, names: &[&'static str]) -> Result<Option<u32>, ModelError> {
        let Some((name, value)) = self.find(names) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let wrong = || self.error(name, format!("must be a whole number below 2^32, got {value}"));
        number.map(Some).ok_or_else(wrong)
    }

    fn required(&self, names: &[&'static str]) -> Result<u32, ModelError> {
        match self.optional(names)? {
            Some(number) if number > 0 => Ok(number),
            Some(number) => {
                let name = self.find(names).map_or(names[0], |(name, _)| name);
                Err(self.error(name, format!("must be at least 1, got {number}")))
            }
            None => Err(self.error(names[0], "is missing".to_owned())),
        }
    }

    fn flag(&self, names: &[&'static str]) -> Option<bool> {
        self.find(names).and_then(|(_, value)| value.as_bool())
    }

    fn text(&self, name: &'static str) -> Option<&'a str> {
        self.find(&[name]).and_then(|(_, value)| value.as_str())
    }

    fn list(&self, name: &'static str) -> &'a [Value] {
        self.find(&[name]).and_then(|(_, value)| value.as_array()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn quantization(&self) -> Option<&'a Value> {
        let present = |map: &'a Map<String, Value>| {
            map.get("quantization_config").or_else(|| map.get("compression_config"))
        };
        present(self.map).or_else(|| present(self.root)).filter(|value| !value.is_null())
    }
}

fn read(keys: &Keys<'_>) -> Result<ModelSpec, ModelError> {
    refuse_what_is_not_modelled(keys)?;
    let family = keys.text("model_type").unwrap_or_default();
    let architecture = keys.list("architectures").first().or_else(|| {
        keys.root.get("architectures").and_then(Value::as_array).and_then(|list| list.first())
    });
    let layers = keys.required(&["num_hidden_layers", "n_layer"])?;
    let hidden = keys.required(&["hidden_size"])?;
    let moe = read_moe(keys, family, layers)?;
    let dense = if family == "llama4_text" { "intermediate_size_mlp" } else { "intermediate_size" };
    let has_dense_layers = moe.is_none_or(|moe| moe.dense_layers > 0);
    let tied = keys.flag(&["tie_word_embeddings"]);
    Ok(ModelSpec {
        name: keys.model.to_owned(),
        architecture: architecture.and_then(Value::as_str).unwrap_or(family).to_owned(),
        layers,
        hidden,
        vocab: keys.required(&["vocab_size"])?,
        // `transformers` ties by default; the Llama-like classes do not.
        tied_embeddings: tied.unwrap_or_else(|| family.starts_with("gemma")),
        intermediate: if has_dense_layers { keys.required(&[dense])? } else { 0 },
        mlp: Mlp::Gated,
        attention: read_attention(keys, family, hidden)?,
        moe,
        max_position: keys.required(&["max_position_embeddings", "max_seq_len", "seq_length"])?,
        sliding_window: read_window(keys, layers)?,
        weights: read_weights(keys)?,
    })
}

fn refuse_what_is_not_modelled(keys: &Keys<'_>) -> Result<(), ModelError> {
    let absent = |value: &Value| {
        matches!(value, Value::Null | Value::Bool(false))
            || value.as_u64() == Some(0)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    for (key, what) in REFUSED {
        if let Some(value) = keys.map.get(key).filter(|value| !absent(value)) {
            return Err(keys.error(key, format!("{what} is not modelled, got {value}")));
        }
    }
    if let Some(family) = keys.text("model_type").filter(|name| REFUSED_TYPES.contains(name)) {
        let problem = format!("its layers are not those of a Llama-like model, got {family}");
        return Err(keys.error("model_type", problem));
    }
    for kind in keys.list("layer_types").iter().filter_map(Value::as_str) {
        if !["full_attention", "sliding_attention", "chunked_attention"].contains(&kind) {
            let problem = format!("only full, sliding and chunked attention are read, got {kind}");
            return Err(keys.error("layer_types", problem));
        }
    }
    Ok(())
}

fn read_attention(keys: &Keys<'_>, family: &str, hidden: u32) -> Result<Attention, ModelError> {
    let heads = keys.required(&["num_attention_heads", "n_head"])?;
    if keys.find(&["kv_lora_rank"]).is_some() {
        return Ok(Attention::Latent(Latent {
            heads,
            q_lora_rank: keys.optional(&["q_lora_rank"])?,
            kv_lora_rank: keys.required(&["kv_lora_rank"])?,
            qk_nope_head_dim: keys.required(&["qk_nope_head_dim"])?,
            qk_rope_head_dim: keys.required(&["qk_rope_head_dim"])?,
            v_head_dim: keys.required(&["v_head_dim"])?,
        }));
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
    let qwen2 = matches!(family, "qwen2" | "qwen2_moe" | "qwen2_5_vl_text" | "qwen2_vl");
    let bias = keys.flag(&["attention_bias", "qkv_bias"]).unwrap_or(qwen2);
    // Qwen3 and its kin normalise without saying so; others say `use_qk_norm`.
    let qk_norm = keys.flag(&["use_qk_norm"]).unwrap_or(false)
        || ["qwen3", "gemma3"].iter().any(|start| family.starts_with(start));
    Ok(Attention::Grouped(Grouped {
        heads,
        kv_heads,
        head_dim,
        qkv_bias: bias,
        // Qwen2 has biases on query, key and value only; GLM-4 likewise.
        output_bias: bias && !qwen2 && !family.starts_with("glm4"),
        qk_norm,
        sinks: family == "gpt_oss",
    }))
}

fn read_moe(keys: &Keys<'_>, family: &str, layers: u32) -> Result<Option<Moe>, ModelError> {
    let names = ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"];
    let Some(experts) = keys.optional(&names)?.filter(|experts| *experts > 1) else {
        return Ok(None);
    };
    let experts_per_token =
        keys.required(&["num_experts_per_tok", "experts_per_token", "moe_topk", "moe_k"])?;
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
    let implied = if family == "llama4_text" { intermediate } else { 0 };
    let shared_intermediate =
        shared_width.unwrap_or_else(|| count.map_or(implied, |count| count * intermediate));
    let router_bias = family == "gpt_oss"
        || keys.text("topk_method") == Some("noaux_tc")
        || keys.flag(&["use_routing_bias"]) == Some(true);
    Ok(Some(Moe {
        experts,
        experts_per_token,
        intermediate,
        shared_intermediate,
        shared_gate: family == "qwen2_moe" && shared_intermediate > 0,
        dense_layers: dense_layers(keys, layers)?,
        router_bias,
        expert_bias: family == "gpt_oss",
    }))
}

/// The layers without experts: the first `first_k_dense_replace`, those named in
/// `mlp_only_layers`, and all but every `step`-th.
fn dense_layers(keys: &Keys<'_>, layers: u32) -> Result<u32, ModelError> {
    let first = keys.optional(&["first_k_dense_replace"])?.unwrap_or(0);
    let named: Vec<u64> = keys.list("mlp_only_layers").iter().filter_map(Value::as_u64).collect();
    let frequency = keys.find(&["moe_layer_freq"]).filter(|(_, value)| value.is_array());
    if let Some((_, Value::Array(marks))) = frequency {
        return Ok(marks.iter().filter(|mark| mark.as_u64() == Some(0)).count() as u32);
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
    let (tokens, chunked) = match (read("sliding_window")?, read("attention_chunk_size")?) {
        (Some(tokens), _) => (tokens, false),
        (None, Some(tokens)) => (tokens, true),
        (None, None) => return Ok(None),
    };
    // Qwen2 and Qwen3 write a window they do not use.
    if keys.flag(&["use_sliding_window"]) == Some(false) {
        return Ok(None);
    }
    let kinds = keys.list("layer_types");
    let windowed = kinds.iter().filter(|kind| kind.as_str() != Some("full_attention")).count();
    let layers = if kinds.is_empty() { layers } else { windowed as u32 };
    Ok((layers > 0).then_some(SlidingWindow { tokens, layers, chunked }))
}

fn read_weights(keys: &Keys<'_>) -> Result<WeightFormat, ModelError> {
    let dtype = match keys.text("torch_dtype").or_else(|| keys.text("dtype")) {
        None | Some("bfloat16" | "auto") => Dtype::Bfloat16,
        Some("float16" | "half") => Dtype::Float16,
        Some("float32" | "float") => Dtype::Float32,
        Some(other) => {
            let problem = format!("must be bfloat16, float16 or float32, got {other}");
            return Err(keys.error("torch_dtype", problem));
        }
    };
    let quantization =
        keys.quantization().map(|value| hf_quantization::read(keys, value)).transpose()?;
    Ok(WeightFormat { dtype, quantization })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
        "max_position_embeddings": 512"#;

    fn with(extra: &str) -> Result<ModelSpec, ModelError> {
        ModelSpec::from_hf_config(&format!("{SMALL}{extra}}}"), "small")
    }

    #[test]
    fn absent_keys_mean_what_transformers_means() {
        let model = with("").unwrap();
        let Attention::Grouped(attention) = model.attention else { panic!("grouped") };
        assert_eq!((attention.kv_heads, attention.head_dim), (4, 16));
        assert_eq!(model.moe, None);
        // Two tables of 100·64, a norm of 64; per layer 4·64·64 + 3·64·128 + 2·64.
        assert_eq!(model.params_total(), 12_800 + 64 + 2 * (16_384 + 24_576 + 128));
    }

    #[test]
    fn layers_that_are_not_modelled_are_refused_by_key() {
        let error = with(r#", "linear_num_key_heads": 16"#).unwrap_err().to_string();
        assert_eq!(
            error,
            "small: config.json: linear_num_key_heads: linear attention is not modelled, got 16"
        );
        let error = with(r#", "layer_types": ["linear_attention"]"#).unwrap_err().to_string();
        assert!(error.contains("layer_types"), "{error}");
    }

    #[test]
    fn every_second_layer_may_be_sparse() {
        let moe = with(r#", "num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 2"#);
        assert_eq!(moe.unwrap().sparse_layers(), 1);
    }

    #[test]
    fn a_language_model_may_be_nested() {
        let json = format!(r#"{{"architectures": ["Seeing"], "text_config": {SMALL}}}}}"#);
        let model = ModelSpec::from_hf_config(&json, "seeing").unwrap();
        assert_eq!((model.architecture.as_str(), model.layers), ("Seeing", 2));
    }

    #[test]
    fn a_missing_key_is_named() {
        let error = ModelSpec::from_hf_config("{}", "empty").unwrap_err().to_string();
        assert_eq!(error, "empty: config.json: num_hidden_layers: is missing");
    }
}

//! What mixes tokens in each layer.

use super::families::{Family, Layers};
use super::layers::reaches;
use super::states;
use crate::model::checkpoint::{
    Compressed, Gate, GroupedAttention, Indexer, LatentAttention, Mixer, QkNorm, Reach,
};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;

pub(super) fn read(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
    count: u32,
) -> Result<Vec<Mixer>, ModelError> {
    let all = |mixer: Mixer| Ok(vec![mixer; count as usize]);
    match family.layers {
        Layers::Latent => {
            let is_expanded = family.is(&["minicpm3"]);
            all(Mixer::Latent(LatentAttention { is_expanded, ..latent(keys)? }))
        }
        Layers::Sparse => sparse(keys, count),
        Layers::Compressed => compressed(keys, count),
        Layers::Delta => states::delta(keys, family, hidden, count),
        Layers::KimiDelta => states::kimi(keys, count),
        _ => match family.types[0] {
            "mimo_v2_flash" => mimo_v2(keys, hidden, count),
            "minimax_m3" => minimax_m3(keys, family, hidden, count),
            "gemma4_text" => gemma4(keys, family, hidden, count),
            _ => {
                let grouped = grouped(keys, family, hidden)?;
                let reaches = reaches(keys, family, count)?;
                Ok(reaches
                    .into_iter()
                    .map(|reach| Mixer::Grouped(GroupedAttention { reach, ..grouped }))
                    .collect())
            }
        },
    }
}

/// Attention without anything special.
pub(super) const fn plain(heads: u32, kv_heads: u32, head_dim: u32) -> GroupedAttention {
    GroupedAttention {
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        qkv_bias: false,
        output_bias: false,
        qk_norm: QkNorm::None,
        sinks: false,
        gate: Gate::None,
        reach: Reach::Full,
        indexer: None,
    }
}

pub(super) fn heads(keys: &Keys<'_>, hidden: u32) -> Result<GroupedAttention, ModelError> {
    let heads = keys.required(&["num_attention_heads", "n_head"])?;
    let kv_heads = keys.optional(&["num_key_value_heads", "num_kv_heads"])?.unwrap_or(heads);
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        let problem = format!("must divide the {heads} heads, got {kv_heads}");
        return Err(keys.error("num_key_value_heads", problem));
    }
    let head_dim = match keys.optional(&["head_dim", "attention_head_dim"])? {
        Some(head_dim) if head_dim > 0 => head_dim,
        // As all classes do, to the whole number below.
        _ if hidden >= heads => hidden / heads,
        _ => return Err(keys.error("head_dim", format!("is missing, and {hidden} < {heads}"))),
    };
    Ok(plain(heads, kv_heads, head_dim))
}

pub(super) fn grouped(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
) -> Result<GroupedAttention, ModelError> {
    let shape = heads(keys, hidden)?;
    let says_bias = if family.is(&["starcoder2", "bailing_moe", "bailing_moe_v2"]) {
        keys.flag(&["use_qkv_bias", "use_bias"])?
    } else if family.is(&["internlm2", "internlm3"]) {
        keys.flag(&["qkv_bias", "bias"])?
    } else {
        keys.flag(&["attention_bias", "qkv_bias", "use_qkv_bias"])?
    };
    if family.is(WITHOUT_BIASES) && says_bias == Some(true) {
        return Err(keys.error("attention_bias", "must be false, for vLLM's class has no biases"));
    }
    let qwen2 = family.is(&["qwen2", "qwen2_moe"]);
    let bias = match says_bias {
        // The class of vLLM has them whatever the config says (0.33.0, `models/phimoe.py`).
        Some(_) if family.is(&["phimoe"]) => true,
        says_bias => says_bias.unwrap_or(qwen2 || family.is(WITH_BIASES)),
    };
    // Qwen3 and its kin normalise without saying so; others say `use_qk_norm`.
    let says_norm = keys.flag(&["use_qk_norm", "qk_norm"])?;
    let per_head = [
        "qwen3",
        "qwen3_moe",
        "exaone4",
        "gemma3_text",
        "dots1",
        "step3p5",
        "qwen3_next",
        "qwen3_5_text",
        "afmoe",
        "apertus",
        "exaone_moe",
        "hunyuan_v1_dense",
        "hunyuan_v1_moe",
        "laguna",
        "lfm2",
        "lfm2_moe",
        "mellum",
    ];
    if says_norm == Some(false)
        && (per_head.contains(&family.types[0]) || family.is(&["minimax_m2"]))
    {
        return Err(keys.error("use_qk_norm", "must be true"));
    }
    let qk_norm = match family.types[0] {
        // Llama 4 normalises without weights.
        "llama4_text" => QkNorm::None,
        "minimax_m2" | "olmo2" | "olmo3" | "olmoe" | "olmo_hybrid" | "flex_olmo" => {
            QkNorm::AllHeads
        }
        // Weights of their own for each head.
        "cohere" if says_norm == Some(true) => QkNorm::AllHeads,
        kind if per_head.contains(&kind) => QkNorm::PerHead,
        _ if says_norm == Some(true) => QkNorm::PerHead,
        _ => QkNorm::None,
    };
    let says_output = keys.flag(&["attention_out_bias", "use_output_bias"])?;
    // Qwen2 has biases on query, key and value only; GLM-4 and Seed likewise.
    let implied = bias
        && !qwen2
        && !family.is(&["glm", "glm4", "glm4_moe", "mimo", "seed_oss", "stablelm"])
        && !family.is(&["bailing_moe", "bailing_moe_v2", "internlm3"]);
    // They say the one for all projections, the other for queries, keys and values alone.
    let implied = match family.types[0] {
        "bailing_moe" | "bailing_moe_v2" => keys.flag(&["use_bias"])?.unwrap_or(false),
        "internlm3" => keys.flag(&["bias"])?.unwrap_or(false),
        _ => implied,
    };
    let gate = match family.types[0] {
        "afmoe" => Gate::Elements,
        "laguna" => laguna_gate(keys)?,
        _ => shape.gate,
    };
    let heads_of_layers = super::mlps::uniform(keys, &["num_attention_heads_per_layer"])?;
    if heads_of_layers.is_some_and(|heads| heads != shape.heads) {
        let problem = format!("must be the {} heads that num_attention_heads says", shape.heads);
        return Err(keys.error("num_attention_heads_per_layer", problem));
    }
    let shape = GroupedAttention { gate, ..shape };
    Ok(GroupedAttention {
        qkv_bias: bias,
        output_bias: says_output.unwrap_or(implied),
        qk_norm,
        sinks: family.is(&["gpt_oss"]) || has_granite_sinks(keys, family)?,
        ..shape
    })
}

/// Laguna gates heads, or every element (vLLM 0.33.0, `models/laguna.py`).
fn laguna_gate(keys: &Keys<'_>) -> Result<Gate, ModelError> {
    match keys.find(&["gating"]).map(|(_, value)| value) {
        None | Some(serde_json::Value::Bool(true)) => Ok(Gate::Heads),
        Some(serde_json::Value::Bool(false)) => Ok(Gate::None),
        Some(value) if value.as_str() == Some("per-head") => Ok(Gate::Heads),
        Some(value) if value.as_str() == Some("per-element") => Ok(Gate::Elements),
        Some(value) => Err(keys.must_be("gating", "true, false, per-head or per-element", value)),
    }
}

/// Granite has sinks where it names kinds of layers, if it does not say otherwise (vLLM 0.33.0, `models/granite.py`).
fn has_granite_sinks(keys: &Keys<'_>, family: &Family) -> Result<bool, ModelError> {
    if !family.is(&["granite_swa", "granitemoe_swa"]) {
        return Ok(false);
    }
    let says = keys.flag(&["attention_sinks"])?;
    Ok(says.unwrap_or(keys.find(&["layer_types"]).is_some()))
}

/// Families whose class has biases where the config says nothing.
const WITH_BIASES: &[&str] = &[
    "gpt_oss",
    "mimo",
    "seed_oss",
    "glm",
    "glm4",
    "gpt_neox",
    "jais2",
    "phi",
    "phimoe",
    "starcoder2",
];
/// Families whose class in vLLM has none whatever the config says.
const WITHOUT_BIASES: &[&str] = &[
    "afmoe",
    "cohere",
    "ernie4_5",
    "ernie4_5_moe",
    "falcon_h1",
    "gemma2",
    "hy_v3",
    "laguna",
    "olmo_hybrid",
    "olmoe",
    "phi3",
    "vaultgemma",
];

pub(super) fn of_nemotron_h(keys: &Keys<'_>) -> Result<GroupedAttention, ModelError> {
    let bias = keys.flag(&["attention_bias"])?.unwrap_or(false);
    let hidden = keys.required(&["hidden_size"])?;
    keys.pass("sliding_window");
    Ok(GroupedAttention { qkv_bias: bias, output_bias: bias, ..heads(keys, hidden)? })
}

pub(super) fn latent(keys: &Keys<'_>) -> Result<LatentAttention, ModelError> {
    if keys.flag(&["attention_bias"])? == Some(true) {
        return Err(keys.error("attention_bias", "biases of latent attention are not modelled"));
    }
    let latent = LatentAttention {
        heads: keys.required(&["num_attention_heads", "n_head"])?,
        q_lora_rank: keys.optional(&["q_lora_rank"])?,
        kv_lora_rank: keys.required(&["kv_lora_rank"])?,
        qk_nope_head_dim: keys.required(&["qk_nope_head_dim"])?,
        qk_rope_head_dim: keys.required(&["qk_rope_head_dim"])?,
        v_head_dim: keys.required(&["v_head_dim"])?,
        output_gate: keys.flag(&["mla_use_output_gate"])?.unwrap_or(false),
        is_expanded: false,
        is_sparse: false,
        indexer: None,
    };
    // They follow from the others.
    for key in ["num_key_value_heads", "head_dim", "qk_head_dim"] {
        keys.pass(key);
    }
    Ok(latent)
}

fn indexer(keys: &Keys<'_>) -> Result<Indexer, ModelError> {
    Ok(Indexer {
        heads: keys.required(&["index_n_heads"])?,
        head_dim: keys.required(&["index_head_dim"])?,
        tokens: keys.required(&["index_topk"])?,
    })
}

/// Latent attention of which each layer, or one of several, chooses what is read.
fn sparse(keys: &Keys<'_>, count: u32) -> Result<Vec<Mixer>, ModelError> {
    let (latent, indexer) = (latent(keys)?, indexer(keys)?);
    let kinds = keys.list("indexer_types")?;
    if let Some(kinds) = keys.list("layer_types")? {
        let is_other =
            |kind: &&serde_json::Value| kind.as_str() != Some("deepseek_sparse_attention");
        if kinds.len() != count as usize || kinds.iter().any(|kind| is_other(&kind)) {
            let problem = format!("must be deepseek_sparse_attention for {count} layers");
            return Err(keys.error("layer_types", problem));
        }
    }
    // They say the same.
    for key in ["index_topk_freq", "index_topk_pattern", "index_skip_topk_offset"] {
        if kinds.is_some() {
            keys.pass(key);
        }
    }
    if let Some(kinds) = kinds.filter(|kinds| kinds.len() != count as usize) {
        return Err(
            keys.error("indexer_types", format!("must name {count} layers, got {}", kinds.len()))
        );
    }
    let mixer = |index: u32| {
        let kind = kinds.and_then(|kinds| kinds.get(index as usize)).and_then(|kind| kind.as_str());
        let indexer = match kind.unwrap_or("full") {
            "full" => Some(indexer),
            "shared" => None,
            other => {
                return Err(
                    keys.error("indexer_types", format!("must be full or shared, got {other}"))
                );
            }
        };
        Ok(Mixer::Latent(LatentAttention { is_sparse: true, indexer, ..latent }))
    };
    (0..count).map(mixer).collect()
}

fn compressed(keys: &Keys<'_>, count: u32) -> Result<Vec<Mixer>, ModelError> {
    let ratios = keys.whole_numbers("compress_ratios")?;
    let ratios = ratios.ok_or_else(|| keys.error("compress_ratios", "is missing"))?;
    if ratios.len() < count as usize {
        return Err(keys
            .error("compress_ratios", format!("must name {count} layers, got {}", ratios.len())));
    }
    let indexer = indexer(keys)?;
    let kv_heads = keys.optional(&["num_key_value_heads"])?;
    if kv_heads.is_some_and(|heads| heads != 1) {
        return Err(keys.error("num_key_value_heads", "must be 1"));
    }
    let window = keys.required(&["sliding_window"])?;
    if keys.flag(&["attention_bias"])? == Some(true) {
        return Err(keys.error("attention_bias", "biases of latent attention are not modelled"));
    }
    for (name, right) in [("head_dim", 512), ("qk_rope_head_dim", 64)] {
        let size = keys.required(&[name])?;
        if size != right {
            return Err(keys
                .error(name, format!("must be {right}, for which engines have rows, got {size}")));
        }
    }
    let shape = Compressed {
        heads: keys.required(&["num_attention_heads"])?,
        head_dim: keys.required(&["head_dim"])?,
        q_lora_rank: keys.required(&["q_lora_rank"])?,
        o_lora_rank: keys.required(&["o_lora_rank"])?,
        o_groups: keys.required(&["o_groups"])?,
        window,
        ratio: 0,
        indexer: None,
    };
    let mixer = |ratio: &u64| {
        let ratio = u32::try_from(*ratio).ok().filter(|ratio| [0, 4, 128].contains(ratio));
        let ratio =
            ratio.ok_or_else(|| keys.error("compress_ratios", "must be of 0, 4 and 128"))?;
        let indexer = (ratio == Compressed::OVERLAPPING).then_some(indexer);
        Ok(Mixer::Compressed(Compressed { ratio, indexer, ..shape }))
    };
    // The rest are those of layers that draft.
    ratios[..count as usize].iter().map(mixer).collect()
}

/// Layers with a window have other KV heads.
fn mimo_v2(keys: &Keys<'_>, hidden: u32, count: u32) -> Result<Vec<Mixer>, ModelError> {
    let whole = heads(keys, hidden)?;
    if keys.flag(&["attention_bias"])? == Some(true) {
        return Err(keys.error("attention_bias", "must be false"));
    }
    let value_dim = keys.optional(&["v_head_dim"])?.unwrap_or(whole.head_dim);
    let whole = GroupedAttention {
        value_dim,
        sinks: keys.flag(&["add_full_attention_sink_bias"])?.unwrap_or(false),
        ..whole
    };
    let tokens =
        keys.required(&["sliding_window", "sliding_window_size", "attention_chunk_size"])?;
    let head_dim = keys.optional(&["swa_head_dim"])?.unwrap_or(whole.head_dim);
    let windowed = GroupedAttention {
        heads: keys.optional(&["swa_num_attention_heads"])?.unwrap_or(whole.heads),
        kv_heads: keys.optional(&["swa_num_key_value_heads"])?.unwrap_or(whole.kv_heads),
        head_dim,
        value_dim: keys.optional(&["swa_v_head_dim"])?.unwrap_or(value_dim),
        sinks: keys.flag(&["add_swa_attention_sink_bias"])?.unwrap_or(false),
        reach: Reach::Window(tokens),
        ..whole
    };
    let pattern = keys.whole_numbers("hybrid_layer_pattern")?;
    let pattern = pattern.ok_or_else(|| keys.error("hybrid_layer_pattern", "is missing"))?;
    if pattern.len() != count as usize {
        return Err(keys.error(
            "hybrid_layer_pattern",
            format!("must name {count} layers, got {}", pattern.len()),
        ));
    }
    Ok(pattern
        .iter()
        .map(|mark| Mixer::Grouped(if *mark == 0 { whole } else { windowed }))
        .collect())
}

fn minimax_m3(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
    count: u32,
) -> Result<Vec<Mixer>, ModelError> {
    let whole = grouped(keys, family, hidden)?;
    let Some(config) = keys.object("sparse_attention_config")? else {
        return Ok(vec![Mixer::Grouped(whole); count as usize]);
    };
    let is_used = config.flag(&["use_sparse_attention"])?.unwrap_or(true);
    let block = config.required(&["sparse_block_size"])?;
    let indexer = Indexer {
        heads: config.required(&["sparse_num_index_heads"])?,
        head_dim: config.required(&["sparse_index_dim"])?,
        tokens: config.required(&["sparse_topk_blocks"])?.saturating_mul(block),
    };
    let marks = config.whole_numbers("sparse_attention_freq")?;
    if let Some(marks) = marks.as_ref().filter(|marks| marks.len() != count as usize) {
        let problem = format!("must mark {count} layers, got {}", marks.len());
        return Err(config.error("sparse_attention_freq", problem));
    }
    config.refuse_the_rest(crate::model::hf::known::SPARSE_BLOCKS)?;
    let mixer = |index: u32| {
        let mark = marks.as_ref().and_then(|marks| marks.get(index as usize));
        let is_sparse = is_used && mark != Some(&0);
        Mixer::Grouped(GroupedAttention { indexer: is_sparse.then_some(indexer), ..whole })
    };
    Ok((0..count).map(mixer).collect())
}

/// Layers that see everything have other heads; engines hold values beside keys though they are the same.
fn gemma4(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
    count: u32,
) -> Result<Vec<Mixer>, ModelError> {
    let windowed = GroupedAttention { qk_norm: QkNorm::PerHead, ..grouped(keys, family, hidden)? };
    let head_dim = keys.optional(&["global_head_dim"])?.unwrap_or(windowed.head_dim);
    let whole = GroupedAttention {
        head_dim,
        value_dim: head_dim,
        kv_heads: keys.optional(&["num_global_key_value_heads"])?.unwrap_or(windowed.kv_heads),
        ..windowed
    };
    keys.pass("attention_k_eq_v");
    if keys.optional(&["num_kv_shared_layers"])?.unwrap_or(0) > 0 {
        return Err(
            keys.error("num_kv_shared_layers", "layers that share a KV cache are not modelled")
        );
    }
    let reaches = reaches(keys, family, count)?;
    let mixer = |reach| match reach {
        Reach::Full => Mixer::Grouped(whole),
        reach => Mixer::Grouped(GroupedAttention { reach, ..windowed }),
    };
    Ok(reaches.into_iter().map(mixer).collect())
}

//! The list of layers.

use serde_json::Value;

use super::families::{Family, Layers};
use super::{hybrids, mixers, mlps, older, states};
use crate::model::checkpoint::{Layer, Mixer, Reach};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;

/// Layers that no model has.
const LAYERS_MAX: u32 = 10_000;

pub(super) fn read(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
) -> Result<Vec<Layer>, ModelError> {
    match family.layers {
        Layers::NemotronH => return nemotron_h(keys),
        Layers::Deci => return deci(keys, hidden),
        Layers::FalconH1 => return hybrids::falcon_h1(keys, family, hidden),
        Layers::GraniteHybrid => return hybrids::granite(keys, family, hidden),
        Layers::Jamba => return hybrids::jamba(keys, family, hidden),
        Layers::ShortConv => return hybrids::lfm2(keys, family, hidden),
        Layers::Older => return older::read(keys, family, hidden),
        Layers::Longcat => return hybrids::longcat(keys, family),
        _ => {}
    }
    let count = count(keys)?;
    let mixers = mixers::read(keys, family, hidden, count)?;
    let mlps = mlps::read(keys, family, count)?;
    let norms = match family.types[0] {
        // Before and behind attention and MLP; Gemma 4 has three more where it has experts.
        "gemma4_text" if mlps.iter().any(|mlp| mlp.experts.is_some()) => 7,
        "gemma2" | "gemma3_text" | "gemma4_text" | "glm4" | "afmoe" => 4,
        _ if family.has_biased_norms() => 4,
        // Without weights.
        "olmo" => 0,
        "kimi_linear" if keys.optional(&["attn_res_block_size"])?.is_some() => 6,
        // Attention and MLP side by side behind one norm.
        "cohere" | "cohere2" | "cohere2_moe" => 1,
        _ => 2,
    };
    let layers = mixers.into_iter().zip(mlps);
    Ok(layers.map(|(mixer, mlp)| Layer { mixer: Some(mixer), norms, ..mlp }).collect())
}

pub(super) fn count(keys: &Keys<'_>) -> Result<u32, ModelError> {
    let count = keys.required(&["num_hidden_layers", "n_layer", "num_layers"])?;
    if count > LAYERS_MAX {
        let message = format!("must be at most {LAYERS_MAX}, got {count}");
        return Err(keys.error("num_hidden_layers", message));
    }
    Ok(count)
}

/// Keys that say again what `layer_types` says.
const PATTERNS: [&str; 3] =
    ["sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"];

/// How far each layer sees.
pub(super) fn reaches(
    keys: &Keys<'_>,
    family: &Family,
    count: u32,
) -> Result<Vec<Reach>, ModelError> {
    let read = |name: &'static str| -> Result<Option<u32>, ModelError> {
        Ok(keys.optional(&[name])?.filter(|tokens| *tokens > 0))
    };
    let (sliding, chunk) = (read("sliding_window")?, read("attention_chunk_size")?);
    let first = keys.optional(&["max_window_layers"])?;
    let is_used = keys.flag(&["use_sliding_window"])?;
    let kinds = keys.list("layer_types")?.unwrap_or_default();
    // Llama 4 marks layers without positions with 0: those see all tokens.
    let marks = keys.whole_numbers("no_rope_layers")?.unwrap_or_default();
    let interval = keys.optional(&["no_rope_layer_interval"])?;
    if !kinds.is_empty() {
        // It says the same.
        for name in PATTERNS {
            keys.pass(name);
        }
    }
    if !kinds.is_empty() && kinds.len() != count as usize {
        return Err(
            keys.error("layer_types", format!("must name {count} layers, got {}", kinds.len()))
        );
    }
    // MiniMax: 1 is softmax attention, 0 lightning attention.
    if let Some(kinds) = keys.whole_numbers("attn_type_list")?
        && (kinds.len() != count as usize || kinds.iter().any(|kind| *kind != 1))
    {
        let problem = format!("must be 1 for {count} layers; linear attention is not modelled");
        return Err(keys.error("attn_type_list", problem));
    }
    let is_llama4 = family.is(&["llama4_text"]);
    let window = match (sliding, chunk) {
        (None, Some(tokens)) => Some(Reach::Chunk(tokens)),
        // Cohere's windows hold the token itself beside those before (vLLM 0.33.0, `models/commandr.py`).
        (Some(tokens), _) if family.is(&["cohere2", "cohere2_moe"]) => {
            Some(Reach::Window(tokens.saturating_add(1)))
        }
        (Some(tokens), _) => Some(Reach::Window(tokens)),
        (None, None) => None,
    };
    // Qwen2 and Qwen3 write a window that they use only if they say so.
    let uses_by_default =
        !family.is(&["qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "mimo", "smollm3"]);
    let window = window.filter(|_| is_used.unwrap_or(uses_by_default || !kinds.is_empty()));
    if sliding.is_some() && chunk.is_some_and(|chunk| sliding != Some(chunk)) {
        return Err(keys.error("attention_chunk_size", "must be the window where there is one"));
    }
    if kinds.is_empty() && window.is_some() && family.is(&["gemma4_text", "step3p5"]) {
        return Err(keys.error("layer_types", "is missing"));
    }
    if !marks.is_empty() && marks.len() != count as usize {
        return Err(
            keys.error("no_rope_layers", format!("must mark {count} layers, got {}", marks.len()))
        );
    }
    let mut reaches = Vec::new();
    for index in 0..count {
        let is_full = match kinds.get(index as usize) {
            Some(kind) => match kind.as_str().unwrap_or_default() {
                "full_attention" => true,
                "sliding_attention" | "chunked_attention" => false,
                other => {
                    let problem =
                        format!("must be full, sliding or chunked attention, got {other}");
                    return Err(keys.error("layer_types", problem));
                }
            },
            None if is_llama4 && !marks.is_empty() => marks.get(index as usize) == Some(&0),
            None if is_llama4 => (index + 1).is_multiple_of(interval.unwrap_or(4).max(1)),
            // Qwen2 gives a window to the layers from this one on.
            None if is_used == Some(true) => index < first.unwrap_or(0),
            None => match family.types[0] {
                "cohere2" | "cohere2_moe" | "exaone4" | "exaone_moe" | "olmo3" | "afmoe" => {
                    (index + 1).is_multiple_of(4)
                }
                "gemma3_text" => (index + 1).is_multiple_of(6),
                "gemma2" | "gpt_oss" | "vaultgemma" => !index.is_multiple_of(2),
                _ => false,
            },
        };
        if !is_full && window.is_none() && !kinds.is_empty() {
            return Err(
                keys.error("sliding_window", "is missing, or not used, though layers have it")
            );
        }
        reaches.push(window.filter(|_| !is_full).unwrap_or(Reach::Full));
    }
    Ok(reaches)
}

/// Nemotron-H: a letter or a word for each layer.
fn nemotron_h(keys: &Keys<'_>) -> Result<Vec<Layer>, ModelError> {
    let letters = keys.text(&["hybrid_override_pattern"])?;
    let words = keys.list("layers_block_type")?;
    if letters.is_some() && words.is_some() {
        return Err(
            keys.error("layers_block_type", "must not stand beside hybrid_override_pattern")
        );
    }
    let kinds: Vec<char> = match (letters, words) {
        (Some(letters), _) => letters.chars().collect(),
        (None, Some(words)) => {
            let letter = |word: &Value| match word.as_str().unwrap_or_default() {
                "mamba" | "linear_attention" => Ok('M'),
                "attention" | "full_attention" => Ok('*'),
                "moe" => Ok('E'),
                "mlp" => Ok('-'),
                other => Err(keys.error(
                    "layers_block_type",
                    format!("must be mamba, attention, moe or mlp, got {other}"),
                )),
            };
            words.iter().map(letter).collect::<Result<_, _>>()?
        }
        (None, None) => return Err(keys.error("hybrid_override_pattern", "is missing")),
    };
    if let Some(count) = keys.optional(&["num_hidden_layers"])?
        && count as usize != kinds.len()
    {
        let problem = format!("must be the {} layers of the pattern, got {count}", kinds.len());
        return Err(keys.error("num_hidden_layers", problem));
    }
    let (state, attention) = (states::state_space(keys)?, mixers::of_nemotron_h(keys)?);
    let dense = mlps::of_nemotron_h(keys)?;
    let has_experts = kinds.contains(&'E') || keys.find(&["n_routed_experts"]).is_some();
    let experts = has_experts.then(|| mlps::experts_of_nemotron_h(keys)).transpose()?;
    let layer = |kind: &char| {
        let nothing = Layer { mixer: None, dense: None, experts: None, norms: 1 };
        match kind {
            'M' => Ok(Layer { mixer: Some(Mixer::StateSpace(state)), ..nothing }),
            '*' => Ok(Layer { mixer: Some(Mixer::Grouped(attention)), ..nothing }),
            'E' => Ok(Layer { experts, ..nothing }),
            '-' => Ok(Layer { dense: Some(dense), ..nothing }),
            other => Err(keys.error(
                "hybrid_override_pattern",
                format!("must be of M, *, E and -, got {other}"),
            )),
        }
    };
    kinds.iter().map(layer).collect()
}

/// Nemotron-NAS: what was left of each layer of a larger model.
fn deci(keys: &Keys<'_>, hidden: u32) -> Result<Vec<Layer>, ModelError> {
    let count = count(keys)?;
    let heads = keys.required(&["num_attention_heads"])?;
    let blocks = keys.list("block_configs")?.unwrap_or_default();
    if blocks.len() != count as usize {
        return Err(
            keys.error("block_configs", format!("must be {count} layers, got {}", blocks.len()))
        );
    }
    for name in ["num_key_value_heads", "intermediate_size"] {
        keys.pass(name);
    }
    for name in ["attention_bias", "mlp_bias"] {
        if keys.flag(&[name])? == Some(true) {
            return Err(keys.error(name, "must be false"));
        }
    }
    blocks
        .iter()
        .map(|block| deci_layer(&keys.enter("block_configs", block)?, heads, hidden))
        .collect()
}

fn deci_layer(block: &Keys<'_>, heads: u32, hidden: u32) -> Result<Layer, ModelError> {
    let missing = |name: &'static str| block.error(name, "is missing");
    let attention = block.object("attention")?.ok_or_else(|| missing("attention"))?;
    let ffn = block.object("ffn")?.ok_or_else(|| missing("ffn"))?;
    let has_attention = attention.flag(&["no_op"])? != Some(true);
    let shared_by = attention.optional(&["n_heads_in_group"])?;
    let mixer = if has_attention {
        let shared_by = shared_by.filter(|by| *by > 0 && heads.is_multiple_of(*by));
        let problem =
            || attention.error("n_heads_in_group", format!("must divide the {heads} heads"));
        let shared_by = shared_by.ok_or_else(problem)?;
        Some(mixers::plain(heads, heads / shared_by, hidden / heads))
    } else {
        None
    };
    let has_mlp = ffn.flag(&["no_op"])? != Some(true);
    let dense = if has_mlp {
        let factor = ffn.number("ffn_mult")?.ok_or_else(|| ffn.error("ffn_mult", "is missing"))?;
        let dense = mlps::of_factor(factor, hidden);
        Some(dense.ok_or_else(|| ffn.error("ffn_mult", "makes an MLP wider than any"))?)
    } else {
        None
    };
    for part in [&attention, &ffn] {
        part.refuse_the_rest(crate::model::hf::known::BLOCK)?;
    }
    block.refuse_the_rest(&[])?;
    let norms = u32::from(mixer.is_some()) + u32::from(dense.is_some());
    Ok(Layer { mixer: mixer.map(Mixer::Grouped), dense, experts: None, norms })
}

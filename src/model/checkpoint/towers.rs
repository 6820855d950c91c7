//! Encoders of images: their weights.

mod more;

use super::tensors::{Component, Tensor};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;
use crate::model::hf::known;

/// The encoder of images and what brings its output to the width of the language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tower {
    /// Heads; GPUs that cannot share them evenly have all of it each.
    heads: u64,
    parts: Vec<Part>,
}

/// What a config says, beside the part of the encoder, of what stands behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Projector {
    /// Whether it has biases, where that is said.
    pub(super) has_bias: Option<bool>,
    /// Patches in each direction that become one.
    pub(super) merged: u32,
}

/// How several GPUs share a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    /// By outputs.
    Columns,
    /// By inputs.
    Rows,
    /// Not.
    Whole,
}

/// Matrices or vectors that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    count: u64,
    outputs: u64,
    inputs: u64,
    has_bias: bool,
    split: Split,
}

impl Tower {
    /// Its weights on one of `tp` GPUs.
    pub fn tensors(&self, tp: u32) -> Vec<Tensor> {
        let tp = u64::from(tp.max(1));
        let tp = if self.heads.is_multiple_of(tp) { tp } else { 1 };
        let tensor = |part: &Part| {
            let (outputs, inputs) = match part.split {
                Split::Columns => (part.outputs.div_ceil(tp), part.inputs),
                Split::Rows => (part.outputs, part.inputs.div_ceil(tp)),
                Split::Whole => (part.outputs, part.inputs),
            };
            let biases = if part.has_bias { outputs } else { 0 };
            Tensor {
                biases,
                copies: part.count,
                ..Tensor::plain(Component::Vision, outputs, inputs)
            }
        };
        self.parts.iter().map(tensor).collect()
    }

    /// The one that Llama 4 has where its config does not say.
    pub(super) fn of_llama4(text: u64) -> Self {
        Self { heads: Llama4::HEADS, parts: llama4_parts(Llama4::default(), text) }
    }

    /// Reads a `vision_config` of a model of this width.
    pub(super) fn read(
        keys: &Keys<'_>,
        text: u64,
        projector: Projector,
    ) -> Result<Self, ModelError> {
        let kind = keys.text(&["model_type"])?.unwrap_or_default();
        let heads =
            keys.optional(&["num_heads", "num_attention_heads", "vt_num_attention_heads"])?;
        let heads = heads.map_or(Llama4::HEADS, u64::from);
        if kind != "pixtral" && projector.has_bias == Some(false) {
            let problem = "must be true with this encoder of images";
            return Err(keys.error("multimodal_projector_bias", problem));
        }
        let parts = match kind {
            _ if keys.find(&["vt_hidden_size"]).is_some() => moon(keys)?,
            "qwen3_vl" | "qwen3_vl_moe" | "qwen3_5" | "qwen3_5_moe" | "qwen3_5_vision"
            | "qwen3_5_moe_vision" => qwen3(keys)?,
            "gemma4_vision" => gemma4(keys, text)?,
            "pixtral" => more::pixtral(keys, text, projector)?,
            "siglip_vision_model" => more::siglip(keys, text)?,
            "qwen2_5_vl" | "qwen2_5_vl_vision" => more::qwen2_5(keys)?,
            "qwen2_vl" | "qwen2_vl_vision" => more::qwen2(keys)?,
            // Files of Qwen2-VL and Qwen2.5-VL do not say.
            "" if keys.find(&["embed_dim"]).is_some() => more::qwen2(keys)?,
            "" if keys.find(&["fullatt_block_indexes"]).is_some() => more::qwen2_5(keys)?,
            "llama4_vision_model" => llama4(keys, text)?,
            "clip_vision_model" if keys.find(&["img_token_compression_config"]).is_some() => {
                minimax(keys)?
            }
            other => {
                let problem = format!(
                    "this encoder of images is not modelled, got {other}; where text alone is \
                    served, give `text_config` as a file of its own"
                );
                return Err(keys.error("model_type", problem));
            }
        };
        keys.refuse_the_rest(&[known::VISION, known::DESCRIPTIONS].concat())?;
        Ok(Self { heads, parts })
    }
}

fn linear(count: u64, outputs: u64, inputs: u64, split: Split) -> Part {
    Part { count, outputs, inputs, has_bias: true, split }
}

fn vectors(count: u64, elements: u64) -> Part {
    Part { count, outputs: elements, inputs: 1, has_bias: false, split: Split::Whole }
}

/// Two norms with biases, queries, keys and values in one, the output, and an MLP of two matrices: all with biases.
fn blocks(count: u64, hidden: u64, width: u64) -> Vec<Part> {
    vec![
        vectors(count, 4 * hidden),
        linear(count, 3 * hidden, hidden, Split::Columns),
        linear(count, hidden, hidden, Split::Rows),
        linear(count, width, hidden, Split::Columns),
        linear(count, hidden, width, Split::Rows),
    ]
}

fn qwen3(keys: &Keys<'_>) -> Result<Vec<Part>, ModelError> {
    let read = |name: &'static str| keys.required(&[name]).map(u64::from);
    let (hidden, depth) = (read("hidden_size")?, read("depth")?);
    let (patch, frames) = (read("patch_size")?, read("temporal_patch_size")?);
    let colours = keys.optional(&["in_channels", "in_chans"])?.map_or(3, u64::from);
    let merged = hidden * read("spatial_merge_size")?.pow(2);
    let outside = read("out_hidden_size")?;
    let deep =
        keys.whole_numbers("deepstack_visual_indexes")?.map_or(0, |layers| layers.len() as u64);
    keys.pass("num_heads");
    let mut parts = vec![
        linear(1, hidden, colours * frames * patch * patch, Split::Whole),
        vectors(1, read("num_position_embeddings")? * hidden),
    ];
    parts.extend(blocks(depth, hidden, read("intermediate_size")?));
    // One merger behind the last layer, and one behind each of some layers before.
    parts.push(vectors(1, 2 * hidden));
    parts.push(vectors(deep, 2 * merged));
    parts.push(linear(1 + deep, merged, merged, Split::Columns));
    parts.push(linear(1 + deep, outside, merged, Split::Rows));
    Ok(parts)
}

/// `MoonViT` (Kimi); the second one has neither biases nor a norm before its merger.
/// Patches to a side that no encoder merges.
const MERGE_MAX: u64 = 64;

fn moon(keys: &Keys<'_>) -> Result<Vec<Part>, ModelError> {
    let read = |name: &'static str| keys.required(&[name]).map(u64::from);
    let hidden = read("vt_hidden_size")?;
    let patch = read("patch_size")?;
    let layers = read("vt_num_hidden_layers")?;
    let (height, width) = (read("init_pos_emb_height")?, read("init_pos_emb_width")?);
    let merge = keys.whole_numbers("merge_kernel_size")?.unwrap_or_default();
    if let Some(size) = merge.iter().find(|size| **size > MERGE_MAX) {
        let problem = format!("must be at most {MERGE_MAX}, got {size}");
        return Err(keys.error("merge_kernel_size", problem));
    }
    let merged = hidden * merge.iter().take(4).product::<u64>();
    let text = read("text_hidden_size")?;
    let inner = keys.optional(&["qkv_hidden_size"])?.map_or(hidden, u64::from);
    let mlp = read("vt_intermediate_size")?;
    for name in ["vt_num_attention_heads", "init_pos_emb_time", "mm_hidden_size"] {
        keys.pass(name);
    }
    let is_second = keys.text(&["mm_projector_type"])? == Some("patchmergerv2");
    for flag in ["attn_bias", "linear_bias", "patch_embed_proj_bias"] {
        if keys.flag(&[flag])? == Some(is_second) {
            return Err(keys.error(flag, format!("must be {} with this projector", !is_second)));
        }
    }
    let linear = |count, outputs, inputs, split| Part {
        has_bias: !is_second,
        ..linear(count, outputs, inputs, split)
    };
    let norm = if is_second { hidden } else { 2 * hidden };
    let mut parts = vec![
        linear(1, hidden, 3 * patch * patch, Split::Whole),
        vectors(1, height * width * hidden),
        vectors(2 * layers + 1, norm),
        linear(layers, 3 * inner, hidden, Split::Columns),
        linear(layers, hidden, inner, Split::Rows),
        linear(layers, mlp, hidden, Split::Columns),
        linear(layers, hidden, mlp, Split::Rows),
    ];
    parts.push(vectors(1, if is_second { text } else { norm }));
    parts.push(linear(1, merged, merged, Split::Whole));
    parts.push(linear(1, text, merged, Split::Whole));
    Ok(parts)
}

/// Gemma 4: every GPU has all of it.
fn gemma4(keys: &Keys<'_>, text: u64) -> Result<Vec<Part>, ModelError> {
    let read = |name: &'static str| keys.required(&[name]).map(u64::from);
    let (hidden, layers, width) =
        (read("hidden_size")?, read("num_hidden_layers")?, read("intermediate_size")?);
    let heads = read("num_attention_heads")? * read("head_dim")?;
    let patch = read("patch_size")?;
    for name in ["global_head_dim", "num_key_value_heads"] {
        keys.pass(name);
    }
    for name in ["attention_bias", "use_clipped_linears"] {
        if keys.flag(&[name])? == Some(true) {
            return Err(keys.error(name, "must be false"));
        }
    }
    let plain = |count, outputs, inputs| Part {
        has_bias: false,
        ..linear(count, outputs, inputs, Split::Whole)
    };
    Ok(vec![
        plain(1, hidden, 3 * patch * patch),
        vectors(1, 2 * read("position_embedding_size")? * hidden),
        vectors(layers, 4 * hidden + 2 * read("head_dim")?),
        plain(4 * layers, heads, hidden),
        plain(3 * layers, width, hidden),
        plain(1, text, hidden),
    ])
}

/// The encoder of MiniMax-M3, and the two MLPs behind it.
fn minimax(keys: &Keys<'_>) -> Result<Vec<Part>, ModelError> {
    let read = |name: &'static str| keys.required(&[name]).map(u64::from);
    let (hidden, layers, patch) =
        (read("hidden_size")?, read("num_hidden_layers")?, read("patch_size")?);
    let text = read("projection_dim")?;
    let Some(merge) = keys.object("img_token_compression_config")? else {
        return Err(keys.error("img_token_compression_config", "is missing"));
    };
    let frames = merge.required(&["temporal_patch_size"]).map(u64::from)?;
    let merged = text * merge.required(&["spatial_merge_size"]).map(u64::from)?.pow(2);
    merge.pass("image_token_compression_method");
    keys.pass("vocab_size");
    if keys.optional(&["num_channels"])?.is_some_and(|count| count != 3) {
        return Err(keys.error("num_channels", "must be 3"));
    }
    let patches =
        Part { has_bias: false, ..linear(1, hidden, 3 * frames * patch * patch, Split::Whole) };
    let mut parts = vec![patches, vectors(1, 2 * hidden)];
    parts.extend(blocks(layers, hidden, read("intermediate_size")?));
    parts.push(linear(1, text, hidden, Split::Columns));
    parts.push(linear(2, text, text, Split::Rows));
    parts.push(linear(1, text, merged, Split::Columns));
    Ok(parts)
}

/// The encoder of Llama 4, with the sizes that its class takes where its config says none.
#[derive(Debug, Clone, Copy)]
struct Llama4 {
    hidden: u64,
    layers: u64,
    width: u64,
    image: u64,
    patch: u64,
    inside: u64,
    outside: u64,
    output: u64,
}

impl Llama4 {
    const HEADS: u64 = 16;
}

impl Default for Llama4 {
    fn default() -> Self {
        Self {
            hidden: 768,
            layers: 34,
            width: 5632,
            image: 448,
            patch: 14,
            inside: 4096,
            outside: 4096,
            output: 7680,
        }
    }
}

fn llama4(keys: &Keys<'_>, text: u64) -> Result<Vec<Part>, ModelError> {
    let usual = Llama4::default();
    let read = |name: &'static str, usual: u64| -> Result<u64, ModelError> {
        Ok(keys.optional(&[name])?.map_or(usual, u64::from))
    };
    let shape = Llama4 {
        hidden: read("hidden_size", usual.hidden)?,
        layers: read("num_hidden_layers", usual.layers)?,
        width: read("intermediate_size", usual.width)?,
        image: read("image_size", usual.image)?,
        patch: read("patch_size", usual.patch)?.max(1),
        inside: read("projector_input_dim", usual.inside)?,
        outside: read("projector_output_dim", usual.outside)?,
        output: read("vision_output_dim", usual.output)?,
    };
    for name in [
        "num_attention_heads",
        "num_channels",
        "pixel_shuffle_ratio",
        "projector_dropout",
        "rope_theta",
    ] {
        keys.pass(name);
    }
    for name in [
        "multi_modal_projector_bias",
        "vision_feature_layer",
        "vision_feature_select_strategy",
        "norm_eps",
    ] {
        keys.pass(name);
    }
    Ok(llama4_parts(shape, text))
}

fn llama4_parts(shape: Llama4, text: u64) -> Vec<Part> {
    let plain =
        |outputs, inputs, split| Part { has_bias: false, ..linear(1, outputs, inputs, split) };
    let patches = (shape.image / shape.patch).pow(2);
    let mut parts = vec![
        plain(shape.hidden, 3 * shape.patch * shape.patch, Split::Columns),
        // Places, the class, and norms before and behind.
        vectors(1, (patches + 1 + 1 + 4) * shape.hidden),
    ];
    parts.extend(blocks(shape.layers, shape.hidden, shape.width));
    parts.push(plain(shape.inside, shape.width, Split::Columns));
    parts.push(plain(shape.outside, shape.outside, Split::Rows));
    parts.push(plain(text, shape.output, Split::Columns));
    parts
}

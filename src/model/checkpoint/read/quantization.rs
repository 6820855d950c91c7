//! `quantization_config`, or `hf_quant_config.json` where there is none.

use std::collections::BTreeMap;

use serde_json::Value;

use super::families::{Family, Layers};
use crate::model::checkpoint::quantized::{
    Kept, Packing, QuantizedWeights, single_draft_name, single_name,
};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;
use crate::model::hf::known;
use crate::model::hf::quantization::{group_size, kv_dtype};
use crate::model::precision::KvDtype;

type Formats = Option<(Option<QuantizedWeights>, KvDtype)>;

/// What is packed, and what keys and values are stored in.
pub(super) fn read(
    keys: &Keys<'_>,
    outer: &Keys<'_>,
    family: &Family,
    beside: Option<&Value>,
) -> Result<Formats, ModelError> {
    let fp4_experts = match keys.text(&["expert_dtype"])? {
        None | Some("fp4") => true,
        Some("fp8") => false,
        Some(other) => {
            return Err(keys.error("expert_dtype", format!("must be fp4 or fp8, got {other}")));
        }
    };
    let of_config = |config: &Keys<'_>| {
        let formats = if family.is(&["deepseek_v4"]) {
            of_deepseek_v4(config, family, fp4_experts)?
        } else {
            of(config, family)?
        };
        config.refuse_the_rest(known::QUANTIZATION)?;
        Ok(Some(formats))
    };
    for name in ["quantization_config", "compression_config"] {
        if let Some(config) = keys.object(name)? {
            return of_config(&config);
        }
        if let Some(config) = outer.object(name)? {
            return of_config(&config);
        }
    }
    let Some(beside) = beside else { return Ok(None) };
    let map = beside
        .as_object()
        .ok_or_else(|| outer.error("hf_quant_config.json", "must be an object"))?;
    let file = Keys::new(keys.model(), map, "hf_quant_config.json: ");
    let formats = match file.object("quantization")? {
        Some(config) => {
            let formats = of(&config, family)?;
            config.refuse_the_rest(known::QUANTIZATION)?;
            formats
        }
        None => of(&file, family)?,
    };
    file.refuse_the_rest(known::QUANTIZATION)?;
    Ok(Some(formats))
}

/// What SGLang stores keys and values in that is asked for `auto` (0.5.23, `srt/configs/model_config.py`): what either
/// file says, the one beside only if it says what made it, or packs in 8 bits.
pub(super) fn kv_of_sglang(outer: &Keys<'_>, keys: &Keys<'_>, beside: Option<&Value>) -> KvDtype {
    let is_fp8 = |config: &Value| {
        let bits = &config["kv_cache_scheme"]["num_bits"];
        config["kv_cache_quant_algo"] == "FP8" || bits.as_u64() == Some(8)
    };
    let own = keys.find(&["quantization_config"]).map(|(_, config)| config.clone());
    let own =
        own.or_else(|| outer.find(&["quantization_config"]).map(|(_, config)| config.clone()));
    let says = own.as_ref().is_some_and(is_fp8);
    // A config that does not name its method is taken for none, and so is the file beside it.
    let is_named = own.is_none_or(|config| config.get("quant_method").is_some());
    let says_beside = beside.filter(|_| is_named).is_some_and(|file| {
        let config = file.get("quantization").unwrap_or(file);
        is_fp8(config) && (file.get("producer").is_some() || config["quant_algo"] == "FP8")
    });
    if says || says_beside { KvDtype::Fp8 } else { KvDtype::Auto }
}

fn of(
    config: &Keys<'_>,
    family: &Family,
) -> Result<(Option<QuantizedWeights>, KvDtype), ModelError> {
    let kv = kv_dtype(config)?;
    let (single, single_drafts) = single(config)?;
    let algorithm = config.text(&["quant_algo"])?;
    let method = config.text(&["quant_method"])?;
    let (rest, includes_head) = match (method, algorithm) {
        (Some("gptq" | "awq"), _) => {
            let bits = config.optional(&["bits", "w_bit"])?.unwrap_or(4);
            (
                Some(integers(
                    config,
                    "bits",
                    bits,
                    group_size(config, &["group_size", "q_group_size"])?,
                    true,
                )?),
                false,
            )
        }
        (Some("fp8" | "fbgemm_fp8"), _) => (Some(fp8(config)?), false),
        (Some("mxfp4"), _) => (Some(Packing::Mxfp4), false),
        (Some("compressed-tensors"), _) => (Some(groups(config)?), false),
        (None | Some("modelopt" | "modelopt_fp4"), Some(algorithm)) => {
            // The groups say the same in another way.
            config.pass("config_groups");
            let group = config.optional(&["group_size"])?;
            if let Some(group) = group.filter(|group| *group != 16) {
                return Err(config.error("group_size", format!("must be 16, got {group}")));
            }
            let rest = match algorithm {
                "MIXED_PRECISION" => None,
                other => Some(by_algorithm(config, "quant_algo", other)?),
            };
            (rest, true)
        }
        (method, _) => {
            let right = "gptq, awq, fp8, fbgemm_fp8, mxfp4, compressed-tensors or modelopt";
            let got = method.unwrap_or_default();
            return Err(config.error("quant_method", format!("must be {right}, got {got:?}")));
        }
    };
    // gpt-oss's own method; in other checkpoints it converts experts alone where there are some (Kimi-K3).
    let has_experts = family.layers != Layers::Dense;
    let only_experts = rest == Some(Packing::Mxfp4) && (method == Some("mxfp4") || has_experts);
    let weights = QuantizedWeights {
        rest: rest.filter(|_| !only_experts),
        experts: rest.filter(|_| only_experts),
        draft_experts: None,
        includes_head,
        single,
        single_drafts,
        // gpt-oss names what its class leaves anyway.
        kept: if family.is(&["gpt_oss"]) {
            config.find(&LISTS);
            Kept::default()
        } else {
            kept(config)?
        },
        left: Vec::new(),
        first_layer: 0,
        entries: family.entries_per_layer(),
        alike: Vec::new(),
        are_drafts: false,
        parents: family.parents(),
    };
    Ok((Some(weights), kv))
}

/// DeepSeek-V4: all but experts in blocks of 8 bits with scales that are powers of two.
fn of_deepseek_v4(
    config: &Keys<'_>,
    family: &Family,
    fp4_experts: bool,
) -> Result<(Option<QuantizedWeights>, KvDtype), ModelError> {
    let kv = kv_dtype(config)?;
    let rest = match fp8(config)? {
        Packing::Fp8Blocks { block, .. } => Packing::Fp8Blocks { block, scale: 1 },
        other => other,
    };
    let usual = if fp4_experts { Packing::Mxfp4 } else { rest };
    let experts = match config.text(&["moe_quant_algo"])? {
        Some(algorithm) => by_algorithm(config, "moe_quant_algo", algorithm)?,
        None => usual,
    };
    // Checkpoints whose experts were packed anew leave those of layers that draft as DeepSeek packed them.
    let ignored = config.list("ignore")?.unwrap_or_default();
    let leaves_drafts =
        ignored.iter().filter_map(Value::as_str).any(|name| name.starts_with("mtp"));
    // They say the same of experts.
    for name in
        ["config_groups", "quantized_layers", "group_size", "quant_algo", "quant_method", "ignore"]
    {
        config.pass(name);
    }
    let weights = QuantizedWeights {
        rest: Some(rest),
        experts: Some(experts),
        draft_experts: leaves_drafts.then_some(usual),
        includes_head: false,
        single: BTreeMap::new(),
        single_drafts: BTreeMap::new(),
        kept: Kept::default(),
        left: Vec::new(),
        first_layer: 0,
        entries: family.entries_per_layer(),
        alike: Vec::new(),
        are_drafts: false,
        parents: family.parents(),
    };
    Ok((Some(weights), kv))
}

fn by_algorithm(config: &Keys<'_>, key: &str, algorithm: &str) -> Result<Packing, ModelError> {
    match algorithm {
        "FP8" => Ok(Packing::Fp8),
        "MXFP8" => Ok(Packing::Mxfp8),
        "NVFP4" | "W4A16_NVFP4" => Ok(Packing::Nvfp4),
        other => Err(config.error(
            key,
            format!("must be FP8, MXFP8, NVFP4, W4A16_NVFP4 or MIXED_PRECISION, got {other:?}"),
        )),
    }
}

type Single = BTreeMap<String, Packing>;

/// Layers that are told one by one, and those of them that draft.
fn single(config: &Keys<'_>) -> Result<(Single, Single), ModelError> {
    let (mut single, mut drafts) = (Single::new(), Single::new());
    let Some(layers) = config.object("quantized_layers")? else { return Ok((single, drafts)) };
    for (name, value) in layers.entries() {
        let layer = layers.enter(name, value)?;
        let algorithm = layer.text(&["quant_algo"])?.unwrap_or_default();
        let packing = by_algorithm(&layer, "quant_algo", algorithm)?;
        layer.optional(&["group_size"])?;
        layer.refuse_the_rest(&[])?;
        if let Some(name) = single_name(name) {
            single.insert(name, packing);
        } else if let Some(name) = single_draft_name(name) {
            drafts.insert(name, packing);
        }
    }
    Ok((single, drafts))
}

const LISTS: [&str; 4] = ["modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"];

/// The modules that a checkpoint leaves as they are.
fn kept(config: &Keys<'_>) -> Result<Kept, ModelError> {
    let Some((list, patterns)) = config.find(&LISTS) else { return Ok(Kept::default()) };
    let patterns = patterns.as_array().ok_or_else(|| config.must_be(list, "a list", patterns))?;
    if let Some(pattern) = patterns.iter().find(|pattern| !pattern.is_string()) {
        return Err(config.must_be(list, "a list of words", pattern));
    }
    let kept = Kept::of(patterns.iter().filter_map(Value::as_str));
    kept.map_err(|pattern| {
        config.error(list, format!("must be names and expressions, got {pattern:?}"))
    })
}

fn fp8(config: &Keys<'_>) -> Result<Packing, ModelError> {
    Ok(match config.whole_numbers("weight_block_size")?.as_deref() {
        None => Packing::Fp8,
        Some([rows, columns])
            if (1..=1 << 16).contains(rows) && (1..=1 << 16).contains(columns) =>
        {
            Packing::Fp8Blocks { block: [*rows as u32, *columns as u32], scale: 4 }
        }
        Some(_) => return Err(config.error("weight_block_size", "must be two numbers above 0")),
    })
}

fn integers(
    config: &Keys<'_>,
    key: &str,
    bits: u32,
    group: u32,
    zeros: bool,
) -> Result<Packing, ModelError> {
    match bits {
        4 | 8 => Ok(Packing::IntGroups { bits, group, zeros }),
        other => Err(config.error(key, format!("must be 4 or 8, got {other}"))),
    }
}

/// The one group of weights in a compressed-tensors checkpoint.
fn groups(config: &Keys<'_>) -> Result<Packing, ModelError> {
    let wrong = |got: &str| {
        config.error("config_groups", format!("must be one group with weights, got {got}"))
    };
    let groups = config.object("config_groups")?.ok_or_else(|| wrong("none"))?;
    let mut entries = groups.entries();
    let (Some((name, value)), None) = (entries.next(), entries.next()) else {
        return Err(wrong("none or several"));
    };
    let group = groups.enter(name, value)?;
    let weights = group.object("weights")?.ok_or_else(|| wrong("none"))?;
    let targets = group.list("targets")?.unwrap_or_default();
    if let Some(target) = targets.iter().find(|target| target.as_str() != Some("Linear")) {
        return Err(group.must_be("targets", "[\"Linear\"]", target));
    }
    let activations = group.object("input_activations")?;
    let bits = weights.required(&["num_bits"])?;
    let kind = weights.text(&["type"])?.unwrap_or_default();
    let size = group_size(&weights, &["group_size"])?;
    let packing = match (kind, bits) {
        ("float", 8) => match weights.whole_numbers("block_structure")?.as_deref() {
            None if size == 32 => Packing::Mxfp8,
            None => Packing::Fp8,
            Some([rows, columns])
                if (1..=1 << 16).contains(rows) && (1..=1 << 16).contains(columns) =>
            {
                Packing::Fp8Blocks { block: [*rows as u32, *columns as u32], scale: 4 }
            }
            Some(_) => {
                return Err(weights.error("block_structure", "must be two numbers above 0"));
            }
        },
        ("float", 4) if size == 32 => Packing::Mxfp4,
        ("float", 4) if size == 16 => Packing::Nvfp4,
        ("float", 4) => {
            return Err(weights.error("group_size", format!("must be 16 or 32, got {size}")));
        }
        ("int", 8) if activations.is_some() => Packing::Int8,
        ("int", bits) => integers(config, "config_groups.weights.num_bits", bits, size, false)?,
        (other, _) => {
            return Err(weights.error("type", format!("must be float or int, got {other:?}")));
        }
    };
    weights.refuse_the_rest(known::QUANTIZED_TENSOR)?;
    group.refuse_the_rest(known::QUANTIZED_GROUP)?;
    Ok(packing)
}

//! Reading `quantization_config`: which scheme, which modules it converts, and the KV that goes with it.

use super::keys::Keys;
use super::known;
use crate::model::error::ModelError;
use crate::model::precision::{KvDtype, Module, Quantization, Scheme};

/// Reads a `quantization_config`.
pub(super) fn read(config: &Keys<'_>) -> Result<(Quantization, KvDtype), ModelError> {
    let scheme = read_scheme(config)?;
    let kept = kept_modules(config)?;
    let modules = Module::CONVERTIBLE.into_iter().filter(|module| !kept.contains(module)).collect();
    let kv = kv_dtype(config)?;
    config.refuse_the_rest(known::QUANTIZATION)?;
    Ok((Quantization { scheme, modules }, kv))
}

/// What an engine stores KV in that is asked for `auto`.
pub(in crate::model) fn kv_dtype(config: &Keys<'_>) -> Result<KvDtype, ModelError> {
    if let Some((name, value)) = config.find(&["kv_cache_quant_algo"]) {
        return match value.as_str() {
            Some("FP8") => Ok(KvDtype::Fp8),
            _ => Err(config.must_be(name, "FP8 or null", value)),
        };
    }
    let Some((name, value)) = config.find(&["kv_cache_scheme"]) else { return Ok(KvDtype::Auto) };
    // Old files of ModelOpt hold a word.
    if value.as_str() == Some("FP8") {
        return Ok(KvDtype::Fp8);
    }
    let scheme = config.enter(name, value)?;
    let bits = scheme.required(&["num_bits"])?;
    let kind = scheme.text(&["type"])?.unwrap_or_default();
    if (bits, kind) != (8, "float") {
        return Err(config.must_be(name, "8-bit floats", value));
    }
    scheme.refuse_the_rest(known::QUANTIZED_TENSOR)?;
    Ok(KvDtype::Fp8)
}

fn read_scheme(config: &Keys<'_>) -> Result<Scheme, ModelError> {
    match config.text(&["quant_method"])?.unwrap_or_default() {
        "gptq" | "awq" => {
            let bits = config.optional(&["bits", "w_bit"])?.unwrap_or(4);
            int_groups(config, "bits", bits, group_size(config, &["group_size", "q_group_size"])?)
        }
        "fp8" | "fbgemm_fp8" => {
            let block = config.whole_numbers("weight_block_size")?;
            let block = match block.as_deref() {
                None => None,
                Some([rows, columns])
                    if (1..=1 << 16).contains(rows) && (1..=1 << 16).contains(columns) =>
                {
                    Some([*rows as u32, *columns as u32])
                }
                Some(_) => {
                    return Err(config.error("weight_block_size", "must be two numbers above 0"));
                }
            };
            Ok(Scheme::Fp8 { block })
        }
        "mxfp4" => Ok(Scheme::Mxfp4),
        "compressed-tensors" => compressed_tensors(config),
        "modelopt" | "modelopt_fp4" => {
            // The groups say the same in another way.
            config.pass("config_groups");
            let group = config.optional(&["group_size"])?;
            if let Some(group) = group.filter(|group| *group != 16) {
                return Err(config.error("group_size", format!("must be 16, got {group}")));
            }
            match config.text(&["quant_algo"])?.unwrap_or_default() {
                "FP8" => Ok(Scheme::Fp8 { block: None }),
                "NVFP4" => Ok(Scheme::Nvfp4),
                other => Err(unknown(config, "quant_algo", other, "FP8 or NVFP4")),
            }
        }
        other => Err(unknown(
            config,
            "quant_method",
            other,
            "gptq, awq, fp8, fbgemm_fp8, mxfp4, compressed-tensors or modelopt",
        )),
    }
}

/// Inputs that share a scale; −1 means all inputs of an output, whose scales weigh nothing.
pub(in crate::model) fn group_size(
    config: &Keys<'_>,
    names: &[&'static str],
) -> Result<u32, ModelError> {
    match config.find(names) {
        Some((_, value)) if value.as_i64() == Some(-1) => Ok(1 << 20),
        _ => Ok(config.optional(names)?.unwrap_or(128)),
    }
}

/// The scheme of the one group of weights in a compressed-tensors checkpoint.
fn compressed_tensors(config: &Keys<'_>) -> Result<Scheme, ModelError> {
    let right = "one group with weights";
    let Some(groups) = config.object("config_groups")? else {
        return Err(unknown(config, "config_groups", "none", right));
    };
    let mut entries = groups.entries();
    let (Some((name, value)), None) = (entries.next(), entries.next()) else {
        return Err(unknown(config, "config_groups", "none or several", right));
    };
    let group = groups.enter(name, value)?;
    let Some(weights) = group.object("weights")? else {
        return Err(unknown(config, "config_groups", "none", right));
    };
    let targets = group.list("targets")?.unwrap_or_default();
    if let Some(target) = targets.iter().find(|target| target.as_str() != Some("Linear")) {
        return Err(group.must_be("targets", "[\"Linear\"]", target));
    }
    let quantizes_activations = group.object("input_activations")?.is_some();
    let bits = weights.required(&["num_bits"])?;
    let kind = weights.text(&["type"])?.unwrap_or_default();
    let size = group_size(&weights, &["group_size"])?;
    let scheme = match (kind, bits) {
        ("float", 8) => match weights.whole_numbers("block_structure")?.as_deref() {
            None => Ok(Scheme::Fp8 { block: None }),
            Some([rows, columns]) if *rows <= 1 << 16 && *columns <= 1 << 16 => {
                Ok(Scheme::Fp8 { block: Some([*rows as u32, *columns as u32]) })
            }
            Some(_) => Err(weights.error("block_structure", "must be two numbers")),
        },
        ("float", 4) if size == 32 => Ok(Scheme::Mxfp4),
        ("float", 4) if size == 16 => Ok(Scheme::Nvfp4),
        ("float", 4) => Err(weights.error("group_size", format!("must be 16 or 32, got {size}"))),
        ("int", 8) if quantizes_activations => Ok(Scheme::Int8),
        ("int", bits) => int_groups(config, "config_groups.weights.num_bits", bits, size),
        _ => Err(unknown(config, "config_groups.weights.type", kind, "float or int")),
    }?;
    weights.refuse_the_rest(known::QUANTIZED_TENSOR)?;
    group.refuse_the_rest(known::QUANTIZED_GROUP)?;
    Ok(scheme)
}

fn int_groups(keys: &Keys<'_>, key: &str, bits: u32, group: u32) -> Result<Scheme, ModelError> {
    match bits {
        4 | 8 => Ok(Scheme::IntGroups { bits, group }),
        other => Err(unknown(keys, key, &other.to_string(), "4 or 8")),
    }
}

fn unknown(keys: &Keys<'_>, key: &str, got: &str, right: &str) -> ModelError {
    keys.error(key, format!("must be {right}, got {got:?}"))
}

/// The modules a checkpoint leaves in 16 bits, by the patterns it names. Patterns that name single
/// layers must name the module in enough of them to stand for all; parts that are never converted
/// or not modelled (norms, towers, embeddings, heads, routers) are passed over.
fn kept_modules(keys: &Keys<'_>) -> Result<Vec<Module>, ModelError> {
    const LISTS: [&str; 4] =
        ["modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"];
    const PASSED: [&str; 11] = [
        "e_score_correction_bias",
        "norm",
        "embed",
        "lm_head",
        "router",
        "gate",
        "vision",
        "visual",
        "multi_modal",
        "mtp",
        "head",
    ];
    let Some((list, patterns)) = keys.find(&LISTS) else { return Ok(Vec::new()) };
    let patterns = patterns.as_array().ok_or_else(|| keys.must_be(list, "a list", patterns))?;
    let mut kept: Vec<Module> = Vec::new();
    for pattern in patterns {
        let pattern =
            pattern.as_str().ok_or_else(|| keys.must_be(list, "a list of words", pattern))?;
        let module = match pattern {
            _ if pattern.contains("gate_proj") || pattern.contains("gate_up") => Module::Mlp,
            _ if pattern.contains("shared_expert") && !pattern.ends_with("gate") => {
                Module::SharedExperts
            }
            _ if PASSED.iter().any(|part| pattern.contains(part)) => continue,
            _ if pattern.contains("attn") => Module::Attention,
            _ if pattern.contains("experts") => Module::Experts,
            _ if pattern.contains("mlp") || pattern.contains("feed_forward") => Module::Mlp,
            _ => {
                let right = "patterns that name attention, mlp or experts";
                return Err(unknown(keys, list, pattern, right));
            }
        };
        let of_one_layer = pattern.split('.').any(|part| part.parse::<u32>().is_ok());
        if of_one_layer {
            let right = "patterns over all layers (single layers in 16 bits are not modelled)";
            return Err(unknown(keys, list, pattern, right));
        }
        if !kept.contains(&module) {
            kept.push(module);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelSpec;

    fn model_of(quantization: &str) -> Result<ModelSpec, ModelError> {
        let json = format!(
            r#"{{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4,
                "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512,
                "quantization_config": {quantization}}}"#
        );
        ModelSpec::from_hf_config(&json, "small")
    }

    fn scheme_of(quantization: &str) -> Result<Quantization, ModelError> {
        Ok(model_of(quantization)?.weights.quantization.expect("it is quantised"))
    }

    #[test]
    fn checkpoints_with_scales_for_kv_keep_it_in_8_bits() {
        let kv = |more: &str| {
            model_of(&format!(r#"{{"quant_method": "modelopt", "quant_algo": "FP8"{more}}}"#))
                .map(|model| model.kv_cache_dtype)
        };
        assert_eq!(kv(""), Ok(KvDtype::Auto));
        assert_eq!(kv(r#", "kv_cache_scheme": null"#), Ok(KvDtype::Auto));
        let scheme = r#", "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": false}"#;
        assert_eq!(kv(scheme), Ok(KvDtype::Fp8));
        assert_eq!(kv(r#", "kv_cache_quant_algo": "FP8""#), Ok(KvDtype::Fp8));
        let told = kv(&scheme.replace('8', "4")).unwrap_err().to_string();
        assert!(
            told.contains("quantization_config.kv_cache_scheme: must be 8-bit floats"),
            "{told}"
        );
        let told = kv(r#", "quantized_layers": {"a": 1}"#).unwrap_err().to_string();
        assert!(told.contains("quantization_config.quantized_layers: not modelled"), "{told}");
    }

    #[test]
    fn the_common_checkpoints_are_read() {
        let gptq = scheme_of(r#"{"quant_method": "gptq", "bits": 4, "group_size": 128}"#).unwrap();
        assert_eq!(gptq.scheme, Scheme::IntGroups { bits: 4, group: 128 });
        let tensors = r#"{"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn", "lm_head"],
            "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"},
            "input_activations": {"num_bits": 8}}}}"#;
        let fp8 = scheme_of(tensors).unwrap();
        assert_eq!(fp8.scheme, Scheme::Fp8 { block: None });
        assert_eq!(fp8.modules, [Module::Mlp, Module::Experts, Module::SharedExperts]);
    }

    #[test]
    fn a_method_nobody_models_is_refused() {
        let error = scheme_of(r#"{"quant_method": "bitnet"}"#).unwrap_err().to_string();
        assert!(error.contains("quantization_config.quant_method"), "{error}");
        assert!(error.contains("bitnet"), "{error}");
    }
}

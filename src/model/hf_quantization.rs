//! Reading `quantization_config`: which scheme, and which modules it converts.

use serde_json::Value;

use super::error::ModelError;
use super::hf_config::Keys;
use super::precision::{Module, Quantization, Scheme};

/// Reads a `quantization_config`.
pub(super) fn read(keys: &Keys<'_>, config: &Value) -> Result<Quantization, ModelError> {
    let scheme = read_scheme(keys, config)?;
    let kept = kept_modules(keys, config)?;
    let modules = Module::CONVERTIBLE.into_iter().filter(|module| !kept.contains(module)).collect();
    Ok(Quantization { scheme, modules })
}

fn read_scheme(keys: &Keys<'_>, config: &Value) -> Result<Scheme, ModelError> {
    let text = |name: &str| config.get(name).and_then(Value::as_str);
    let number = |name: &str| config.get(name).and_then(Value::as_u64).map(|value| value as u32);
    let method = text("quant_method").unwrap_or_default();
    match method {
        "gptq" | "awq" => {
            let bits = number("bits").or_else(|| number("w_bit")).unwrap_or(4);
            let group = number("group_size").or_else(|| number("q_group_size"));
            int_groups(keys, "bits", bits, group.unwrap_or(128))
        }
        "fp8" | "fbgemm_fp8" => {
            let block = config.get("weight_block_size").and_then(Value::as_array);
            let side = |index: usize| {
                block.and_then(|sides| sides.get(index)).and_then(Value::as_u64).map(|n| n as u32)
            };
            let block = side(0).zip(side(1)).map(|(rows, columns)| [rows, columns]);
            Ok(Scheme::Fp8 { block })
        }
        "mxfp4" => Ok(Scheme::Mxfp4),
        "compressed-tensors" => compressed_tensors(keys, config),
        "modelopt" | "modelopt_fp4" => match text("quant_algo").unwrap_or_default() {
            "FP8" => Ok(Scheme::Fp8 { block: None }),
            "NVFP4" => Ok(Scheme::Nvfp4),
            other => Err(unknown(keys, "quant_algo", other, "FP8 or NVFP4")),
        },
        other => Err(unknown(
            keys,
            "quant_method",
            other,
            "gptq, awq, fp8, fbgemm_fp8, mxfp4, compressed-tensors or modelopt",
        )),
    }
}

/// The scheme of the one group of weights in a compressed-tensors checkpoint.
fn compressed_tensors(keys: &Keys<'_>, config: &Value) -> Result<Scheme, ModelError> {
    let groups = config.get("config_groups").and_then(Value::as_object);
    let weights = groups.and_then(|groups| groups.values().next()).and_then(|g| g.get("weights"));
    let Some(weights) = weights else {
        return Err(unknown(keys, "config_groups", "none", "one group with weights"));
    };
    if groups.is_some_and(|groups| groups.len() > 1) {
        return Err(unknown(keys, "config_groups", "several", "one group with weights"));
    }
    let activations = groups
        .and_then(|groups| groups.values().next())
        .and_then(|group| group.get("input_activations"))
        .is_some_and(|activations| !activations.is_null());
    let bits = weights.get("num_bits").and_then(Value::as_u64).unwrap_or(0) as u32;
    let kind = weights.get("type").and_then(Value::as_str).unwrap_or_default();
    let group = weights.get("group_size").and_then(Value::as_u64).unwrap_or(128) as u32;
    match (kind, bits) {
        ("float", 8) => Ok(Scheme::Fp8 { block: None }),
        ("float", 4) => Ok(Scheme::Nvfp4),
        ("int", 8) if activations => Ok(Scheme::Int8),
        ("int", bits) => int_groups(keys, "config_groups.weights.num_bits", bits, group),
        _ => Err(unknown(keys, "config_groups.weights.type", kind, "float or int")),
    }
}

fn int_groups(keys: &Keys<'_>, key: &str, bits: u32, group: u32) -> Result<Scheme, ModelError> {
    match bits {
        // A group size of −1 means one scale per output; its scales weigh nothing.
        4 | 8 => {
            Ok(Scheme::IntGroups { bits, group: if group == u32::MAX { 1 << 20 } else { group } })
        }
        other => Err(unknown(keys, key, &other.to_string(), "4 or 8")),
    }
}

fn unknown(keys: &Keys<'_>, key: &str, got: &str, right: &str) -> ModelError {
    keys.error(&format!("quantization_config.{key}"), format!("must be {right}, got {got:?}"))
}

/// The modules a checkpoint leaves in 16 bits, by the patterns it names. Patterns that name single
/// layers must name the module in enough of them to stand for all; parts that are never converted
/// or not modelled (norms, towers, embeddings, heads, routers) are passed over.
fn kept_modules(keys: &Keys<'_>, config: &Value) -> Result<Vec<Module>, ModelError> {
    const LISTS: [&str; 4] =
        ["modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"];
    const PASSED: [&str; 10] = [
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
    let found = LISTS.iter().find_map(|list| {
        config.get(list).and_then(Value::as_array).map(|patterns| (*list, patterns))
    });
    let Some((list, patterns)) = found else { return Ok(Vec::new()) };
    let mut kept: Vec<Module> = Vec::new();
    for pattern in patterns.iter().filter_map(Value::as_str) {
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

    fn scheme_of(quantization: &str) -> Result<Quantization, ModelError> {
        let json = format!(
            r#"{{"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4,
                "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512,
                "quantization_config": {quantization}}}"#
        );
        let model = ModelSpec::from_hf_config(&json, "small")?;
        Ok(model.weights.quantization.expect("it is quantised"))
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

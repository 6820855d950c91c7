//! What quantisation configs of every kind say alike.

use super::keys::Keys;
use super::known;
use crate::model::error::ModelError;
use crate::model::precision::KvDtype;

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

/// Inputs that share a scale; −1 means all inputs of an output, whose scales weigh nothing.
pub(in crate::model) fn group_size(
    config: &Keys<'_>,
    names: &[&'static str],
) -> Result<u32, ModelError> {
    match config.find(names) {
        Some((_, value)) if value.as_i64() == Some(-1) => Ok(1 << 20),
        Some((name, value)) if value.as_i64() == Some(0) => {
            Err(config.error(name, "must be -1 or at least 1, got 0".to_owned()))
        }
        _ => Ok(config.optional(names)?.unwrap_or(128)),
    }
}

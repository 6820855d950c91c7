//! Reading the keys of the files of Hugging Face checkpoints.
//!
//! Keys and their aliases follow the `transformers` configuration classes (4.5x, 5.x). Every key is read, known to
//! describe (`known`), or refused by name: what nobody looked at may change memory or time.

pub(super) mod keys;
pub(super) mod known;
pub(super) mod quantization;

use self::keys::Keys;
use super::error::ModelError;
use super::precision::Dtype;

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

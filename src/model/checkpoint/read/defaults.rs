//! What classes of `transformers` mean by keys that files of theirs leave out.
//!
//! Only of families whose published files leave out sizes; of others a missing size is refused.

use serde_json::{Value, json};

/// Puts in what the class takes for keys that are missing.
pub(super) fn fill(config: &mut Value) {
    let part = if config["text_config"].is_object() { &mut config["text_config"] } else { config };
    if part["model_type"] != "gemma3_text" {
        return;
    }
    // `Gemma3TextConfig` of transformers 5.24.0.
    let defaults = json!({
        "vocab_size": 262_208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
    });
    let (Some(keys), Value::Object(defaults)) = (part.as_object_mut(), defaults) else { return };
    for (key, value) in defaults {
        keys.entry(key).or_insert(value);
    }
}

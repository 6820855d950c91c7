//! The settings of recordings. What is not modelled is refused by its name.

use serde_json::{Map, Value};

use super::{not_modelled, wrong};
use crate::conformance::RecordingError;
use crate::scenario::DynamoConfig;

/// Environment variables of the router, and the settings they are.
const VARIABLES: [(&str, &str); 18] = [
    ("DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT", "overlap_score_credit"),
    ("DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY", "overlap_score_credit_decay"),
    ("DYN_ROUTER_PREFILL_LOAD_SCALE", "prefill_load_scale"),
    ("DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT", "decode_active_request_weight"),
    ("DYN_ROUTER_HOST_CACHE_HIT_WEIGHT", "host_cache_hit_weight"),
    ("DYN_ROUTER_DISK_CACHE_HIT_WEIGHT", "disk_cache_hit_weight"),
    ("DYN_ROUTER_TEMPERATURE", "router_temperature"),
    ("DYN_ROUTER_USE_KV_EVENTS", "use_kv_events"),
    ("DYN_USE_KV_EVENTS", "use_kv_events"),
    ("DYN_ROUTER_TTL_SECS", "router_ttl_secs"),
    ("DYN_ROUTER_PREDICTED_TTL_SECS", "router_predicted_ttl_secs"),
    ("DYN_ROUTER_TRACK_ACTIVE_BLOCKS", "router_track_active_blocks"),
    ("DYN_ROUTER_TRACK_OUTPUT_BLOCKS", "router_track_output_blocks"),
    ("DYN_ROUTER_TRACK_PREFILL_TOKENS", "router_track_prefill_tokens"),
    ("DYN_ROUTER_ASSUME_KV_REUSE", "router_assume_kv_reuse"),
    ("DYN_ROUTER_QUEUE_THRESHOLD", "router_queue_threshold"),
    ("DYN_ROUTER_QUEUE_POLICY", "router_queue_policy"),
    ("DYN_ROUTER_EVENT_THREADS", "router_event_threads"),
];

/// What a setting of old sets instead.
const OLD_WEIGHTS: [&str; 2] = ["DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT", "DYN_OVERLAP_SCORE_WEIGHT"];

/// The settings that environment variables make.
pub(super) fn of_variables(env: &Map<String, Value>) -> Result<DynamoConfig, RecordingError> {
    let mut keys = Map::new();
    for (name, value) in env {
        if OLD_WEIGHTS.contains(&name.as_str()) {
            let weight =
                value.as_f64().ok_or_else(|| wrong(1, format!("env.{name}: must be a number")))?;
            keys.insert("prefill_load_scale".to_owned(), value.clone());
            if weight == 0.0 {
                keys.insert("overlap_score_credit".to_owned(), value.clone());
            }
            continue;
        }
        let known = VARIABLES.iter().find(|(variable, _)| variable == name);
        let (_, key) = known.ok_or_else(|| not_modelled(1, format!("env.{name}")))?;
        let is_switch =
            key.starts_with("use_") || key.contains("_track_") || key.contains("_assume_");
        let value = match value.as_u64() {
            Some(number @ (0 | 1)) if is_switch => Value::Bool(number == 1),
            _ => value.clone(),
        };
        keys.insert((*key).to_owned(), value);
    }
    of_keys("env", keys)
}

/// The settings by their own names.
pub(super) fn of_keys(
    place: &str,
    keys: Map<String, Value>,
) -> Result<DynamoConfig, RecordingError> {
    let config: DynamoConfig = serde_json::from_value(Value::Object(keys))
        .map_err(|error| not_modelled(1, format!("{place}: {error}")))?;
    config.check().map_err(|(key, rule)| wrong(1, format!("{place}: {key} {rule}")))?;
    Ok(config)
}

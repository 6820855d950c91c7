//! The JSON schema of scenario files, with their variants and what a sweep varies of them.

use super::study::SweepTable;
use crate::load::Variant;
use crate::scenario::ScenarioFile;

/// The JSON schema of scenario files.
///
/// # Panics
/// Never: what is derived from types is JSON.
pub fn schema() -> String {
    let mut generator = schemars::SchemaGenerator::default();
    let mut variants = generator.subschema_for::<Vec<Variant>>();
    let text = "Changes to the scenario that are run beside it, on the same requests.";
    variants.insert("description".to_owned(), text.into());
    let sweep = generator.subschema_for::<SweepTable>();
    let mut schema = generator.into_root_schema_for::<ScenarioFile>();
    let properties = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
    let properties = properties.expect("a file has keys");
    properties.insert("variants".to_owned(), variants.into());
    let calibration = serde_json::json!({
        "description": "Parameters that `servecast calibrate --output` wrote, a path from this file.",
        "type": "string",
    });
    properties.insert("calibration".to_owned(), calibration);
    let fit = serde_json::json!({
        "description": "Parameters that `servecast calibrate` fits.",
        "type": "array",
        "items": { "type": "object" },
    });
    properties.insert("fit".to_owned(), fit);
    properties.insert("sweep".to_owned(), sweep.into());
    let mut schema = serde_json::Value::from(schema);
    leave_out_null(&mut schema);
    serde_json::to_string_pretty(&schema).expect("a schema is JSON")
}

/// What is absent is left out of a file, and not `null`.
fn leave_out_null(schema: &mut serde_json::Value) {
    use serde_json::Value as Json;
    let is_null = |kind: &Json| kind == "null" || kind.get("type").is_some_and(|t| t == "null");
    match schema {
        Json::Object(keys) => {
            for list in ["type", "anyOf"] {
                let Some(Json::Array(kinds)) = keys.get_mut(list) else { continue };
                kinds.retain(|kind| !is_null(kind));
                if let [only] = &kinds[..] {
                    let only = only.clone();
                    match only {
                        Json::Object(only) => {
                            keys.remove(list);
                            keys.extend(only);
                        }
                        only => drop(keys.insert(list.to_owned(), only)),
                    }
                }
            }
            keys.values_mut().for_each(leave_out_null);
        }
        Json::Array(values) => values.iter_mut().for_each(leave_out_null),
        _ => {}
    }
}

//! Records as people write them, in the form that is read: null is absent, numbers and texts stand
//! for one another, a list of words is a command.

use serde_json::{Map, Value};

use super::record::{count, shown};

const SECTIONS: [&str; 8] = [
    "engine",
    "hardware",
    "model",
    "parallel",
    "engine_flags",
    "workload",
    "metrics",
    "server_side_metrics",
];

/// Sections whose values are texts.
const TEXTS: [&str; 2] = ["engine", "model"];
const COUNTS: [&str; 3] = ["gpus_used", "count", "nodes"];

/// A record without what people mean by nothing.
///
/// # Errors
/// The field that cannot be read, and the rule.
pub(super) fn tidied(value: Value) -> Result<Value, String> {
    let Value::Object(mut record) = value else {
        return Err("must be an object, such as {\"id\": …}".to_owned());
    };
    record.retain(|_, value| !value.is_null());
    for key in ["id", "family"] {
        number_to_text(&mut record, key);
    }
    for section in SECTIONS {
        if let Some(Value::Object(fields)) = record.get_mut(section) {
            fields.retain(|_, value| !value.is_null());
        }
    }
    for section in TEXTS {
        if let Some(Value::Object(fields)) = record.get_mut(section) {
            texts(fields, section)?;
        }
    }
    if let Some(Value::Object(hardware)) = record.get_mut("hardware") {
        hardware.retain(|_, value| value.as_str() != Some(""));
        for key in COUNTS {
            let Some(value) = hardware.get_mut(key) else { continue };
            let whole = count(value).ok_or_else(|| {
                format!("hardware.{key}: must be a whole number, got {}", shown(value))
            })?;
            *value = Value::from(whole);
        }
    }
    commands(&mut record);
    Ok(Value::Object(record))
}

fn number_to_text(fields: &mut Map<String, Value>, key: &str) {
    if let Some(value @ Value::Number(_)) = fields.get_mut(key) {
        *value = Value::from(value.to_string());
    }
}

fn texts(fields: &mut Map<String, Value>, section: &str) -> Result<(), String> {
    fields.retain(|_, value| value.as_str() != Some(""));
    for (key, value) in fields {
        match value {
            // As a number, 0.10 is 0.1.
            Value::Number(number)
                if (section, key.as_str()) == ("engine", "version")
                    && (number.to_string().split_once('.')).is_none_or(|(_, f)| f.len() < 2) =>
            {
                return Err(format!(
                    "engine.version: must be text, since the number {number} may also be {number}0"
                ));
            }
            Value::Number(_) => *value = Value::from(value.to_string()),
            Value::Object(variables) if key == "env" => *value = Value::from(assigned(variables)),
            _ => {}
        }
    }
    Ok(())
}

/// Environment variables as they are set before a command.
pub(super) fn assigned(variables: &Map<String, Value>) -> String {
    let words = variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    words.collect::<Vec<_>>().join(" ")
}

/// Makes one text of the command, and of flags that are written as they are typed.
fn commands(record: &mut Map<String, Value>) {
    let typed = record.get("engine_flags").and_then(line);
    if typed.is_some() {
        record.remove("engine_flags");
    }
    let command = record.get("server_command").and_then(line);
    let all: Vec<String> = [command, typed].into_iter().flatten().collect();
    if !all.is_empty() {
        record.insert("server_command".to_owned(), Value::from(all.join(" ")));
    }
}

fn line(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => Some(words.iter().map(quoted).collect::<Vec<_>>().join(" ")),
        _ => None,
    }
}

/// A word that a shell reads as one.
fn quoted(word: &Value) -> String {
    let text = shown(word);
    if text.contains(|c: char| c.is_whitespace() || c == '"') && !text.contains('\'') {
        format!("'{text}'")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Record;
    use serde_json::json;

    fn base() -> Value {
        json!({
            "id": "a", "family": "f", "engine": {"name": "vLLM", "version": "0.11.0"},
            "hardware": {"gpu": "H100", "gpus_used": 8}, "model": {"name": "Qwen/Qwen3-8B"},
            "workload": {"dataset": "random"},
        })
    }

    fn with(path: &str, value: Value) -> Value {
        let mut record = base();
        *path.split('.').fold(&mut record, |at, key| &mut at[key]) = value;
        record
    }

    #[test]
    fn what_is_null_or_written_otherwise_reads_as_what_it_means() {
        let read = |value: &Value| Record::parse_all(&value.to_string()).unwrap().remove(0);
        let plain = read(&base());
        for section in ["parallel", "engine_flags", "metrics", "server_side_metrics"] {
            assert_eq!(read(&with(section, json!(null))), plain, "{section}");
        }
        for (path, value) in [
            ("hardware.gpus_used", json!("8")),
            ("hardware.gpus_used", json!(8.0)),
            ("hardware.nodes", json!(null)),
            ("engine.fork", json!(null)),
            ("engine.fork", json!("")),
            ("workload.seed", json!(null)),
        ] {
            assert_eq!(read(&with(path, value)), plain, "{path}");
        }
        assert_eq!(read(&with("id", json!(7))).id, "7");
        let version = read(&with("engine.version", json!(0.11))).engine.version;
        assert_eq!(version.as_deref(), Some("0.11"));
        let command = "vllm serve x --served-model-name 'a b'";
        let words = json!(["vllm", "serve", "x", "--served-model-name", "a b"]);
        let listed = read(&with("server_command", words));
        assert_eq!(listed, read(&with("server_command", json!(command))));
        let typed = read(&with("engine_flags", json!(["--max-num-seqs", 4])));
        assert_eq!(typed.server_command.as_deref(), Some("--max-num-seqs 4"));
        let env = read(&with("engine.env", json!({"A": 1}))).engine.env;
        assert_eq!(env.as_deref(), Some("A=1"));
    }

    #[test]
    fn what_can_mean_two_things_or_nothing_is_refused_by_name() {
        for (path, value, problem) in [
            ("hardware.gpus_used", json!("many"), "hardware.gpus_used: must be a whole number"),
            ("engine.version", json!(0.1), "engine.version: must be text"),
        ] {
            assert!(tidied(with(path, value)).unwrap_err().starts_with(problem));
        }
        assert!(tidied(json!([1])).unwrap_err().starts_with("must be an object"));
    }
}

//! Scenario files: one shape in three languages, and a schema that knows it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Cli, SCENARIO};

fn as_json(toml: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(toml).unwrap()).unwrap()
}

#[test]
fn twins_in_yaml_and_json_give_the_same_run() {
    // JSON is YAML too; flow style would hide what block style does, so both are written.
    let json = serde_json::to_string_pretty(&as_json(SCENARIO)).unwrap();
    let yaml = "name: small\nworkload:\n  num_requests: 20\n  arrivals:\n    type: poisson\n    \
                rate_per_s: 10.0\n  lengths:\n    type: fixed\n    input_tokens: 100\n    \
                output_tokens: 10\ncluster:\n  model: Qwen/Qwen2.5-7B\n  gpu: H100\n  step_time:\n    \
                type: linear\n    base_us: 1000.0\n    prefill_token_us: 1.0\n    \
                decode_seq_us: 10.0\n";
    let cli = Cli::with_scenario().file("s.json", json).file("s.yaml", yaml);
    let run = |language: &str| {
        let words = format!("run s.{language} --output-dir {language}");
        let stdout = cli.words(&words).expect_exit(0).stdout();
        (stdout, cli.read(&format!("{language}/scenario.resolved.toml")))
    };
    let toml = run("toml");
    assert_eq!(run("json"), toml);
    assert_eq!(run("yaml"), toml);
}

#[test]
fn a_run_that_stops_early_counts_what_its_clients_have_not_sent() {
    let cli = Cli::with_scenario();
    let arrivals = "workload.arrivals={type=\"all_at_once\"}";
    let stops = "workload.client={max_concurrency=2,stop_after_s=0.05}";
    let closed =
        ["run", "s.toml", "--format", "json", "--no-files", "--set", arrivals, "--set", stops];
    let ran = cli.run(closed).expect_exit(0);
    let summary: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let count = |name: &str| summary["requests"][name].as_u64().unwrap();
    assert_eq!(count("finished") + count("unfinished"), 20);
    assert!(count("unfinished") > 2 && count("finished") > 0);
}

#[test]
fn turns_that_are_due_after_the_end_are_none_of_a_run() {
    let sessions = "[workload.sessions]\nturns_min = 3\nturns_max = 5\n\
                    message_tokens = { type = \"fixed\", tokens = 20 }\n\
                    output_tokens = { type = \"fixed\", tokens = 10 }\n\
                    think_time = { type = \"exponential\", mean_s = 2.0 }\n[cluster]";
    let cli = Cli::new().file("s.toml", SCENARIO.replace("[cluster]", sessions));
    let stops = "workload.client.stop_after_s=2.0";
    let arguments = ["run", "s.toml", "--format", "json", "--no-files", "--set", stops];
    let ran = cli.run(arguments).expect_exit(0);
    let summary: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let count = |name: &str| summary["requests"][name].as_u64().unwrap();
    assert_eq!(count("finished") + count("unfinished"), count("arrived"));
    assert!((21..60).contains(&count("arrived")), "some further turns, not all");
}

#[test]
fn the_schema_knows_every_key_of_a_file_and_no_null() {
    let schema: Value = serde_json::from_str(&Cli::new().words("schema").stdout()).unwrap();
    let keys = schema["properties"].as_object().unwrap();
    assert!(["variants", "fit", "calibration"].iter().all(|key| keys.contains_key(*key)));
    assert!(!schema.to_string().contains("\"null\""));
}

#[test]
fn errors_in_yaml_and_json_name_the_place() {
    let yaml = "name: small\nworkload: [\n";
    let cli = Cli::new().file("s.yaml", yaml).file("s.json", "{\"name\": 1,}");
    cli.words("run s.yaml").expect_exit(2).stderr_has("s.yaml: ").stderr_has("line");
    cli.words("run s.json").expect_exit(2).stderr_has("s.json: ").stderr_has("line 1");
}

#[test]
fn the_schema_is_json_and_knows_every_key_of_the_shipped_scenarios() {
    let schema: Value =
        serde_json::from_str(&Cli::new().words("schema").expect_exit(0).stdout()).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let (mut count, mut variants) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let scenario = as_json(&fs::read_to_string(&path).unwrap());
        variants += scenario["variants"].as_array().map_or(0, Vec::len);
        let problems = check(&schema, &schema, &scenario, "");
        assert!(problems.is_empty(), "{}: {problems:?}", path.display());
        count += 1;
    }
    assert!(count > 0 && variants > 0, "there are scenarios, and variants");
    let misspelt = as_json(&format!("{SCENARIO}\n[[variants]]\nname = \"x\"\nsets = {{}}"));
    assert!(!check(&schema, &schema, &misspelt, "").is_empty());
    let wrong = as_json(&SCENARIO.replace("num_requests", "num_request"));
    assert!(!check(&schema, &schema, &wrong, "").is_empty());
}

/// What a value breaks of a schema, as far as the schemas here go: references, types, properties,
/// enumerations and alternatives.
fn check(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).expect("references resolve");
        return check(root, target, value, place);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[key].as_array() {
            let tried: Vec<_> =
                choices.iter().map(|choice| check(root, choice, value, place)).collect();
            if tried.iter().all(|problems| !problems.is_empty()) {
                return tried.into_iter().min_by_key(Vec::len).unwrap_or_default();
            }
        }
    }
    let mut problems = Vec::new();
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of(value, name)) {
        problems.push(format!("{place}: {value} is no {types:?}"));
    }
    if schema["const"] != Value::Null && schema["const"] != *value {
        problems.push(format!("{place}: {value} is not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
        problems.push(format!("{place}: {value} is none of {}", schema["enum"]));
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        problems.extend(items.iter().flat_map(|item| check(root, schema, item, place)));
    }
    let Some(object) = value.as_object() else { return problems };
    for required in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(required.as_str().unwrap()) {
            problems.push(format!("{place}: {required} is missing"));
        }
    }
    for (key, value) in object {
        let place = format!("{place}/{key}");
        match (&schema["properties"][key], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => problems.push(format!("{place}: unknown")),
            (Value::Null, _) => {}
            (property, _) => problems.extend(check(root, property, value, &place)),
        }
    }
    problems
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("{other} is no type of JSON schema"),
    }
}

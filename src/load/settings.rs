//! Settings by the path of their key.

use toml::{Table, Value};

use super::words::plain;
use crate::erased;
use crate::problem::Problem;
use crate::scenario::{EngineConfig, StepTimeConfig};

/// A value as TOML, or as text where it is none.
pub fn value_of(text: &str) -> Result<Value, String> {
    let problem = match toml::from_str::<Table>(&format!("value = {text}")) {
        Ok(mut table) => table.remove("value").map(Ok),
        Err(error) => {
            text.trim_start().starts_with(['{', '[']).then(|| Err(plain(error.message())))
        }
    };
    match problem {
        Some(Ok(value)) => return Ok(value),
        Some(Err(problem)) => return Err(format!("is no table or list in TOML: {problem}")),
        None => {}
    }
    let digits = text.trim().replace('_', "");
    if digits.ends_with(|c: char| c.is_ascii_digit()) && digits.parse::<f64>().is_ok() {
        return Err("the number is out of range".to_owned());
    }
    Ok(Value::String(text.to_owned()))
}

/// Keys of the longest path. No setting lies as deep, and tables are taken apart recursively.
const DEPTH_MAX: usize = 32;

/// Puts a value at a path such as `cluster.groups[0].replicas`; tables on the way are made where
/// there are none.
pub(super) fn set(root: &mut Table, path: &str, value: Value) -> Result<(), Problem> {
    let mut keys: Vec<&str> = path.split('.').collect();
    if keys.len() > DEPTH_MAX {
        let begin = keys[..3].join(".");
        let rule = format!("a path has at most {DEPTH_MAX} keys, got {}", keys.len());
        return Err(Problem::new(format!("{begin}.."), rule));
    }
    let broken = |rule: String| Problem::new(path, rule);
    let last = keys.pop().filter(|key| !key.is_empty());
    let last = last.ok_or_else(|| Problem::new("", "the path is empty"))?;
    let shared = root.get("cluster").and_then(Value::as_table).cloned().unwrap_or_default();
    let mut table = root;
    let mut place = String::new();
    for key in keys {
        place = if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
        let (key, index) = indexed(key);
        let mut entry = match index {
            Some(_) => table.get_mut(key).ok_or_else(|| broken(format!("there is no `{key}`")))?,
            None => table.entry(key).or_insert_with(|| Value::Table(default_of(&place, &shared))),
        };
        if let Some(index) = index {
            entry = item(entry, index).ok_or_else(|| broken(format!("there is no `{place}`")))?;
        }
        table = entry
            .as_table_mut()
            .ok_or_else(|| broken(format!("`{key}` is a value, not a table")))?;
    }
    match indexed(last) {
        (key, Some(index)) => {
            let entry = table.get_mut(key).and_then(|list| item(list, index));
            *entry.ok_or_else(|| broken("there is no such place".to_owned()))? = value;
        }
        (key, None) => {
            table.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

/// A key and the place in its list, where it names one.
pub(super) fn indexed(key: &str) -> (&str, Option<usize>) {
    let parts = key.strip_suffix(']').and_then(|key| key.split_once('['));
    match parts.and_then(|(key, index)| Some((key, index.parse().ok()?))) {
        Some((key, index)) => (key, Some(index)),
        None => (key, None),
    }
}

fn item(list: &mut Value, index: usize) -> Option<&mut Value> {
    list.as_array_mut()?.get_mut(index)
}

/// A table that is made for a key in it: of the type that holds where none is given. A group of replicas
/// begins with what it has of its cluster.
fn default_of(place: &str, cluster: &Table) -> Table {
    let of_group = place.strip_prefix("cluster.groups[").and_then(|rest| rest.split_once("]."));
    if let Some(Value::Table(inherited)) = of_group.and_then(|(_, key)| cluster.get(key)) {
        return inherited.clone();
    }
    let whole = match of_group.map_or(place, |(_, key)| key) {
        "cluster.engine" | "engine" => erased::table(&EngineConfig::default()),
        "cluster.step_time" | "step_time" => erased::table(&StepTimeConfig::default()),
        _ => return Table::new(),
    };
    let whole = whole.expect("a default is a table");
    whole.into_iter().filter(|(key, _)| key == "type").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Table {
        let text = "[cluster]\nengine = { type = 'sglang', page_size = 16 }\n\
                    [[cluster.groups]]\nreplicas = 2\n[[cluster.groups]]\nreplicas = 3";
        toml::from_str(text).expect("it is TOML")
    }

    #[test]
    fn a_group_is_reached_by_its_place_and_begins_with_what_its_cluster_has() {
        let mut root = root();
        set(&mut root, "cluster.groups[1].replicas", Value::Integer(5)).expect("it is there");
        let path = "cluster.groups[0].engine.max_running_requests";
        set(&mut root, path, Value::Integer(7)).expect("it is there");
        let groups = root["cluster"]["groups"].as_array().expect("a list");
        assert_eq!(groups[1]["replicas"], Value::Integer(5));
        let engine = groups[0]["engine"].as_table().expect("a table");
        assert_eq!(engine["type"], Value::from("sglang"));
        assert_eq!((engine["page_size"].as_integer(), engine.len()), (Some(16), 3));
    }

    #[test]
    fn a_place_that_is_not_there_is_named() {
        for path in ["cluster.groups[2].replicas", "cluster.nodes[0].gpu", "cluster.groups[7]"] {
            let problem = set(&mut root(), path, Value::Integer(1)).expect_err(path);
            assert_eq!(problem.at, path, "{problem}");
        }
    }
}

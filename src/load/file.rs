//! Files as tables, and what to say of a key that is wrong.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::error::{LoadError, Origin, fail};
use super::folder::scenario_of;
use super::settings::indexed;
use super::words;
use crate::erased;
use crate::io::text;
use crate::problem::Problem;
use crate::profiles;

/// The scenario that runs without arguments.
const BUILT_IN: &str = include_str!("../../scenarios/qwen3-14b-h100.toml");

/// The name of a scenario file, what it says, and its folder.
pub(super) fn read(path: Option<&Path>) -> Result<(String, Table, PathBuf), LoadError> {
    let path = path.map(scenario_of).transpose()?;
    let path = path.as_deref();
    let (name, text, folder) = match path {
        None => ("built-in scenario".to_owned(), BUILT_IN.to_owned(), PathBuf::from(".")),
        Some(path) => {
            let name = path.display().to_string();
            let text =
                text::whole(path, text::SETTINGS_MIB_MAX).map_err(|error| fail(&name, error))?;
            (name, text, path.parent().map(Path::to_path_buf).unwrap_or_default())
        }
    };
    let root = parse(&name, path, &text)?;
    Ok((name, root, folder))
}

pub(super) fn parse(name: &str, path: Option<&Path>, text: &str) -> Result<Table, LoadError> {
    let text = text.trim_start_matches('\u{feff}');
    let extension = path.and_then(Path::extension).and_then(|e| e.to_str()).unwrap_or("toml");
    let table = match extension.to_ascii_lowercase().as_str() {
        "toml" => toml::from_str(text).map_err(|error| error.to_string()),
        #[cfg(feature = "yaml")]
        "yaml" | "yml" => serde_yaml_ng::from_str(text).map_err(|error| error.to_string()),
        #[cfg(not(feature = "yaml"))]
        "yaml" | "yml" => Err("YAML needs the cargo feature `yaml`".to_owned()),
        "json" => serde_json::from_str(text).map_err(|error| error.to_string()),
        other => {
            Err(format!("`.{other}` is not a kind of scenario file; use .toml, .yaml or .json"))
        }
    };
    table.map_err(|problem| fail(name, words::plain(&problem)))
}

pub(super) fn put_seed(root: &mut Table, seed: Option<u64>) -> Result<(), LoadError> {
    if let Some(seed) = seed {
        let seed = i64::try_from(seed).map_err(|_| {
            Origin::Argument("--seed").fail(Problem::must_be("", "below 2^63", seed))
        })?;
        root.insert("seed".to_owned(), Value::Integer(seed));
    }
    Ok(())
}

/// Reads what a table says, or tells the path of the field, the rule, and the key that was probably
/// meant.
pub(super) fn deserialize<T: DeserializeOwned>(root: &Table) -> Result<T, Problem> {
    let error = match attempt::<T>(root.clone()) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    // A misspelt table is told before what is missing without it.
    let unknown = missing(&error.1).and_then(|_| unknown_table::<T>(root));
    let (path, message) = unknown.as_ref().unwrap_or(&error);
    let path = if path == "." { String::new() } else { path.clone() };
    let path = match missing(message) {
        Some(key) => lacking::<T>(root, path.clone(), key).unwrap_or(path),
        None if unknown.is_some() => path,
        None => within_tagged::<T>(root, path, &error),
    };
    let told = words::plain(message);
    let (rule, value) = match told.rsplit_once(", got ") {
        Some((rule, value)) => (rule.to_owned(), Some(value.to_owned())),
        None => (told, None),
    };
    let problem = match rule.split_once(", expected ").filter(|_| rule.starts_with("unknown ")) {
        // What was probably meant comes before the list.
        Some((unknown, known)) => {
            if let Some(place) = place_of::<T>(root, &path) {
                return Err(Problem::new(path, unknown).with_hint(&format!("write {place}")));
            }
            let names = if unknown.starts_with("unknown key") { "keys" } else { "values" };
            let known = known.trim_start_matches("one of ");
            Problem::new(path, unknown).with_hint(&format!("known {names}: {known}"))
        }
        None => Problem { value, ..Problem::new(path, rule) },
    };
    Err(problem.or_near(nearest(message)))
}

/// What is wrong with the first key of a table that is not known, if one is not.
fn unknown_table<T: DeserializeOwned>(root: &Table) -> Option<(String, String)> {
    root.iter().find_map(|(key, value)| {
        let alone = Table::from_iter([(key.clone(), value.clone())]);
        let error = attempt::<T>(alone).err()?;
        error.1.starts_with(&format!("unknown field `{key}`")).then_some(error)
    })
}

/// The path that a key which is not known has where it is one: in a table around its own, or in one within that.
fn place_of<T: DeserializeOwned>(root: &Table, path: &str) -> Option<String> {
    let (table, key) = path.rsplit_once('.')?;
    let mut without = root.clone();
    let value = table_at(&mut without, table)?.remove(key)?;
    let around = table.rmatch_indices('.').map(|(at, _)| &table[..at]).map(str::to_owned);
    let inner = table_at(&mut without, table)?.iter().filter(|(_, value)| value.is_table());
    let inner: Vec<String> = inner.map(|(name, _)| format!("{table}.{name}")).collect();
    let takes = |place: &str, key: &str| {
        let mut with = without.clone();
        let into = table_at(&mut with, place).filter(|table| !table.contains_key(key));
        let put = into.map(|table| table.insert(key.to_owned(), value.clone()));
        put.is_some() && attempt::<T>(with).is_ok()
    };
    // A table that takes any key says nothing of this one.
    let is_place = |place: &String| takes(place, key) && !takes(place, "no key has this name");
    around.chain(inner).find(is_place).map(|place| format!("{place}.{key}"))
}

fn attempt<T: DeserializeOwned>(root: Table) -> Result<T, (String, String)> {
    erased::read(root).map_err(|(path, message)| {
        let message = message.trim().lines().next().unwrap_or_default().to_owned();
        (path, message)
    })
}

/// The path goes no further than a table with a `type`: which key in it is wrong is the one without
/// which the error is another.
fn within_tagged<T: DeserializeOwned>(
    root: &Table,
    mut path: String,
    error: &(String, String),
) -> String {
    loop {
        let keys: Vec<String> = match table_at(&mut root.clone(), &path) {
            // A key without a letter leads no further.
            Some(table) => {
                let keys = table.keys().filter(|key| *key != "type" && !key.is_empty());
                keys.cloned().collect()
            }
            None => return path,
        };
        let decides = |key: &&String| {
            let mut without = root.clone();
            table_at(&mut without, &path).map(|table| table.remove(*key));
            attempt::<T>(without).err().as_ref() != Some(error)
        };
        match keys.iter().find(decides) {
            Some(key) if path.is_empty() => path.clone_from(key),
            Some(key) => path = format!("{path}.{key}"),
            None => return path,
        }
    }
}

/// The key that a message misses.
fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.split('`').next()
}

/// The table at a path, or in it, that lacks a key: the one in which, once it is there, it is neither missing nor unknown.
fn lacking<T: DeserializeOwned>(root: &Table, path: String, key: &str) -> Option<String> {
    let mut with = root.clone();
    let table = table_at(&mut with, &path)?;
    let inner = table.iter().filter(|(_, value)| value.is_table());
    let dot = if path.is_empty() { "" } else { "." };
    let inner: Vec<String> = inner.map(|(name, _)| format!("{path}{dot}{name}")).collect();
    table.entry(key).or_insert(Value::Boolean(true));
    let is_here = match attempt::<T>(with) {
        Ok(_) => true,
        Err((_, message)) => {
            let names_it = message.split('`').nth(1) == Some(key);
            !(names_it && (missing(&message).is_some() || message.starts_with("unknown field")))
        }
    };
    if is_here {
        return Some(path);
    }
    inner.into_iter().find_map(|path| lacking::<T>(root, path, key))
}

/// The table at a path such as `cluster.groups[0].engine`.
fn table_at<'a>(root: &'a mut Table, path: &str) -> Option<&'a mut Table> {
    let mut table = root;
    for key in path.split('.').filter(|key| !key.is_empty()) {
        let (key, index) = indexed(key);
        let mut value = table.get_mut(key)?;
        if let Some(index) = index {
            value = value.as_array_mut()?.get_mut(index)?;
        }
        table = value.as_table_mut()?;
    }
    Some(table)
}

/// The known key or word that an unknown one was probably meant to be, of those that serde lists.
fn nearest(message: &str) -> Option<&str> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let unknown = quoted.next().filter(|_| is_unknown)?;
    profiles::closest(unknown, quoted)
}

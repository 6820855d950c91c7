//! Any part of a summary as a table: keys as words with their units, lists of objects as rows.

use serde_json::{Map, Value};

use super::html::Html;
use super::table::{Cell, alone, column, table, table_of};

/// Rows of a table; the file has all of them.
const ROWS_MAX: usize = 64;

/// A key as people read it: `kv_use_mean` is "KV use mean", `observed_s` is "observed (s)".
pub(super) fn title(key: &str) -> String {
    const UNITS: [(&str, &str); 9] = [
        ("_per_s", "/s"),
        ("_ms", " (ms)"),
        ("_us", " (µs)"),
        ("_s", " (s)"),
        ("_pct", " (%)"),
        ("_bytes", " (bytes)"),
        ("_usd", " (USD)"),
        ("_gib", " (GiB)"),
        ("_j", " (J)"),
    ];
    // The fields of an object in a unit have it: `e2e_ms.mean`.
    let outer = UNITS.iter().find(|(end, _)| key.contains(&format!("{end}.")));
    let moved = outer.map(|(end, _)| key.replacen(&format!("{end}."), ".", 1) + end);
    let key = moved.as_deref().unwrap_or(key);
    let unit = UNITS.iter().find(|(end, _)| key.ends_with(end));
    let (stem, unit) = unit.map_or((key, ""), |(end, unit)| (&key[..key.len() - end.len()], *unit));
    let words =
        stem.split(['_', '.', ' ']).filter(|word| !word.is_empty()).map(|word| match word {
            "kv" | "gpu" | "ttft" | "tpot" | "itl" | "slo" | "usd" | "cv" | "nic" => {
                word.to_uppercase()
            }
            "gpus" | "nics" => format!("{}s", word[..word.len() - 1].to_uppercase()),
            "e2e" | "e2el" => "E2E".to_owned(),
            "p50" | "p90" | "p95" | "p99" => word.to_uppercase(),
            word => word.to_owned(),
        });
    let text = words.collect::<Vec<_>>().join(" ");
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}{unit}", first.unwrap_or_default(), letters.as_str())
}

/// A part of a summary.
pub(super) fn facts(value: &Value) -> Html {
    match value {
        Value::Object(fields) => of_object(fields),
        Value::Array(rows) => of_rows(rows),
        other => Html::words("p", &plain(other)),
    }
}

/// Fields of objects within objects become fields of this one; lists of objects follow as tables.
fn of_object(fields: &Map<String, Value>) -> Html {
    let mut flat = Vec::new();
    flatten("", fields, &mut flat);
    let is_list =
        |value: &Value| value.as_array().is_some_and(|rows| rows.iter().any(Value::is_object));
    let single: Vec<Vec<Cell>> = flat
        .iter()
        .filter(|(_, value)| !is_list(value) && !value.is_null())
        .map(|(key, value)| vec![Cell::Text(title(key)), cell(value)])
        .collect();
    let own = if single.is_empty() {
        Html::default()
    } else {
        table(&[String::new(), String::new()], &single)
    };
    let lists = flat
        .iter()
        .filter(|(_, value)| is_list(value))
        .map(|(key, value)| Html::all([Html::words("h3", &title(key)), facts(value)]));
    Html::all([own].into_iter().chain(lists))
}

fn flatten<'a>(before: &str, fields: &'a Map<String, Value>, flat: &mut Vec<(String, &'a Value)>) {
    for (key, value) in fields {
        let key = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
        match value {
            Value::Object(inner) => flatten(&key, inner, flat),
            value => flat.push((key, value)),
        }
    }
}

fn of_rows(rows: &[Value]) -> Html {
    let flat: Vec<Vec<(String, &Value)>> = rows
        .iter()
        .take(ROWS_MAX)
        .map(|row| {
            let mut flat = Vec::new();
            match row {
                Value::Object(fields) => flatten("", fields, &mut flat),
                other => flat.push((String::new(), other)),
            }
            flat
        })
        .collect();
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in flat.iter().flatten() {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    // What a row is about comes first.
    keys.sort_by_key(|key| {
        !matches!(*key, "name" | "tenant" | "class" | "model" | "replica" | "adapter" | "metric")
    });
    let get = |row: &[(String, &Value)], key: &str| {
        row.iter().find(|(known, _)| known == key).map(|(_, value)| (*value).clone())
    };
    let columns = keys
        .iter()
        .map(|key| {
            let values: Vec<Option<Value>> = flat.iter().map(|row| get(row, key)).collect();
            let numbers: Vec<Option<f64>> =
                values.iter().map(|value| value.as_ref().and_then(Value::as_f64)).collect();
            let is_number = |value: &Option<Value>| {
                value.as_ref().is_none_or(|value| value.is_number() || value.is_null())
            };
            let cells = if values.iter().all(is_number) {
                column(&numbers)
            } else {
                values.iter().map(|value| value.as_ref().map_or(Cell::Empty, cell)).collect()
            };
            (title(key), cells)
        })
        .collect();
    let rest = rows.len().saturating_sub(ROWS_MAX);
    let rest = match rest {
        0 => Html::default(),
        rest => Html::words("p", &format!("and {rest} more, which the summary has")),
    };
    Html::all([table_of(columns), rest])
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Empty,
        Value::Number(number) => Cell::Number(alone(number.as_f64().unwrap_or(f64::NAN))),
        other => Cell::Text(plain(other)),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Number(number) => alone(number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_words_with_units() {
        let keys = [
            "kv_use_mean",
            "observed_s",
            "requests_per_s",
            "gpu_hours",
            "p99_ttft_ms",
            "busy_time.cv",
            "e2e_ms.p99",
        ];
        let titles = [
            "KV use mean",
            "Observed (s)",
            "Requests/s",
            "GPU hours",
            "P99 TTFT (ms)",
            "Busy time CV",
            "E2E P99 (ms)",
        ];
        assert_eq!(keys.map(title), titles);
    }
}

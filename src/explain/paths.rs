//! Values in tables by the path of their keys.

use toml::{Table, Value};

/// The value at a path such as `workload.arrivals.rate_per_s`.
pub(super) fn at<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let value = table.get(first)?;
    if rest.is_empty() { Some(value) } else { at(value.as_table()?, rest) }
}

/// The same where it is a number.
pub(super) fn number_at(table: &Table, path: &str) -> Option<f64> {
    let value = at(table, path)?;
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

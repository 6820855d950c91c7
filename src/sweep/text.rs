//! Axes as text: `cluster.replicas=1..4`.

use std::str::FromStr;

use toml::Value;

use super::axis::{Axis, Levels, NumberKind, Range, Scale};
use super::plan::BrokenRule;
use crate::load::value_of;

/// `path=values`; values as `1,2,4`, `1..16` or `0.1..10:log:8`.
impl FromStr for Axis {
    type Err = BrokenRule;

    fn from_str(text: &str) -> Result<Self, BrokenRule> {
        let fail = |problem: String| BrokenRule { place: text.to_owned(), problem };
        let Some((path, values)) = text.split_once('=') else {
            return Err(fail("has no `=`; write path=values".to_owned()));
        };
        Ok(Self { path: path.trim().to_owned(), levels: levels(values).map_err(fail)? })
    }
}

/// Reads values: `1,2,4`, `1..16` or `0.1..10:log:8`.
pub(super) fn levels(text: &str) -> Result<Levels, String> {
    if let Some((low, high)) = text.split_once("..")
        && is_number(low.trim())
        && !text.contains(',')
    {
        return range(low.trim(), high).map(Levels::Range);
    }
    let parts = parts(text).into_iter();
    if text.trim().is_empty() {
        return Ok(Levels::List(Vec::new()));
    }
    let value = |part: &str| {
        let value = value_of(part).map_err(|problem| format!("{part}: {problem}"))?;
        match value {
            Value::String(text) if text.trim().is_empty() => Err("a value is empty".to_owned()),
            value => Ok(value),
        }
    };
    parts.map(|part| value(part.trim())).collect::<Result<_, _>>().map(Levels::List)
}

/// What follows `LOW..`: `HIGH`, `HIGH:log`, `HIGH:8`, `HIGH:log:8`.
fn range(low: &str, rest: &str) -> Result<Range, String> {
    let mut words = rest.split(':').map(str::trim);
    let high = words.next().unwrap_or_default();
    let mut range = Range {
        low: number(low)?,
        high: number(high)?,
        scale: Scale::Linear,
        kind: match [low, high].map(|end| end.replace('_', "").parse::<i64>()) {
            [Ok(_), Ok(_)] => NumberKind::Integer,
            _ => NumberKind::Real,
        },
        count: None,
    };
    for (place, word) in words.enumerate() {
        match (word, word.parse()) {
            ("linear", _) if place == 0 => range.scale = Scale::Linear,
            ("log", _) if place == 0 => range.scale = Scale::Log,
            (_, Ok(count)) if range.count.is_none() => range.count = Some(count),
            _ => {
                return Err(format!(
                    "`{word}`: write LOW..HIGH, then :linear or :log, then :COUNT"
                ));
            }
        }
    }
    Ok(range)
}

fn is_number(text: &str) -> bool {
    number(text).is_ok()
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("`{text}` is not a number"))
}

/// Parts divided by commas outside of brackets and quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_i32, None);
    for (at, sign) in text.char_indices() {
        match (quote, sign) {
            (None, '"' | '\'') => quote = Some(sign),
            (Some(open), _) if open == sign => quote = None,
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        match levels(text) {
            Ok(Levels::List(values)) => values.iter().map(ToString::to_string).collect(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn lists_hold_values_of_any_kind() {
        assert_eq!(list("1,2.5, true"), ["1", "2.5", "true"]);
        assert_eq!(list("round_robin,\"a,b\""), ["\"round_robin\"", "\"a,b\""]);
        assert_eq!(list("{ type = \"a\", x = 1 },[1, 2]").len(), 2);
        assert_eq!(list("../a.csv,../b.csv"), ["\"../a.csv\"", "\"../b.csv\""]);
    }

    #[test]
    fn ranges_say_their_ends_scale_and_levels() {
        let read = |text| match levels(text) {
            Ok(Levels::Range(range)) => range,
            other => panic!("{text}: {other:?}"),
        };
        let whole = read("1..16");
        assert_eq!((whole.kind, whole.count), (NumberKind::Integer, None));
        let log = read("0.1..10:log:8");
        assert_eq!((log.kind, log.scale, log.count), (NumberKind::Real, Scale::Log, Some(8)));
        assert_eq!(read("1..9:3"), Range { count: Some(3), high: 9.0, ..whole });
        assert_eq!(read("-1e3..1_000").low.to_bits(), (-1000.0_f64).to_bits());
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (text, problem) in [
            ("1..x", "`x` is not a number"),
            ("1..", "`` is not a number"),
            ("1..4:lgo:3", "`lgo`: write LOW..HIGH"),
            ("1..4:3:log", "`log`: write LOW..HIGH"),
            ("1,,2", "a value is empty"),
        ] {
            let found = levels(text).expect_err(text);
            assert!(found.starts_with(problem), "{text}: {found}");
        }
    }
}

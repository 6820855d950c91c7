//! The flags of a command line, as a list of words.

use serde_json::Value;

/// Flags with their values, in order.
#[derive(Debug)]
pub(super) struct Flags<'a> {
    key: &'a str,
    flags: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Flags<'a> {
    /// Those under a key of `meta.json`; words before the first flag are those of the command itself.
    pub(super) fn of(meta: &'a Value, key: &'a str) -> Result<Self, String> {
        let words = meta.get(key).and_then(Value::as_array);
        let words = words.ok_or_else(|| format!("{key}: must be a list of words"))?;
        let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        let words = words.ok_or_else(|| format!("{key}: must be a list of words"))?;
        let mut flags: Vec<(&str, Option<&str>)> = Vec::new();
        for word in words {
            if word.starts_with("--") {
                flags.push(word.split_once('=').map_or((word, None), |(f, v)| (f, Some(v))));
            } else if let Some((_, value @ None)) = flags.last_mut() {
                *value = Some(word);
            }
        }
        Ok(Self { key, flags })
    }

    /// Makes sure that every flag is one of these.
    pub(super) fn only(&self, known: &[&[&str]]) -> Result<(), String> {
        let is_known = |flag: &&str| known.iter().any(|list| list.contains(flag));
        match self.flags.iter().map(|(flag, _)| flag).find(|flag| !is_known(flag)) {
            Some(flag) => Err(format!("{}: {flag} is not modelled", self.key)),
            None => Ok(()),
        }
    }

    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(known, _)| *known == flag)
    }

    pub(super) fn value(&self, flag: &str) -> Option<&'a str> {
        self.flags.iter().find(|(known, _)| *known == flag).and_then(|(_, value)| *value)
    }

    /// The whole number of a flag, if it is there.
    pub(super) fn count(&self, flag: &str) -> Result<Option<u32>, String> {
        let Some((_, text)) = self.flags.iter().find(|(known, _)| *known == flag) else {
            return Ok(None);
        };
        let count = text.and_then(|text| text.parse().ok()).filter(|count: &u32| *count > 0);
        let got = text.unwrap_or("nothing");
        let rule = "must be a whole number above 0";
        count.map(Some).ok_or_else(|| format!("{}: {flag} {rule}, got {got}", self.key))
    }
}

/// A number of a table of `meta.json`, in µs.
pub(super) fn micros(meta: &Value, table: &str, key: &str, unit_us: f64) -> Result<f64, String> {
    let number = meta.get(table).and_then(|table| table.get(key)).and_then(Value::as_f64);
    let number = number.filter(|number| *number >= 0.0);
    let rule = "must be a number of at least 0";
    number.map(|number| number * unit_us).ok_or_else(|| format!("{table}.{key}: {rule}"))
}

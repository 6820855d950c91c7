//! The keys of an object of JSON, which are read, known to describe only, or refused by name.
//!
//! [`Keys`] remembers what a reader asked for. What it did not ask for must be in a list of keys that
//! are known ([`Known`]); everything else is refused, for it may change memory or time.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::model::error::ModelError;

/// What a key that the reader does not ask for may say.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) enum Rule {
    /// Anything: neither memory nor time hangs on it.
    Any,
    /// Nothing but null, false, 0 or an empty text, list or object, for this is not modelled.
    Off(&'static str),
    /// One of these words or numbers, which do not differ in memory or time.
    OneOf(&'static [&'static str]),
}

/// Keys that share a rule.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct Known {
    pub(in crate::model) rule: Rule,
    pub(in crate::model) keys: &'static [&'static str],
}

/// The rule of a key.
pub(in crate::model) fn rule_of(known: &[Known], key: &str) -> Option<Rule> {
    known.iter().find(|group| group.keys.contains(&key)).map(|group| group.rule)
}

/// An object of JSON, with what an error needs to name a key.
pub(in crate::model) struct Keys<'a> {
    model: &'a str,
    map: &'a Map<String, Value>,
    prefix: String,
    /// The largest size that is believed.
    most: u32,
    read: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Keys<'a> {
    pub(in crate::model) fn new(model: &'a str, map: &'a Map<String, Value>, prefix: &str) -> Self {
        Self { model, map, prefix: prefix.to_owned(), most: u32::MAX, read: RefCell::default() }
    }

    /// The same, of which no size is larger than this; rows of vocabularies and tokens may be.
    pub(in crate::model) fn with_sizes_up_to(self, most: u32) -> Self {
        Self { most, ..self }
    }

    pub(in crate::model) fn model(&self) -> &'a str {
        self.model
    }

    /// The value of the first of these keys that is present and not null, with the key. Of the others
    /// those count as read that say the same; one that differs is left to be refused.
    pub(in crate::model) fn find(
        &self,
        names: &[&'static str],
    ) -> Option<(&'static str, &'a Value)> {
        let present = |name: &&'static str| {
            let (key, value) = self.map.get_key_value(*name)?;
            (!value.is_null()).then_some((*name, key.as_str(), value))
        };
        let (first, _, value) = names.iter().find_map(present)?;
        let same = names.iter().filter_map(present).filter(|(_, _, other)| *other == value);
        self.read.borrow_mut().extend(same.map(|(_, key, _)| key));
        Some((first, value))
    }

    /// Notes a key that needs no look: what it says follows from the others.
    pub(in crate::model) fn pass(&self, name: &'static str) {
        self.find(&[name]);
    }

    pub(in crate::model) fn error(&self, key: &str, problem: impl Into<String>) -> ModelError {
        ModelError::Key {
            model: self.model.to_owned(),
            key: format!("{}{key}", self.prefix),
            problem: problem.into(),
        }
    }

    /// An error that says what would be right.
    pub(in crate::model) fn must_be(&self, key: &str, right: &str, got: &Value) -> ModelError {
        self.error(key, format!("must be {right}, got {}", shown(got)))
    }

    pub(in crate::model) fn optional(
        &self,
        names: &[&'static str],
    ) -> Result<Option<u32>, ModelError> {
        let Some((name, value)) = self.find(names) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let wrong = || self.must_be(name, "a whole number below 2^32", value);
        let number = number.ok_or_else(wrong)?;
        let is_count = ["vocab", "position", "seq_len", "seq_length", "window", "chunk"];
        if number > self.most && !is_count.iter().any(|count| name.contains(count)) {
            return Err(self.error(name, format!("must be at most {}, got {number}", self.most)));
        }
        Ok(Some(number))
    }

    pub(in crate::model) fn required(&self, names: &[&'static str]) -> Result<u32, ModelError> {
        match self.optional(names)? {
            Some(number) if number > 0 => Ok(number),
            Some(number) => {
                let name = self.find(names).map_or(names[0], |(name, _)| name);
                Err(self.error(name, format!("must be at least 1, got {number}")))
            }
            None => Err(self.error(names[0], "is missing")),
        }
    }

    pub(in crate::model) fn flag(
        &self,
        names: &[&'static str],
    ) -> Result<Option<bool>, ModelError> {
        let Some((name, value)) = self.find(names) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.must_be(name, "true or false", value))
    }

    pub(in crate::model) fn text(
        &self,
        names: &[&'static str],
    ) -> Result<Option<&'a str>, ModelError> {
        let Some((name, value)) = self.find(names) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.must_be(name, "a word", value))
    }

    pub(in crate::model) fn list(
        &self,
        name: &'static str,
    ) -> Result<Option<&'a [Value]>, ModelError> {
        let Some((_, value)) = self.find(&[name]) else { return Ok(None) };
        value
            .as_array()
            .map(|list| Some(list.as_slice()))
            .ok_or_else(|| self.must_be(name, "a list", value))
    }

    /// A list of whole numbers.
    pub(in crate::model) fn whole_numbers(
        &self,
        name: &'static str,
    ) -> Result<Option<Vec<u64>>, ModelError> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let numbers: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
        let wrong = || self.error(name, "must be a list of whole numbers");
        numbers.map(Some).ok_or_else(wrong)
    }

    /// Whether the value is a list.
    pub(in crate::model) fn holds_list(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(Value::is_array)
    }

    pub(in crate::model) fn number(&self, name: &'static str) -> Result<Option<f64>, ModelError> {
        let Some((_, value)) = self.find(&[name]) else { return Ok(None) };
        let positive = value.as_f64().filter(|number| *number > 0.0 && *number < 1e6);
        positive.map(Some).ok_or_else(|| self.must_be(name, "a number above 0", value))
    }

    /// The object under a key, with keys of its own.
    pub(in crate::model) fn object(&self, name: &'static str) -> Result<Option<Self>, ModelError> {
        let Some((_, value)) = self.find(&[name]) else { return Ok(None) };
        self.enter(name, value).map(Some)
    }

    /// A value as an object that lies under `name`.
    pub(in crate::model) fn enter(&self, name: &str, value: &'a Value) -> Result<Self, ModelError> {
        let map = value.as_object().ok_or_else(|| self.must_be(name, "an object", value))?;
        let inner = Self::new(self.model, map, &format!("{}{name}.", self.prefix));
        Ok(inner.with_sizes_up_to(self.most))
    }

    /// The keys and their values.
    pub(in crate::model) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.map.iter().map(|(key, value)| (key.as_str(), value))
    }

    fn not_modelled(&self, key: &str, what: &str, value: &Value) -> ModelError {
        self.error(key, format!("not modelled ({what}), got {}", shown(value)))
    }

    /// Refuses what was not read and does not only describe. A null says nothing.
    pub(in crate::model) fn refuse_the_rest(&self, known: &[Known]) -> Result<(), ModelError> {
        let read = self.read.borrow();
        for (key, value) in self.map {
            if value.is_null() || read.contains(key.as_str()) {
                continue;
            }
            match rule_of(known, key) {
                Some(Rule::Off(what)) if !is_off(value) => {
                    return Err(self.not_modelled(key, what, value));
                }
                Some(Rule::Any | Rule::Off(_)) => {}
                Some(Rule::OneOf(words)) if words.contains(&plain(value).as_str()) => {}
                Some(Rule::OneOf(words)) => {
                    return Err(self.must_be(key, &words.join(" or "), value));
                }
                None => {
                    let problem = format!(
                        "is not read here and may change memory or time, got {}; leave it out of a \
                         copy of the file only if it changes neither",
                        shown(value)
                    );
                    return Err(self.error(key, problem));
                }
            }
        }
        Ok(())
    }
}

/// Python writes numbers that JSON has not; as bounds they are as good as the greatest number there is.
pub(in crate::model) fn without_infinities(text: &str) -> String {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let mut rest = String::with_capacity(text.len());
    let mut skip = 0;
    for (at, sign) in text.char_indices() {
        if at < skip {
            continue;
        }
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            'I' if !is_quoted && text[at..].starts_with("Infinity") => {
                skip = at + "Infinity".len();
                rest.push_str("1e308");
                continue;
            }
            _ => {}
        }
        rest.push(sign);
    }
    rest
}

/// Whether a value switches nothing on.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// A value as its words are written in lists of words.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The beginning of a value, for lists of layers are long.
fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

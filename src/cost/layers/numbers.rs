//! Whole numbers as one string: short in a file, and a line per row shows what changed.

use std::fmt::Write as _;
use std::ops::Deref;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Whole numbers, separated by white space.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Numbers(pub Vec<u64>);

impl Deref for Numbers {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = |word: &str| {
            word.parse().map_err(|_| D::Error::custom(format!("`{word}` is not a whole number")))
        };
        text.split_whitespace().map(number).collect::<Result<_, _>>().map(Self)
    }
}

impl Numbers {
    /// A TOML multi-line string with so many numbers on a line.
    pub(super) fn write(&self, per_line: usize, text: &mut String) {
        text.push_str("\"\"\"\n");
        for line in self.0.chunks(per_line.max(1)) {
            let words: Vec<String> = line.iter().map(ToString::to_string).collect();
            // A string can always be written to.
            let _ = writeln!(text, "{}", words.join(" "));
        }
        text.push_str("\"\"\"\n");
    }
}

//! The formats by name, the units of their clocks, and how a file's first line tells them apart.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::TraceError;
use super::functions;
use super::generic;
use super::names::letters;

/// A trace format, named as in scenarios and on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TraceFormat {
    /// Azure LLM inference 2023 and 2024: CSV, wall-clock stamps, token counts.
    Azure,
    /// Mooncake: JSON lines, milliseconds, an id for every 512 prompt tokens.
    Mooncake,
    /// Bailian (Qwen) usage traces: JSON lines, seconds, an id for every 16 prompt tokens.
    Bailian,
    /// BurstGPT: CSV, whole seconds, failures as answers of zero tokens.
    #[serde(rename = "burstgpt")]
    BurstGpt,
    /// ServeGen: a folder of clients' rates and length histograms, from which requests are drawn.
    #[serde(rename = "servegen")]
    ServeGen,
    /// Vidur: CSV, seconds or no times, prefill and decode token counts.
    Vidur,
    /// `LLMServingSim`: JSON lines, nanoseconds.
    #[serde(rename = "llmservingsim")]
    LlmServingSim,
    /// Prompt and output lengths without times, as computed from `ShareGPT`.
    #[serde(rename = "sharegpt-lengths")]
    ShareGptLengths,
    /// CSV with a header; the columns are stated or go by common names.
    Csv,
    /// One JSON object a line; the keys are stated or go by common names.
    Jsonl,
}

impl TraceFormat {
    /// Every format, in the order they are listed to users.
    pub const ALL: [Self; 10] = [
        Self::Azure,
        Self::Mooncake,
        Self::Bailian,
        Self::BurstGpt,
        Self::ServeGen,
        Self::Vidur,
        Self::LlmServingSim,
        Self::ShareGptLengths,
        Self::Csv,
        Self::Jsonl,
    ];

    /// The name in scenarios and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::Mooncake => "mooncake",
            Self::Bailian => "bailian",
            Self::BurstGpt => "burstgpt",
            Self::ServeGen => "servegen",
            Self::Vidur => "vidur",
            Self::LlmServingSim => "llmservingsim",
            Self::ShareGptLengths => "sharegpt-lengths",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }

    /// The format of a CSV with these titles. Formats that may lack times are those of files in which no column is named as
    /// times are: else these would be dropped without a word.
    fn of_header(line: &str) -> Self {
        let titles: Vec<&str> =
            line.split([',', ';', '\t']).map(|title| title.trim().trim_matches('"')).collect();
        let has = |names: [&str; 2]| names.iter().all(|name| titles.contains(name));
        let is_time = |title: &&str| {
            generic::LAYOUT.arrival.iter().any(|name| letters(name) == letters(title))
        };
        let is_timed = titles.iter().any(is_time);
        if has(["TIMESTAMP", "ContextTokens"]) {
            Self::Azure
        } else if has(["Timestamp", "Request tokens"]) {
            Self::BurstGpt
        } else if has(["num_prefill_tokens", "num_decode_tokens"])
            && (titles.contains(&"arrived_at") || !is_timed)
        {
            Self::Vidur
        } else if has(["prompt_len", "output_len"]) && !is_timed {
            Self::ShareGptLengths
        } else {
            Self::Csv
        }
    }

    /// The format that a file's first line speaks of. Anything with a header is at least
    /// [`TraceFormat::Csv`], any JSON object at least [`TraceFormat::Jsonl`].
    ///
    /// # Errors
    /// [`TraceError::Unusable`] when the file is empty or a JSON list of conversations.
    pub(super) fn detect(path: &Path, first_line: &[u8]) -> Result<Self, TraceError> {
        let line = first_line.trim_ascii();
        let has = |names: &[&str]| {
            names.iter().all(|name| line.windows(name.len()).any(|w| w == name.as_bytes()))
        };
        match line.first() {
            None => Err(TraceError::unusable(path, "the trace is empty; it must have a row")),
            Some(b'[') => Err(TraceError::unusable(
                path,
                "a JSON list is not a trace; a trace must have one object a line, and token counts rather \
                 than texts (a ShareGPT file must be tokenised first)",
            )),
            Some(b'{') if has(&["\"chat_id\"", "\"hash_ids\""]) => Ok(Self::Bailian),
            Some(b'{') if has(&["\"input_toks\"", "\"arrival_time_ns\""]) => {
                Ok(Self::LlmServingSim)
            }
            Some(b'{') if has(&["\"timestamp\"", "\"input_length\""]) => Ok(Self::Mooncake),
            Some(b'{') => Ok(Self::Jsonl),
            Some(_) if functions::speaks_of_functions(line) => Err(TraceError::unusable(
                path,
                "calls of functions are not requests: they have no lengths; `servecast trace \
                 adapter-counts` makes arrivals of adapters of them",
            )),
            Some(_) => Ok(Self::of_header(&String::from_utf8_lossy(line))),
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|format| format.name()).collect();
            format!("a trace format is one of {}, got `{name}`", known.join(", "))
        })
    }
}

/// The unit in which a file states its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TimeUnit {
    /// Date and time of day.
    #[serde(rename = "wall-clock")]
    WallClock,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
}

impl TimeUnit {
    /// Every unit with its name on the command line.
    const NAMES: [(Self, &'static str); 5] = [
        (Self::WallClock, "wall-clock"),
        (Self::Seconds, "s"),
        (Self::Milliseconds, "ms"),
        (Self::Microseconds, "us"),
        (Self::Nanoseconds, "ns"),
    ];

    /// How many decimal digits a unit has down to the nanosecond; `None` for the wall clock.
    pub(super) const fn decimal_digits(self) -> Option<u32> {
        match self {
            Self::WallClock => None,
            Self::Seconds => Some(9),
            Self::Milliseconds => Some(6),
            Self::Microseconds => Some(3),
            Self::Nanoseconds => Some(0),
        }
    }

    /// The unit that a column's name ends in: `arrival_time_ns`, `timestamp_ms`, `arrival_s`, `Time (seconds)`.
    pub(super) fn from_suffix(column: &str) -> Option<Self> {
        let column = column.trim_end_matches([')', ']', ' ']);
        let (_, suffix) = column.rsplit_once(['_', ' ', '(', '[', '-', '.'])?;
        match suffix.to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => Some(Self::Seconds),
            "ms" | "msec" | "millis" | "milliseconds" => Some(Self::Milliseconds),
            "us" | "usec" | "micros" | "microseconds" => Some(Self::Microseconds),
            "ns" | "nanos" | "nanoseconds" => Some(Self::Nanoseconds),
            _ => None,
        }
    }

    /// Its name in scenarios and on the command line.
    #[cfg(feature = "cli")]
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(unit, _)| *unit == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::WallClock => "wall-clock time",
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        })
    }
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::NAMES
            .into_iter()
            .find(|(_, known)| *known == name)
            .map(|(unit, _)| unit)
            .ok_or_else(|| format!("a time unit is one of wall-clock, s, ms, us, ns, got `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_name() {
        for format in TraceFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            let json = serde_json::to_string(&format).unwrap();
            assert_eq!(json, format!("\"{format}\""));
        }
        assert!("parquet".parse::<TraceFormat>().unwrap_err().contains("one of azure, mooncake"));
    }

    #[test]
    fn the_first_line_tells_the_format() {
        let of = |line: &str| TraceFormat::detect(Path::new("t"), line.as_bytes()).unwrap();
        assert_eq!(of("TIMESTAMP,ContextTokens,GeneratedTokens"), TraceFormat::Azure);
        assert_eq!(
            of("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"),
            TraceFormat::BurstGpt
        );
        assert_eq!(of("arrived_at,num_prefill_tokens,num_decode_tokens"), TraceFormat::Vidur);
        assert_eq!(of("file_index,prompt_len,output_len"), TraceFormat::ShareGptLengths);
        // Times are never dropped because of what else a file resembles.
        for timed in [
            "Timestamp,prompt_len,output_len",
            "ts_ms;prompt_len;output_len",
            "arrival_s,num_prefill_tokens,num_decode_tokens",
            "Timestamp (ms),Request tokens,Response tokens",
            "ts_ms,prompt_length,output_length",
        ] {
            assert_eq!(of(timed), TraceFormat::Csv, "{timed}");
        }
        assert_eq!(of("arrival_s,prompt_len,output_len"), TraceFormat::Csv);
        assert_eq!(
            of(r#"{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]}"#),
            TraceFormat::Mooncake
        );
        assert_eq!(
            of(r#"{"chat_id": 1, "timestamp": 0.5, "input_length": 1, "hash_ids": []}"#),
            TraceFormat::Bailian
        );
        assert_eq!(of(r#"{"arrival_time_ns":4,"input_toks":2}"#), TraceFormat::LlmServingSim);
        assert_eq!(of(r#"{"arrival_s": 0.1, "prompt_tokens": 5}"#), TraceFormat::Jsonl);
    }
}

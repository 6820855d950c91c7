//! A start of a server as its record tells it.

use serde_json::Value;

use crate::model::EngineVersion;
use crate::validate::record::RecordError;
use crate::validate::version::{self, Day};

/// A start: one JSON object. What its log does not say is absent; what was inferred stands under `inferred`, apart.
#[derive(Debug, Clone)]
pub(super) struct Start {
    fields: Value,
}

/// Bands of versions of vLLM whose starts have much in common, by the first version behind each.
const BANDS: [((u32, u32), &str); 7] = [
    ((0, 8), "V0, to 0.7"),
    ((0, 10), "0.8-0.9"),
    ((0, 12), "0.10-0.11"),
    ((0, 15), "0.12-0.14"),
    ((0, 19), "0.15-0.18"),
    ((0, 21), "0.19-0.20"),
    ((0, 25), "0.21-0.24"),
];

impl Start {
    /// The records of a file, and its lines that are none.
    pub(super) fn read_all(text: &str) -> (Vec<Self>, Vec<RecordError>) {
        let (mut starts, mut broken) = (Vec::new(), Vec::new());
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (index, line) in lines {
            match Self::of(line) {
                Ok(start) => starts.push(start),
                Err(problem) => {
                    broken.push(RecordError { unit: "line", number: index + 1, problem });
                }
            }
        }
        (starts, broken)
    }

    fn of(line: &str) -> Result<Self, String> {
        let fields = crate::json::parse(line).map_err(|error| error.to_string())?;
        let start = Self { fields };
        for key in ["id", "engine"] {
            if start.logged_text(key).is_none() {
                return Err(format!("`{key}` is missing"));
            }
        }
        Ok(start)
    }

    /// A value of the record itself.
    fn logged(&self, key: &str) -> Option<&Value> {
        let value = key.split('.').try_fold(&self.fields, |value, part| value.get(part))?;
        Some(value).filter(|value| !value.is_null())
    }

    /// The same, or what was inferred in its place.
    fn stated(&self, key: &str) -> Option<&Value> {
        let inferred = || self.logged("inferred")?.get(key)?.get("value");
        self.logged(key).or_else(inferred).filter(|value| !value.is_null())
    }

    pub(super) fn logged_text(&self, key: &str) -> Option<&str> {
        self.logged(key)?.as_str()
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.stated(key)?.as_str()
    }

    pub(super) fn real(&self, key: &str) -> Option<f64> {
        self.stated(key)?.as_f64()
    }

    pub(super) fn count(&self, key: &str) -> Option<u32> {
        u32::try_from(self.stated(key)?.as_u64()?).ok()
    }

    pub(super) fn logged_count(&self, key: &str) -> Option<u32> {
        u32::try_from(self.logged(key)?.as_u64()?).ok()
    }

    /// Bytes that the log itself says.
    pub(super) fn logged_bytes(&self, key: &str) -> Option<i64> {
        self.logged(key)?.as_i64()
    }

    /// Bytes that it says, or that were inferred from it.
    pub(super) fn bytes(&self, key: &str) -> Option<i64> {
        self.stated(key)?.as_i64()
    }

    pub(super) fn says(&self, key: &str) -> Option<bool> {
        self.stated(key)?.as_bool()
    }

    /// Whether anything is said of it but no.
    pub(super) fn has(&self, key: &str) -> bool {
        self.logged(key).is_some_and(|value| value.as_bool() != Some(false))
    }

    pub(super) fn id(&self) -> &str {
        self.logged_text("id").unwrap_or_default()
    }

    pub(super) fn engine(&self) -> &str {
        self.logged_text("engine").unwrap_or_default()
    }

    pub(super) fn model(&self) -> &str {
        self.logged_text("model").unwrap_or("-")
    }

    pub(super) fn quality(&self) -> &str {
        self.logged_text("quality").unwrap_or("-")
    }

    /// The version that the log tells, or else the newest release of its day.
    pub(super) fn version(&self) -> Option<EngineVersion> {
        let told = self.text("engine_version").and_then(EngineVersion::parse);
        told.or_else(|| version::newest(self.engine(), Day::parse(self.logged_text("date")?)?))
    }

    /// The engine, and of vLLM the band of its version.
    pub(super) fn band(&self) -> String {
        let engine = self.engine();
        if engine != "vllm" {
            return engine.to_owned();
        }
        let name = self.version().map_or("version not stated", |version| {
            let before = |&&((major, minor), _): &&((u32, u32), &str)| {
                version < EngineVersion::new(major, minor)
            };
            BANDS.iter().find(before).map_or("from 0.25", |(_, name)| name)
        });
        format!("{engine} {name}")
    }
}

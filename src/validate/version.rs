//! Which version of an engine served a run, also where its source names none.
//!
//! Settings, graphs and memory depend on the version, and a run of last year is not one of today's server. Where a
//! source names a nightly build or nothing, its day tells: `InferenceX` by the image of its scripts that day, others by
//! the newest release (`profiles/releases.toml`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::inferencex;
use super::record::Record;
use super::servers;
use crate::model::EngineVersion;

/// Of each engine, in small letters, the day on which each of its releases came out.
static RELEASES: LazyLock<BTreeMap<String, BTreeMap<String, Day>>> = LazyLock::new(|| {
    let text = include_str!("../../profiles/releases.toml");
    toml::from_str(text).expect("profiles/releases.toml is as its importer writes it")
});

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const OF_A_LOG: &str = "engine version not stated: that of a log or page beside the run";
const OF_ITS_DAY: &str = "engine version not stated: the release of its day";

/// The version that served a run: as its record names it, a log beside it, or else of its day; none where nothing tells.
pub(super) fn of(record: &Record) -> Option<EngineVersion> {
    stated(record).or_else(|| of_a_log(record)).or_else(|| of_its_day(record))
}

/// What has to be said of the version that served a run, if its record names none.
pub(super) fn assumed(record: &Record) -> Option<&'static str> {
    match stated(record) {
        Some(_) => None,
        None if of_a_log(record).is_some() => Some(OF_A_LOG),
        None => of(record).map(|_| OF_ITS_DAY),
    }
}

/// The version that the source of a run names.
pub(super) fn stated(record: &Record) -> Option<EngineVersion> {
    EngineVersion::find(text(record))
}

/// What the source of a run says in place of a version.
pub(super) fn text(record: &Record) -> &str {
    record.engine.version.as_deref().unwrap_or_default()
}

fn of_a_log(record: &Record) -> Option<EngineVersion> {
    servers::version(record).and_then(EngineVersion::parse)
}

fn of_its_day(record: &Record) -> Option<EngineVersion> {
    let day = Day::of_build(text(record)).or_else(|| Day::of(record))?;
    inferencex::version_on(record, day).or_else(|| newest(record.engine(), day))
}

/// The newest release of an engine on a day.
pub(super) fn newest(engine: &str, day: Day) -> Option<EngineVersion> {
    let releases = RELEASES.get(&engine.to_lowercase())?.iter();
    let out = releases.filter(|(_, came_out)| **came_out <= day);
    // A fix of an older line may be younger than the newest release.
    out.filter_map(|(version, _)| EngineVersion::parse(version)).max()
}

/// A day, as a number that grows by about one a day: all months have 31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Day(i64);

impl Day {
    /// After all others.
    pub(super) const LAST: Self = Self(i64::MAX / 2);

    /// The day that a text begins with, as `2026-02-01` or `20260201`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits: String = match text.get(..10) {
            Some(told) if told.bytes().filter(|byte| *byte == b'-').count() == 2 => {
                told.split('-').collect()
            }
            _ => text.get(..8)?.to_owned(),
        };
        let number =
            |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?;
        let (year, month, day): (i64, i64, i64) =
            (number(digits.get(..4)?)?, number(digits.get(4..6)?)?, number(digits.get(6..)?)?);
        let is_day = year >= 2000 && (1..=12).contains(&month) && (1..=31).contains(&day);
        is_day.then_some(Self((year * 12 + month) * 31 + day))
    }

    /// The day of a build, from its name: `nightly-dev-20260402-d7256eb6`, or `latest (Sept 2025)` for the middle of a month.
    pub(super) fn of_build(name: &str) -> Option<Self> {
        let words =
            || name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let in_month = |(month, year): (&str, &str)| {
            let (short, is_long) = (month.to_lowercase(), month.len() >= 3);
            let month = MONTHS.iter().position(|name| is_long && name.starts_with(&short))? + 1;
            Self::parse(&format!("{year}-{month:02}-15"))
        };
        words().find_map(Self::parse).or_else(|| words().zip(words().skip(1)).find_map(in_month))
    }

    /// The day of a run, from what is said of its load or its source.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let source = record.others.get("source").and_then(|source| source.get("detail"));
        let measured =
            source.and_then(Value::as_str).and_then(|detail| detail.split_once("measured="));
        measured
            .and_then(|(_, day)| Self::parse(day))
            .or_else(|| Self::parse(record.workload_text("date")))
            .or_else(|| Self::parse(record.others.get("date")?.as_str()?))
    }

    /// Days from an earlier one.
    pub(super) const fn since(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }
}

impl TryFrom<String> for Day {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is no day such as 2026-02-01"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(engine: &Value, workload: &Value, detail: &str) -> Record {
        let record = json!({"id": "a", "family": "a", "engine": engine, "workload": workload, "source": {"detail": detail}});
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_day_is_read_with_and_without_dashes() {
        for text in ["2026-02-01", "20260201", "20260201-084758", "2026-02-01T00:00:00.000Z"] {
            assert_eq!(Day::parse(text), Day::parse("2026-02-01"), "{text}");
            assert!(Day::parse(text).is_some(), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-13-01",
            "20261301",
            "nightly-20260201",
            "d7256eb6",
            "2026-2-1",
            "12345678",
        ] {
            assert_eq!(Day::parse(text), None, "{text}");
        }
        assert_eq!(Day::parse("2026-03-02").unwrap().since(Day::parse("2026-03-01").unwrap()), 1);
    }

    #[test]
    fn what_a_source_names_comes_before_the_day() {
        let told = json!({"name": "vLLM", "version": "v0.11.0 (V1)"});
        let record = record(&told, &json!({"date": "2026-03-12"}), "");
        assert_eq!(of(&record), Some(EngineVersion::new(0, 11)));
    }

    #[test]
    fn a_run_without_a_version_has_the_newest_release_of_its_day() {
        let of = |engine: &str, version: &Value, date: &str, detail: &str| {
            of(&record(
                &json!({"name": engine, "version": version}),
                &json!({"date": date}),
                detail,
            ))
        };
        let patched = |minor, patch| Some(EngineVersion::patched(0, minor, patch));
        assert_eq!(of("vLLM", &json!(null), "20260312-084758", ""), patched(17, 1));
        assert_eq!(of("SGLang", &json!("main branch"), "2025-12-02", ""), patched(5, 5));
        assert_eq!(
            of("sglang", &json!(null), "", "measured=2025-12-03T00:00:00.000Z; wip=False"),
            patched(5, 6)
        );
        let nightly = json!("nightly-dev-20260402-d7256eb6");
        assert_eq!(of("sglang", &nightly, "2026-05-20", ""), patched(5, 9));
        let image = json!("image lmsysorg/sglang:latest (Sept 2025)");
        assert_eq!(of("SGLang", &image, "", ""), patched(5, 2));
        assert_eq!(of("SGLang", &json!("decision 2025"), "", ""), None);
        assert_eq!(of("vLLM", &json!(null), "", ""), None);
        assert_eq!(of("vLLM", &json!(null), "2019-01-01", ""), None);
        assert_eq!(of("TGI", &json!(null), "2026-03-12", ""), None);
    }
}

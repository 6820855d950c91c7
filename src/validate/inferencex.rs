//! What `InferenceX` starts servers with, where a record of its runs lists no flags.
//!
//! Its scripts are public, so a model, a GPU, an engine, lengths and a number of requests in flight
//! tell the flags (`profiles/inferencex.toml`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::record::{Fields, Record};
use super::version::Day;
use super::workload::is_inferencex;
use crate::model::EngineVersion;
use crate::scenario::{ScenarioFile, StepTimeConfig};

static SERVERS: LazyLock<File> = LazyLock::new(|| {
    let text = include_str!("../../profiles/inferencex.toml");
    toml::from_str(text).expect("profiles/inferencex.toml is as its importer writes it")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// By the name of a model in `recipes`, those that records have for it.
    models: BTreeMap<String, Vec<String>>,
    servers: Servers,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Servers {
    recipes: Vec<Recipe>,
}

/// One configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    model: String,
    gpu: String,
    engine: String,
    precision: String,
    /// Tokens of the longest prompt and answer.
    lengths: [u32; 2],
    /// Requests in flight that it is run at.
    concurrency: Vec<u32>,
    tp: u32,
    ep: u32,
    dp_attention: bool,
    /// The day from which it was in use, and that on which another took its place.
    from: Day,
    until: Option<Day>,
    /// That of the engine, where its image has a release.
    version: Option<String>,
    flags: Fields,
}

/// Days from the run of a script to the day under which its figures are published, at most.
const DAYS_TO_PUBLISH: i64 = 7;

/// Says of the server of a record that its kernels were chosen for the model, where the scenario leaves step times
/// open and it is one of `InferenceX`'s: vendors write its recipes.
pub fn tell_tuned(record: &Record, file: &mut ScenarioFile) {
    if let StepTimeConfig::Auto { tuned, .. } = &mut file.cluster.step_time {
        *tuned |= is_inferencex(record);
    }
}

/// The flags of the server of a record that lists none, if it is one of `InferenceX`'s.
pub(super) fn flags(record: &Record) -> Option<&'static Fields> {
    let is_told = !record.engine_flags.is_empty() || record.server_command.is_some();
    if is_told || !is_inferencex(record) {
        return None;
    }
    let day = Day::of(record);
    let fits = SERVERS.servers.recipes.iter().filter(|recipe| recipe.is_of(record));
    let nearest = fits.min_by_key(|recipe| (recipe.layouts_apart(record), recipe.days_apart(day)));
    nearest.map(|recipe| &recipe.flags)
}

/// The version that its scripts started on a day for the load of a record, if it is one of `InferenceX`'s and they have
/// a release about then.
pub(super) fn version_on(record: &Record, day: Day) -> Option<EngineVersion> {
    let recipes = SERVERS.servers.recipes.iter().filter(|_| is_inferencex(record));
    let fits = recipes.filter(|recipe| recipe.is_of(record));
    let nearest =
        fits.min_by_key(|recipe| (recipe.days_apart(Some(day)), recipe.layouts_apart(record)))?;
    let is_then = nearest.days_apart(Some(day)) <= DAYS_TO_PUBLISH;
    nearest.version.as_deref().filter(|_| is_then).and_then(EngineVersion::parse)
}

impl Recipe {
    /// Whether it serves the requests of a record, by its model on its GPU.
    fn is_of(&self, record: &Record) -> bool {
        let name = record.model.name.as_deref().unwrap_or_default();
        let is_model = SERVERS.models[&self.model].iter().any(|of| of.eq_ignore_ascii_case(name));
        let gpu = record.hardware.gpu.as_deref().unwrap_or_default().to_lowercase();
        let workload = |key: &str| record.workload.get(key).and_then(Value::as_u64);
        let counts = |key: &str, count: u32| workload(key) == Some(u64::from(count));
        let is_apart = record.parallel.contains_key("prefill");
        is_model
            && !is_apart
            && gpu.starts_with(&self.gpu)
            && self.engine.eq_ignore_ascii_case(&record.engine.name)
            && record.model.precision.as_deref() == Some(self.precision.as_str())
            && counts("input_len", self.lengths[0])
            && counts("output_len", self.lengths[1])
            && self.concurrency.iter().any(|places| counts("max_concurrency", *places))
    }

    /// How many ways of splitting the model are others.
    fn layouts_apart(&self, record: &Record) -> u32 {
        let told = |key: &str| {
            record.parallel.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok())
        };
        let first = |keys: [&str; 2]| keys.into_iter().find_map(told).unwrap_or(1);
        let ranks = first(["attention_dp_size", "dp"]);
        let tp = first(["tp_size", "tp"]);
        let gpus = if tp == 1 { ranks } else { tp };
        u32::from(self.dp_attention != (ranks > 1)) * 4
            + u32::from(self.tp != gpus) * 2
            + u32::from((self.ep > 1) != (first(["moe_ep_size", "ep"]) > 1))
    }

    /// Days between a run and the time in which it was in use; none if the day is not known, but
    /// then what is in use last is nearest.
    fn days_apart(&self, day: Option<Day>) -> i64 {
        match day {
            Some(day) if day < self.from => self.from.since(day),
            // The day on which the next one came.
            Some(day) => self.until.map_or(0, |until| (day.since(until) + 1).max(0)),
            None => Day::LAST.since(self.from),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(change: impl FnOnce(&mut Value)) -> Record {
        let mut value = json!({
            "id": "a", "family": "a", "engine": {"name": "sglang", "version": "0.5.8"},
            "hardware": {"gpu": "b200_sxm"},
            "model": {"name": "deepseek-ai/DeepSeek-R1", "precision": "fp4"},
            "parallel": {"tp_size": 8},
            "source": {"detail": "db-dump; measured=2026-02-01T00:00:00.000Z"},
            "workload": {"dataset": "random (InferenceX style)", "input_len": 1024,
                "output_len": 1024, "max_concurrency": 64},
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_flags_are_those_of_the_number_of_requests_in_flight() {
        let interval = |places: u32| {
            let record = record(|of| of["workload"]["max_concurrency"] = json!(places));
            flags(&record).expect("its scripts are known")["scheduler-recv-interval"].clone()
        };
        assert_eq!([interval(4), interval(64)], [json!(10), json!(30)]);
    }

    #[test]
    fn what_a_record_says_of_its_server_is_not_overruled() {
        assert!(flags(&record(|_| ())).is_some());
        assert!(flags(&record(|of| of["server_command"] = json!("sglang"))).is_none());
        assert!(flags(&record(|of| of["engine_flags"] = json!({"tp": 8}))).is_none());
        assert!(flags(&record(|of| of["workload"]["dataset"] = json!("random"))).is_none());
        assert!(flags(&record(|of| of["workload"]["input_len"] = json!(777))).is_none());
    }

    #[test]
    fn the_version_is_that_of_the_image_of_the_day() {
        let on = |day: &str| version_on(&record(|_| ()), Day::parse(day).unwrap());
        assert_eq!(on("2025-11-05"), Some(EngineVersion::patched(0, 5, 3)));
        assert_eq!(on("2026-01-01"), None);
        let other = record(|of| of["workload"]["dataset"] = json!("random"));
        assert_eq!(version_on(&other, Day::parse("2025-11-05").unwrap()), None);
    }

    #[test]
    fn every_recipe_names_a_model_and_two_days() {
        for recipe in &SERVERS.servers.recipes {
            assert!(SERVERS.models.contains_key(&recipe.model), "{recipe:?}");
            assert!(recipe.from <= recipe.until.unwrap_or(Day::LAST), "{recipe:?}");
            let version = recipe.version.as_deref();
            assert!(
                version.is_none_or(|version| EngineVersion::parse(version).is_some()),
                "{recipe:?}"
            );
            assert!(!recipe.flags.is_empty() && !recipe.concurrency.is_empty(), "{recipe:?}");
        }
    }
}

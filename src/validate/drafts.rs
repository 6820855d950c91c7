//! Drafts of a server: who makes them, as its flags tell, and how many are accepted, as its record tells or, where it does
//! not, as was measured of such drafts.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::record::{Fields, Record, count, shown};
use super::skip::{self, Skip};
use crate::model::ModelSpec;
use crate::scenario::{
    AcceptanceConfig, SglangSpeculationConfig, SpeculationConfig, SpeculationMethod,
    SpeculativeAlgorithm,
};

/// Drafts of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Drafts {
    method: Option<SpeculationMethod>,
    /// The head or the model that drafts.
    model: Option<String>,
    /// Drafts of a step.
    tokens: Option<u32>,
    /// Tokens of a sequence in the step that verifies them, where that is said apart.
    verified: Option<u32>,
    /// GPUs that what drafts is spread over.
    tensor: Option<u32>,
}

/// What benchmark tools call the tokens that a step brings out: `sglang.bench_serving` and `vllm bench serve`.
const ACCEPTED: [&str; 2] = ["accept_length", "spec_decode_acceptance_length"];

impl Drafts {
    /// Reads `--speculative-config` of vLLM: an object, or the text of one.
    pub(super) fn of_vllm(value: &Value) -> Result<Self, Skip> {
        let told = |key: &str, value: &Value| Skip::Flag {
            flag: format!("speculative-config.{key}"),
            value: shown(value),
        };
        let whole = || Skip::Flag { flag: "speculative-config".to_owned(), value: shown(value) };
        let parsed = value.as_str().and_then(|text| crate::json::parse(text).ok());
        let fields: &Fields = parsed.as_ref().unwrap_or(value).as_object().ok_or_else(whole)?;
        let mut drafts = Self::default();
        for (key, value) in fields {
            let unmodelled = || told(key, value);
            match key.as_str() {
                "method" => drafts.method = Some(method(&shown(value)).ok_or_else(unmodelled)?),
                "model" => drafts.model = Some(shown(value)),
                "num_speculative_tokens" => {
                    drafts.tokens = Some(count(value).ok_or_else(unmodelled)?);
                }
                "draft_tensor_parallel_size" => {
                    drafts.tensor = Some(count(value).ok_or_else(unmodelled)?);
                }
                _ => return Err(unmodelled()),
            }
        }
        Ok(drafts)
    }

    /// Takes a flag of `SGLang`: chains of drafts by the layers of the model that draft or by a head, not trees
    /// (0.5.9, `sglang/srt/server_args.py`).
    pub(super) fn take_sglang(
        &mut self,
        flag: &str,
        value: &Value,
        unmodelled: impl Fn() -> Skip + Copy,
    ) -> Result<(), Skip> {
        let whole = || count(value).ok_or_else(unmodelled);
        match flag {
            "speculative_algorithm" | "speculative_algo" => {
                self.method = Some(match shown(value).to_uppercase().as_str() {
                    // Layers of the model, unless a head is named.
                    "EAGLE" | "NEXTN" => SpeculationMethod::Mtp,
                    "EAGLE3" => SpeculationMethod::Eagle3,
                    "STANDALONE" => SpeculationMethod::DraftModel,
                    _ => return Err(unmodelled()),
                });
            }
            "speculative_draft_model_path" | "speculative_draft_model" => {
                self.model = Some(shown(value));
            }
            "speculative_num_steps" => self.tokens = Some(whole()?),
            "speculative_eagle_topk" if whole()? == 1 => {}
            // With the token before them.
            "speculative_num_draft_tokens" => self.verified = Some(whole()?),
            _ => return Err(unmodelled()),
        }
        Ok(())
    }

    /// The drafts of a scenario. What drafts is spread over as many GPUs as the model.
    pub(super) fn speculation(
        &self,
        record: &Record,
        model: &ModelSpec,
        tensor: u32,
    ) -> Result<SpeculationConfig, Skip> {
        let (Some(method), Some(tokens)) = (self.method, self.tokens) else {
            return Err(skip::DRAFTS_NOT_STATED);
        };
        let method = match (method, &self.model) {
            (SpeculationMethod::Mtp, Some(_)) => SpeculationMethod::Eagle,
            _ => method,
        };
        if let Some(verified) = self.verified.filter(|verified| *verified != tokens + 1) {
            let what = format!("{verified} tokens verified of a chain of {tokens} drafts");
            return Err(Skip::Contradiction(what));
        }
        if self.tensor.is_some_and(|own| own != tensor) {
            return Err(skip::DRAFTER_SPREAD_APART);
        }
        let accepted = match told(record) {
            Some(accepted) => accepted,
            None => self.measured(record, model).ok_or(skip::ACCEPTANCE_NOT_STATED)?,
        };
        let most = f64::from(tokens) + 1.0;
        if !(1.0..=most).contains(&accepted) {
            let what = format!("{accepted} tokens of a step with {tokens} drafts");
            return Err(Skip::Contradiction(what));
        }
        let acceptance = AcceptanceConfig::MeanLength { tokens: accepted };
        let mut speculation = SpeculationConfig::new(method, tokens, acceptance);
        match (method, self.head()) {
            (SpeculationMethod::DraftModel, _) => speculation.model.clone_from(&self.model),
            (SpeculationMethod::Eagle | SpeculationMethod::Eagle3, Some(head)) => {
                speculation.model = Some(head.layer.clone());
                speculation.draft_vocab_size =
                    head.draft_vocab_size.filter(|_| method == SpeculationMethod::Eagle3);
            }
            _ => {}
        }
        Ok(speculation)
    }

    /// The same in the words of `SGLang`.
    pub(super) fn sglang(
        &self,
        record: &Record,
        model: &ModelSpec,
        tensor: u32,
    ) -> Result<SglangSpeculationConfig, Skip> {
        let common = self.speculation(record, model, tensor)?;
        let (algorithm, head) = match common.method {
            Some(SpeculationMethod::Eagle3) => (SpeculativeAlgorithm::Eagle3, common.model),
            Some(SpeculationMethod::DraftModel) => (SpeculativeAlgorithm::Standalone, common.model),
            // Layers of the model draft unless a head is named, which has to be known then.
            Some(SpeculationMethod::Eagle) => {
                (SpeculativeAlgorithm::Eagle, common.model.or_else(|| self.model.clone()))
            }
            _ => (SpeculativeAlgorithm::Eagle, None),
        };
        Ok(SglangSpeculationConfig {
            speculative_num_steps: Some(common.num_speculative_tokens),
            speculative_draft_model_path: head,
            draft_vocab_size: common.draft_vocab_size,
            ..SglangSpeculationConfig::new(algorithm, common.acceptance)
        })
    }

    /// What of them no record tells.
    pub(super) fn assumed(&self, record: &Record) -> impl Iterator<Item = &'static str> {
        let heads = [SpeculationMethod::Eagle, SpeculationMethod::Eagle3];
        let is_head = self.method.is_some_and(|method| heads.contains(&method));
        let is_unknown = is_head && self.head().is_none();
        let head = is_unknown.then_some("head that drafts: one layer like those of the model");
        let accepted =
            told(record).is_none().then_some("drafts: as many accepted as in other runs");
        head.into_iter().chain(accepted)
    }

    /// The head that drafts, where it is known.
    fn head(&self) -> Option<&'static Head> {
        TABLES.heads.iter().find(|head| Some(&head.name) == self.model.as_ref())
    }

    /// What a step of such drafts brought out where it was measured.
    fn measured(&self, record: &Record, model: &ModelSpec) -> Option<f64> {
        let dataset = record.workload_text("dataset");
        let is_such = |one: &&Measured| {
            Some(one.method) == self.method
                && one.model == model.name
                && Some(&one.head) == self.model.as_ref()
                && one.dataset.eq_ignore_ascii_case(dataset)
        };
        let one = TABLES.measured.iter().find(is_such)?;
        one.tokens.get(&self.tokens?.to_string()).copied()
    }
}

/// What each step of a run brought out, as its tool printed it.
pub(super) fn told(record: &Record) -> Option<f64> {
    ACCEPTED.iter().find_map(|key| record.metric(key))
}

/// A method by its name in vLLM (0.33.0, `vllm/config/speculative.py`), which scenarios have too; modules of a model that draft have one for each kind of model, all of which mean the same.
fn method(name: &str) -> Option<SpeculationMethod> {
    let name = if name.ends_with("_mtp") { "mtp" } else { name };
    serde_json::from_value(Value::from(name)).ok()
}

/// `profiles/drafts.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    heads: Vec<Head>,
    measured: Vec<Measured>,
}

/// A head, and the model of the catalogue that has its layer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    name: String,
    layer: String,
    draft_vocab_size: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    method: SpeculationMethod,
    model: String,
    head: String,
    dataset: String,
    /// By the number of drafts.
    tokens: BTreeMap<String, f64>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let text = include_str!("../../profiles/drafts.toml");
    toml::from_str(text).expect("drafts.toml is read by a test")
});

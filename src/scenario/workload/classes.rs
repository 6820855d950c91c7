//! Classes of requests: whose they are, how urgent, and their SLOs.

use serde::{Deserialize, Serialize};

use super::validate::Rules;
use super::{LengthConfig, TokenDistribution, WorkloadConfig};
use crate::ids::ModelId;
use crate::scenario::NAME_MAX;

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// A name for reports, and for the class column of a trace.
    pub name: String,
    /// Of all requests, the share that is of this class; absent where a trace names the classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The model its requests ask for, as [`ClusterConfig::model`](crate::scenario::ClusterConfig::model)
    /// names it; that of the cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whose requests these are; a tenant of its own, of the same name, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Priority as the engine in use reads it (vLLM: smaller first; SGLang: larger first).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// SLO of the time to first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// SLO of the time per output token after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<f64>,
    /// SLO of the end-to-end latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e_ms: Option<f64>,
    /// Turns a request away that has waited at the gateway for so long, in place of the gateway's own
    /// deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
    /// Prompt tokens of its requests, in place of those of `lengths`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<TokenDistribution>,
    /// Answer tokens of its requests, in place of those of `lengths`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<TokenDistribution>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

impl ClassConfig {
    /// Whose requests these are.
    pub fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or(&self.name)
    }

    /// SLOs with their names, in ms.
    pub fn limits_ms(&self) -> [(&'static str, Option<f64>); 3] {
        [("ttft", self.ttft_ms), ("tpot", self.tpot_ms), ("e2e", self.e2e_ms)]
    }
}

/// The tenants of classes, in the order in which they come first, and for each class the place of
/// its own.
pub fn tenants(classes: &[ClassConfig]) -> (Vec<&str>, Vec<u32>) {
    let mut names: Vec<&str> = Vec::new();
    let mut of_class = Vec::with_capacity(classes.len());
    for class in classes {
        let known = names.iter().position(|name| *name == class.tenant());
        of_class.push(known.unwrap_or(names.len()) as u32);
        if known.is_none() {
            names.push(class.tenant());
        }
    }
    (names, of_class)
}

/// The models that classes ask for, in the order in which they come first, and for each class its own. In a
/// resolved scenario all classes name theirs, or none does.
pub fn models(classes: &[ClassConfig]) -> (Vec<Option<&str>>, Vec<ModelId>) {
    let mut names: Vec<Option<&str>> = Vec::new();
    let mut of_class = Vec::with_capacity(classes.len());
    for class in classes {
        let name = class.model.as_deref();
        let known = names.iter().position(|known| *known == name);
        of_class.push(ModelId(known.unwrap_or(names.len()) as u16));
        if known.is_none() {
            names.push(name);
        }
    }
    (names, of_class)
}

/// As many as a record has room for.
const MOST: usize = 1000;

/// What shares may add up to beside 1, for those written with a few decimals.
const ROUNDING: f64 = 1e-6;

pub(super) fn check(workload: &WorkloadConfig, rules: &mut Rules) {
    let classes = &workload.classes;
    rules.check(classes.len() <= MOST, "classes", "1000 at most", classes.len());
    for (index, class) in classes.iter().enumerate() {
        let path = |key: &str| format!("classes[{index}].{key}");
        rules.check(!class.name.is_empty(), &path("name"), "a name", "none");
        let letters = class.name.chars().count();
        let rule = format!("of at most {NAME_MAX} characters");
        rules.check(letters <= NAME_MAX, &path("name"), &rule, letters);
        if classes[..index].iter().any(|before| before.name == class.name) {
            rules.broken(&path("name"), format!("`{}` is given twice", class.name));
        }
        if let Some(share) = class.share {
            let holds = share > 0.0 && share <= 1.0;
            rules.check(holds, &path("share"), "above 0 and at most 1", share);
        }
        for (key, limit) in class.limits_ms() {
            rules.positive(&path(&format!("{key}_ms")), limit.unwrap_or(1.0));
        }
        rules.lasting(&path("deadline_ms"), class.deadline_ms.unwrap_or(1e3) / 1e3);
        check_lengths(workload, class, index, rules);
    }
    let given: Vec<f64> = classes.iter().filter_map(|class| class.share).collect();
    let sum: f64 = given.iter().sum();
    if given.len() == classes.len() && !classes.is_empty() {
        let holds = (sum - 1.0).abs() <= ROUNDING;
        rules.check(holds, "classes", "classes whose shares sum up to 1", sum);
    } else if !given.is_empty() {
        let without = classes.iter().position(|class| class.share.is_none()).unwrap_or(0);
        let message = "must be given for all classes or for none".to_owned();
        rules.broken(&format!("classes[{without}].share"), message);
    }
}

fn check_lengths(workload: &WorkloadConfig, class: &ClassConfig, index: usize, rules: &mut Rules) {
    let own = [("input_tokens", &class.input_tokens), ("output_tokens", &class.output_tokens)];
    for (key, tokens) in own {
        let Some(tokens) = tokens else { continue };
        let path = format!("classes[{index}].{key}");
        rules.distribution(&path, tokens);
        let replaceable =
            matches!(workload.lengths, LengthConfig::Fixed { .. } | LengthConfig::Sampled { .. });
        if !replaceable {
            let message =
                "needs workload.lengths of type `fixed` or `sampled`, whose place it takes";
            rules.broken(&path, message.to_owned());
        }
    }
}

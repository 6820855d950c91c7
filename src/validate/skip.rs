//! Why a record is not run.

use std::fmt;

/// Why a record is not run. Records that are left out for one reason show the same text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Skip {
    /// It holds no figure that a simulation has too.
    NoMetrics,
    /// Its engine is not modelled.
    Engine(String),
    /// It does not say on what it ran, or that is not in the catalogue.
    Gpu(Option<String>),
    /// It does not say on how many GPUs it ran.
    GpuCount,
    /// It does not say what it served, or that is not in the catalogue.
    Model(Option<String>),
    /// The catalogue has the model, but not in this number format.
    Precision {
        /// The model.
        model: String,
        /// The format of the record.
        precision: String,
    },
    /// The model has layers that are not modelled.
    Layers {
        /// The model.
        model: String,
        /// What of it is not modelled.
        what: &'static str,
    },
    /// A part of serving is not modelled.
    NotModelled(&'static str),
    /// A flag that changes results is not modelled, or not with this value.
    Flag {
        /// The flag.
        flag: String,
        /// Its value.
        value: String,
    },
    /// A setting of the workload is not modelled.
    Setting(String),
    /// A field that may change results is not known.
    Field(String),
    /// Two parts of it contradict each other.
    Contradiction(String),
    /// The requests cannot be drawn again.
    Dataset(String),
    /// How long prompts and answers were cannot be told.
    Lengths(&'static str),
    /// The scenario breaks a rule.
    Scenario(String),
    /// The engine never serves some of the requests.
    Stuck,
}

/// Adapters that a record does not list, or flags of adapters without a model.
pub(super) const LORA: Skip = Skip::NotModelled("LoRA adapters that the record does not list");
/// Ranks whose steps need products of all of them in every layer.
pub(super) const RANKS_WITHOUT_EXPERTS: Skip =
    Skip::NotModelled("data-parallel attention of a model without experts");
/// Every expert in parts on some of the GPUs of several ranks of an engine that has no such thing.
pub(super) const CUT_EXPERTS: Skip =
    Skip::NotModelled("experts of vLLM over some of the GPUs of its ranks");
/// Ranks of an engine that has no flag for them alone.
pub(super) const RANKS_NOT_STATED: Skip =
    Skip::NotModelled("data-parallel attention over a number of ranks that is not stated");
/// Several engines of V0 behind one front end.
pub(super) const RANKS_OF_V0: Skip = Skip::NotModelled("data parallelism of vLLM's V0 engine");
/// Layers of an engine spread over GPUs.
pub(super) const STAGES_OF_SGLANG: Skip = Skip::NotModelled("pipeline parallelism of SGLang");
/// The same of V0.
pub(super) const STAGES_OF_V0: Skip = Skip::NotModelled("pipeline parallelism of vLLM's V0 engine");
/// Prefill and decode on different GPUs.
pub(super) const DISAGGREGATION: Skip = Skip::NotModelled("disaggregation");
/// How many replicas prefill or decode.
pub(super) const WORKERS_NOT_STATED: Skip =
    Skip::NotModelled("a number of replicas that prefill or decode that is not stated");
/// Drafts of an engine whose scenarios have none.
pub(super) const DRAFTS_OF_V0: Skip = Skip::NotModelled("drafts of vLLM's V0 engine");
/// Who drafts, or how many tokens.
pub(super) const DRAFTS_NOT_STATED: Skip =
    Skip::NotModelled("drafts whose method or number is not stated");
/// What drafts on some of the GPUs, or on one.
pub(super) const DRAFTER_SPREAD_APART: Skip =
    Skip::NotModelled("drafts made on another number of GPUs than the model is on");
/// How many drafts are accepted, without which nothing can be said.
pub(super) const ACCEPTANCE_NOT_STATED: Skip = Skip::NotModelled(
    "drafts of which neither the record nor a measurement says how many were accepted",
);
/// Accepted drafts of nobody.
pub(super) const DRAFTS_OF_NOBODY: &str = "accepted drafts, and no flag that asks for some";

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMetrics => write!(f, "no metrics"),
            Self::Engine(name) => write!(f, "engine not modelled: {name}"),
            Self::Gpu(None) => write!(f, "GPU not stated"),
            Self::Gpu(Some(name)) => write!(f, "unknown GPU: {name}"),
            Self::GpuCount => write!(f, "number of GPUs not stated"),
            Self::Model(None) => write!(f, "model not stated"),
            Self::Model(Some(name)) => write!(f, "unknown model: {name}"),
            Self::Precision { model, precision } => {
                write!(f, "unknown model: {model} in {precision}")
            }
            Self::Layers { model, what } => write!(f, "not modelled: {what} ({model})"),
            Self::NotModelled(what) => write!(f, "not modelled: {what}"),
            Self::Flag { flag, value } => write!(f, "unmodelled flag: {flag}={value}"),
            Self::Setting(key) => write!(f, "unmodelled setting of the workload: {key}"),
            Self::Field(path) => write!(f, "unmodelled field: {path}"),
            Self::Contradiction(what) => write!(f, "contradiction: {what}"),
            Self::Dataset(name) => write!(f, "unknown dataset: {name}"),
            Self::Lengths(why) => write!(f, "lengths unknown: {why}"),
            Self::Scenario(problem) => write!(f, "{problem}"),
            Self::Stuck => write!(f, "requests that could never be served"),
        }
    }
}

//! Validation: measured runs, simulated again and compared.
//!
//! A measured run is a record of a JSONL file: engine, hardware, model, parallelism, flags,
//! workload and what the benchmark tool printed. A record becomes a scenario, or a reason why not:
//! a setting that is not modelled is never ignored. What had to be assumed where a record does
//! not say is kept beside the result.
//!
//! ```no_run
//! use servecast::load::Listener;
//! use servecast::validate::{judge, reference_runs};
//!
//! let mut runs = reference_runs(&[], &Listener::default())?;
//! runs.retain(|run| run.family.ends_with("qwen2.5-0.5b-burst"));
//! assert!(judge(&runs).is_positive());
//! # Ok::<(), servecast::load::LoadError>(())
//! ```
//!
//! * `published.rs`: files of records; `reference.rs`: the built-in runs
//! * `record.rs`: the file format; `tidy.rs`: other ways to write it; `fields.rs`: what else a record holds
//! * `skip.rs`: why a record is not run
//! * `flags.rs`: every flag, and whether it is modelled, without effect, or a reason to skip
//! * `parallel.rs`: how a server is spread over GPUs
//! * `command.rs`: the command that started a server
//! * `names.rs`, `gpu_names.rs`, `heading.rs`: models and GPUs as people write them
//! * `version.rs`: the version of the engine, also by the day of a run; `inferencex.rs`, `mlenergy.rs`: servers of
//!   `InferenceX` and of the `ML.ENERGY` benchmark
//! * `drafts.rs`: speculative decoding
//! * `engine.rs`, `host.rs`, `workload.rs`, `lengths.rs`, `sharegpt.rs`, `shared.rs`: from a record to a scenario
//! * `memory`: memory lines of server starts, against the derivation of KV memory
//! * `measured.rs`: metrics under the names of the benchmark JSON
//! * `run.rs`: scenarios to figures, on several threads
//! * `case.rs`, `experiment.rs`: one run with limits
//! * `tool_output.rs`, `arrivals.rs`: results of benchmark tools, as runs of a server that a scenario describes
//! * `host_run.rs`: folders of servers on a GPU of known step time
//! * `score.rs`, `report.rs`: errors by family, and how they are printed

mod adapters;
mod arrivals;
mod case;
mod command;
mod drafts;
mod engine;
mod experiment;
mod fields;
mod flags;
mod gpu_names;
mod heading;
mod host;
mod host_run;
mod inferencex;
mod lengths;
mod measured;
mod memory;
mod mlenergy;
mod names;
mod parallel;
mod plan;
mod published;
mod record;
mod reference;
mod report;
mod roles;
mod run;
mod score;
mod servers;
mod shared;
mod sharegpt;
mod skip;
mod tidy;
pub(crate) mod tool_output;
mod version;
mod workload;

#[cfg(test)]
mod tests;

pub use case::{Case, Limits};
#[cfg(feature = "calibrate")]
pub(crate) use experiment::Loaded;
pub use experiment::{Experiment, Repeat, RequestsConfig, Sent, experiments};
pub use host_run::host_runs;
pub use inferencex::tell_tuned;
pub use memory::{MemoryStudy, Part};
pub use plan::Plan;
pub use published::Published;
pub use record::{Record, RecordError};
pub use reference::reference_runs;
pub use report::{LeftOut, Validation, Verdict};
pub use run::{Adjust, figures, judge, simulate, validate};
pub use score::{Family, MetricScore, RunScore};
pub use skip::Skip;
pub use tool_output::results;

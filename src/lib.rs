//! **servecast** simulates LLM serving clusters as discrete events.
//!
//! ```
//! let run = servecast::load::built_in().with("cluster.replicas", 2)?.with_seed(7)?.run()?;
//! let ttft_ms = run.figures().get("p99_ttft_ms").expect("requests were answered");
//! println!("{} requests, P99 TTFT {ttft_ms:.0} ms", run.counts.finished);
//! # Ok::<(), servecast::load::LoadError>(())
//! ```
//!
//! [`load`](load()) reads scenario files, [`load::Draft::with`] changes a setting by its path, and [`load::Draft::run`] decides
//! what is left open, checks every rule and simulates. [`study::Run`] holds the figures of the benchmark tools and the
//! record of every request; [`study::Case`] runs a scenario with a router or scheduler of one's own (`examples/`).
//!
//! The crate is a house of floors; a module imports only from floors below its own
//! (`ARCHITECTURE.md` has the map and the invariants):
//!
//! | floor | modules | what |
//! |---|---|---|
//! | 0 | [`units`] [`ids`] [`rng`] [`des`] [`stats`] | foundations that know nothing of LLMs |
//! | 1 | [`model`] [`hardware`] [`request`] [`profiles`] [`scenario`] | nouns: pure, validated data |
//! | 2 | [`cost`] [`kv`] [`network`] [`workload`] | mechanisms, each alone |
//! | 3 | [`engine`] | one engine replica |
//! | 4 | [`cluster`] | instances behind a router |
//! | 5 | [`resolved`] [`sim`] | a scenario in which everything is decided; the loop that owns the clock |
//! | 6 | [`metrics`] | what happened |
//! | 7 | [`study`] [`calibration`] [`conformance`] | a scenario that any thread can simulate; fitted parameters; recorded schedules |
//! | 8 | [`io`] [`mod@load`] `plot` | traces, tables, run directories; scenarios with all that they name; figures |
//! | 9 | [`sweep`] [`compare`] [`explain`] [`check`] [`plan`] [`validate`] [`catalogue`] `calibrate` `report` `serve` | studies of many runs; measured runs simulated again, and parameters fitted to them; what a model costs on a GPU; pages of what they left; a scenario as a server |

pub mod des;
mod erased;
pub mod ids;
mod json;
mod plain;
pub mod problem;
pub mod rng;
pub mod stats;
pub mod threads;
pub mod units;

pub mod hardware;
pub mod host;
pub mod model;
pub mod profiles;
pub mod request;
pub mod scenario;

pub mod cost;
pub mod frontend;
pub mod kv;
pub mod network;
pub mod workload;

pub mod engine;

pub mod cluster;

pub mod resolved;
pub mod sim;

pub mod metrics;

pub mod calibration;
pub mod conformance;
pub mod study;

pub mod io;
pub mod load;
#[cfg(feature = "plot")]
pub mod plot;

#[cfg(feature = "calibrate")]
pub mod calibrate;
pub mod catalogue;
pub mod check;
pub mod compare;
pub mod explain;
pub mod plan;
#[cfg(feature = "sweep")]
pub mod report;
#[cfg(feature = "serve")]
pub mod serve;
pub mod sweep;
pub mod validate;

#[cfg(feature = "cli")]
pub mod cli;

pub use compare::Compare;
pub use explain::Explain;
pub use load::load;
pub use plan::Plan;
pub use study::Run;
pub use sweep::Sweep;

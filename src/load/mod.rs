//! Scenarios from files, texts and tables: with variants, overrides, calibrations, and all that they name.
//!
//! [`load`] reads a scenario into a [`Draft`], whose settings can still be changed. [`Draft::resolve`] decides
//! everything: names are looked up in the catalogue and in files of one's own (models, GPUs, step times,
//! recorded acceptance), defaults filled in, rules checked. What is wrong is told as a [`Problem`](crate::problem::Problem) with the
//! file or override that it comes from ([`LoadError`]). [`Loaded::case`] opens the trace and derives step times; a
//! [`Case`](crate::study::Case) is simulated as often as one likes.

mod calibration;
mod cases;
mod draft;
mod drafts;
mod draw;
mod error;
mod file;
mod folder;
mod gpu_keys;
mod gpus;
pub mod memory;
mod models;
mod notes;
mod only;
mod overrides;
mod paths;
mod resolve;
mod run;
mod servers;
mod settings;
mod spread;
mod stated;
mod trace;
mod words;
mod workload;

use std::path::PathBuf;
use std::sync::Arc;

use crate::resolved::Scenario;
use crate::study::Policies;

pub use self::cases::Cases;
pub use self::draft::Draft;
pub use self::drafts::{
    Changes, Drafts, built_in, from_flags, from_text, load, load_all, load_built_in,
};
pub use self::draw::Draw;
pub use self::error::{Broken, BrokenSettings, LoadError, Origin};
pub use self::gpus::{gpu, is_gpu_file};
pub use self::memory::Leaves;
pub use self::models::{checkpoint, model, model_file, unknown_model};
pub use self::notes::{Listener, Note, Progress};
pub use self::only::only;
pub use self::overrides::Override;
pub use self::paths::for_each_path;
pub(crate) use self::resolve::own_files;
pub use self::resolve::{overridden, resolved, resolved_for};
pub use self::settings::value_of;
pub use self::spread::{Spread, SpreadRow};
pub use self::stated::{state_setting, state_step_times};
pub use self::trace::{open_rows, trace_options};
pub use self::workload::{WorkloadFile, workload};

#[cfg(feature = "cli")]
pub(crate) use self::drafts::Variant;
pub(crate) use self::error::fail;
#[cfg(feature = "cli")]
pub(crate) use self::words::plain;
pub(crate) use self::words::toml_problem;

/// A scenario in which everything is decided, with the folder that its paths are relative to.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Scenario,
    /// The folder.
    pub folder: PathBuf,
    /// Policies in place of its own.
    pub policies: Option<Arc<Policies<'static>>>,
}

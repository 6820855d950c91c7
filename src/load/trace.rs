//! The trace that a scenario reads.

use std::path::Path;

use super::Loaded;
use super::error::{LoadError, Origin};
use crate::io::traces::{self, TraceFormat, TraceOptions, TraceSummary};
use crate::problem::Problem;
use crate::rng::Seed;
use crate::scenario::TraceConfig;
use crate::workload::TraceRows;

impl Loaded {
    /// What the trace that it reads holds, and its rows, if it reads one. The whole trace is read first,
    /// so that a bad row is found before anything is simulated.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn trace(&self) -> Result<Option<(TraceSummary, TraceRows)>, LoadError> {
        let (trace, seed) = (self.scenario.trace.as_ref(), self.scenario.seed);
        trace.map(|trace| open_rows(trace, &self.folder, seed)).transpose()
    }
}

/// What a trace holds, and its rows.
pub fn open_rows(
    trace: &TraceConfig,
    folder: &Path,
    seed: Seed,
) -> Result<(TraceSummary, TraceRows), LoadError> {
    let (format, options) = trace_options(trace, seed)?;
    Ok(traces::describe_and_open(&folder.join(&trace.path), format, &options)?)
}

/// How the trace of a scenario is read.
pub fn trace_options(
    trace: &TraceConfig,
    seed: Seed,
) -> Result<(Option<TraceFormat>, TraceOptions), LoadError> {
    let wrong = |key: &str| {
        let at = format!("trace.{key}");
        move |problem: String| Origin::File(trace.path.clone()).fail(Problem::new(at, problem))
    };
    let format = trace.format.as_deref().map(str::parse).transpose().map_err(wrong("format"))?;
    let time_unit = trace.time_unit.as_deref().map(str::parse).transpose();
    let options = TraceOptions {
        columns: trace.columns.clone(),
        time_unit: time_unit.map_err(wrong("time_unit"))?,
        hash_block_tokens: trace.hash_block_tokens,
        origin: trace.origin,
        seed,
        ..TraceOptions::default()
    };
    Ok((format, options))
}

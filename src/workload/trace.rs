//! A row of a recorded trace, in the units of the simulator, whatever format it came from.

use std::sync::Arc;

use crate::units::SimTime;

/// One recorded request. Readers of trace formats (`io::traces`) yield these in file order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceRow {
    /// Arrival since the first row's clock origin; `None` in traces that hold lengths only.
    pub arrival: Option<SimTime>,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Answer length in tokens.
    pub output_tokens: u32,
    /// Prefix identity: one id per `hash_block_tokens` tokens of the prompt, the last one covering
    /// what is left; empty in traces without.
    pub hash_ids: Vec<u64>,
    /// Tokens per entry of `hash_ids` (Mooncake: 512).
    pub hash_block_tokens: u32,
    /// The conversation, if the trace names one.
    pub session: Option<u64>,
    /// The name of its adapter, or its number, where a column is stated that holds it.
    pub adapter: Option<Arc<str>>,
    /// The name of its class, where a column is stated that holds it.
    pub class: Option<Arc<str>>,
}

/// Why a workload cannot go on. The message names file, line, rule and value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A row of a trace cannot be used.
    #[error("{file}:{line}: {problem}")]
    Row {
        /// The trace file.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// The rule, the value, and what would be right.
        problem: String,
    },
    /// A trace cannot be played as the workload asks for.
    #[error("{file}: {problem}")]
    Trace {
        /// The trace file.
        file: String,
        /// The rule, the value, and what would be right.
        problem: String,
    },
    /// The workload as a whole cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl WorkloadError {
    /// What is wrong with the trace, whose file is named by whoever knows it.
    pub(super) fn trace(problem: impl Into<String>) -> Self {
        Self::Trace { file: "the trace".to_owned(), problem: problem.into() }
    }

    /// The same of a trace in this file, if it is known.
    pub(super) fn in_file(mut self, name: Option<&str>) -> Self {
        if let (Self::Trace { file, .. }, Some(name)) = (&mut self, name) {
            name.clone_into(file);
        }
        self
    }
}

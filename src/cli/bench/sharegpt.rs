//! ShareGPT as both tools sample it: shuffled by Python's generator, filtered, cut to length.
//!
//! The rows are lengths computed beforehand; with one row for each conversation of at least two
//! turns, in the data set's order, the tool's own choice comes out. A row of zero tokens is skipped
//! before the shuffle, where the tool shuffles it too. Followed: SGLang
//! `sglang/benchmark/datasets/sharegpt.py`, vLLM `vllm/benchmarks/datasets`.

use std::path::Path;

use super::args::WorkloadArguments;
use crate::cli::failure::Failure;
use crate::io::traces::{self, TraceOptions};
use crate::metrics::bench::Tool;
use crate::workload::numpy::PythonRandom;

/// The (prompt, answer) tokens of the requests, in the order they are sent.
pub(super) fn draw(
    arguments: &WorkloadArguments,
    tool: Tool,
    path: &Path,
    notices: &mut Vec<String>,
) -> Result<Vec<(u32, u32)>, Failure> {
    let fixed = arguments.sharegpt_output_len;
    if let Some(tokens) = fixed.filter(|tokens| *tokens < 4 && tool == Tool::Sglang) {
        let problem = format!("--sharegpt-output-len: must be at least 4, got {tokens}");
        return Err(Failure::input(problem));
    }
    let reader = traces::open(path, None, &TraceOptions::default());
    let rows = reader.map_err(|error| Failure::Input(error.into()))?;
    let mut pairs: Vec<(u32, u32)> = rows
        .map(|row| row.map(|row| (row.prompt_tokens, row.output_tokens)))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::Input(error.into()))?;
    PythonRandom::new(u64::from(arguments.tool_seed(tool))).shuffle(&mut pairs);
    let asked = arguments.prompts();
    let sent: Vec<(u32, u32)> = pairs
        .iter()
        .map(|&(prompt, output)| (prompt, fixed.unwrap_or(output)))
        .filter(|&(prompt, output)| {
            let total = u64::from(prompt) + u64::from(output);
            match tool {
                Tool::Sglang => {
                    let limit = arguments.sharegpt_context_len.map_or(u64::MAX, u64::from);
                    prompt >= 2 && output >= 2 && total <= limit
                }
                Tool::Vllm => {
                    let is_long_enough = output >= 4 || fixed.is_some();
                    prompt >= 4 && is_long_enough && prompt <= 1024 && total <= 2048
                }
            }
        })
        .take(asked as usize)
        .collect();
    let place = path.display();
    if sent.is_empty() {
        return Err(Failure::input(format!(
            "{place}: none of the {} rows is within the tool's limits of length",
            pairs.len()
        )));
    }
    if sent.len() < asked as usize {
        let count = sent.len();
        if tool == Tool::Vllm {
            return Err(Failure::input(format!(
                "--num-prompts: {place} has {count} usable rows, got {asked}; the tool would \
                 repeat some, which is not simulated: ask for at most {count}"
            )));
        }
        notices.push(format!("{place} has {count} usable rows, all are sent"));
    }
    Ok(sent)
}

//! The data sets of both tools as lengths, and times where they have some.
//!
//! Followed: SGLang 0.5.23 `sglang/benchmark/serving.py`, vLLM 0.33.0 `vllm/benchmarks/datasets`.

use std::path::Path;

use serde::Deserialize;

use super::args::{Spread, WorkloadArguments};
use super::sharegpt;
use super::tool::title;
use crate::cli::failure::Failure;
use crate::io::traces;
use crate::load::trace_options;
use crate::metrics::bench::Tool;
use crate::model::ModelSpec;
use crate::rng::Seed;
use crate::scenario::{
    GroupDistribution, LengthConfig, PrefixRepetitionConfig, RowOrder, SglangRandomConfig,
    SharedPrefixConfig, TraceArrivalConfig, TraceColumns, TraceConfig, VllmRandomConfig,
};

const SGLANG_DATASETS: &[&str] =
    &["sharegpt", "random", "random-ids", "generated-shared-prefix", "mooncake"];
const VLLM_DATASETS: &[&str] = &["random", "sharegpt", "prefix_repetition", "timed_trace"];

/// A data set of a tool, before arrivals are known.
pub(super) struct Dataset {
    pub(super) lengths: LengthConfig,
    pub(super) num_requests: Option<u32>,
    pub(super) trace: Option<(TraceConfig, TraceArrivalConfig)>,
}

impl Dataset {
    fn drawn(lengths: LengthConfig, num_requests: u32) -> Self {
        Self { lengths, num_requests: Some(num_requests), trace: None }
    }
}

impl WorkloadArguments {
    pub(super) fn read_dataset(
        &self,
        tool: Tool,
        model: Option<&ModelSpec>,
        notices: &mut Vec<String>,
    ) -> Result<Dataset, Failure> {
        match (tool, self.dataset(tool)) {
            (Tool::Sglang, "random") => self.sglang_random(None, model),
            (Tool::Sglang, "random-ids") => {
                let vocabulary = vocabulary(model, notices)?;
                self.sglang_random(Some(vocabulary), model)
            }
            (Tool::Sglang, "generated-shared-prefix") => Ok(self.shared_prefix(notices)),
            (Tool::Sglang, "mooncake") => self.mooncake(notices),
            (Tool::Vllm, "random") => self.vllm_random(model),
            (Tool::Vllm, "prefix_repetition") => self.prefix_repetition(model, notices),
            (Tool::Vllm, "timed_trace") => self.timed_trace(notices),
            (_, "sharegpt") => {
                let path = self.dataset_path(tool, "a file of lengths (prompt_len,output_len)")?;
                let pairs = sharegpt::draw(self, tool, path, notices)?;
                let count = pairs.len() as u32;
                let lengths = LengthConfig::List { pairs, order: RowOrder::Recorded };
                Ok(Dataset::drawn(lengths, count))
            }
            (tool, other) => {
                let known = match tool {
                    Tool::Sglang => SGLANG_DATASETS,
                    Tool::Vllm => VLLM_DATASETS,
                };
                Err(Failure::input(format!(
                    "--dataset-name: `{other}` is not simulated; with {} it is one of {}: lengths of \
                     any requests can be given to sharegpt as a file (--dataset-path lengths.csv, \
                     prompt_len,output_len)",
                    title(tool),
                    known.join(", ")
                )))
            }
        }
    }

    fn dataset_path(&self, tool: Tool, what: &str) -> Result<&Path, Failure> {
        self.dataset_path.as_deref().ok_or_else(|| {
            Failure::input(format!(
                "--dataset-path: `--dataset-name {}` reads {what}, and nothing is downloaded; give \
                 the file, or choose `--dataset-name random` (traces/README.md says where data \
                 sets are)",
                self.dataset(tool)
            ))
        })
    }

    fn sglang_random(
        &self,
        vocabulary_size: Option<u32>,
        model: Option<&ModelSpec>,
    ) -> Result<Dataset, Failure> {
        let lengths = LengthConfig::SglangRandom(SglangRandomConfig {
            input_tokens: self.input_len(),
            output_tokens: self.output_len(Tool::Sglang),
            range_ratio: self.range_ratio()?,
            special_tokens: special_tokens(model),
            vocabulary_size,
        });
        Ok(Dataset::drawn(lengths, self.prompts()))
    }

    fn shared_prefix(&self, notices: &mut Vec<String>) -> Dataset {
        let default = SharedPrefixConfig::default();
        let config = SharedPrefixConfig {
            groups: self.gsp_num_groups.unwrap_or(default.groups),
            prompts_per_group: self.gsp_prompts_per_group.unwrap_or(default.prompts_per_group),
            system_prompt_tokens: self
                .gsp_system_prompt_len
                .unwrap_or(default.system_prompt_tokens),
            question_tokens: self.gsp_question_len.unwrap_or(default.question_tokens),
            output_tokens: self.gsp_output_len.unwrap_or(default.output_tokens),
            range_ratio: self.gsp_range_ratio.unwrap_or(default.range_ratio),
            order: if self.gsp_ordered { RowOrder::Recorded } else { RowOrder::Shuffled },
            group_distribution: match self.gsp_group_distribution {
                Some(Spread::Zipf) => {
                    GroupDistribution::Zipf { exponent: self.gsp_zipf_alpha.unwrap_or(1.0) }
                }
                Some(Spread::Uniform) | None => GroupDistribution::Uniform {},
            },
            ..default
        };
        if self.num_prompts.is_some() {
            let (groups, each) = (config.groups, config.prompts_per_group);
            let why = format!("{groups} groups of {each} prompts are sent, as by the tool");
            notices.push(format!("--num-prompts has no effect here: {why}"));
        }
        Dataset {
            lengths: LengthConfig::GeneratedSharedPrefix(config),
            num_requests: None,
            trace: None,
        }
    }

    fn mooncake(&self, notices: &mut Vec<String>) -> Result<Dataset, Failure> {
        let path = self.dataset_path(Tool::Sglang, "a Mooncake trace")?;
        let slowdown = self.mooncake_slowdown_factor.unwrap_or(1.0);
        let replay = TraceArrivalConfig { rate_scale: 1.0 / slowdown, ..Default::default() };
        if !(slowdown > 0.0 && slowdown.is_finite()) {
            let problem = format!("--mooncake-slowdown-factor: must be above 0, got {slowdown}");
            return Err(Failure::input(problem));
        }
        let trace = TraceConfig {
            path: absolute(path),
            format: Some("mooncake".to_owned()),
            ..TraceConfig::default()
        };
        notices.push(
            "prompts have the recorded lengths; the tool sends 128 tokens for a block of 512"
                .to_owned(),
        );
        self.replayed(Tool::Sglang, trace, replay, notices)
    }

    fn timed_trace(&self, notices: &mut Vec<String>) -> Result<Dataset, Failure> {
        let path = self.dataset_path(Tool::Vllm, "a trace of JSON lines")?;
        let multiplier = self.timed_trace_sec_multiplier.unwrap_or(1.0);
        let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
        let is_near = |unit: f64| (multiplier / unit - 1.0).abs() < 1e-9;
        let Some((_, unit)) = units.into_iter().find(|(unit, _)| is_near(*unit)) else {
            return Err(Failure::input(format!(
                "--timed-trace-sec-multiplier: must be 1, 0.001, 1e-6 or 1e-9, got {multiplier}; \
                 to play a trace at another speed write a scenario with \
                 workload.arrivals.rate_scale"
            )));
        };
        let key = |given: &Option<String>, default: &str| {
            Some(given.clone().unwrap_or_else(|| default.to_owned()))
        };
        let trace = TraceConfig {
            path: absolute(path),
            format: Some("jsonl".to_owned()),
            time_unit: Some(unit.to_owned()),
            hash_block_tokens: Some(self.timed_trace_chunk_hash_size.unwrap_or(16)),
            columns: TraceColumns {
                class: None,
                adapter: None,
                arrival: key(&self.timed_trace_label_timestamp, "timestamp"),
                prompt_tokens: key(&self.timed_trace_label_input_length, "input_length"),
                output_tokens: key(&self.timed_trace_label_output_length, "output_length"),
                session: None,
                hash_ids: key(&self.timed_trace_label_hash_ids, "hash_ids"),
            },
            ..TraceConfig::default()
        };
        self.replayed(Tool::Vllm, trace, TraceArrivalConfig::default(), notices)
    }

    /// The first `--num-prompts` rows of a trace at their own times.
    fn replayed(
        &self,
        tool: Tool,
        trace: TraceConfig,
        replay: TraceArrivalConfig,
        notices: &mut Vec<String>,
    ) -> Result<Dataset, Failure> {
        if self.request_rate.is_some() {
            notices.push("--request-rate has no effect here: the trace's times are played".into());
        }
        let (format, options) = trace_options(&trace, Seed(u64::from(self.tool_seed(tool))))?;
        let rows = traces::open(trace.path.as_ref(), format, &options);
        let mut rows = rows.map_err(|error| Failure::Input(error.into()))?;
        let mut count = 0;
        while count < self.prompts() {
            match rows.next() {
                Some(Ok(_)) => count += 1,
                Some(Err(error)) => return Err(Failure::Input(error.into())),
                None => break,
            }
        }
        if self.num_prompts.is_some_and(|asked| asked > count) {
            notices.push(format!("the trace has {count} requests, all are sent"));
        }
        Ok(Dataset {
            lengths: LengthConfig::Trace { order: RowOrder::Recorded },
            num_requests: Some(count),
            trace: Some((trace, replay)),
        })
    }

    fn vllm_random(&self, model: Option<&ModelSpec>) -> Result<Dataset, Failure> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Ratios {
            input: f64,
            output: f64,
        }
        let text = self.random_range_ratio.as_deref().unwrap_or("0");
        let ratios = match text.parse() {
            Ok(ratio) => Ratios { input: ratio, output: ratio },
            Err(_) => serde_json::from_str(text).map_err(|_| {
                Failure::input(format!(
                    "--random-range-ratio: must be a number from 0 to below 1, or \
                     {{\"input\": 0.1, \"output\": 0.2}}, got `{text}`"
                ))
            })?,
        };
        let lengths = LengthConfig::VllmRandom(VllmRandomConfig {
            input_tokens: self.input_len(),
            output_tokens: self.output_len(Tool::Vllm),
            range_ratio: ratios.input,
            output_range_ratio: (ratios.input.to_bits() != ratios.output.to_bits())
                .then_some(ratios.output),
            prefix_tokens: self.random_prefix_len.unwrap_or(0),
            special_tokens: special_tokens(model),
        });
        Ok(Dataset::drawn(lengths, self.prompts()))
    }

    fn prefix_repetition(
        &self,
        model: Option<&ModelSpec>,
        notices: &mut Vec<String>,
    ) -> Result<Dataset, Failure> {
        let default = PrefixRepetitionConfig::default();
        let lengths = LengthConfig::PrefixRepetition(PrefixRepetitionConfig {
            prefix_tokens: self.prefix_repetition_prefix_len.unwrap_or(default.prefix_tokens),
            suffix_tokens: self.prefix_repetition_suffix_len.unwrap_or(default.suffix_tokens),
            prefixes: self.prefix_repetition_num_prefixes.unwrap_or(default.prefixes),
            output_tokens: self.prefix_repetition_output_len.unwrap_or(default.output_tokens),
            vocabulary_size: vocabulary(model, notices)?,
        });
        Ok(Dataset::drawn(lengths, self.prompts()))
    }
}

/// Tokens that the model's tokeniser adds to every prompt: the begin-of-text of Llama's.
fn special_tokens(model: Option<&ModelSpec>) -> u32 {
    u32::from(model.is_some_and(|model| model.architecture.starts_with("Llama")))
}

/// Token ids of the model's tokeniser, which the tool draws from.
fn vocabulary(model: Option<&ModelSpec>, notices: &mut Vec<String>) -> Result<u32, Failure> {
    let model = model.ok_or_else(|| {
        Failure::input("--model: is needed for this data set, whose token ids are drawn")
    })?;
    let size = match (model.architecture.as_str(), model.vocab) {
        (qwen, _) if qwen.starts_with("Qwen2") || qwen.starts_with("Qwen3") => 151_643,
        ("LlamaForCausalLM", 128_256) => 128_000,
        (_, rows) => rows,
    };
    notices.push(format!(
        "the tokeniser is taken to have {size} ids; another number moves the arrivals \
         (--set workload.lengths.vocabulary_size=..)"
    ));
    Ok(size)
}

/// A path that a resolved scenario finds from its own folder too.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

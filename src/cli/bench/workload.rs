//! The workload flags of both tools as the workload of a scenario.
//!
//! Followed: SGLang 0.5.23 `sglang/benchmark/serving.py`, vLLM 0.33.0 `vllm/benchmarks/serve.py`.

use super::args::WorkloadArguments;
use crate::cli::failure::Failure;
use crate::metrics::bench::Tool;
use crate::model::ModelSpec;
use crate::scenario::{
    ArrivalConfig, ClientConfig, ContentConfig, RampUpConfig, TraceConfig, WarmUpConfig,
    WorkloadConfig,
};

/// What the workload flags say.
#[derive(Debug)]
pub(in crate::cli) struct Requests {
    pub(in crate::cli) workload: WorkloadConfig,
    pub(in crate::cli) trace: Option<TraceConfig>,
    /// The name of the data set.
    pub(super) dataset: String,
    /// What differs from the tool, or should be known.
    pub(in crate::cli) notices: Vec<String>,
}

impl WorkloadArguments {
    /// The `--seed` of the tool in use.
    pub(in crate::cli) fn tool_seed(&self, tool: Tool) -> u32 {
        self.seed.unwrap_or(match tool {
            Tool::Sglang => 42,
            Tool::Vllm => 0,
        })
    }

    pub(super) fn dataset(&self, tool: Tool) -> &str {
        let default = match tool {
            Tool::Sglang => "sharegpt",
            Tool::Vllm => "random",
        };
        self.dataset_name.as_deref().unwrap_or(default)
    }

    pub(super) fn prompts(&self) -> u32 {
        self.num_prompts.unwrap_or(1000)
    }

    pub(super) fn input_len(&self) -> u32 {
        self.random_input_len.unwrap_or(1024)
    }

    pub(super) fn output_len(&self, tool: Tool) -> u32 {
        self.random_output_len.unwrap_or(match tool {
            Tool::Sglang => 1024,
            Tool::Vllm => 128,
        })
    }

    /// SGLang's `--random-range-ratio`.
    pub(super) fn range_ratio(&self) -> Result<f64, Failure> {
        let text = self.random_range_ratio.as_deref().unwrap_or("0");
        text.parse().map_err(|_| {
            Failure::input(format!(
                "--random-range-ratio: must be a number from 0 to 1, got `{text}`"
            ))
        })
    }

    /// The workload of a scenario that sends what the tool would send.
    ///
    /// # Errors
    /// When a flag belongs to the other tool, or a data set cannot be read or is not simulated.
    pub(in crate::cli) fn requests(&self, model: Option<&ModelSpec>) -> Result<Requests, Failure> {
        let tool = self.tool()?;
        self.check_tool(tool)?;
        let mut notices = Vec::new();
        let data = self.read_dataset(tool, model, &mut notices)?;
        let warm_up = self.warm_up(tool, data.trace.is_some(), &mut notices);
        let (trace, arrivals) = match data.trace {
            Some((trace, arrivals)) => (Some(trace), ArrivalConfig::Trace(arrivals)),
            None => (None, self.arrivals(tool)?),
        };
        let workload = WorkloadConfig {
            num_requests: data.num_requests,
            duration_s: None,
            tool_seed: Some(self.tool_seed(tool)),
            arrivals,
            lengths: data.lengths,
            content: ContentConfig::default(),
            adapters: None,
            early_stop: Vec::new(),
            classes: Vec::new(),
            sessions: None,
            warm_up,
            client: ClientConfig {
                max_concurrency: self.max_concurrency,
                ..ClientConfig::default()
            },
        };
        Ok(Requests { workload, trace, dataset: self.dataset(tool).to_owned(), notices })
    }

    /// Refuses flags of the tool that is not in use.
    fn check_tool(&self, tool: Tool) -> Result<(), Failure> {
        let sglang = [
            ("--warmup-requests", self.warmup_requests.is_some()),
            ("--flush-cache", self.flush_cache),
            ("--sharegpt-context-len", self.sharegpt_context_len.is_some()),
            ("--gsp-num-groups", self.gsp_num_groups.is_some()),
            ("--gsp-prompts-per-group", self.gsp_prompts_per_group.is_some()),
            ("--gsp-system-prompt-len", self.gsp_system_prompt_len.is_some()),
            ("--gsp-question-len", self.gsp_question_len.is_some()),
            ("--gsp-output-len", self.gsp_output_len.is_some()),
            ("--gsp-range-ratio", self.gsp_range_ratio.is_some()),
            ("--gsp-ordered", self.gsp_ordered),
            ("--gsp-group-distribution", self.gsp_group_distribution.is_some()),
            ("--gsp-zipf-alpha", self.gsp_zipf_alpha.is_some()),
            ("--use-trace-timestamps", self.use_trace_timestamps),
            ("--mooncake-slowdown-factor", self.mooncake_slowdown_factor.is_some()),
        ];
        let vllm = [
            ("--num-warmups", self.num_warmups.is_some()),
            ("--ready-check-timeout-sec", self.ready_check_timeout_sec.is_some()),
            ("--burstiness", self.burstiness.is_some()),
            ("--ramp-up-strategy", self.ramp_up_strategy.is_some()),
            ("--ramp-up-start-rps", self.ramp_up_start_rps.is_some()),
            ("--ramp-up-end-rps", self.ramp_up_end_rps.is_some()),
            ("--random-prefix-len", self.random_prefix_len.is_some()),
            ("--prefix-repetition-prefix-len", self.prefix_repetition_prefix_len.is_some()),
            ("--prefix-repetition-suffix-len", self.prefix_repetition_suffix_len.is_some()),
            ("--prefix-repetition-num-prefixes", self.prefix_repetition_num_prefixes.is_some()),
            ("--prefix-repetition-output-len", self.prefix_repetition_output_len.is_some()),
            ("--timed-trace-chunk-hash-size", self.timed_trace_chunk_hash_size.is_some()),
            ("--timed-trace-sec-multiplier", self.timed_trace_sec_multiplier.is_some()),
            ("--timed-trace-label-timestamp", self.timed_trace_label_timestamp.is_some()),
            ("--timed-trace-label-input-length", self.timed_trace_label_input_length.is_some()),
            ("--timed-trace-label-output-length", self.timed_trace_label_output_length.is_some()),
            ("--timed-trace-label-hash-ids", self.timed_trace_label_hash_ids.is_some()),
        ];
        only_for(tool, &sglang, &vllm)
    }

    /// What the tool has answered before its clock starts: copies of the first prompt, which prefix caches keep.
    fn warm_up(
        &self,
        tool: Tool,
        is_trace: bool,
        notices: &mut Vec<String>,
    ) -> Option<WarmUpConfig> {
        let requests = match tool {
            Tool::Sglang if self.flush_cache => 0,
            Tool::Sglang => self.warmup_requests.unwrap_or(1),
            Tool::Vllm => {
                let tests_server = self.ready_check_timeout_sec.is_some_and(|timeout| timeout > 0);
                self.num_warmups.unwrap_or(0).saturating_add(tests_server.into())
            }
        };
        if is_trace {
            if self.warmup_requests.or(self.num_warmups).is_some() {
                notices.push("warm-up requests of a trace are left out".to_owned());
            }
            return None;
        }
        (requests > 0).then(|| WarmUpConfig { requests, ..WarmUpConfig::default() })
    }

    fn arrivals(&self, tool: Tool) -> Result<ArrivalConfig, Failure> {
        if self.use_trace_timestamps {
            return Err(Failure::input(format!(
                "--use-trace-timestamps: `--dataset-name {}` has no times; mooncake has",
                self.dataset(tool)
            )));
        }
        let rate = self.request_rate.filter(|rate| rate.is_finite());
        let (strategy, start, end) =
            (self.ramp_up_strategy, self.ramp_up_start_rps, self.ramp_up_end_rps);
        if let Some(strategy) = strategy {
            let (Some(start), Some(end), None) = (start, end, rate) else {
                return Err(Failure::input(
                    "--ramp-up-strategy: needs --ramp-up-start-rps and --ramp-up-end-rps, and no \
                     --request-rate",
                ));
            };
            let ramp_up = RampUpConfig {
                strategy: strategy.into(),
                start_rate_per_s: f64::from(start),
                end_rate_per_s: f64::from(end),
            };
            return Ok(ArrivalConfig::Vllm {
                rate_per_s: None,
                burstiness: self.burstiness.unwrap_or(1.0),
                ramp_up: Some(ramp_up),
            });
        }
        if start.or(end).is_some() {
            return Err(Failure::input(
                "--ramp-up-start-rps, --ramp-up-end-rps: need --ramp-up-strategy linear or \
                 exponential",
            ));
        }
        Ok(match (rate, tool) {
            (None, _) => ArrivalConfig::AllAtOnce {},
            (Some(rate_per_s), Tool::Sglang) => ArrivalConfig::Sglang { rate_per_s },
            (rate_per_s, Tool::Vllm) => ArrivalConfig::Vllm {
                rate_per_s,
                burstiness: self.burstiness.unwrap_or(1.0),
                ramp_up: None,
            },
        })
    }
}

/// Refuses the flags given of the tool that is not in use.
pub(super) fn only_for(
    tool: Tool,
    sglang: &[(&str, bool)],
    vllm: &[(&str, bool)],
) -> Result<(), Failure> {
    let (foreign, owner, used) = match tool {
        Tool::Sglang => (vllm, "vllm bench serve", "sglang.bench_serving"),
        Tool::Vllm => (sglang, "sglang.bench_serving", "vllm bench serve"),
    };
    match foreign.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => {
            Err(Failure::input(format!("{flag}: is a flag of `{owner}`, but this is `{used}`")))
        }
    }
}

//! Flags of the tools and of `vllm serve` that are not simulated: accepted with a word on stderr
//! where they mean nothing to a simulation, refused with the reason where they would change the
//! result.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::cli::Failure;

/// Why a flag is not simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It means nothing to a simulation.
    NoEffect,
    /// It would change the result.
    Refused(&'static str),
}
use Fate::{NoEffect, Refused};

const LORA: Fate = Refused(
    "ranks are needed; describe adapters in a scenario (workload.adapters) and `servecast run` it",
);
const TEXT: Fate = Refused("requests have lengths, no texts");
const PARALLEL: Fate =
    Refused("only tensor and pipeline parallelism are modelled; --replicas adds servers");
const LENGTHS: Fate = Refused("every answer has the length that was drawn, as with ignore_eos");
const DETAILS: Fate = Refused(
    "gaps between tokens are counted over all requests, not kept for each; the run directory has \
     one record a request (requests.parquet)",
);
const SPECULATION: Fate = Refused(
    "how many drafts are accepted is not known; give --set cluster.engine.speculation='{ method = \
     \"ngram\", num_speculative_tokens = 3, acceptance = { type = \"mean_length\", tokens = 2.5 } }'",
);
const NOT_MODELLED: Fate = Refused("not modelled");

const FLAGS: &[(&str, Fate)] = &[
    // Both tools: where the server is, how the client authenticates, draws its bar and warms up.
    ("host", NoEffect),
    ("port", NoEffect),
    ("base-url", NoEffect),
    ("endpoint", NoEffect),
    ("header", NoEffect),
    ("insecure", NoEffect),
    ("disable-tqdm", NoEffect),
    ("tokenizer", NoEffect),
    ("tokenizer-mode", NoEffect),
    ("skip-tokenizer-init", NoEffect),
    ("trust-remote-code", NoEffect),
    ("served-model-name", NoEffect),
    ("ready-check-timeout-sec", NoEffect),
    ("ready-check-interval-sec", NoEffect),
    ("request-id-prefix", NoEffect),
    ("tokenize-prompt", NoEffect),
    ("return-logprob", NoEffect),
    ("ignore-eos", NoEffect),
    ("temperature", NoEffect),
    ("gsp-fast-prepare", NoEffect),
    ("rust-client", NoEffect),
    // vllm serve: process, logs, files.
    ("api-key", NoEffect),
    ("disable-log-requests", NoEffect),
    ("no-enable-log-requests", NoEffect),
    ("enable-log-requests", NoEffect),
    ("disable-log-stats", NoEffect),
    ("uvicorn-log-level", NoEffect),
    ("download-dir", NoEffect),
    ("load-format", NoEffect),
    ("revision", NoEffect),
    ("chat-template", NoEffect),
    ("enable-auto-tool-choice", NoEffect),
    ("tool-call-parser", NoEffect),
    ("reasoning-parser", NoEffect),
    ("distributed-executor-backend", NoEffect),
    ("generation-config", NoEffect),
    ("log-level", NoEffect),
    ("enable-metrics", NoEffect),
    // What changes the result.
    ("output-details", DETAILS),
    ("save-detailed", DETAILS),
    ("disable-ignore-eos", LENGTHS),
    ("extra-request-body", Refused("the server's sampling parameters are not modelled")),
    ("extra-body", Refused("the server's sampling parameters are not modelled")),
    ("top-p", Refused("give --set cluster.step_time.sampler=top_p_top_k, which prices the sort")),
    ("top-k", Refused("give --set cluster.step_time.sampler=top_p_top_k, which prices the sort")),
    ("logprobs", NOT_MODELLED),
    ("use-beam-search", NOT_MODELLED),
    ("prompt-suffix", TEXT),
    ("apply-chat-template", TEXT),
    ("gsp-num-turns", Refused("write a scenario with workload.sessions")),
    ("gsp-send-routing-key", Refused("write a scenario with cluster.router")),
    ("mooncake-workload", Refused("nothing is downloaded; give the file as --dataset-path")),
    ("mooncake-num-rounds", Refused("write a scenario with workload.sessions")),
    ("random-batch-size", NOT_MODELLED),
    ("probe-request-rate", NOT_MODELLED),
    ("plot-timeline", Refused("figures are in the run directory")),
    ("plot-dataset-stats", Refused("`servecast trace describe` has the figures")),
    ("profile", Refused("there is no server to profile")),
    ("pd-separated", Refused("write a scenario with cluster.disaggregation")),
    ("lora-name", LORA),
    ("lora-request-distribution", LORA),
    ("lora-zipf-alpha", LORA),
    ("lora-modules", LORA),
    ("lora-assignment", LORA),
    ("enable-lora", LORA),
    ("max-loras", LORA),
    ("max-lora-rank", LORA),
    ("data-parallel-size", PARALLEL),
    ("dp", PARALLEL),
    ("decode-context-parallel-size", PARALLEL),
    ("quantization", Refused("weights are what the model's config.json says; name that model")),
    ("dtype", Refused("weights are what the model's config.json says; name that model")),
    ("speculative-config", SPECULATION),
    ("compilation-config", NOT_MODELLED),
    ("cpu-offload-gb", NOT_MODELLED),
    ("swap-space", NOT_MODELLED),
    ("kv-transfer-config", Refused("write a scenario with cluster.disaggregation")),
    ("kv-offloading-size", NOT_MODELLED),
    ("max-num-partial-prefills", NOT_MODELLED),
    ("max-long-partial-prefills", NOT_MODELLED),
    ("disable-hybrid-kv-cache-manager", NOT_MODELLED),
    ("hf-overrides", Refused("give a local config.json as --model")),
    ("rope-scaling", Refused("give a local config.json as --model")),
    ("attention-backend", Refused("kernels are those measured for the GPU")),
    ("speculative-algorithm", SPECULATION),
    ("enable-dp-attention", PARALLEL),
    ("dp-size", PARALLEL),
    ("pp-size", Refused("stages of SGLang are not modelled, those of vLLM are")),
    ("disaggregation-mode", Refused("write a scenario with cluster.disaggregation")),
    ("enable-hierarchical-cache", NOT_MODELLED),
];

/// Those of these flags that were given.
#[derive(Debug, Default)]
pub(in crate::cli) struct Foreign {
    given: Vec<(&'static str, Fate)>,
}

impl Foreign {
    /// The flags that have no effect.
    ///
    /// # Errors
    /// When a flag would have one that is not modelled.
    pub(in crate::cli) fn without_effect(&self) -> Result<Vec<String>, Failure> {
        let refused = self.given.iter().filter_map(|(name, fate)| match fate {
            NoEffect => None,
            Refused(reason) => Some(format!("--{name}: {reason}")),
        });
        let refused: Vec<String> = refused.collect();
        if !refused.is_empty() {
            return Err(Failure::input(refused.join("\n       ")));
        }
        Ok(self.given.iter().map(|(name, _)| format!("--{name}")).collect())
    }
}

impl FromArgMatches for Foreign {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = FLAGS.iter().filter(|(name, _)| matches.contains_id(name));
        Ok(Self { given: given.copied().collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Foreign {
    fn augment_args(command: Command) -> Command {
        // Values are taken and ignored, however many the flag has.
        let flag = |(name, _): &(&'static str, Fate)| {
            let values = Arg::new(*name).long(*name).num_args(0..).default_missing_value("");
            values.action(ArgAction::Append).hide(true)
        };
        command.args(FLAGS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

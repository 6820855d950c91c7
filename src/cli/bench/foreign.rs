//! Flags of the tools and of `vllm serve` that are not simulated: accepted with a word on stderr
//! where they mean nothing to a simulation or only concern what is written, refused with the reason
//! and what to use instead where they would change the result.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::cli::failure::Failure;

/// Why a flag is not simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It means nothing to a simulation.
    NoEffect,
    /// It asks for something beside the figures: what is there instead.
    Beside(&'static str),
    /// It would change the result.
    Refused(&'static str),
}
use Fate::{Beside, NoEffect, Refused};

const LORA: Fate = Refused(
    "ranks are needed; describe adapters in a scenario (workload.adapters) and `servecast run` it",
);
const TEXT: Fate = Refused("requests have lengths, no texts");
const PARALLEL: Fate =
    Refused("only tensor and pipeline parallelism are modelled; --replicas adds servers");
const LENGTHS: Fate = Refused("every answer has the length that was drawn, as with ignore_eos");
const DETAILS: Fate = Beside(
    "the lists of single requests are left out; the run directory has one record a request \
     (requests.parquet)",
);
const PROFILE: Fate = Beside("there is no server to profile; `--timeline FILE` shows every step");
const FIGURES: Fate = Beside("figures are in the run directory");
/// Data sets of texts.
const TEXTS: Fate = Refused(
    "texts are not tokenised; give their lengths as a file: --dataset-name sharegpt --dataset-path \
     lengths.csv (prompt_len,output_len)",
);
const SONNET: Fate = Refused(
    "the sonnets are not sent; `--dataset-name random` with --random-prefix-len, \
     --random-input-len (without the prefix) and --random-output-len has such lengths",
);
const MEDIA: Fate = Refused(
    "images, videos and sounds are not modelled; `--dataset-name random` with as many tokens as \
     they make is nearest",
);
const ROWS: Fate = Refused(
    "rows are shuffled and repeated as the tool does without it; leave it out, and give \
     --num-prompts as many as the file has rows so that none is repeated",
);
const SAMPLING: Fate = Refused(
    "the work of the sampler for it is not modelled; leave it out: no length depends on it",
);
const SPECULATION: Fate = Refused(
    "how many drafts are accepted is not known; give --set cluster.engine.speculation='{ method = \
     \"ngram\", num_speculative_tokens = 3, acceptance = { type = \"mean_length\", tokens = 2.5 } }'",
);
const SGLANG_SPECULATION: Fate = Refused(
    "how many drafts are accepted is not known; give --set cluster.engine.speculation='{ \
     speculative_algorithm = \"NEXTN\", speculative_num_steps = 3, acceptance = { type = \
     \"mean_length\", tokens = 2.5 } }'",
);
const NOT_MODELLED: Fate = Refused("is not modelled; leave it out to simulate the rest");

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
    ("ready-check-interval-sec", NoEffect),
    ("request-id-prefix", NoEffect),
    ("tokenize-prompt", NoEffect),
    ("return-logprob", NoEffect),
    ("ignore-eos", NoEffect),
    ("temperature", NoEffect),
    ("no-stream", NoEffect),
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
    // What is written beside the figures.
    ("output-details", DETAILS),
    ("save-detailed", DETAILS),
    ("plot-timeline", FIGURES),
    ("timeline-itl-thresholds", FIGURES),
    ("plot-throughput", FIGURES),
    ("plot-dataset-stats", Beside("`servecast trace describe` has the figures")),
    ("profile", PROFILE),
    ("profile-activities", PROFILE),
    ("profile-num-steps", PROFILE),
    ("profile-start-step", PROFILE),
    ("profile-steps", PROFILE),
    ("profile-by-stage", PROFILE),
    ("profile-stages", PROFILE),
    ("profile-output-dir", PROFILE),
    ("profile-prefix", PROFILE),
    ("profile-prefill-url", PROFILE),
    ("profile-decode-url", PROFILE),
    // What changes the result.
    ("custom-output-len", TEXTS),
    ("custom-skip-chat-template", TEXTS),
    ("skip-chat-template", TEXTS),
    ("chat-template-kwargs", TEXTS),
    ("hf-split", TEXTS),
    ("hf-subset", TEXTS),
    ("hf-name", TEXTS),
    ("hf-output-len", TEXTS),
    ("spec-bench-output-len", TEXTS),
    ("spec-bench-category", TEXTS),
    ("speed-bench-dataset-subset", TEXTS),
    ("speed-bench-output-len", TEXTS),
    ("speed-bench-category", TEXTS),
    ("blazedit-min-distance", TEXTS),
    ("blazedit-max-distance", TEXTS),
    ("sonnet-input-len", SONNET),
    ("sonnet-output-len", SONNET),
    ("sonnet-prefix-len", SONNET),
    ("random-mm-base-items-per-request", MEDIA),
    ("random-mm-num-mm-items-range-ratio", MEDIA),
    ("random-mm-limit-mm-per-prompt", MEDIA),
    ("random-mm-bucket-config", MEDIA),
    ("enable-multimodal-chat", MEDIA),
    ("asr-max-audio-len-sec", MEDIA),
    ("asr-min-audio-len-sec", MEDIA),
    ("image-count", MEDIA),
    ("image-resolution", MEDIA),
    ("image-format", MEDIA),
    ("image-content", MEDIA),
    ("random-image-count", MEDIA),
    ("no-oversample", ROWS),
    ("disable-shuffle", ROWS),
    ("no-reranker", NOT_MODELLED),
    ("min-p", SAMPLING),
    ("frequency-penalty", SAMPLING),
    ("presence-penalty", SAMPLING),
    ("repetition-penalty", SAMPLING),
    ("disable-ignore-eos", LENGTHS),
    ("extra-request-body", Refused("the server's sampling parameters are not modelled")),
    ("extra-body", Refused("the server's sampling parameters are not modelled")),
    ("top-p", Refused("give --set cluster.step_time.sampler=top_p_top_k, which prices the sort")),
    ("top-k", Refused("give --set cluster.step_time.sampler=top_p_top_k, which prices the sort")),
    ("logprobs", SAMPLING),
    ("use-beam-search", NOT_MODELLED),
    ("prompt-suffix", TEXT),
    ("apply-chat-template", TEXT),
    ("gsp-num-turns", Refused("write a scenario with workload.sessions")),
    ("gsp-send-routing-key", Refused("write a scenario with cluster.router")),
    ("mooncake-workload", Refused("nothing is downloaded; give the file as --dataset-path")),
    ("mooncake-num-rounds", Refused("write a scenario with workload.sessions")),
    ("random-batch-size", NOT_MODELLED),
    ("probe-request-rate", NOT_MODELLED),
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
    (
        "quantization",
        Refused("name a model in that format, or give `--set cluster.quantization=fp8`"),
    ),
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
    ("speculative-algorithm", SGLANG_SPECULATION),
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
    /// What is said of the flags that have no effect.
    ///
    /// # Errors
    /// When a flag would have one that is not modelled.
    pub(in crate::cli) fn without_effect(&self) -> Result<Vec<String>, Failure> {
        let refused = self.given.iter().filter_map(|(name, fate)| match fate {
            NoEffect | Beside(_) => None,
            Refused(reason) => Some(format!("--{name}: {reason}")),
        });
        let refused: Vec<String> = refused.collect();
        if !refused.is_empty() {
            return Err(Failure::input(refused.join("\n       ")));
        }
        let silent = self.given.iter().filter(|(_, fate)| *fate == NoEffect);
        let silent: Vec<String> = silent.map(|(name, _)| format!("--{name}")).collect();
        let silent = (!silent.is_empty())
            .then(|| format!("no effect on a simulation: {}", silent.join(", ")));
        let beside = self.given.iter().filter_map(|(name, fate)| match fate {
            Beside(instead) => Some(format!("--{name}: {instead}")),
            NoEffect | Refused(_) => None,
        });
        Ok(silent.into_iter().chain(beside).collect())
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

//! `servecast profile probe`: step times from the answers of a running server.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, printed as they are")]

#[cfg(feature = "probe")]
mod run;
#[cfg(feature = "probe")]
mod text;

use std::path::PathBuf;

use clap::Args;

#[cfg(not(feature = "probe"))]
use crate::cli::failure::Failure;
#[cfg(feature = "probe")]
pub(super) use run::probe;

/// `servecast profile probe`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast profile probe --url http://localhost:8000 --dry-run\n  \
    servecast profile probe --url http://localhost:8000 --gpu H100 --output my-server.toml\n  \
    servecast run my.toml --calibration my-server.toml\n\n\
    Nothing else may use the server meanwhile. With --gpu, the parameters are api_delay_ms and the\n\
    factors and constants of step_time.calibration; without, api_delay_ms and the keys of\n\
    step_time = { type = \"linear\" }, which the scenario then has to have.")]
pub(super) struct ProbeArguments {
    /// Address of the server (vLLM, SGLang, or another with OpenAI's completions): http://HOST:PORT
    #[arg(long)]
    url: String,
    /// Model to ask for; needed where the server offers several
    #[arg(long)]
    model: Option<String>,
    /// GPU of the server: fits the calibration of its step times
    #[arg(long)]
    gpu: Option<String>,
    /// Name of the model in the catalogue, or its config.json, where the server's name is neither
    #[arg(long, value_name = "MODEL", requires = "gpu")]
    config: Option<String>,
    /// GPUs that share the model
    #[arg(long, visible_alias = "tp", value_name = "GPUS", requires = "gpu",
          default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    tensor_parallel_size: u32,
    /// Longest prompt of a lone request; the server has to prefill it in one step
    #[arg(long, value_name = "TOKENS", default_value_t = 2048,
          value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    max_prompt_tokens: u32,
    /// Longest context; the server's own limit if that is lower
    #[arg(long, value_name = "TOKENS", default_value_t = 8192,
          value_parser = clap::value_parser!(u32).range(128..=1_000_000))]
    max_context_tokens: u32,
    /// Most requests at once
    #[arg(long, value_name = "REQUESTS", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=512))]
    max_concurrency: u32,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Key of the server, sent as `Authorization: Bearer KEY`; that of the environment variable OPENAI_API_KEY if
    /// absent
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Header sent with every request; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Seconds after which a request counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    timeout: f64,
    /// Seed of the prompts; another each time if absent, so that none is in the server's cache
    #[arg(long)]
    seed: Option<u64>,
    /// Print what would be sent, and send nothing but the question for its models
    #[arg(long)]
    dry_run: bool,
    /// File to write, for `servecast run --calibration`; must not exist
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[cfg(not(feature = "probe"))]
pub(super) fn probe(_: &ProbeArguments) -> Result<(), Failure> {
    Err(Failure::input("this servecast asks no servers: build it with the feature `probe`"))
}

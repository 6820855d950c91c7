//! What surrounds the scheduler of a server: its other processes, and the client.

use serde::{Deserialize, Serialize};

/// The processes of each replica's server, from a request's connection to the chunks of its answer, and
/// the benchmark client before them. Without it they take no time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerHostConfig {
    /// Whose processes: measured service times of an engine.
    pub profile: ServerHostProfile,
    /// How many times as long as the CPU of the profile this one takes; 0.5 is one twice as fast.
    #[serde(default = "one")]
    pub cpu: f64,
    /// The same for tokenising, on top.
    #[serde(default = "one")]
    pub tokenizer: f64,
    /// What requests are sent to.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// Bytes of text for each token of a prompt: about 4.5 of English, 7.7 of the random tokens that
    /// benchmarks send.
    #[serde(default = "bytes_per_token")]
    pub bytes_per_token: f64,
    /// Processes that talk HTTP, which share the requests of a replica; vLLM's `--api-server-count`.
    #[serde(default = "one_process")]
    pub api_servers: u32,
    /// Tokens of a chunk, but for the first and the last one; `--stream-interval` of both engines.
    #[serde(default = "one_process")]
    pub stream_interval: u32,
    /// Whether what tokenises has no core of its own, but that of the process that talks HTTP.
    #[serde(default)]
    pub tokenizer_shares_core: bool,
    /// Whether the requests come from the engine's benchmark client, one thread that takes time too.
    #[serde(default = "yes")]
    pub client: bool,
}

/// Whose processes a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServerHostProfile {
    /// vLLM's, as measured of 0.33.0.
    Vllm,
    /// SGLang's, as measured of 0.5.23.
    Sglang,
}

impl ServerHostProfile {
    /// As scenarios spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}

/// What requests are sent to, which decides what is made of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// A prompt of text.
    #[default]
    Completions,
    /// The messages of a chat.
    Chat,
    /// A prompt of token ids.
    TokenIds,
}

impl ServerHostConfig {
    /// A server with the processes of this profile, as they were measured.
    pub const fn new(profile: ServerHostProfile) -> Self {
        Self {
            profile,
            cpu: 1.0,
            tokenizer: 1.0,
            endpoint: Endpoint::Completions,
            bytes_per_token: 4.5,
            api_servers: 1,
            stream_interval: 1,
            tokenizer_shares_core: false,
            client: true,
        }
    }
}

const fn one() -> f64 {
    1.0
}

const fn bytes_per_token() -> f64 {
    4.5
}

const fn one_process() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

//! What surrounds the scheduler of a server: its other processes, and the client.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::EngineConfig;

/// What the processes of a server around its scheduler take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ServerHost {
    /// Nothing.
    Without(NoHost),
    /// What they were measured to take.
    Measured(ServerHostConfig),
}

/// A server whose processes take no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoHost {
    /// They take no time.
    None,
}

impl ServerHost {
    /// No processes that take time.
    pub const NONE: Self = Self::Without(NoHost::None);

    /// The processes, where they take time.
    pub const fn processes(&self) -> Option<&ServerHostConfig> {
        match self {
            Self::Without(_) => None,
            Self::Measured(config) => Some(config),
        }
    }
}

impl<'de> Deserialize<'de> for ServerHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrTable;
        impl<'de> Visitor<'de> for WordOrTable {
            type Value = ServerHost;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", or a table such as { cpu = 0.5 }")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<ServerHost, E> {
                NoHost::deserialize(StrDeserializer::new(word)).map(ServerHost::Without)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ServerHost, A::Error> {
                let table = MapAccessDeserializer::new(map);
                ServerHostConfig::deserialize(table).map(ServerHost::Measured)
            }
        }
        deserializer.deserialize_any(WordOrTable)
    }
}

/// The processes of each replica's server, from a request's connection to the chunks of its answer, and
/// the benchmark client before them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ServerHostConfig {
    /// Whose processes; the engine's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ServerHostProfile>,
    /// How many times as long as the CPU of the profile this one takes; 0.5 is one twice as fast.
    pub cpu: f64,
    /// The same for threads that were idle to begin and for what passes between threads, on top.
    pub wakes: f64,
    /// The same for tokenising, on top.
    pub tokenizer: f64,
    /// The same for launching the kernels of steps that replay no graph, on top.
    pub launches: f64,
    /// What requests are sent to.
    pub endpoint: Endpoint,
    /// For how long each request to a chat holds up the event loop besides, in ms.
    pub chat_lookup_ms: f64,
    /// Bytes of text for each token of a prompt: about 4.5 of English, 7.7 of the random tokens that
    /// benchmarks send.
    pub bytes_per_token: f64,
    /// Processes that talk HTTP, which share the requests of a replica; vLLM's `--api-server-count`.
    pub api_servers: u32,
    /// Tokens of a chunk, but for the first and the last one; `--stream-interval` of both engines.
    pub stream_interval: u32,
    /// Whether what tokenises has no core of its own, but that of the process that talks HTTP.
    pub tokenizer_shares_core: bool,
    /// Whether the requests come from the engine's benchmark client, one thread that takes time too.
    pub client: bool,
}

/// Whose processes a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServerHostProfile {
    /// vLLM's, as measured of 0.33.0.
    Vllm,
    /// vLLM's with its V0 engine, as measured of 0.7.3.
    VllmV0,
    /// SGLang's, as measured of 0.5.23.
    Sglang,
}

impl ServerHostProfile {
    /// As scenarios spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::VllmV0 => "vllm_v0",
            Self::Sglang => "sglang",
        }
    }

    /// The one of an engine, if its processes were measured.
    pub const fn of(engine: &EngineConfig) -> Option<Self> {
        match engine {
            EngineConfig::VllmV1(_) => Some(Self::Vllm),
            EngineConfig::VllmV0(_) => Some(Self::VllmV0),
            EngineConfig::Sglang(_) => Some(Self::Sglang),
            _ => None,
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
    /// How many times as long as the CPU of the profiles one of a server takes, where nothing is known of it. Of 0.6, 0.8, 1
    /// and 1.2, 1 is nearest to published runs (`profiles/fit_priors.py --hosts`). A loop in Python took 0.66 s
    /// and 1.10 s on the host of an H200, and 0.72 to 0.85 s on that CPU (`profiles/cost/launches`).
    pub const CPU: f64 = 1.0;

    /// How many times as long idle threads of a server take to wake, where nothing is known of it. The profiles were measured on
    /// two cores that other work shared. Published runs hardly tell: with 0 their errors are 0.6 % less than with
    /// this (`profiles/fit_priors.py --hosts`), which stands for the time that threads do take.
    pub const WAKES: f64 = 0.25;

    /// Bytes of text for each token of the prompts that vLLM's tool, and tools made of it, make of random token
    /// ids: measured of 0.33.0 with a vocabulary of 128,000.
    pub const RANDOM_BYTES_PER_TOKEN: f64 = 7.7;
}

impl Default for ServerHostConfig {
    fn default() -> Self {
        Self {
            profile: None,
            cpu: Self::CPU,
            wakes: Self::WAKES,
            tokenizer: 1.0,
            launches: 1.0,
            endpoint: Endpoint::Completions,
            chat_lookup_ms: 0.0,
            bytes_per_token: 4.5,
            api_servers: 1,
            stream_interval: 1,
            tokenizer_shares_core: false,
            client: true,
        }
    }
}

//! What the processes of a server take on the CPU, beside its GPUs.
//!
//! A server is several processes that hand a request on: one talks HTTP, one tokenises, one decides
//! steps, one turns tokens into text. A [`HostProfile`] has the service times of one engine on one
//! reference CPU; another CPU takes a multiple of all of them.

mod step;

use serde::{Deserialize, Serialize};

pub use step::HostConfig;

use crate::model::{ComputeRate, ModelSpec, Packing};

/// Service times of the processes of a server, and of the benchmark client in front of it, in µs on
/// the CPU that they were measured on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProfile {
    /// The engine that it is of, as scenarios spell it without a version.
    pub engine: String,
    /// The same with the version that was measured, for messages.
    pub version: String,
    /// The CPU.
    pub cpu: String,
    /// The engine's own benchmark client.
    pub client: ClientTimes,
    /// The process that talks HTTP.
    pub api: ApiTimes,
    /// What tokenises prompts.
    pub tokenizer: TokenizerTimes,
    /// From there to the queue of the scheduler.
    pub intake: IntakeTimes,
    /// From the scheduler to the process that makes text of tokens.
    pub outlet: OutletTimes,
    /// The process that makes text of tokens, where it is one of its own.
    #[serde(default)]
    pub detokenizer: Option<DetokenizerTimes>,
    /// The scheduler's process, for each step.
    pub engine_core: HostConfig,
    /// To launch the kernels of a real model, which `engine_core` holds none of.
    pub launches: LaunchTimes,
}

/// To launch the kernels of a step one by one, for each layer: what the layer is made of adds up.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchTimes {
    /// Grouped attention and a dense MLP in 16 bits.
    pub layer_us: f64,
    /// More for latent attention.
    pub latent_us: f64,
    /// More for routed experts in place of the MLP.
    pub experts_us: f64,
    /// More where inputs of products are quantised first.
    pub quantised_us: f64,
    /// More for attention to chosen tokens, with the indexer that chooses them.
    pub indexer_us: f64,
    /// More for a delta rule in place of attention.
    pub delta_us: f64,
    /// More for a state space in place of attention.
    pub state_space_us: f64,
    /// The share of these two that graphs captured in pieces leave out of them.
    pub share_between_pieces: f64,
}

impl LaunchTimes {
    /// Of all layers of a model, in µs.
    pub fn of(&self, model: &ModelSpec) -> f64 {
        let compute = model.main_packing().map_or(ComputeRate::Half, Packing::compute);
        let is_quantised = compute != ComputeRate::Half;
        let part = |holds: bool, us: f64| if holds { us } else { 0.0 };
        let each = self.layer_us + part(is_quantised, self.quantised_us);
        f64::from(model.num_layers()) * each
            + f64::from(model.latent_layers()) * self.latent_us
            + f64::from(model.sparse_layers()) * self.experts_us
            + f64::from(model.indexed_layers()) * self.indexer_us
            + self.states(model)
    }

    /// The same of a step that replays a graph captured in pieces, for what lies between them: attention does too,
    /// and is so little that the device hides it.
    pub fn between_pieces(&self, model: &ModelSpec) -> f64 {
        self.states(model) * self.share_between_pieces
    }

    fn states(&self, model: &ModelSpec) -> f64 {
        f64::from(model.delta_layers()) * self.delta_us
            + f64::from(model.state_space_layers()) * self.state_space_us
    }
}

/// A benchmark client: one thread that sends requests and reads what comes back.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTimes {
    /// To connect for a request, after its time to first token has begun to count.
    pub connect_us: f64,
    /// To send it, after others have had a turn.
    pub send_us: f64,
    /// From the end of an answer to the request that takes its place.
    pub turnaround_us: f64,
    /// To take in a chunk.
    pub chunk_us: f64,
    /// More for the first thing that it does after it had nothing to do.
    pub wake_us: f64,
    /// On the way from the client to the server and back, each.
    pub network_us: f64,
}

/// The event loop of a process that talks HTTP: it does one thing after the other.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiTimes {
    /// To accept, parse and check a request, before it is tokenised: what is done in one go, and what
    /// after others have had a turn.
    pub accept_us: Vec<f64>,
    /// To send it on, after it was tokenised, in the same way.
    pub submit_us: Vec<f64>,
    /// The first of these takes so much longer for each token of the prompt.
    pub submit_per_token_us: f64,
    /// For each message with outputs.
    pub message_us: f64,
    /// For each output in it.
    pub output_us: f64,
    /// For each token of the prompt, before the first output of a request.
    pub first_output_per_token_us: f64,
    /// To send a chunk.
    pub chunk_us: f64,
    /// More to send the last one.
    pub finish_us: f64,
    /// More for the first thing that it does after it had nothing to do.
    pub wake_us: f64,
    /// Outputs of a message that are handled before their chunks are sent.
    pub outputs_per_turn: u32,
    /// Whether all messages that have come are handled in one turn, where each fits it; a stream then
    /// gets one chunk with the tokens of all.
    pub merges_messages: bool,
}

/// What tokenises prompts, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerTimes {
    /// Where it works.
    pub place: TokenizerPlace,
    /// For each request whose prompt is text.
    pub request_us: f64,
    /// For each byte of it.
    pub byte_us: f64,
    /// More for each request with messages of a chat, for its template.
    pub chat_us: f64,
    /// For each byte of such messages.
    pub chat_byte_us: f64,
    /// For each token of a prompt of token ids, to read them.
    pub id_us: f64,
    /// More for the first thing that it does after it had nothing to do.
    pub wake_us: f64,
}

/// Where prompts are tokenised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerPlace {
    /// In a thread of its own.
    Thread,
    /// In the event loop, which does nothing else meanwhile.
    EventLoop,
}

/// From the process that talks HTTP to the queue of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntakeTimes {
    /// On the way between the processes.
    pub delay_us: f64,
    /// Of a thread that takes in one request after the other.
    pub request_us: f64,
    /// The same for each token of the prompt.
    pub per_token_us: f64,
    /// More for the first thing that it does after it had nothing to do.
    pub wake_us: f64,
}

/// From the scheduler to the next process.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutletTimes {
    /// On the way.
    pub delay_us: f64,
    /// For each output of the message.
    pub output_us: f64,
}

/// A process that makes text of tokens, message by message.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetokenizerTimes {
    /// For each message.
    pub message_us: f64,
    /// For each output in it.
    pub output_us: f64,
    /// On the way to the next process.
    pub delay_us: f64,
}

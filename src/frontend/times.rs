//! Service times of a replica's front end, on its CPU and for its kind of requests.

use crate::host::{HostProfile, TokenizerPlace};
use crate::scenario::{Endpoint, ServerHostConfig};
use crate::units::SimDuration;

/// What each process takes, in whole nanoseconds.
#[derive(Debug, Clone)]
pub struct FrontEndTimes {
    pub(super) processes: u32,
    pub(super) accept: SimDuration,
    submit: SimDuration,
    submit_per_token: SimDuration,
    pub(super) api_wake: SimDuration,
    pub(super) message: SimDuration,
    pub(super) output: SimDuration,
    pub(super) first_output_per_token: SimDuration,
    /// A chunk's, divided by the tokens that it has.
    chunk: SimDuration,
    interval: u32,
    pub(super) finish: SimDuration,
    pub(super) outputs_per_turn: u32,
    /// Whether a turn over outputs takes all messages that have come.
    pub(super) merges_messages: bool,
    pub(super) tokenizes_in_loop: bool,
    tokenize: SimDuration,
    tokenize_per_token: SimDuration,
    pub(super) tokenizer_wake: SimDuration,
    pub(super) intake_delay: SimDuration,
    intake: SimDuration,
    intake_per_token: SimDuration,
    pub(super) intake_wake: SimDuration,
    pub(super) outlet_delay: SimDuration,
    pub(super) outlet_output: SimDuration,
    detokenize: Option<(SimDuration, SimDuration)>,
    pub(super) detokenizer_delay: SimDuration,
    pub(super) client_chunk: SimDuration,
    /// More for the first thing that the client does after it had nothing to do.
    pub client_wake: SimDuration,
    /// From the server to the client, and the same the other way.
    pub network: SimDuration,
    /// For the client to send a request.
    pub client_send: SimDuration,
    /// From the end of an answer to the request that takes its place.
    pub client_turnaround: SimDuration,
}

impl FrontEndTimes {
    /// The times of a profile on the CPU of a scenario.
    pub fn new(profile: &HostProfile, config: &ServerHostConfig) -> Self {
        let scaled = |us: f64| SimDuration::from_secs_f64(us * config.cpu / 1e6);
        let tokenized = |us: f64| scaled(us * config.tokenizer);
        let HostProfile { client, api, tokenizer, intake, outlet, detokenizer, .. } = profile;
        let bytes = config.bytes_per_token;
        let (request_us, token_us) = match config.endpoint {
            Endpoint::Completions => (tokenizer.request_us, tokenizer.byte_us * bytes),
            Endpoint::Chat => {
                (tokenizer.request_us + tokenizer.chat_us, tokenizer.chat_byte_us * bytes)
            }
            Endpoint::TokenIds => (0.0, tokenizer.id_us),
        };
        let of_client = |us: f64| if config.client { scaled(us) } else { SimDuration::ZERO };
        let interval = config.stream_interval;
        Self {
            processes: config.api_servers,
            accept: scaled(api.accept_us),
            submit: scaled(api.submit_us),
            submit_per_token: scaled(api.submit_per_token_us),
            api_wake: scaled(api.wake_us),
            message: scaled(api.message_us),
            output: scaled(api.output_us),
            first_output_per_token: scaled(api.first_output_per_token_us),
            chunk: scaled(api.chunk_us / f64::from(interval)),
            interval,
            finish: scaled(api.finish_us),
            outputs_per_turn: api.outputs_per_turn,
            merges_messages: api.merges_messages,
            tokenizes_in_loop: tokenizer.place == TokenizerPlace::EventLoop
                || config.tokenizer_shares_core,
            tokenize: tokenized(request_us),
            tokenize_per_token: tokenized(token_us),
            tokenizer_wake: scaled(tokenizer.wake_us),
            intake_delay: scaled(intake.delay_us),
            intake: scaled(intake.request_us),
            intake_per_token: scaled(intake.per_token_us),
            intake_wake: scaled(intake.wake_us),
            outlet_delay: scaled(outlet.delay_us),
            outlet_output: scaled(outlet.output_us),
            detokenize: detokenizer.map(|it| (scaled(it.message_us), scaled(it.output_us))),
            detokenizer_delay: detokenizer.map_or(SimDuration::ZERO, |it| scaled(it.delay_us)),
            client_chunk: of_client(client.chunk_us),
            client_wake: of_client(client.wake_us),
            network: scaled(client.network_us),
            client_send: of_client(client.send_us),
            client_turnaround: of_client(client.turnaround_us),
        }
    }

    pub(super) fn tokenizing(&self, prompt_tokens: u32) -> SimDuration {
        self.tokenize + self.tokenize_per_token * u64::from(prompt_tokens)
    }

    pub(super) fn submitting(&self, prompt_tokens: u32) -> SimDuration {
        self.submit + self.submit_per_token * u64::from(prompt_tokens)
    }

    pub(super) fn taking_in(&self, prompt_tokens: u32) -> SimDuration {
        self.intake + self.intake_per_token * u64::from(prompt_tokens)
    }

    pub(super) fn detokenizing(&self, rows: u32) -> Option<SimDuration> {
        self.detokenize.map(|(message, output)| message + output * u64::from(rows))
    }

    /// To send the chunks of so many outputs, a share of which has none.
    pub(super) fn chunks(&self, rows: u32) -> SimDuration {
        self.chunk * u64::from(rows)
    }

    /// For the client to take in the chunks of so many outputs.
    pub(super) fn chunks_read(&self, rows: u32) -> SimDuration {
        self.client_chunk * u64::from(rows / self.interval)
    }

    /// How many chunks so many outputs come to.
    pub(super) fn chunks_of(&self, rows: u32) -> u32 {
        rows.div_ceil(self.interval)
    }
}

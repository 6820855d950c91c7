//! Service times of a replica's front end, on its CPU and for its kind of requests.

use crate::host::{HostProfile, TokenizerPlace};
use crate::scenario::{Endpoint, ServerHostConfig};
use crate::units::SimDuration;

/// What is done of a request in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) place: Place,
    /// Whether it is short and comes right after something short.
    pub(super) follows: bool,
    base: SimDuration,
    per_token: SimDuration,
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The event loop.
    EventLoop,
    /// The thread that tokenises.
    Tokenizer,
}

impl Stage {
    pub(super) fn work(&self, prompt_tokens: u32) -> SimDuration {
        self.base + self.per_token * u64::from(prompt_tokens)
    }
}

/// What each process takes, in whole nanoseconds.
#[derive(Debug, Clone)]
pub struct FrontEndTimes {
    pub(super) processes: u32,
    /// What a request goes through before it is sent to the scheduler.
    pub(super) stages: Vec<Stage>,
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
    /// For the client to connect for a request, and to send it when others have had a turn.
    pub client_send: [SimDuration; 2],
    /// From the end of an answer to the request that takes its place.
    pub client_turnaround: SimDuration,
}

impl FrontEndTimes {
    /// The times of a profile on the CPU of a scenario.
    pub fn new(profile: &HostProfile, config: &ServerHostConfig) -> Self {
        let scaled = |us: f64| SimDuration::from_secs_f64(us * config.cpu / 1e6);
        let waking = |us: f64| scaled(us * config.wakes);
        let HostProfile { client, api, tokenizer, intake, outlet, detokenizer, .. } = profile;
        let of_client = |us: f64| if config.client { scaled(us) } else { SimDuration::ZERO };
        let interval = config.stream_interval;
        Self {
            processes: config.api_servers,
            stages: stages(profile, config, scaled),
            api_wake: waking(api.wake_us),
            message: scaled(api.message_us),
            output: scaled(api.output_us),
            first_output_per_token: scaled(api.first_output_per_token_us),
            chunk: scaled(api.chunk_us / f64::from(interval)),
            interval,
            finish: scaled(api.finish_us),
            outputs_per_turn: api.outputs_per_turn,
            merges_messages: api.merges_messages,
            tokenizer_wake: waking(tokenizer.wake_us),
            intake_delay: waking(intake.delay_us),
            intake: scaled(intake.request_us),
            intake_per_token: scaled(intake.per_token_us),
            intake_wake: waking(intake.wake_us),
            outlet_delay: waking(outlet.delay_us),
            outlet_output: scaled(outlet.output_us),
            detokenize: detokenizer.map(|it| (scaled(it.message_us), scaled(it.output_us))),
            detokenizer_delay: detokenizer.map_or(SimDuration::ZERO, |it| waking(it.delay_us)),
            client_chunk: of_client(client.chunk_us),
            client_wake: of_client(client.wake_us * config.wakes),
            network: scaled(client.network_us),
            client_send: [client.connect_us, client.send_us].map(of_client),
            client_turnaround: of_client(client.turnaround_us),
        }
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

/// What a request goes through, one after the other.
fn stages(
    profile: &HostProfile,
    config: &ServerHostConfig,
    scaled: impl Fn(f64) -> SimDuration,
) -> Vec<Stage> {
    let HostProfile { api, tokenizer, .. } = profile;
    let in_loop = |us: f64, per_token_us: f64| Stage {
        place: Place::EventLoop,
        follows: false,
        base: scaled(us),
        per_token: scaled(per_token_us),
    };
    let mut stages = Vec::new();
    if config.chat_lookup_ms > 0.0 {
        // It waits for files and other servers, not for the CPU.
        let base = SimDuration::from_secs_f64(config.chat_lookup_ms / 1e3);
        stages.push(Stage { base, ..in_loop(0.0, 0.0) });
    }
    stages.extend(api.accept_us.iter().map(|us| in_loop(*us, 0.0)));
    let bytes = config.bytes_per_token;
    let (request_us, token_us) = match config.endpoint {
        Endpoint::Completions => (tokenizer.request_us, tokenizer.byte_us * bytes),
        Endpoint::Chat => {
            (tokenizer.request_us + tokenizer.chat_us, tokenizer.chat_byte_us * bytes)
        }
        Endpoint::TokenIds => (0.0, tokenizer.id_us),
    };
    let (request_us, token_us) = (request_us * config.tokenizer, token_us * config.tokenizer);
    let mut submits = api
        .submit_us
        .iter()
        .zip(std::iter::once(api.submit_per_token_us).chain(std::iter::repeat(0.0)));
    match tokenizer.place {
        TokenizerPlace::EventLoop => {
            // In the same go as what comes before and after it.
            let before = api.accept_us.last().copied().unwrap_or_default();
            stages.pop();
            let (after, per_token) = submits.next().map_or((0.0, 0.0), |(us, each)| (*us, each));
            stages.push(in_loop(before + request_us + after, token_us + per_token));
        }
        TokenizerPlace::Thread if config.endpoint == Endpoint::TokenIds => {}
        TokenizerPlace::Thread if config.tokenizer_shares_core => {
            stages.push(in_loop(request_us, token_us));
        }
        TokenizerPlace::Thread => {
            stages.push(Stage { place: Place::Tokenizer, ..in_loop(request_us, token_us) });
        }
    }
    let first = stages.len();
    stages.extend(submits.map(|(us, each)| in_loop(*us, each)));
    stages.iter_mut().skip(first + 1).for_each(|stage| stage.follows = true);
    stages
}

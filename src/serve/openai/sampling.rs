//! What both endpoints read of how an answer is to be.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::ids::SessionId;
use crate::rng::mix;
use crate::serve::answer::Progress;
use crate::serve::app::{App, Asked, Pending, Target};
use crate::serve::error::ApiError;
use crate::serve::fields::Fields;
use crate::serve::handover::{Part, Parts, kv_transfer_params};

/// How answers are to be.
#[derive(Debug)]
pub(super) struct Sampling {
    pub(super) target: Target,
    pub(super) model: String,
    pub(super) n: u32,
    pub(super) streams: bool,
    pub(super) usage: StreamOptions,
    max_tokens: Option<u32>,
    min_tokens: u32,
    ignore_eos: bool,
    priority: i32,
    session: Option<SessionId>,
    salt: u64,
    pub(super) parts: Parts,
}

/// Where usage is told.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamOptions {
    /// In a chunk after the last one.
    #[serde(rename = "include_usage")]
    pub(super) at_end: bool,
    /// In every chunk.
    #[serde(rename = "continuous_usage_stats")]
    pub(super) in_chunks: bool,
}

impl Sampling {
    /// Reads it. The limit stands in the first of these fields that is there.
    pub(super) fn read(
        fields: &mut Fields,
        app: &App,
        limits: &[&str],
        default_limit: Option<u32>,
    ) -> Result<Self, ApiError> {
        let model: Option<String> = fields.take("model")?;
        let target = app.target_of(fields, model.as_deref())?;
        let n: u32 = fields.take("n")?.unwrap_or(1);
        if n == 0 {
            return Err(ApiError::field("n", "`n` must be at least 1, got 0"));
        }
        let best_of: Option<u32> = fields.take("best_of")?;
        if best_of.is_some_and(|best_of| best_of != n) {
            let message = "`best_of` is not simulated: as many answers are made as are returned";
            return Err(ApiError::field("best_of", message));
        }
        let mut max_tokens = None;
        for name in limits {
            let limit: Option<i64> = fields.take(name)?;
            let Some(limit) = limit.filter(|_| max_tokens.is_none()) else { continue };
            if limit < 1 {
                let message = format!("`{name}` must be at least 1, got {limit}");
                return Err(ApiError::field(name, message));
            }
            max_tokens = Some(u32::try_from(limit).unwrap_or(u32::MAX));
        }
        let min_tokens: u32 = fields.take("min_tokens")?.unwrap_or(0);
        let max_tokens = max_tokens.or(default_limit);
        if max_tokens.is_some_and(|max_tokens| min_tokens > max_tokens) {
            let message = format!("`min_tokens` must be at most the limit, got {min_tokens}");
            return Err(ApiError::field("min_tokens", message));
        }
        let stream_options: Option<StreamOptions> = fields.take("stream_options")?;
        let salt: Option<String> = fields.take("cache_salt")?;
        let no = [json!(false), json!(0), json!([]), json!({}), json!("")];
        let stop = "answers end by their length; leave it out, or empty";
        fields.only("stop", &no, stop)?;
        fields.only("logprobs", &no, "answers have no probabilities")?;
        fields.only("top_logprobs", &no, "answers have no probabilities")?;
        fields.only("prompt_logprobs", &no, "answers have no probabilities")?;
        fields.only("use_beam_search", &no, "answers are sampled one by one")?;
        fields.only("truncate_prompt_tokens", &no, "prompts are served whole")?;
        for name in
            ["guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"]
        {
            fields.only(name, &no, "answers follow no grammar")?;
        }
        fields.only("response_format", &[json!({"type": "text"})], "answers follow no grammar")?;
        fields.only("return_hidden_states", &no, "answers have no states")?;
        Ok(Self {
            target,
            model: model.unwrap_or_else(|| app.models[target.model.index()].name.clone()),
            n,
            streams: fields.take("stream")?.unwrap_or(false),
            usage: stream_options.unwrap_or_default(),
            max_tokens,
            min_tokens,
            ignore_eos: fields.take("ignore_eos")?.unwrap_or(false),
            priority: fields.take("priority")?.unwrap_or(target.priority),
            session: fields.whose.session,
            parts: Parts::read(fields, app)?,
            salt: salt.map_or(0, |salt| salted(&salt)),
        })
    }

    /// What is said to the server that decodes, where this one has computed a prompt for it.
    pub(super) fn handed_over(
        &self,
        app: &App,
        pending: &Pending,
        progress: &Progress,
    ) -> Option<Value> {
        let id = progress.id.filter(|_| self.parts.is_prompt())?;
        Some(kv_transfer_params(app, id, pending.prompt_tokens))
    }

    /// A request for an answer to this prompt. One that is too long is refused, as the engines do.
    pub(super) fn ask(
        &self,
        fields: &Fields,
        prompt: Arc<[u32]>,
        part: Part,
    ) -> Result<Asked, ApiError> {
        asked(self, fields.came, prompt, part)
    }
}

fn asked(
    sampling: &Sampling,
    came: std::time::Instant,
    prompt: Arc<[u32]>,
    part: Part,
) -> Result<Asked, ApiError> {
    let (most, len) = (sampling.target.max_model_len, prompt.len());
    if prompt.is_empty() {
        return Err(ApiError::bad("the prompt is empty"));
    }
    if len >= most as usize {
        return Err(ApiError::bad(format!(
            "This model's maximum context length is {most} tokens. However, your request has {len} \
             input tokens. Please reduce the length of the input messages."
        )));
    }
    let room = most - len as u32;
    if let Some(limit) = sampling.max_tokens.filter(|limit| *limit > room) {
        return Err(ApiError::bad(format!(
            "This model's maximum context length is {most} tokens. However, you requested {limit} \
             output tokens and your prompt has {len} input tokens, {} in all. Please reduce one of \
             them.",
            u64::from(limit) + len as u64
        )));
    }
    Ok(Asked {
        came,
        prompt,
        max_tokens: sampling.max_tokens,
        min_tokens: sampling.min_tokens.min(room),
        ignore_eos: sampling.ignore_eos,
        target: sampling.target,
        session: sampling.session,
        streams: sampling.streams,
        siblings: None,
        priority: sampling.priority,
        salt: sampling.salt,
        part,
    })
}

/// The number of a salt; none has that of prompts without one.
fn salted(salt: &str) -> u64 {
    salt.bytes().fold(1, |hash, byte| mix(hash ^ u64::from(byte))).max(1)
}

/// Tokens that were computed for answers.
pub(super) fn usage(prompt: u32, completion: u32, cached: u32) -> Value {
    json!({
        "prompt_tokens": prompt,
        "total_tokens": u64::from(prompt) + u64::from(completion),
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    })
}

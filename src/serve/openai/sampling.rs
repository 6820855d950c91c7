//! What both endpoints read of how an answer is to be.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::ids::SessionId;
use crate::serve::answer::Progress;
use crate::serve::app::{App, Asked, Dialect, Pending, Target};
use crate::serve::context;
use crate::serve::error::ApiError;
use crate::serve::fields::Fields;
use crate::serve::handover::{Part, Parts, kv_transfer_params};
use crate::serve::rids::Named;

/// What SGLang calls a model that is not named.
const DEFAULT_MODEL: &str = "default";

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
    pub(super) parts: Parts,
}

/// Where usage is told.
#[derive(Debug, Default)]
pub(super) struct StreamOptions {
    /// In a chunk after the last one.
    pub(super) at_end: bool,
    /// In every chunk.
    pub(super) in_chunks: bool,
}

impl StreamOptions {
    fn read(fields: &mut Fields, app: &App, streams: bool) -> Result<Self, ApiError> {
        const NAME: &str = "stream_options";
        let Some(mut options) = fields.object(NAME)? else { return Ok(Self::default()) };
        if app.dialect == Dialect::Vllm && !streams && !options.is_empty() {
            let message = "Stream options can only be defined when `stream=True`.";
            return Err(ApiError::field(NAME, message));
        }
        let at_end = options.take("include_usage")?.unwrap_or(false);
        let in_chunks = options.take("continuous_usage_stats")?.unwrap_or(false);
        options.finish_in(NAME, &["include_obfuscation"])?;
        Ok(Self { at_end, in_chunks })
    }
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
        // vLLM reads over it.
        let adapter: Option<String> = match app.dialect {
            Dialect::Vllm => None,
            Dialect::Sglang => fields.take("lora_path")?,
        };
        let target = app.target_of(model.as_deref(), adapter.as_deref())?;
        let is_named = model.as_deref().is_some_and(|name| !name.is_empty()) || adapter.is_some();
        let target = app.of_class(fields, is_named, target)?;
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
        let streams = fields.take("stream")?.unwrap_or(false);
        let usage = StreamOptions::read(fields, app, streams)?;
        let no = [json!(false), json!(0), json!([]), json!({}), json!("")];
        let stop = "answers end by their length; leave it out, or empty";
        for name in ["stop", "stop_token_ids", "stop_regex"] {
            fields.only(name, &no, stop)?;
        }
        fields.only("top_logprobs", &no, "answers have no probabilities")?;
        // Zero asks for that of the token itself.
        fields.only("prompt_logprobs", &[], "answers have no probabilities")?;
        fields.only("use_beam_search", &no, "answers are sampled one by one")?;
        fields.only("truncate_prompt_tokens", &no, "prompts are served whole")?;
        for name in
            ["guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"]
        {
            fields.only(name, &no, "answers follow no grammar")?;
        }
        fields.only("response_format", &[json!({"type": "text"})], "answers follow no grammar")?;
        fields.only("return_hidden_states", &no, "answers have no states")?;
        refuse_ranks(fields)?;
        Ok(Self {
            target,
            model: model.unwrap_or_else(|| match app.dialect {
                Dialect::Vllm => app.models[target.model.index()].name.clone(),
                Dialect::Sglang => DEFAULT_MODEL.to_owned(),
            }),
            n,
            streams,
            usage,
            max_tokens,
            min_tokens,
            ignore_eos: fields.take("ignore_eos")?.unwrap_or(false),
            priority: fields.take("priority")?.unwrap_or(target.priority),
            session: fields.whose.session,
            parts: Parts::read(fields, app)?,
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

    /// The names of the requests for so many prompts; vLLM knows none.
    pub(super) fn named(
        &self,
        fields: &mut Fields,
        app: &App,
        prompts: usize,
        is_list: bool,
    ) -> Result<Vec<Option<Named>>, ApiError> {
        match app.dialect {
            Dialect::Vllm => Ok((0..prompts * self.n as usize).map(|_| None).collect()),
            Dialect::Sglang => app.rids.read(fields, (prompts, is_list, self.n)),
        }
    }

    /// A request for an answer to this prompt, under its salt. One that is too long is refused, as the engines do.
    pub(super) fn ask(
        &self,
        (app, fields): (&App, &Fields),
        (prompt, salt): (Arc<[u32]>, u64),
        (part, named): (Part, Option<Named>),
    ) -> Result<Asked, ApiError> {
        let most = self.target.max_model_len;
        let room = context::room(app.dialect, most, prompt.len(), self.max_tokens)?;
        Ok(Asked {
            came: fields.came,
            prompt,
            max_tokens: self.max_tokens,
            min_tokens: self.min_tokens.min(room),
            ignore_eos: self.ignore_eos,
            target: self.target,
            session: self.session,
            streams: self.streams,
            siblings: None,
            priority: self.priority,
            salt,
            part,
            named,
        })
    }
}

/// Ranks of a server are chosen by its scheduler.
pub(in crate::serve) fn refuse_ranks(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["routed_dp_rank", "data_parallel_rank", "disagg_prefill_dp_rank"] {
        fields.only(name, &[], "requests do not choose the rank that serves them")?;
    }
    Ok(())
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

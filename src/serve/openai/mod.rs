//! OpenAI's API, as the servers of vLLM and SGLang speak it.

mod chat;
mod completions;
mod messages;
mod models;
mod sampling;
mod stream;
mod template;
mod whole;

use std::sync::Arc;

use axum::response::Response;

use self::sampling::Sampling;
use self::stream::{Choice, Style, streamed};
use self::whole::whole;
use super::app::{App, Asked, Dialect};
use super::error::ApiError;

pub(super) use chat::chat_completions;
pub(super) use completions::completions;
pub(super) use messages::prompt as chat_prompt;
pub(super) use models::{model, models};
pub(super) use sampling::refuse_ranks;
pub(super) use template::ChatTemplate;
pub use template::TemplateError;

/// Answers of requests to either endpoint.
async fn answer(
    app: &Arc<App>,
    style: Style,
    sampling: Sampling,
    asked: Vec<Asked>,
) -> Result<Response, ApiError> {
    let named = asked.first().and_then(|asked| asked.named.as_ref());
    let id = match (named, app.dialect, style) {
        (Some(named), ..) => named.rid.clone(),
        (None, Dialect::Sglang, _) => app.id(""),
        (None, Dialect::Vllm, Style::Completion) => app.id("cmpl-"),
        (None, Dialect::Vllm, Style::Chat) => app.id("chatcmpl-"),
    };
    let asked = Asked::together(asked, sampling.n);
    let pending = asked.into_iter().map(|asked| app.submit(asked));
    let pending = pending.collect::<Result<Vec<_>, _>>()?;
    let choices = (0..).zip(pending).map(|(index, pending)| Choice { index, pending }).collect();
    if sampling.streams {
        return Ok(streamed(app, style, &id, sampling, choices));
    }
    whole(app, style, &id, &sampling, choices).await
}

/// Fields that change neither how long an answer takes nor how long it is.
const INERT: &[&str] = &[
    "background",
    "bad_words",
    "custom_labels",
    "custom_logit_processor",
    "custom_params",
    "detokenize",
    "frequency_penalty",
    "include_stop_str_in_output",
    "length_penalty",
    "logit_bias",
    "lora_path",
    "metadata",
    "min_p",
    "no_stop_trim",
    "presence_penalty",
    "repetition_penalty",
    "request_id",
    "return_tokens_as_token_ids",
    "rid",
    "seed",
    "separate_reasoning",
    "service_tier",
    "session_id",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "store",
    "stream_reasoning",
    "temperature",
    "top_k",
    "top_p",
    "user",
];

//! Answers in one piece.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::sampling::{Sampling, usage};
use super::stream::{Choice, Style};
use crate::serve::answer::{End, Progress};
use crate::serve::app::{App, Dialect, unix_seconds};
use crate::serve::error::ApiError;

/// The response, when all answers are there.
pub(super) async fn whole(
    app: &App,
    style: Style,
    id: &str,
    sampling: &Sampling,
    choices: Vec<Choice>,
) -> Result<Response, ApiError> {
    let (mut listed, mut sums) = (Vec::<Value>::new(), [0; 3]);
    let mut handed_over = None;
    for Choice { index, pending } in choices {
        let progress = pending.answer.end().await;
        let Some(end) = progress.end else { return Err(ApiError::closing()) };
        if let Some(error) = ApiError::of(end) {
            return Err(error);
        }
        handed_over = sampling.handed_over(app, &pending, &progress).or(handed_over);
        listed.push(listing(app, style, index, &progress, end));
        // A prompt is counted once, however many answers it has.
        let is_first = index.is_multiple_of(sampling.n);
        sums[0] += if is_first { pending.prompt_tokens } else { 0 };
        sums[1] += progress.tokens;
        sums[2] += if is_first { progress.cached_tokens } else { 0 };
    }
    let object = match style {
        Style::Completion => "text_completion",
        Style::Chat => "chat.completion",
    };
    let mut body = json!({
        "id": id,
        "object": object,
        "created": unix_seconds(),
        "model": sampling.model,
        "choices": listed,
        "usage": usage(sums[0], sums[1], sums[2]),
    });
    if let Some(params) = handed_over {
        body["kv_transfer_params"] = params;
    }
    Ok(Json(body).into_response())
}

fn listing(app: &App, style: Style, index: u32, progress: &Progress, end: End) -> Value {
    let seed = progress.id.map_or(0, |id| id.0);
    let text = app.words.text(seed, 0..progress.tokens);
    let mut choice = json!({"index": index, "logprobs": null, "finish_reason": end.reason()});
    match style {
        Style::Completion => choice["text"] = text.into(),
        Style::Chat => {
            choice["message"] =
                json!({"role": "assistant", "content": text, "refusal": null, "tool_calls": []});
        }
    }
    let stop = match app.dialect {
        Dialect::Vllm => "stop_reason",
        Dialect::Sglang => "matched_stop",
    };
    choice[stop] = Value::Null;
    choice
}

//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::INERT;
use super::sampling::{Sampling, usage};
use super::stream::{Choice, Style, streamed};
use crate::serve::app::{App, Asked, unix_seconds};
use crate::serve::error::ApiError;
use crate::serve::fields::Fields;

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

/// The prompt that messages make: `<|im_start|>ROLE⏎TEXT<|im_end|>⏎` each, and the begin of the answer.
/// Every text is tokenised on its own, so that an answer that is sent back is the tokens that it was.
pub(in crate::serve) fn prompt(fields: &mut Fields, app: &App) -> Result<Vec<u32>, ApiError> {
    let messages: Vec<Message> = fields.need("messages")?;
    if messages.is_empty() {
        return Err(ApiError::field("messages", "`messages` is empty"));
    }
    let (words, mut tokens) = (&app.words, Vec::new());
    for Message { role, content, tool_calls } in &messages {
        if tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()) {
            return Err(ApiError::field("messages", "`tool_calls` is not simulated"));
        }
        tokens.extend(words.tokens(&format!("<|im_start|>{role}\n"), false));
        match content {
            None => {}
            Some(Content::Text(text)) => tokens.extend(words.tokens(text, false)),
            Some(Content::Parts(parts)) => {
                for Part { kind, text } in parts {
                    let Some(text) = text.as_deref().filter(|_| kind == "text") else {
                        let message =
                            format!("parts of type `{kind}` are not simulated, only text");
                        return Err(ApiError::field("messages", message));
                    };
                    tokens.extend(words.tokens(text, false));
                }
            }
        }
        tokens.extend(words.tokens("<|im_end|>\n", false));
    }
    tokens.extend(words.tokens("<|im_start|>assistant\n", false));
    Ok(tokens)
}

pub(in crate::serve) async fn chat_completions(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let limits = ["max_completion_tokens", "max_tokens"];
    let sampling = Sampling::read(&mut fields, &app, &limits, None)?;
    let prompt: Arc<[u32]> = prompt(&mut fields, &app)?.into();
    fields.only("tools", &[json!([])], "answers call no tools")?;
    fields.only("tool_choice", &[json!("none")], "answers call no tools")?;
    fields.only("echo", &[json!(false)], "answers do not repeat their prompts")?;
    fields.only(
        "add_generation_prompt",
        &[json!(true)],
        "prompts end with the begin of an answer",
    )?;
    fields.only("continue_final_message", &[json!(false)], "answers are messages of their own")?;
    if sampling.n as usize > app.limits.choices {
        let most = app.limits.choices;
        return Err(ApiError::field(
            "n",
            format!("`n` must be at most {most}, got {}", sampling.n),
        ));
    }
    let parts = sampling.parts.of(sampling.n as usize)?.into_iter();
    let asked = parts.map(|part| sampling.ask(&fields, prompt.clone(), part));
    let asked = asked.collect::<Result<Vec<_>, _>>()?;
    fields.finish(INERT)?;
    let asked = Asked::together(asked, sampling.n);
    let pending = asked.into_iter().map(|asked| app.submit(asked));
    let pending = pending.collect::<Result<Vec<_>, _>>()?;
    let choices = (0..).zip(pending).map(|(index, pending)| Choice { index, pending }).collect();
    let id = app.id("chatcmpl-");
    if sampling.streams {
        return Ok(streamed(&app, Style::Chat, id, sampling, choices));
    }
    whole(&app, &id, &sampling, choices).await
}

async fn whole(
    app: &App,
    id: &str,
    sampling: &Sampling,
    choices: Vec<Choice>,
) -> Result<Response, ApiError> {
    let (mut listed, mut sums) = (Vec::<Value>::new(), [0; 3]);
    let mut handed_over = None;
    for Choice { index, pending } in choices {
        let progress = pending.answer.end().await;
        let end = progress.end.filter(|end| end.is_answer());
        let Some(end) = end else {
            return Err(progress.end.and_then(ApiError::of).unwrap_or_else(ApiError::closing));
        };
        handed_over = sampling.handed_over(app, &pending, &progress).or(handed_over);
        let seed = progress.id.map_or(0, |id| id.0);
        listed.push(json!({
            "index": index,
            "message": {
                "role": "assistant",
                "content": app.words.text(seed, 0..progress.tokens),
                "refusal": null,
                "tool_calls": [],
            },
            "logprobs": null,
            "finish_reason": end.reason(),
            "stop_reason": null,
        }));
        sums = [pending.prompt_tokens, sums[1] + progress.tokens, progress.cached_tokens];
    }
    let mut body = json!({
        "id": id,
        "object": "chat.completion",
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

//! `POST /v1/completions`.

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

/// A prompt, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    AllTokens(Vec<Vec<u32>>),
}

impl Prompt {
    fn tokens(self, app: &App, with_special: bool) -> Vec<Vec<u32>> {
        let tokens = |text: &String| app.words.tokens(text, with_special);
        match self {
            Self::Text(text) => vec![tokens(&text)],
            Self::Texts(texts) => texts.iter().map(tokens).collect(),
            Self::Tokens(tokens) => vec![tokens],
            Self::AllTokens(all) => all,
        }
    }
}

/// The limit of an answer to a prompt that asks for none, as OpenAI has it.
const DEFAULT_MAX_TOKENS: u32 = 16;

pub(in crate::serve) async fn completions(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let sampling = Sampling::read(&mut fields, &app, &["max_tokens"], Some(DEFAULT_MAX_TOKENS))?;
    let prompt: Prompt = fields.need("prompt").map_err(|error| match error.message.as_str() {
        "`prompt`: data did not match any variant of untagged enum Prompt" => ApiError::field(
            "prompt",
            "`prompt` must be a text, a list of tokens, or a list of these",
        ),
        _ => error,
    })?;
    fields.only("echo", &[json!(false)], "answers do not repeat their prompts")?;
    fields.only("suffix", &[json!("")], "nothing follows an answer")?;
    let with_special = fields.take("add_special_tokens")?.unwrap_or(true);
    let prompts = prompt.tokens(&app, with_special);
    let choices = prompts.len() * sampling.n as usize;
    if choices == 0 || choices > app.limits.choices {
        let most = app.limits.choices;
        return Err(ApiError::bad(format!("prompts times `n` must be 1 to {most}, got {choices}")));
    }
    let mut asked = Vec::with_capacity(choices);
    let mut parts = sampling.parts.of(choices)?.into_iter();
    for prompt in prompts {
        let prompt: Arc<[u32]> = prompt.into();
        for part in parts.by_ref().take(sampling.n as usize) {
            asked.push(sampling.ask(&fields, prompt.clone(), part)?);
        }
    }
    fields.finish(INERT)?;
    let asked = Asked::together(asked, sampling.n);
    let pending = asked.into_iter().map(|asked| app.submit(asked));
    let pending = pending.collect::<Result<Vec<_>, _>>()?;
    let choices = (0..).zip(pending).map(|(index, pending)| Choice { index, pending }).collect();
    let id = app.id("cmpl-");
    if sampling.streams {
        return Ok(streamed(&app, Style::Completion, id, sampling, choices));
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
            "text": app.words.text(seed, 0..progress.tokens),
            "logprobs": null,
            "finish_reason": end.reason(),
            "stop_reason": null,
        }));
        // A prompt is counted once, however many answers it has.
        let is_first = index % sampling.n == 0;
        sums[0] += if is_first { pending.prompt_tokens } else { 0 };
        sums[1] += progress.tokens;
        sums[2] += if is_first { progress.cached_tokens } else { 0 };
    }
    let mut body = json!({
        "id": id,
        "object": "text_completion",
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

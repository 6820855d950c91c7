//! `POST /v1/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::sampling::Sampling;
use super::stream::Style;
use super::{INERT, answer};
use crate::serve::app::App;
use crate::serve::error::ApiError;
use crate::serve::fields::Fields;
use crate::serve::prompts::Prompts;
use crate::serve::salts;

/// The limit of an answer to a prompt that asks for none, as OpenAI has it.
const DEFAULT_MAX_TOKENS: u32 = 16;

pub(in crate::serve) async fn completions(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let sampling = Sampling::read(&mut fields, &app, &["max_tokens"], Some(DEFAULT_MAX_TOKENS))?;
    let prompts: Prompts = fields.need("prompt")?;
    // Zero asks for that of the token itself.
    fields.only("logprobs", &[], "answers have no probabilities")?;
    fields.only("echo", &[json!(false)], "answers do not repeat their prompts")?;
    fields.only("suffix", &[json!("")], "nothing follows an answer")?;
    let with_special = fields.take("add_special_tokens")?.unwrap_or(true);
    let is_list = prompts.is_list;
    let prompts = prompts.tokens(&app, sampling.target.max_model_len, with_special)?;
    let choices = prompts.len() * sampling.n as usize;
    if choices == 0 || choices > app.limits.choices {
        let most = app.limits.choices;
        return Err(ApiError::bad(format!("prompts times `n` must be 1 to {most}, got {choices}")));
    }
    let salts = salts::read(&mut fields, app.dialect, prompts.len())?;
    let named = sampling.named(&mut fields, &app, prompts.len(), is_list)?;
    let mut asked = Vec::with_capacity(choices);
    let mut parts = sampling.parts.of(choices)?.into_iter().zip(named);
    for (prompt, salt) in prompts.into_iter().zip(salts) {
        let prompt: Arc<[u32]> = prompt.into();
        for (part, named) in parts.by_ref().take(sampling.n as usize) {
            asked.push(sampling.ask((&app, &fields), (prompt.clone(), salt), (part, named))?);
        }
    }
    fields.finish(INERT)?;
    answer(&app, Style::Completion, sampling, asked).await
}

//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::messages::prompt;
use super::sampling::Sampling;
use super::stream::Style;
use super::{INERT, answer};
use crate::serve::app::App;
use crate::serve::error::ApiError;
use crate::serve::fields::Fields;
use crate::serve::salts;

pub(in crate::serve) async fn chat_completions(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let limits = ["max_completion_tokens", "max_tokens"];
    let sampling = Sampling::read(&mut fields, &app, &limits, None)?;
    let prompt: Arc<[u32]> = prompt(&mut fields, &app, sampling.target.max_model_len)?.into();
    let none = [json!(false), json!(0)];
    fields.only("logprobs", &none, "answers have no probabilities")?;
    fields.only("echo", &[json!(false)], "answers do not repeat their prompts")?;
    if sampling.n as usize > app.limits.choices {
        let most = app.limits.choices;
        return Err(ApiError::field(
            "n",
            format!("`n` must be at most {most}, got {}", sampling.n),
        ));
    }
    let salt = salts::read(&mut fields, app.dialect, 1)?[0];
    let named = sampling.named(&mut fields, &app, 1, false)?;
    let parts = sampling.parts.of(sampling.n as usize)?.into_iter().zip(named);
    let asked = parts.map(|part| sampling.ask((&app, &fields), (prompt.clone(), salt), part));
    let asked = asked.collect::<Result<Vec<_>, _>>()?;
    fields.finish(INERT)?;
    answer(&app, Style::Chat, sampling, asked).await
}

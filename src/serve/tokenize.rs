//! `POST /tokenize`, as of vLLM 0.33.0 (`vllm/entrypoints/serve/tokenize/`).
//!
//! A text may be of any length here, and its answer is much longer. What waits to be read are its tokens, which are
//! counted among what all clients may hold; their digits are made when they are sent.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::json;

use super::app::App;
use super::error::ApiError;
use super::fields::Fields;
use super::openai::chat_prompt;

/// Tokens that are written at once.
const AT_ONCE: usize = 2048;

/// A text, or messages.
pub(super) async fn tokenize(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let model: Option<String> = fields.take("model")?;
    let target = app.target_of(model.as_deref(), None)?;
    fields.only("return_token_strs", &[json!(false)], "tokens are told as numbers")?;
    let tokens = match fields.take::<String>("prompt")? {
        Some(text) => {
            let with_special = fields.take("add_special_tokens")?.unwrap_or(true);
            app.words.tokens(&text, with_special)
        }
        None => chat_prompt(&mut fields, &app, u32::MAX)?,
    };
    fields.finish(&[])?;
    let kib = u32::try_from((tokens.len() * size_of::<u32>()).div_ceil(1024)).unwrap_or(u32::MAX);
    let share = app.told.clone().try_acquire_many_owned(kib).map_err(|_| {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many tokens are being told at once")
    })?;
    let (count, most) = (tokens.len(), target.max_model_len);
    let begin = format!(r#"{{"count":{count},"max_model_len":{most},"tokens":["#);
    let parts = stream::unfold((Some(begin), 0), move |(begin, from)| {
        let _share = &share;
        let part = part(&tokens, begin, from);
        async move { part.map(|text| (Ok::<_, std::io::Error>(text), (None, from + AT_ONCE))) }
    });
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// The text of the tokens from one place on, behind what comes before them; nothing where all have been told.
fn part(tokens: &[u32], begin: Option<String>, from: usize) -> Option<Bytes> {
    let is_first = begin.is_some();
    let left = tokens.get(from..).filter(|left| is_first || !left.is_empty())?;
    let mut text = begin.unwrap_or_default();
    for (place, token) in left.iter().take(AT_ONCE).enumerate() {
        let between = if is_first && place == 0 { "" } else { "," };
        write!(text, "{between}{token}").expect("texts take all");
    }
    if left.len() <= AT_ONCE {
        text.push_str(r#"],"token_strs":null}"#);
    }
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole() {
        for count in [0, 1, 2, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE + 7] {
            let tokens: Vec<u32> =
                (0..count as u32).map(|token| token.wrapping_mul(1_234_567)).collect();
            let (mut text, mut begin) = (String::new(), Some(r#"{"tokens":["#.to_owned()));
            for from in (0..).step_by(AT_ONCE) {
                let Some(part) = part(&tokens, begin.take(), from) else { break };
                text.push_str(std::str::from_utf8(&part).expect("digits"));
            }
            let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
            assert_eq!(value, json!({"tokens": tokens, "token_strs": null}), "{count}");
        }
    }
}

//! Whether a prompt and its answer fit into a context, and what servers say if they do not.
//!
//! vLLM 0.33.0, `vllm/renderers/params.py`; SGLang 0.5.23, `python/sglang/srt/managers/tokenizer_manager.py`
//! (`_validate_one_request`).

use super::app::{App, Dialect};
use super::error::ApiError;

/// A text of so many bytes may be as few tokens as a context has.
pub(super) fn may_hold(app: &App, most: u32, bytes: usize) -> Result<(), ApiError> {
    let longest = app.words.longest();
    if bytes / longest <= most as usize {
        return Ok(());
    }
    let least = bytes.div_ceil(longest);
    Err(ApiError::bad(format!(
        "This model's maximum context length is {most} tokens. However, your prompt has {bytes} bytes, which \
         are {least} tokens at least. Please reduce the length of the input prompt."
    )))
}

/// Tokens that are left for an answer; an error where the prompt leaves none, or not as many as are asked for.
pub(super) fn room(
    dialect: Dialect,
    most: u32,
    len: usize,
    limit: Option<u32>,
) -> Result<u32, ApiError> {
    if len == 0 {
        return Err(ApiError::bad("the prompt is empty"));
    }
    let room = u32::try_from(len).ok().and_then(|len| most.checked_sub(len)).filter(|it| *it > 0);
    let Some(room) = room else {
        return Err(ApiError::bad(match dialect {
            Dialect::Vllm => format!(
                "This model's maximum context length is {most} tokens. However, your request has {len} input \
                 tokens. Please reduce the length of the input messages."
            ),
            Dialect::Sglang => format!(
                "The input ({len} tokens) is longer than the model's context length ({most} tokens)."
            ),
        }));
    };
    let Some(limit) = limit.filter(|limit| *limit > room) else { return Ok(room) };
    let all = u64::from(limit) + len as u64;
    Err(ApiError::bad(match dialect {
        Dialect::Vllm => format!(
            "This model's maximum context length is {most} tokens. However, you requested {limit} output \
             tokens and your prompt has {len} input tokens, {all} in all. Please reduce one of them."
        ),
        Dialect::Sglang => format!(
            "Requested token count exceeds the model's maximum context length of {most} tokens: {len} tokens of \
             input and {limit} of completion are {all}. Please reduce one of them."
        ),
    }))
}

//! OpenAI's API, as the servers of vLLM and SGLang speak it.

mod chat;
mod completions;
mod models;
mod sampling;
mod stream;
mod template;

pub(super) use chat::{chat_completions, prompt as chat_prompt};
pub(super) use completions::completions;
pub(super) use models::{model, models};
pub(super) use template::ChatTemplate;
pub use template::TemplateError;

/// Fields that change neither how long an answer takes nor how long it is.
const INERT: &[&str] = &[
    "add_special_tokens",
    "background",
    "bad_words",
    "cache_salt",
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
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "store",
    "stop_token_ids",
    "stream_reasoning",
    "temperature",
    "top_k",
    "top_p",
    "user",
];

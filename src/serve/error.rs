//! What clients are told when a request is not answered, in the words of the server that is simulated.
//!
//! vLLM 0.33.0, `vllm/entrypoints/serve/exception_handling/error_response.py`; SGLang 0.5.23,
//! `python/sglang/srt/entrypoints/openai/serving_base.py` and `http_server.py`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::answer::End;
use super::app::Dialect;

/// An error of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// The field that is at fault.
    pub(super) param: Option<String>,
}

/// How an error is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    Vllm,
    /// SGLang behind OpenAI's paths, and before it knows what is asked.
    Sglang,
    /// SGLang behind paths of its own.
    SglangNative,
}

impl Voice {
    /// That of an answer from this path.
    pub(super) fn of(dialect: Dialect, path: &str) -> Self {
        match dialect {
            Dialect::Vllm => Self::Vllm,
            Dialect::Sglang if path.starts_with("/v1/") => Self::Sglang,
            Dialect::Sglang => Self::SglangNative,
        }
    }
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None }
    }

    /// What the client asks for is wrong.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A field is wrong.
    pub(super) fn field(name: &str, message: impl Into<String>) -> Self {
        Self { param: Some(name.to_owned()), ..Self::bad(message) }
    }

    /// Something of that name is not there.
    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// The server ends.
    pub(super) fn closing() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")
    }

    /// An answer that ended without being one; nothing where it did not. One that was aborted is what there is of it.
    pub(super) fn of(end: End) -> Option<Self> {
        Some(match end {
            End::Stop | End::Length | End::Aborted => return None,
            End::Rejected => {
                Self::bad("the engine refuses the request: it is longer than its memory")
            }
            End::Busy => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "the gateway turns the request away")
            }
            End::Failed => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the replica of the request failed, or none is up",
            ),
            End::ShuttingDown => Self::closing(),
        })
    }

    /// As the body of a response.
    pub(super) fn json(&self, voice: Voice) -> Value {
        let (message, code) = (&self.message, self.status.as_u16());
        if self.status == StatusCode::UNAUTHORIZED {
            return json!({"error": message});
        }
        match voice {
            Voice::Vllm => json!({"error": {
                "message": message, "type": self.kind(), "param": self.param, "code": code,
            }}),
            // What has read the request names no field.
            Voice::SglangNative if self.is_bad() && self.param.is_none() => {
                json!({"error": {"message": message}})
            }
            Voice::Sglang | Voice::SglangNative => {
                let kind = match (self.status, &self.param) {
                    (StatusCode::BAD_REQUEST, Some(_)) => "Bad Request".to_owned(),
                    (StatusCode::BAD_REQUEST, None) => "BadRequest".to_owned(),
                    (StatusCode::INTERNAL_SERVER_ERROR, _) => "InternalServerError".to_owned(),
                    _ => code.to_string(),
                };
                json!({
                    "object": "error", "message": message, "type": kind, "param": self.param, "code": code,
                })
            }
        }
    }

    /// As an event of a stream, where errors stand for themselves.
    pub(super) fn event(&self, voice: Voice) -> Value {
        match voice {
            Voice::Vllm => self.json(voice),
            Voice::Sglang | Voice::SglangNative => json!({"error": self.json(Voice::Sglang)}),
        }
    }

    fn is_bad(&self) -> bool {
        self.status == StatusCode::BAD_REQUEST
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::BAD_REQUEST => "BadRequestError",
            StatusCode::NOT_FOUND => "NotFoundError",
            StatusCode::CONFLICT => "ConflictError",
            StatusCode::TOO_MANY_REQUESTS => "RateLimitError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            _ => "InternalServerError",
        }
    }

    /// The response that says it.
    pub(super) fn said(&self, voice: Voice) -> Response {
        (self.status, Json(self.json(voice))).into_response()
    }
}

impl IntoResponse for ApiError {
    /// A response that is still to be put into words, by who knows which server is simulated.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_said_as_each_server_says_them() {
        let wrong = ApiError::field("n", "no");
        let vllm = json!({"error": {"message": "no", "type": "BadRequestError", "param": "n", "code": 400}});
        assert_eq!(wrong.json(Voice::of(Dialect::Vllm, "/v1/completions")), vllm);
        assert_eq!(wrong.event(Voice::Vllm), vllm);
        let openai = Voice::of(Dialect::Sglang, "/v1/completions");
        let flat = json!({
            "object": "error", "message": "no", "type": "Bad Request", "param": "n", "code": 400,
        });
        assert_eq!(wrong.json(openai), flat);
        assert_eq!(wrong.event(openai), json!({"error": flat}));
        let native = Voice::of(Dialect::Sglang, "/generate");
        assert_eq!(ApiError::bad("no").json(native), json!({"error": {"message": "no"}}));
        assert_eq!(ApiError::closing().json(native)["type"], "503");
        for voice in [Voice::Vllm, openai, native] {
            let out = ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized");
            assert_eq!(out.json(voice), json!({"error": "Unauthorized"}));
        }
    }
}

//! What clients are told when a request is not answered.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::answer::End;

/// An error of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// The field that is at fault.
    pub(super) param: Option<String>,
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

    /// An answer that ended without being one; nothing where it did not.
    pub(super) fn of(end: End) -> Option<Self> {
        Some(match end {
            End::Stop | End::Length => return None,
            End::Aborted => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the request was aborted"),
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

    /// As the servers of engines say it.
    pub(super) fn json(&self) -> Value {
        let kind = match self.status {
            StatusCode::BAD_REQUEST => "BadRequestError",
            StatusCode::UNAUTHORIZED => "AuthenticationError",
            StatusCode::NOT_FOUND => "NotFoundError",
            StatusCode::CONFLICT => "ConflictError",
            StatusCode::TOO_MANY_REQUESTS => "RateLimitError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            _ => "InternalServerError",
        };
        let code = self.status.as_u16();
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": code}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.json())).into_response()
    }
}

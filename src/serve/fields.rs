//! The fields of a JSON body, each of which is read, known to change nothing, or refused by name.

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::app::App;
use super::clock::wall;
use super::error::ApiError;
use super::whose::Whose;

/// The fields that have not been read yet.
#[derive(Debug)]
pub(super) struct Fields {
    fields: BTreeMap<String, Box<RawValue>>,
    /// When the request came.
    pub(super) came: Instant,
    /// What its headers say.
    pub(super) whose: Whose,
}

impl Fields {
    fn read(bytes: &[u8], came: Instant, whose: Whose) -> Result<Self, ApiError> {
        if bytes.is_empty() {
            return Ok(Self { fields: BTreeMap::new(), came, whose });
        }
        let read = serde_json::from_slice(bytes);
        let fields =
            read.map_err(|error| ApiError::bad(format!("the body is no JSON object: {error}")))?;
        Ok(Self { fields, came, whose })
    }

    /// Takes a field out; nothing where it is absent or null.
    fn raw(&mut self, name: &str) -> Option<Box<RawValue>> {
        self.fields.remove(name).filter(|raw| raw.get() != "null")
    }

    /// A field; nothing where it is absent or null.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let read = serde_json::from_str(raw.get()).map(Some);
        read.map_err(|error| ApiError::field(name, format!("`{name}`: {error}")))
    }

    /// A field that must be there.
    pub(super) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ApiError> {
        self.take(name)?.ok_or_else(|| ApiError::field(name, format!("`{name}` is missing")))
    }

    /// A field that may have no other value than this, since nothing else is simulated.
    pub(super) fn only(
        &mut self,
        name: &str,
        values: &[Value],
        what: &str,
    ) -> Result<(), ApiError> {
        match self.take::<Value>(name)? {
            None => Ok(()),
            Some(value) if values.contains(&value) => Ok(()),
            Some(_) => Err(ApiError::field(name, format!("`{name}` is not simulated: {what}"))),
        }
    }

    /// All fields that are left.
    pub(super) fn rest<T: DeserializeOwned>(&mut self) -> Result<T, ApiError> {
        let fields = std::mem::take(&mut self.fields);
        let whole = serde_json::to_string(&fields).and_then(|text| serde_json::from_str(&text));
        whole.map_err(|error| ApiError::bad(error.to_string()))
    }

    /// Nothing is left but nulls and what changes neither time nor memory.
    pub(super) fn finish(self, inert: &[&str]) -> Result<(), ApiError> {
        let left = self
            .fields
            .iter()
            .find(|(name, value)| value.get() != "null" && !inert.contains(&name.as_str()));
        match left {
            None => Ok(()),
            Some((name, _)) => {
                Err(ApiError::field(name, format!("`{name}` is not a field that servecast knows")))
            }
        }
    }
}

impl FromRequest<Arc<App>> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let came = wall();
        let whose = Whose::read(request.headers())?;
        let bytes = read(request.into_body(), app).await?;
        Self::read(&bytes, came, whose)
    }
}

/// A body within bounds of size and time. Bodies that are being read share a budget of memory.
async fn read(body: Body, app: &App) -> Result<axum::body::Bytes, ApiError> {
    let limits = &app.limits;
    let too_large = || {
        let most = limits.body_bytes;
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"))
    };
    let hint = axum::body::HttpBody::size_hint(&body);
    if hint.lower() > limits.body_bytes as u64 {
        return Err(too_large());
    }
    let share =
        hint.upper().map_or(limits.body_bytes, |upper| upper as usize).min(limits.body_bytes);
    let busy = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many bodies at once");
    let permits = u32::try_from(share.max(1).div_ceil(1024)).map_err(|_| too_large())?;
    let _share = app.bodies.try_acquire_many(permits).map_err(|_| busy())?;
    let reading = to_bytes(body, limits.body_bytes);
    match tokio::time::timeout(limits.body_time, reading).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let is_long = std::error::Error::source(&error)
                .is_some_and(<dyn std::error::Error>::is::<LengthLimitError>);
            Err(if is_long { too_large() } else { ApiError::bad("the body ends early") })
        }
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly")),
    }
}

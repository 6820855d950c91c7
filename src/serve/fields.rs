//! The fields of a JSON body, each of which is read, known to change nothing, or refused by name.
//!
//! A body is no more in memory than it has bytes: what it says is read from its text, field by field, and into
//! types that are about as large.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::app::App;
use super::clock::wall;
use super::error::ApiError;
use super::whose::Whose;

/// Fields of an object at most.
const MOST_FIELDS: usize = 256;
/// Bytes of a body that are counted as one.
const GRAIN: usize = 1024;

/// The fields that have not been read yet.
#[derive(Debug)]
pub(super) struct Fields {
    left: Object,
    /// When the request came.
    pub(super) came: Instant,
    /// What its headers say.
    pub(super) whose: Whose,
    /// Its share of the memory of bodies.
    _share: Option<OwnedSemaphorePermit>,
}

/// Fields by their names; each but the last of those of one name is forgotten.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
struct Object(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Named;
        impl<'de> Visitor<'de> for Named {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry()? {
                    fields.insert(name, value);
                    if fields.len() > MOST_FIELDS {
                        let message = format!("an object has at most {MOST_FIELDS} fields");
                        return Err(A::Error::custom(message));
                    }
                }
                Ok(Object(fields))
            }
        }
        from.deserialize_map(Named)
    }
}

impl Fields {
    fn read(bytes: &[u8], came: Instant, whose: Whose) -> Result<Self, ApiError> {
        if bytes.is_empty() {
            return Ok(Self { left: Object::default(), came, whose, _share: None });
        }
        let read = serde_json::from_slice(bytes);
        let fields =
            read.map_err(|error| ApiError::bad(format!("the body is not a JSON object: {error}")))?;
        Ok(Self { left: fields, came, whose, _share: None })
    }

    /// A field that is an object of its own; nothing where it is absent or null.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Self>, ApiError> {
        let fields = self.take(name)?;
        Ok(fields.map(|left| Self { left, came: self.came, whose: Whose::default(), _share: None }))
    }

    /// Several of those, or one; no more than so many.
    pub(super) fn objects(&mut self, name: &str, most: usize) -> Result<Vec<Self>, ApiError> {
        let Some(raw) = self.raw(name) else { return Ok(Vec::new()) };
        let wrong = |error| ApiError::field(name, format!("`{name}`: {error}"));
        let each: Vec<&RawValue> = if raw.get().starts_with('[') {
            serde_json::from_str(raw.get()).map_err(wrong)?
        } else {
            vec![&raw]
        };
        if each.len() > most {
            let message = format!("`{name}` has at most {most} values, got {}", each.len());
            return Err(ApiError::field(name, message));
        }
        let came = self.came;
        let read = |raw: &RawValue| -> Result<Self, ApiError> {
            let fields: Option<Object> = serde_json::from_str(raw.get()).map_err(wrong)?;
            let (left, whose) = (fields.unwrap_or_default(), Whose::default());
            Ok(Self { left, came, whose, _share: None })
        };
        each.into_iter().map(read).collect()
    }

    /// Takes a field out; nothing where it is absent or null.
    fn raw(&mut self, name: &str) -> Option<Box<RawValue>> {
        self.left.0.remove(name).filter(|raw| raw.get() != "null")
    }

    /// Whether there are none left.
    pub(super) fn is_empty(&self) -> bool {
        self.left.0.is_empty()
    }

    /// Whether a field is there, and null.
    pub(super) fn is_null(&self, name: &str) -> bool {
        self.left.0.get(name).is_some_and(|raw| raw.get() == "null")
    }

    /// A field; nothing where it is absent or null.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let read = serde_json::from_str(raw.get()).map(Some);
        read.map_err(|error| ApiError::field(name, format!("`{name}`: {error}")))
    }

    /// A field that must be there.
    pub(super) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ApiError> {
        self.take(name)?.ok_or_else(|| missing(name))
    }

    /// The text of a field that must be there, as it was written.
    pub(super) fn written(&mut self, name: &str) -> Result<Box<RawValue>, ApiError> {
        self.raw(name).ok_or_else(|| missing(name))
    }

    /// A field that may have no other value than this, since nothing else is simulated.
    pub(super) fn only(
        &mut self,
        name: &str,
        values: &[Value],
        what: &str,
    ) -> Result<(), ApiError> {
        let Some(raw) = self.raw(name) else { return Ok(()) };
        // What is allowed is short, and what is long need not be read.
        let is_short = raw.get().len() <= 64;
        let value: Option<Value> = is_short.then(|| serde_json::from_str(raw.get()).ok()).flatten();
        if value.is_some_and(|value| values.contains(&value)) {
            return Ok(());
        }
        Err(ApiError::field(name, format!("`{name}` is not simulated: {what}")))
    }

    /// All fields that are left.
    pub(super) fn rest<T: DeserializeOwned>(&mut self) -> Result<T, ApiError> {
        let fields = std::mem::take(&mut self.left);
        let whole = serde_json::to_string(&fields).and_then(|text| serde_json::from_str(&text));
        whole.map_err(|error| ApiError::bad(error.to_string()))
    }

    /// Nothing is left but nulls and what changes neither time nor memory.
    pub(super) fn finish(self, inert: &[&str]) -> Result<(), ApiError> {
        self.finish_in("", inert)
    }

    /// The same of an object that is the field of this name.
    pub(super) fn finish_in(self, place: &str, inert: &[&str]) -> Result<(), ApiError> {
        let mut left = self.left.0.iter();
        let left = left
            .find(|(name, value)| value.get() != "null" && !inert.contains(&name.as_str()))
            .map(|(name, _)| name);
        let Some(name) = left else { return Ok(()) };
        let full = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        let message = format!("`{full}` is not a field that servecast knows");
        Err(ApiError::field(&full, message))
    }
}

fn missing(name: &str) -> ApiError {
    ApiError::field(name, format!("`{name}` is missing"))
}

impl FromRequest<Arc<App>> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let came = wall();
        let whose = Whose::read(request.headers())?;
        let (bytes, share) = read(request.into_body(), app).await?;
        Ok(Self { _share: Some(share), ..Self::read(&bytes, came, whose)? })
    }
}

/// A body within bounds of size and time. Bodies share a budget of memory, of which each has as much as has come of it:
/// one that comes when there is none left waits, and one that has begun gives its part back.
async fn read(body: Body, app: &App) -> Result<(Vec<u8>, OwnedSemaphorePermit), ApiError> {
    let limits = &app.limits;
    let hint = axum::body::HttpBody::size_hint(&body);
    if hint.lower() > limits.body_bytes as u64 {
        return Err(too_large(limits.body_bytes));
    }
    let first = timeout(limits.body_time, app.bodies.clone().acquire_owned()).await;
    let share = first.ok().and_then(Result::ok).ok_or_else(busy)?;
    match timeout(limits.body_time, collect(body, app, share)).await {
        Ok(read) => read,
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly")),
    }
}

async fn collect(
    mut body: Body,
    app: &App,
    mut share: OwnedSemaphorePermit,
) -> Result<(Vec<u8>, OwnedSemaphorePermit), ApiError> {
    let most = app.limits.body_bytes;
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad("the body ends early"))?;
        let Ok(part) = frame.into_data() else { continue };
        let len = bytes.len() + part.len();
        if len > most {
            return Err(too_large(most));
        }
        let more = len.div_ceil(GRAIN).saturating_sub(share.num_permits());
        if more > 0 {
            let more = u32::try_from(more).map_err(|_| too_large(most))?;
            let more = app.bodies.clone().try_acquire_many_owned(more);
            share.merge(more.map_err(|_| busy())?);
        }
        bytes.extend_from_slice(&part);
    }
    Ok((bytes, share))
}

fn too_large(most: usize) -> ApiError {
    let message = format!("the body has more than {most} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn busy() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many bodies at once")
}

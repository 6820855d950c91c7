//! Whose a request is: its class and its conversation. Bodies of real servers say neither, so headers do.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::error::ApiError;
use crate::ids::{ClassId, ModelId, SessionId};
use crate::resolved::Scenario;
use crate::rng::mix;
use crate::scenario;

/// What the headers that are read here begin with.
const OURS: &str = "x-servecast-";
/// The header with the name of the class.
const CLASS: &str = "x-servecast-class";
/// The header with a name of the conversation.
const SESSION: &str = "x-servecast-session";

/// What the headers of a request say.
#[derive(Debug, Clone, Default)]
pub(super) struct Whose {
    class: Option<String>,
    /// Conversations are told apart by 32 bits of a hash of their names.
    pub(super) session: Option<SessionId>,
}

impl Whose {
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        for name in headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with(OURS)) {
            if ![CLASS, SESSION].contains(&name) {
                let message = format!("`{name}` is not known: must be `{CLASS}` or `{SESSION}`");
                return Err(ApiError::field(name, message));
            }
        }
        let class = one(headers, CLASS)?.map(|name| {
            let name = std::str::from_utf8(name.as_bytes()).map(str::to_owned);
            name.map_err(|_| ApiError::field(CLASS, format!("`{CLASS}` must be UTF-8")))
        });
        let session = one(headers, SESSION)?.map(|name| {
            let hash = name.as_bytes().iter().fold(0, |hash, byte| mix(hash ^ u64::from(*byte)));
            SessionId(hash as u32)
        });
        Ok(Self { class: class.transpose()?, session })
    }
}

/// The value of a header that may stand there once.
fn one<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> Result<Option<&'a HeaderValue>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(ApiError::field(name, format!("`{name}` must be there once")));
    }
    Ok(value)
}

/// A class of requests.
#[derive(Debug, Clone)]
pub(super) struct Class {
    name: String,
    pub(super) id: ClassId,
    /// The model its requests ask for.
    pub(super) model: ModelId,
    /// The priority of those that bring none.
    pub(super) priority: i32,
}

/// The classes of the scenario; none where all requests are alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Classes(Vec<Class>);

impl Classes {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let classes = &scenario.workload.classes;
        let (_, models) = scenario::models(classes);
        let class = |((id, class), model): ((u16, &scenario::ClassConfig), ModelId)| Class {
            name: class.name.clone(),
            id: ClassId(id),
            model,
            priority: class.priority,
        };
        Self((0..).zip(classes).zip(models).map(class).collect())
    }

    /// Their names, in order.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|class| class.name.clone()).collect()
    }

    /// The class that the headers of a request name.
    pub(super) fn named(&self, whose: &Whose) -> Result<Option<&Class>, ApiError> {
        let Some(name) = &whose.class else { return Ok(None) };
        let class = self.0.iter().find(|class| class.name == *name);
        class.map(Some).ok_or_else(|| {
            let known = match &self.0[..] {
                [] => "the scenario has none (workload.classes)".to_owned(),
                _ => format!("must be `{}`", self.names().join("`, `")),
            };
            ApiError::field(CLASS, format!("`{CLASS}`: {known}, got `{name}`"))
        })
    }

    /// The class of a request for this model, which its headers name or else is the first that asks for it.
    pub(super) fn choose(&self, whose: &Whose, model: ModelId) -> Result<Option<&Class>, ApiError> {
        match self.named(whose)? {
            Some(class) if class.model == model => Ok(Some(class)),
            Some(Class { name, .. }) => {
                let message =
                    format!("`{CLASS}`: requests of class `{name}` ask for another model");
                Err(ApiError::field(CLASS, message))
            }
            None => Ok(self.0.iter().find(|class| class.model == model)),
        }
    }

    /// What a person should know: which class requests are of that name none, where there are several.
    pub(super) fn notice(&self) -> Option<String> {
        let first = |class: &&Class| {
            let same = |other: &&Class| other.model == class.model;
            self.0.iter().find(same).is_some_and(|other| other.id == class.id)
        };
        let firsts: Vec<&str> = self.0.iter().filter(first).map(|it| it.name.as_str()).collect();
        (firsts.len() < self.0.len()).then(|| {
            format!(
                "notice: without the header `{CLASS}` requests are of class `{}`; classes: `{}`",
                firsts.join("` or, by their model, `"),
                self.names().join("`, `"),
            )
        })
    }
}

//! What all connections of a server share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, StatusCode, Uri};
use tokio::sync::Semaphore;

use super::access;
use super::answer::{Answer, Owed, Place};
use super::counters::Siblings;
use super::driver::{Command, Handle, Look, Replica, Submission};
use super::error::ApiError;
use super::fields::Fields;
use super::handover::Part;
use super::lateness::Lateness;
use super::openai::ChatTemplate;
use super::rids::{Named, Rids};
use super::whose::{Class, Classes};
use super::words::Words;
use crate::cluster::{Order, Role};
use crate::ids::{AdapterId, ClassId, InstanceId, ModelId, SessionId};
use crate::scenario::FaultConfig;

/// The shortest and the longest time that a fault may last.
const LEAST_S: f64 = 1e-9;
const LONGEST_S: f64 = 1e9;
/// How many times as long steps may take.
const SLOWER: std::ops::RangeInclusive<f64> = 1.0..=1e6;

/// What a client may ask of the server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of all bodies that are being read.
    pub bodies_bytes: usize,
    /// Until a body is there.
    pub body_time: Duration,
    /// Bytes of the headers of a request.
    pub header_bytes: usize,
    /// Until the headers of a request are there.
    pub header_time: Duration,
    /// How long a client may read nothing of what was sent.
    pub write_time: Duration,
    /// Connections at once.
    pub connections: usize,
    /// Requests at once.
    pub requests: usize,
    /// Tokens of their prompts.
    pub prompt_tokens: usize,
    /// Choices of one request: prompts times `n`.
    pub choices: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 16 << 20,
            bodies_bytes: 128 << 20,
            body_time: Duration::from_secs(30),
            header_bytes: 64 << 10,
            header_time: Duration::from_secs(15),
            write_time: Duration::from_mins(1),
            connections: 8192,
            requests: 65_536,
            prompt_tokens: 64 << 20,
            choices: 256,
        }
    }
}

/// A model that is served.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) name: String,
    pub(super) id: ModelId,
    /// The longest sequence, prompt and answer together.
    pub(super) max_model_len: u32,
}

/// Which server is simulated, where servers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Vllm,
    Sglang,
}

/// The adapters of the scenario, and which of them are loaded.
#[derive(Debug, Default)]
pub(super) struct Adapters {
    pub(super) names: Vec<String>,
    pub(super) loaded: Mutex<BTreeSet<u32>>,
}

impl Adapters {
    pub(super) fn find(&self, name: &str) -> Option<AdapterId> {
        self.names.iter().position(|known| known == name).map(AdapterId::from_index)
    }

    pub(super) fn is_loaded(&self, adapter: AdapterId) -> bool {
        self.lock().contains(&adapter.0)
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<u32>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct App {
    pub(super) handle: Handle,
    /// The replica that answers, where the port is that of one.
    pub(super) replica: Option<InstanceId>,
    /// What that replica does, and which of two replicas requests go to first, where some prefill and others
    /// decode.
    pub(super) led: Option<(Role, Order)>,
    pub(super) lateness: Arc<Lateness>,
    pub(super) words: Arc<Words>,
    /// What makes prompts of chats, where the model has one.
    pub(super) template: Option<Arc<ChatTemplate>>,
    pub(super) dialect: Dialect,
    pub(super) models: Vec<Served>,
    pub(super) adapters: Adapters,
    pub(super) classes: Classes,
    pub(super) limits: Limits,
    /// Kibibytes of bodies.
    pub(super) bodies: Arc<Semaphore>,
    /// Kibibytes of tokens that are told, of `/tokenize`.
    pub(super) told: Arc<Semaphore>,
    /// Requests that have names.
    pub(super) rids: Arc<Rids>,
    pub(super) requests: Arc<Semaphore>,
    pub(super) prompts: Arc<Semaphore>,
    pub(super) connections: Arc<Semaphore>,
    pub(super) api_key: Option<String>,
    pub(super) is_closing: Arc<AtomicBool>,
    pub(super) ids: Arc<AtomicU64>,
    /// Seconds since 1970 when it began.
    pub(super) started: u64,
    /// The model of each replica, by its place among those that are served.
    pub(super) serves: Vec<ModelId>,
    /// GPUs that each replica cuts its model over.
    pub(super) tensor_parallel: Vec<u32>,
    /// Tokens of a block of KV memory.
    pub(super) block_tokens: u32,
    /// What the NICs of each replica carry in each direction; 0 of those that hand nothing over.
    pub(super) nics_bytes_per_s: Vec<f64>,
}

/// The clock of calendars, in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "answers carry the date at which they were made")]
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The same, with parts of seconds.
#[expect(clippy::disallowed_methods, reason = "events carry the time at which they were published")]
pub(super) fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// What a name in a request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) model: ModelId,
    pub(super) adapter: Option<AdapterId>,
    pub(super) max_model_len: u32,
    pub(super) class: ClassId,
    /// Of requests that bring none.
    pub(super) priority: i32,
}

impl App {
    /// What bounds connections and requests, and numbers answers, is shared with another port.
    pub(super) fn beside(self, other: &Self) -> Self {
        Self {
            bodies: other.bodies.clone(),
            told: other.told.clone(),
            requests: other.requests.clone(),
            prompts: other.prompts.clone(),
            connections: other.connections.clone(),
            ids: other.ids.clone(),
            ..self
        }
    }

    /// The same, of the class that headers name; it says which model, where the body names none.
    pub(super) fn of_class(
        &self,
        fields: &Fields,
        is_named: bool,
        mut target: Target,
    ) -> Result<Target, ApiError> {
        let named = self.classes.named(&fields.whose)?;
        if let (false, Some(Class { model, .. })) = (is_named, named) {
            target = self.target(Some(&self.models[model.index()].name))?;
        }
        if let Some(class) = self.classes.choose(&fields.whose, target.model)? {
            (target.class, target.priority) = (class.id, class.priority);
        }
        Ok(target)
    }

    /// The model or adapter of a request; the first model where none is named.
    pub(super) fn target(&self, name: Option<&str>) -> Result<Target, ApiError> {
        let of = |served: &Served, adapter| Target {
            model: served.id,
            adapter,
            max_model_len: served.max_model_len,
            class: ClassId::default(),
            priority: 0,
        };
        let first = &self.models[0];
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(of(first, None)) };
        if let Some(served) = self.models.iter().find(|served| served.name == name) {
            return Ok(of(served, None));
        }
        match self.loaded(name) {
            Some(adapter) => Ok(of(first, Some(adapter))),
            None => Err(ApiError::unknown(format!("The model `{name}` does not exist."))),
        }
    }

    /// What the name of a model, and that of an adapter beside it, mean to the server that is simulated.
    pub(super) fn target_of(
        &self,
        name: Option<&str>,
        lora_path: Option<&str>,
    ) -> Result<Target, ApiError> {
        match self.dialect {
            Dialect::Vllm => self.target(name),
            Dialect::Sglang => self.target_of_sglang(name, lora_path),
        }
    }

    /// What a request to SGLang means. Its server does not look at the name of the model, but for an adapter behind
    /// a colon, which goes before `lora_path` (SGLang 0.5.23,
    /// `python/sglang/srt/entrypoints/openai/serving_base.py`). Here it may be the name of an adapter too.
    pub(super) fn target_of_sglang(
        &self,
        name: Option<&str>,
        lora_path: Option<&str>,
    ) -> Result<Target, ApiError> {
        let name = name.unwrap_or_default();
        let is_known = self.models.iter().any(|served| served.name == name);
        let served = self.models.iter().find_map(|served| {
            let behind = name.strip_prefix(served.name.as_str())?.strip_prefix(':')?;
            Some((served.name.as_str(), behind))
        });
        let (base, adapter) = match served.or_else(|| name.split_once(':')) {
            Some((base, adapter)) if !is_known => (base.trim(), Some(adapter.trim())),
            _ => (name, None),
        };
        let adapter = adapter.filter(|name| !name.is_empty()).or(lora_path);
        if let Some(name) = adapter.filter(|name| !name.is_empty()) {
            let Some(adapter) = self.loaded(name) else {
                let message =
                    format!("The following requested LoRA adapters are not loaded: {name}");
                return Err(ApiError::bad(message));
            };
            return Ok(Target { adapter: Some(adapter), ..self.target(None)? });
        }
        match self.target(Some(base)) {
            Err(_) if self.models.len() == 1 => self.target(None),
            target => target,
        }
    }

    fn loaded(&self, name: &str) -> Option<AdapterId> {
        self.adapters.find(name).filter(|adapter| self.adapters.is_loaded(*adapter))
    }

    /// What SGLang calls the role of the replica behind the port.
    pub(super) fn disaggregation_mode(&self) -> &'static str {
        match self.led {
            Some((Role::Prefill, _)) => "prefill",
            Some((Role::Decode, _)) => "decode",
            None | Some((Role::Whole, _)) => "null",
        }
    }

    /// The replicas that the port shows.
    pub(super) fn watched<'a>(&self, look: &'a Look) -> &'a [Replica] {
        match self.replica {
            None => &look.replicas,
            Some(one) => look.replicas.get(one.index()..=one.index()).unwrap_or_default(),
        }
    }

    /// The name of the model of a replica.
    pub(super) fn model_of(&self, replica: usize) -> &str {
        let serves = self.serves.get(replica).copied().unwrap_or_default();
        &self.models[serves.index()].name
    }

    /// A fault that may be told to happen now or later: scenarios refuse the same.
    pub(super) fn check(&self, fault: &FaultConfig) -> Result<(), ApiError> {
        let (replica, at_s, lasts) = match *fault {
            FaultConfig::Crash { replica, at_s, down_s, .. } => {
                (replica, at_s, Some(("down_s", down_s)))
            }
            FaultConfig::Straggler { replica, at_s, for_s, .. }
            | FaultConfig::SlowLink { replica, at_s, for_s, .. } => {
                (replica, at_s, Some(("for_s", for_s)))
            }
            FaultConfig::LostCache { replica, at_s }
            | FaultConfig::LostTransfers { replica, at_s } => (replica, at_s, None),
            FaultConfig::Random(_) => {
                let message = "faults at random times cannot be added to a running server; put them into the scenario (`faults`)";
                return Err(ApiError::field("type", message));
            }
        };
        let Some(nic) = self.nics_bytes_per_s.get(replica as usize) else {
            let most = self.nics_bytes_per_s.len() - 1;
            let message = format!("`replica` must be 0 to {most}, got {replica}");
            return Err(ApiError::field("replica", message));
        };
        let needs_network =
            matches!(fault, FaultConfig::SlowLink { .. } | FaultConfig::LostTransfers { .. });
        if needs_network && *nic == 0.0 {
            return Err(ApiError::field("type", "the replica hands nothing over"));
        }
        if !(0.0..=LONGEST_S).contains(&at_s) {
            let message = format!("`at_s` must be 0 to 1e9 seconds, got {at_s}");
            return Err(ApiError::field("at_s", message));
        }
        if let Some((name, span)) = lasts
            && !(LEAST_S..=LONGEST_S).contains(&span)
        {
            // What lasts no time begins after it has ended, and never ends.
            let message = format!("`{name}` must be 1e-9 to 1e9 seconds, got {span}");
            return Err(ApiError::field(name, message));
        }
        match *fault {
            FaultConfig::Crash { down_s, detection_s, .. }
                if !(0.0..=down_s).contains(&detection_s) =>
            {
                let message = format!("`detection_s` must be 0 to `down_s`, got {detection_s}");
                Err(ApiError::field("detection_s", message))
            }
            FaultConfig::Straggler { factor, .. } if !SLOWER.contains(&factor) => {
                let message = format!("`factor` must be 1 to 1e6, got {factor}");
                Err(ApiError::field("factor", message))
            }
            FaultConfig::SlowLink { share, .. }
                if !(0.0..=1.0).contains(&share) || nic * share < 1.0 =>
            {
                let message =
                    format!("`share` must be up to 1, and leave 1 byte/s of {nic:.0}, got {share}");
                Err(ApiError::field("share", message))
            }
            _ => Ok(()),
        }
    }

    /// A new id with this begin.
    pub(super) fn id(&self, begin: &str) -> String {
        let number = self.ids.fetch_add(1, Ordering::Relaxed);
        format!("{begin}{:016x}{number:016x}", crate::rng::mix(self.started))
    }

    /// Whether a client may ask for this path.
    pub(super) fn admits(&self, asked: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        if access::is_foreign(asked, headers) {
            let message = "pages of other origins may not ask this server";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        match &self.api_key {
            Some(key)
                if access::is_guarded(self.dialect, asked.path()) && !access::has(headers, key) =>
            {
                Err(ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized"))
            }
            _ => Ok(()),
        }
    }

    /// Sends a request to the cluster. When what is returned is dropped before the answer is over, its client
    /// has gone away.
    pub(super) fn submit(self: &Arc<Self>, asked: Asked) -> Result<Pending, ApiError> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(ApiError::closing());
        }
        let Asked { came, prompt, target, part, named, .. } = asked;
        let prompt_tokens = prompt.len() as u32;
        let place = Arc::new(self.place(prompt_tokens)?);
        let answer = named.as_ref().map_or_else(Answer::new, |named| named.answer.clone());
        let submission = Submission {
            came,
            prompt,
            max_tokens: asked.max_tokens,
            room: target.max_model_len.saturating_sub(prompt_tokens),
            min_tokens: asked.min_tokens,
            ignore_eos: asked.ignore_eos,
            model: target.model,
            adapter: target.adapter,
            class: target.class,
            session: asked.session,
            streams: asked.streams,
            siblings: asked.siblings,
            priority: asked.priority,
            salt: asked.salt,
            replica: self.replica,
            part,
            answer: Owed::new(answer.clone(), place.clone()),
        };
        self.handle.tell(Command::Submit(Box::new(submission)));
        Ok(Pending { answer, handle: self.handle.clone(), prompt_tokens, named, _place: place })
    }

    /// A place for one more request, if there is one.
    fn place(&self, prompt_tokens: u32) -> Result<Place, ApiError> {
        let busy = |message: String| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message);
        let request = self.requests.clone().try_acquire_owned().map_err(|_| {
            busy(format!("there are {} requests at once already", self.limits.requests))
        })?;
        let prompt = self.prompts.clone().try_acquire_many_owned(prompt_tokens).map_err(|_| {
            let most = self.limits.prompt_tokens;
            busy(format!("the prompts of all requests at once would have more than {most} tokens"))
        })?;
        Ok(Place { _request: request, _prompt: prompt })
    }
}

/// What a client asks for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) came: std::time::Instant,
    /// Shared by all answers to it: a client asks for hundreds in a few bytes.
    pub(super) prompt: Arc<[u32]>,
    pub(super) max_tokens: Option<u32>,
    pub(super) min_tokens: u32,
    pub(super) ignore_eos: bool,
    pub(super) target: Target,
    pub(super) session: Option<SessionId>,
    pub(super) streams: bool,
    pub(super) siblings: Option<Arc<Siblings>>,
    pub(super) priority: i32,
    pub(super) salt: u64,
    pub(super) part: Part,
    /// The name that its client gives it.
    pub(super) named: Option<Named>,
}

impl Asked {
    /// Every `n` of these are answers to one prompt.
    pub(super) fn together(mut asked: Vec<Self>, n: u32) -> Vec<Self> {
        for chunk in asked.chunks_mut(n.max(1) as usize).filter(|_| n > 1) {
            let siblings = Siblings::of(n);
            for one in chunk {
                one.siblings = Some(siblings.clone());
            }
        }
        asked
    }
}

/// A request whose answer is awaited.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) answer: Arc<Answer>,
    handle: Handle,
    pub(super) prompt_tokens: u32,
    pub(super) named: Option<Named>,
    _place: Arc<Place>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.answer.progress().end.is_none() {
            self.handle.tell(Command::Cancel(self.answer.clone()));
        }
    }
}

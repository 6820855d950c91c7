//! Prefill and decode as servers of their own: what a router in front of them says, and what they answer.
//!
//! vLLM's router sends a request to a server that prefills with `kv_transfer_params`, and what that answers to one
//! that decodes (vLLM 0.33.0, `vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py`). SGLang's sends
//! it to both at once, with the same `bootstrap_room` (SGLang 0.5.23,
//! `python/sglang/srt/disaggregation/common/conn.py`); both Apache-2.0.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::app::App;
use super::driver::Submission;
use super::error::ApiError;
use super::fields::Fields;
use crate::cluster::{Order, Role};
use crate::ids::RequestId;
use crate::units::{SimDuration, SimTime};

/// How long KV waits for a server that decodes (vLLM's `kv_lease_duration`), in seconds.
const LEASE_S: f64 = 30.0;
/// How long a request waits for its other server (`SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT`), in seconds.
const PATIENCE_S: f64 = 300.0;
/// What request ids begin with that a server that prefills tells.
const PREFIX: &str = "servecast-";

/// What of a request a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All that a server does of a request.
    Whole,
    /// The prompt, whose KV waits for a server that decodes.
    Prompt,
    /// The answer to a prompt that was computed as this request.
    Answer(RequestId),
    /// The one or the other, as its server does: both know it by this room.
    Room(u64),
}

/// What a body says of it.
#[derive(Debug)]
pub(super) enum Parts {
    /// The same of all its choices.
    All(Part),
    /// One of each choice.
    Rooms(Vec<u64>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Rooms {
    One(u64),
    Each(Vec<u64>),
}

/// Fields that change nothing here are left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KvTransferParams {
    do_remote_decode: bool,
    do_remote_prefill: bool,
    remote_request_id: Option<String>,
    remote_block_ids: Option<Value>,
}

impl Parts {
    /// Reads what a body says, for the server of a port.
    pub(super) fn read(fields: &mut Fields, app: &App) -> Result<Self, ApiError> {
        let (role, order) = match app.led {
            Some((role @ (Role::Prefill | Role::Decode), order)) => (role, order),
            None | Some((Role::Whole, _)) => {
                let alone = "this server hands no KV cache over";
                let why = if app.led.is_some() { alone } else { "the cluster does it by itself" };
                let no = [json!(false), json!({})];
                fields.only("kv_transfer_params", &no, why)?;
                for name in ["bootstrap_host", "bootstrap_port", "bootstrap_room"] {
                    fields.only(name, &[], why)?;
                }
                return Ok(Self::All(Part::Whole));
            }
        };
        match order {
            Order::SourceFirst => {
                for name in ["bootstrap_host", "bootstrap_port", "bootstrap_room"] {
                    fields.only(name, &[], "vLLM's servers take `kv_transfer_params`")?;
                }
                of_vllm(fields, role).map(Self::All)
            }
            Order::DestinationFirst => {
                let why = "SGLang's servers take `bootstrap_room`";
                fields.only("kv_transfer_params", &[], why)?;
                // Where the other server listens is no matter: rooms tell pairs apart.
                let _: Option<Value> = fields.take("bootstrap_host")?;
                let _: Option<Value> = fields.take("bootstrap_port")?;
                match fields.take::<Rooms>("bootstrap_room")? {
                    Some(Rooms::One(room)) => Ok(Self::All(Part::Room(room))),
                    Some(Rooms::Each(rooms)) => Ok(Self::Rooms(rooms)),
                    None => {
                        let message = "`bootstrap_room` is missing: servers that prefill or decode only take \
                                       requests of a router that sends them to both";
                        Err(ApiError::field("bootstrap_room", message))
                    }
                }
            }
        }
    }

    /// The parts of so many choices.
    pub(super) fn of(&self, choices: usize) -> Result<Vec<Part>, ApiError> {
        match self {
            Self::All(Part::Whole) => Ok(vec![Part::Whole; choices]),
            Self::All(part) if choices == 1 => Ok(vec![*part]),
            Self::All(_) => {
                let message =
                    format!("a request that is handed over has one answer, got {choices}");
                Err(ApiError::bad(message))
            }
            Self::Rooms(rooms) if rooms.len() == choices => {
                Ok(rooms.iter().map(|room| Part::Room(*room)).collect())
            }
            Self::Rooms(rooms) => {
                let message = format!("{} rooms for {choices} answers", rooms.len());
                Err(ApiError::field("bootstrap_room", message))
            }
        }
    }

    /// Whether the body asks for a prompt to be computed.
    pub(super) fn is_prompt(&self) -> bool {
        matches!(self, Self::All(Part::Prompt))
    }
}

fn of_vllm(fields: &mut Fields, role: Role) -> Result<Part, ApiError> {
    const NAME: &str = "kv_transfer_params";
    let params: Option<KvTransferParams> = fields.take(NAME)?;
    let params = params.unwrap_or_default();
    let wrong = |message: &str| Err(ApiError::field(NAME, format!("`{NAME}`: {message}")));
    match role {
        Role::Prefill if params.do_remote_prefill => {
            wrong("`do_remote_prefill` is for servers that decode, and this one prefills")
        }
        Role::Prefill if params.remote_block_ids.is_some_and(|ids| !ids.is_null()) => wrong(
            "`remote_block_ids` is not simulated here: KV does not come back from servers that decode",
        ),
        Role::Prefill if params.do_remote_decode => Ok(Part::Prompt),
        Role::Prefill => wrong(
            "`do_remote_decode` must be true: whole requests on a server that prefills are not simulated",
        ),
        Role::Decode if params.do_remote_decode => {
            wrong("`do_remote_decode` is for servers that prefill, and this one decodes")
        }
        Role::Decode if params.do_remote_prefill => {
            let id = params.remote_request_id.as_deref().and_then(|id| id.strip_prefix(PREFIX));
            match id.and_then(|id| id.parse().ok()) {
                Some(id) => Ok(Part::Answer(RequestId(id))),
                None => {
                    wrong("`remote_request_id` must be what a server that prefills has answered")
                }
            }
        }
        Role::Whole | Role::Decode => Ok(Part::Whole),
    }
}

/// What a server that prefills answers with, for the one that decodes.
pub(super) fn kv_transfer_params(app: &App, id: RequestId, prompt_tokens: u32) -> Value {
    let replica = app.replica.map_or(0, |replica| replica.0);
    let blocks = prompt_tokens.div_ceil(app.block_tokens);
    json!({
        "do_remote_prefill": true,
        "do_remote_decode": false,
        "remote_block_ids": [(1..=blocks).collect::<Vec<_>>()],
        "remote_engine_id": format!("{PREFIX}{replica}"),
        "remote_request_id": format!("{PREFIX}{}", id.0),
        "remote_host": "127.0.0.1",
        "remote_port": 5600 + replica,
        "tp_size": app.tensor_parallel.get(replica as usize),
        "remote_num_tokens": prompt_tokens,
    })
}

/// Requests that wait for something that is to come over another connection.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    rooms: FxHashMap<u64, Box<Submission>>,
    /// Until when; all wait equally long.
    until: VecDeque<(SimTime, Waits)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// A request that one of two servers has, under its room.
    InRoom(u64),
    /// A request whose KV is there.
    WithKv(RequestId),
}

impl Waiting {
    /// The request that came to the other server under this room, if it did.
    pub(super) fn take(&mut self, room: u64) -> Option<Box<Submission>> {
        self.rooms.remove(&room)
    }

    /// A request waits for the other server.
    pub(super) fn put(&mut self, room: u64, submission: Box<Submission>, now: SimTime) {
        self.rooms.insert(room, submission);
        let until = now + SimDuration::from_secs_f64(PATIENCE_S);
        self.until.push_back((until, Waits::InRoom(room)));
    }

    /// The KV of a request waits for a server that decodes.
    pub(super) fn hold(&mut self, id: RequestId, now: SimTime) {
        let until = now + SimDuration::from_secs_f64(LEASE_S);
        self.until.push_back((until, Waits::WithKv(id)));
    }

    /// When the next one has waited long enough.
    pub(super) fn next(&self) -> Option<SimTime> {
        self.until.front().map(|(at, _)| *at)
    }

    /// One that has.
    pub(super) fn over(&mut self, now: SimTime) -> Option<Waits> {
        let is_over = self.next().is_some_and(|at| at <= now);
        is_over.then(|| self.until.pop_front()).flatten().map(|(_, waits)| waits)
    }

    /// Those in rooms: of one client, or all.
    pub(super) fn leave(&mut self, leaves: impl Fn(&Submission) -> bool) -> Vec<Submission> {
        let rooms = self.rooms.iter().filter(|(_, waits)| leaves(waits));
        let mut rooms: Vec<u64> = rooms.map(|(room, _)| *room).collect();
        rooms.sort_unstable();
        rooms.into_iter().filter_map(|room| self.rooms.remove(&room).map(|it| *it)).collect()
    }
}

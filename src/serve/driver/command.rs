//! What the driver is asked, and the way to it.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::cluster::Role;
use crate::engine::scheduler::Load;
use crate::ids::{AdapterId, ClassId, InstanceId, ModelId, SessionId};
use crate::metrics::Summary;
use crate::model::KvDtype;
use crate::scenario::FaultConfig;
use crate::serve::answer::{Answer, Owed};
use crate::serve::counters::{Counters, Siblings};
use crate::serve::handover::Part;
use crate::serve::lengths::Wanted;
use crate::serve::relay::AdaptersInUse;
use crate::units::SimTime;

/// A request of a client.
#[derive(Debug)]
pub(in crate::serve) struct Submission {
    /// When it came.
    pub(in crate::serve) came: Instant,
    pub(in crate::serve) prompt: Arc<[u32]>,
    /// The limit of its answer, if it has one.
    pub(in crate::serve) max_tokens: Option<u32>,
    /// Tokens that the prompt leaves of the context.
    pub(in crate::serve) room: u32,
    pub(in crate::serve) min_tokens: u32,
    pub(in crate::serve) ignore_eos: bool,
    pub(in crate::serve) model: ModelId,
    pub(in crate::serve) adapter: Option<AdapterId>,
    pub(in crate::serve) class: ClassId,
    pub(in crate::serve) session: Option<SessionId>,
    /// Other answers to the same prompt, if it has several.
    pub(in crate::serve) siblings: Option<Arc<Siblings>>,
    /// Whether its client has tokens as they come.
    pub(in crate::serve) streams: bool,
    pub(in crate::serve) priority: i32,
    pub(in crate::serve) salt: u64,
    /// The replica that it is sent to, where its client chooses.
    pub(in crate::serve) replica: Option<InstanceId>,
    pub(in crate::serve) part: Part,
    pub(in crate::serve) answer: Owed,
}

impl Submission {
    pub(super) fn wanted(&self) -> Wanted {
        let Self { max_tokens: limit, room, min_tokens: at_least, ignore_eos, .. } = *self;
        Wanted { limit, room, at_least, ignore_eos }
    }
}

/// What a replica is doing.
#[derive(Debug, Clone)]
pub(in crate::serve) struct Replica {
    pub(in crate::serve) load: Load,
    pub(in crate::serve) counters: Counters,
    pub(in crate::serve) kv_tokens: KvTokens,
    pub(in crate::serve) is_up: bool,
    pub(in crate::serve) facts: Facts,
    pub(in crate::serve) adapters: AdaptersInUse,
}

/// Tokens of KV memory.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) struct KvTokens {
    pub(in crate::serve) all: u64,
    /// Those that requests hold.
    pub(in crate::serve) held: u64,
}

/// What a replica is.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) struct Facts {
    pub(in crate::serve) role: Role,
    pub(in crate::serve) block_tokens: u32,
    pub(in crate::serve) max_model_len: u32,
    /// Blocks of KV memory of an engine, those that it keeps for itself included.
    pub(in crate::serve) kv_blocks: u32,
    /// The same, where the scenario gives their number.
    pub(in crate::serve) kv_blocks_given: Option<u32>,
    pub(in crate::serve) kv_cache_dtype: KvDtype,
    pub(in crate::serve) gpu_memory_utilization: Option<f64>,
    pub(in crate::serve) keeps_prefixes: bool,
    /// Drafts that a step verifies for each request, if it speculates.
    pub(in crate::serve) drafts: Option<u32>,
    /// Adapters that running requests may use at once, if it has any.
    pub(in crate::serve) max_adapters: Option<u32>,
}

/// What there is to see at a moment.
#[derive(Debug)]
pub(in crate::serve) struct Look {
    pub(in crate::serve) now: SimTime,
    pub(in crate::serve) speed: f64,
    pub(in crate::serve) replicas: Vec<Replica>,
    /// How far the cluster is behind the clock, on the wall.
    pub(in crate::serve) behind_s: f64,
    pub(in crate::serve) open: usize,
}

/// What the driver is asked to do.
#[derive(Debug)]
pub(in crate::serve) enum Command {
    Submit(Box<Submission>),
    /// The client of a request is gone.
    Cancel(Arc<Answer>),
    /// Somebody ends requests of one name.
    End(Vec<Arc<Answer>>),
    /// All requests are ended, or those of a replica.
    AbortAll(Option<InstanceId>),
    /// The prefix caches are emptied, or that of a replica; whether they could be, because nothing is running.
    Flush(Option<InstanceId>, oneshot::Sender<bool>),
    /// Whether a replica serves; any, where none is named.
    IsUp(Option<InstanceId>, oneshot::Sender<bool>),
    /// A fault happens now or later: as it is planned, or why it cannot be.
    Fault(FaultConfig, oneshot::Sender<Result<FaultConfig, String>>),
    Speed(f64),
    Look(oneshot::Sender<Look>),
    Report(oneshot::Sender<Box<Summary>>),
    Stop,
}

/// The way to the driver, for any thread.
#[derive(Debug, Clone)]
pub(in crate::serve) struct Handle(pub(super) mpsc::Sender<Command>);

impl Handle {
    /// Tells the driver. When it has gone, who waits for an answer hears so.
    pub(in crate::serve) fn tell(&self, command: Command) {
        drop(self.0.send(command));
    }

    /// Asks the driver; nothing when it has gone.
    pub(in crate::serve) async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.tell(question(sender));
        receiver.await.ok()
    }
}

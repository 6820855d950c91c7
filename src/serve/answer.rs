//! The answer to a request as it comes into being: written by the driver, read by the task of its client.
//!
//! However slow a client reads, what waits for it is a number of tokens: their text is made when it is sent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::clock::wall;
use crate::ids::RequestId;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With a token that ends it.
    Stop,
    /// At its limit.
    Length,
    /// Its client, or somebody who may, ended it.
    Aborted,
    /// An engine refused it.
    Rejected,
    /// The gateway turned it away.
    Busy,
    /// Its replica failed, or there was none.
    Failed,
    /// The server ends.
    ShuttingDown,
}

impl End {
    /// Whether the client has its answer.
    pub(super) fn is_answer(self) -> bool {
        matches!(self, Self::Stop | Self::Length)
    }

    /// Why it ended, as OpenAI's API says it.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            _ => "abort",
        }
    }
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// The request, once the cluster has it.
    pub(super) id: Option<RequestId>,
    /// Tokens that are due.
    pub(super) tokens: u32,
    /// When the latest was.
    pub(super) due: Instant,
    /// Prompt tokens found in a cache.
    pub(super) cached_tokens: u32,
    pub(super) end: Option<End>,
}

/// An answer, shared by the driver and the task of its client.
#[derive(Debug)]
pub(super) struct Answer {
    progress: Mutex<Progress>,
    changed: Notify,
}

impl Answer {
    pub(super) fn new() -> Arc<Self> {
        let progress = Progress { id: None, tokens: 0, due: wall(), cached_tokens: 0, end: None };
        Arc::new(Self { progress: Mutex::new(progress), changed: Notify::new() })
    }

    pub(super) fn progress(&self) -> Progress {
        *self.lock()
    }

    /// The driver changes it and wakes who waits for that.
    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }

    /// Waits until there are more than `seen` tokens, or its end.
    pub(super) async fn beyond(&self, seen: u32) -> Progress {
        loop {
            let progress = self.progress();
            if progress.tokens > seen || progress.end.is_some() {
                return progress;
            }
            self.changed.notified().await;
        }
    }

    /// Waits for its end.
    pub(super) async fn end(&self) -> Progress {
        self.beyond(u32::MAX).await
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

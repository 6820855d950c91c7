//! The answer to a request as it comes into being: written by the driver, read by the task of its client.
//!
//! However slow a client reads, what waits for it is a number of tokens: their text is made when it is sent.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Instant;

use futures_util::task::AtomicWaker;
use tokio::sync::OwnedSemaphorePermit;

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
    /// The task of its client: no other waits for it.
    client: AtomicWaker,
}

impl Answer {
    pub(super) fn new() -> Arc<Self> {
        let progress = Progress { id: None, tokens: 0, due: wall(), cached_tokens: 0, end: None };
        Arc::new(Self { progress: Mutex::new(progress), client: AtomicWaker::new() })
    }

    pub(super) fn progress(&self) -> Progress {
        *self.lock()
    }

    /// The driver changes it and wakes who waits for that.
    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
        self.client.wake();
    }

    /// Waits until there are more than `seen` tokens, or its end.
    pub(super) async fn beyond(&self, seen: u32) -> Progress {
        poll_fn(|context| {
            // Registered first, so that no change after the look at it is missed.
            self.client.register(context.waker());
            let progress = self.progress();
            let is_new = progress.tokens > seen || progress.end.is_some();
            if is_new { Poll::Ready(progress) } else { Poll::Pending }
        })
        .await
    }

    /// Waits for its end.
    pub(super) async fn end(&self) -> Progress {
        self.beyond(u32::MAX).await
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that the cluster owes its client. When it is dropped without an end, however that comes about, its
/// client hears that the server ends.
#[derive(Debug)]
pub(super) struct Owed {
    answer: Arc<Answer>,
    /// What its request takes of the server's bounds.
    place: Option<Arc<Place>>,
}

impl Owed {
    pub(super) fn new(answer: Arc<Answer>, place: Arc<Place>) -> Self {
        Self { answer, place: Some(place) }
    }

    /// An answer that nobody waits for.
    pub(super) fn to_nobody() -> Self {
        Self { answer: Answer::new(), place: None }
    }

    /// Whether it is owed to the client with this answer.
    pub(super) fn is_of(&self, answer: &Answer) -> bool {
        std::ptr::eq(&raw const *self.answer, answer)
    }

    pub(super) fn progress(&self) -> Progress {
        self.answer.progress()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        self.answer.change(change);
    }

    /// Ends it.
    pub(super) fn end(self, end: End) {
        self.end_with(end, |_| {});
    }

    /// Ends it, with what else is told at its end.
    pub(super) fn end_with(mut self, end: End, tell: impl FnOnce(&mut Progress)) {
        // A client that sends the next request at once finds the place free.
        self.place = None;
        self.answer.change(|progress| {
            tell(progress);
            progress.end.get_or_insert(end);
        });
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.place = None;
        if self.answer.progress().end.is_none() {
            self.answer.change(|progress| {
                progress.end.get_or_insert(End::ShuttingDown);
            });
        }
    }
}

/// What a request takes of the server's bounds until neither its client nor the cluster has it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) _request: OwnedSemaphorePermit,
    pub(super) _prompt: OwnedSemaphorePermit,
}

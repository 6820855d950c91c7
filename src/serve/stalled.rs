//! Responses that nobody reads, on connections that live on: HTTP/2 lets a client hold back one response, or all of
//! them, for as long as it answers pings.
//!
//! A body of which a part is there and is not asked for, for too long, is dropped, with the request that it answers.
//! A connection all of whose bodies stand still is closed. HTTP/1 needs none of it: what is written there must be read
//! within a time.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use futures_util::task::AtomicWaker;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::clock::wall;

/// Bytes of a body that are given out at once: what has been given out stays in memory until it is read.
const PART: usize = 16 << 10;

/// A connection, as its responses see it.
#[derive(Debug)]
pub(super) struct Line {
    began: Instant,
    /// Nanoseconds since then when something of a response was last asked for.
    moved: AtomicU64,
    closes: Notify,
}

impl Line {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { began: wall(), moved: AtomicU64::new(0), closes: Notify::new() })
    }

    /// Waits until all of its responses stand still.
    pub(super) async fn stalled(&self) {
        self.closes.notified().await;
    }

    /// Nanoseconds since it began, at least 1.
    fn now(&self) -> u64 {
        (self.began.elapsed().as_nanos() as u64).max(1)
    }
}

/// A body that is dropped when nobody asks for what there is of it.
#[derive(Debug)]
pub(super) struct Watched {
    shared: Arc<Shared>,
    waker: Waker,
    watch: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    line: Arc<Line>,
    state: Mutex<State>,
    /// Since when there is something that was not asked for; 0 where there is not. A body may have something before it is
    /// asked for the first time.
    waits: AtomicU64,
    asks: AtomicWaker,
}

#[derive(Debug)]
enum State {
    /// What is left of a part, and what comes after it.
    Open(Bytes, Body),
    Over,
    Dropped,
}

impl Watched {
    /// Watches a body, of which something must be asked for within so long.
    pub(super) fn new(body: Body, line: Arc<Line>, patience: Duration) -> Self {
        let shared = Arc::new(Shared {
            waits: AtomicU64::new(line.now()),
            line,
            state: Mutex::new(State::Open(Bytes::new(), body)),
            asks: AtomicWaker::new(),
        });
        let watch = tokio::spawn(watch(shared.clone(), patience)).abort_handle();
        Self { waker: Waker::from(shared.clone()), shared, watch }
    }
}

async fn watch(shared: Arc<Shared>, patience: Duration) {
    let most = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    loop {
        let (since, now) = (shared.waits.load(Ordering::Acquire), shared.line.now());
        let waited = if since == 0 { 0 } else { now.saturating_sub(since) };
        if waited < most {
            tokio::time::sleep(Duration::from_nanos(most - waited)).await;
            continue;
        }
        *shared.lock() = State::Dropped;
        if now.saturating_sub(shared.line.moved.load(Ordering::Acquire)) >= most {
            shared.line.closes.notify_one();
        }
        return;
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now = self.line.now();
        // It waits since the first of several times.
        let _earlier = self.waits.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        self.asks.wake();
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let shared = &self.shared;
        shared.asks.register(context.waker());
        let mut state = shared.lock();
        let (left, body) = match &mut *state {
            State::Open(left, body) => (left, body),
            State::Over => return Poll::Ready(None),
            State::Dropped => {
                let error = io::Error::new(io::ErrorKind::TimedOut, "nobody reads the response");
                return Poll::Ready(Some(Err(axum::Error::new(error))));
            }
        };
        // What wakes it from here on has come after it was asked for.
        shared.waits.store(0, Ordering::Release);
        if left.is_empty() {
            let frame = Pin::new(body).poll_frame(&mut Context::from_waker(&self.waker));
            match frame {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => *left = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                Poll::Ready(end) => {
                    *state = State::Over;
                    return Poll::Ready(end);
                }
            }
        }
        let part = if left.len() <= PART {
            std::mem::take(left)
        } else {
            // A part of its own: one that is cut out keeps the whole in memory.
            Bytes::copy_from_slice(&left.split_to(PART))
        };
        drop(state);
        let now = shared.line.now();
        shared.waits.store(now, Ordering::Release);
        shared.line.moved.store(now, Ordering::Release);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        match &*self.shared.lock() {
            State::Open(left, body) => left.is_empty() && body.is_end_stream(),
            State::Over => true,
            State::Dropped => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &*self.shared.lock() {
            State::Open(left, body) if left.is_empty() => body.size_hint(),
            State::Over => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.abort();
        // What wakes a body is held by it.
        *self.shared.lock() = State::Over;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream::{self, StreamExt};
    use http_body_util::BodyExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    /// A body that tells when it is dropped.
    fn body(chunks: Vec<&'static [u8]>, ends: bool) -> (Body, Arc<()>) {
        let held = Arc::new(());
        let with = held.clone();
        let chunks = stream::iter(chunks.into_iter().map(Ok::<_, io::Error>));
        let rest = if ends { stream::empty().boxed() } else { stream::pending().boxed() };
        let stream = chunks.chain(rest).map(move |chunk| {
            std::hint::black_box(&with);
            chunk
        });
        (Body::from_stream(stream), held)
    }

    #[test]
    fn a_body_that_nobody_asks_for_is_dropped_with_its_connection() {
        runtime().block_on(async {
            let (body, held) = body(vec![b"a"], true);
            let line = Line::new();
            let mut watched = Watched::new(body, line.clone(), PATIENCE);
            tokio::time::timeout(10 * PATIENCE, line.stalled()).await.expect("it is closed");
            assert_eq!(Arc::strong_count(&held), 1);
            assert!(
                watched.frame().await.expect("a frame").is_err(),
                "it is no answer that is over"
            );
        });
    }

    #[test]
    fn a_body_of_which_the_rest_is_not_asked_for_is_dropped_and_others_live_on() {
        runtime().block_on(async {
            let line = Line::new();
            let (stands, held) = body(vec![b"a", b"b"], true);
            let mut stands = Watched::new(stands, line.clone(), PATIENCE);
            let first = stands.frame().await.expect("a frame").expect("data").into_data();
            assert_eq!(first.expect("data"), "a");
            for _ in 0..8 {
                let (moves, _) = body(vec![b"x"], true);
                let moves = Watched::new(moves, line.clone(), PATIENCE);
                assert_eq!(moves.collect().await.expect("all of it").to_bytes(), "x");
                tokio::time::sleep(PATIENCE / 4).await;
            }
            assert_eq!(Arc::strong_count(&held), 1);
            let closes = tokio::time::timeout(PATIENCE / 4, line.stalled()).await;
            assert!(closes.is_err(), "another one moves");
        });
    }

    #[test]
    fn a_body_that_has_nothing_yet_is_waited_for() {
        runtime().block_on(async {
            let (body, held) = body(vec![b"a"], false);
            let mut watched = Watched::new(body, Line::new(), PATIENCE);
            watched.frame().await.expect("a frame").expect("data");
            let more = tokio::time::timeout(4 * PATIENCE, watched.frame()).await;
            assert!(more.is_err(), "nothing comes");
            assert_eq!(Arc::strong_count(&held), 2);
            drop(watched);
            assert_eq!(Arc::strong_count(&held), 1, "who hangs up is not waited for");
        });
    }

    #[test]
    fn large_parts_come_in_small_ones() {
        runtime().block_on(async {
            let all: Vec<u8> = (0..PART * 2 + 5).map(|byte| byte as u8).collect();
            let mut watched = Watched::new(Body::from(all.clone()), Line::new(), PATIENCE);
            assert_eq!(watched.size_hint().exact(), Some(all.len() as u64));
            let mut read = Vec::new();
            while let Some(frame) = watched.frame().await {
                let data = frame.expect("no error").into_data().expect("data");
                assert!(data.len() <= PART);
                read.extend_from_slice(&data);
            }
            assert_eq!(read, all);
            assert!(watched.is_end_stream());
        });
    }
}

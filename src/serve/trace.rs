//! What was asked, as a trace: `servecast run` can send it again.
//!
//! A row is written when its request is over and all before it are, by a thread of its own, so that a slow disk
//! delays no token. Rows that wait are bounded: a trace that cannot keep up ends, and nothing of it is left behind.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::ids::RequestId;
use crate::io::traces::{self, TraceError, TraceFormat, WriteOptions};
use crate::kv::{BlockHash, ChainHasher, Lookahead};
use crate::request::Request;
use crate::workload::TraceRow;

/// Bytes of rows that wait at most, for requests before them or for the disk.
const MOST_BYTES: usize = 512 << 20;

type Row = Result<TraceRow, TraceError>;

/// Requests that are not over, and those behind them.
#[derive(Debug)]
pub(super) struct TraceLog {
    path: PathBuf,
    rows: VecDeque<(RequestId, TraceRow, bool)>,
    block_tokens: u32,
    names: Vec<String>,
    classes: Vec<String>,
    /// Nothing where the trace has failed.
    sender: Option<mpsc::Sender<Row>>,
    writer: Option<JoinHandle<Result<(), TraceError>>>,
    /// Bytes of rows that are not written.
    waiting: Arc<AtomicUsize>,
    most_bytes: usize,
    failed: Option<TraceError>,
    hear: fn(&str),
}

impl TraceLog {
    /// A trace in this file. Prompts are told apart by blocks of so many tokens, adapters and classes
    /// by these names. `hear` is told when it fails.
    pub(super) fn create(
        path: &Path,
        block_tokens: u32,
        (names, classes): (Vec<String>, Vec<String>),
        hear: fn(&str),
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Row>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = std::thread::Builder::new().name("trace".to_owned()).spawn({
            let (path, waiting) = (PathBuf::from(path), waiting.clone());
            move || {
                let rows = receiver.into_iter().inspect(|row| {
                    if let Ok(row) = row {
                        waiting.fetch_sub(bytes(row), Ordering::Relaxed);
                    }
                });
                let options = WriteOptions::default();
                traces::write(&path, TraceFormat::Jsonl, rows, &options).map(|_| ())
            }
        })?;
        Ok(Self {
            path: PathBuf::from(path),
            rows: VecDeque::new(),
            block_tokens,
            names,
            classes,
            sender: Some(sender),
            writer: Some(writer),
            waiting,
            most_bytes: MOST_BYTES,
            failed: None,
            hear,
        })
    }

    /// A request comes.
    pub(super) fn begin(&mut self, id: RequestId, request: &Request) {
        if self.sender.is_none() {
            return;
        }
        let (tokens, block) = (request.prompt_tokens, self.block_tokens);
        let mut names = Vec::new();
        let full = tokens / block * block;
        ChainHasher::new(id, &request.content, tokens, None, block, Lookahead::None)
            .extend(full, &mut names);
        let adapter = request.adapter.and_then(|adapter| self.names.get(adapter.index()));
        let class = self.classes.get(usize::from(request.class.0));
        let row = TraceRow {
            arrival: Some(request.arrival),
            prompt_tokens: tokens,
            output_tokens: 1,
            hash_ids: names.into_iter().map(BlockHash::number).collect(),
            hash_block_tokens: block,
            class: class.map(|name| name.as_str().into()),
            adapter: adapter.map(|name| name.as_str().into()),
            session: request.session.map(|session| session.0.into()),
        };
        let before = self.waiting.fetch_add(bytes(&row), Ordering::Relaxed);
        if before + bytes(&row) > self.most_bytes {
            let problem = format!(
                "more than {} MiB of requests wait to be written: one of them lasts too long, or the disk is too slow",
                self.most_bytes >> 20
            );
            return self.fail(Some(self.unusable(problem)));
        }
        self.rows.push_back((id, row, false));
    }

    /// It is over, after so many tokens. One without any is sent for one, since a trace has answers.
    pub(super) fn end(&mut self, id: RequestId, tokens: u32) {
        if let Ok(place) = self.rows.binary_search_by_key(&id, |(id, ..)| *id) {
            let (_, row, is_over) = &mut self.rows[place];
            (row.output_tokens, *is_over) = (tokens.max(1), true);
        }
        let is_over = |row: &(RequestId, TraceRow, bool)| row.2;
        while self.rows.front().is_some_and(is_over) {
            let Some((_, row, _)) = self.rows.pop_front() else { return };
            let is_gone = self.sender.as_ref().is_some_and(|sender| sender.send(Ok(row)).is_err());
            if is_gone {
                return self.fail(None);
            }
        }
    }

    /// No more come: what was under way counts as far as it came.
    ///
    /// # Errors
    /// Why there is no trace.
    pub(super) fn finish(mut self) -> Result<(), TraceError> {
        if let (Some(sender), rows) = (self.sender.take(), std::mem::take(&mut self.rows)) {
            for (_, row, _) in rows {
                // A writer that failed says so below.
                drop(sender.send(Ok(row)));
            }
        }
        let written = self.join();
        self.failed.take().map_or(written, Err)
    }

    /// There will be no trace, for this reason or that of the writer.
    fn fail(&mut self, why: Option<TraceError>) {
        self.rows = VecDeque::new();
        if let (Some(sender), Some(why)) = (self.sender.take(), why) {
            // The writer may be slow: nobody waits for it now.
            drop(sender.send(Err(self.unusable("it was given up".to_owned()))));
            self.failed = Some(why);
        } else {
            self.failed = self.join().err();
        }
        let why = self.failed.as_ref().map(ToString::to_string).unwrap_or_default();
        (self.hear)(&format!("warning: requests are no longer recorded: {why}"));
    }

    fn join(&mut self) -> Result<(), TraceError> {
        let written = self.writer.take().map_or(Ok(Ok(())), JoinHandle::join);
        written.unwrap_or_else(|_| Err(self.unusable("its writer has panicked".to_owned())))
    }

    fn unusable(&self, problem: String) -> TraceError {
        TraceError::Unusable { file: self.path.display().to_string(), problem }
    }
}

/// About what a row takes while it waits.
fn bytes(row: &TraceRow) -> usize {
    size_of::<(RequestId, TraceRow, bool)>() + size_of_val(row.hash_ids.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SimTime;

    fn ask(log: &mut TraceLog, id: u32) {
        log.begin(RequestId(id), &Request::new(SimTime::ZERO, 160, 5));
    }

    fn log(path: &Path) -> TraceLog {
        TraceLog::create(path, 16, Default::default(), |_| {}).expect("a thread")
    }

    #[test]
    fn rows_come_in_the_order_of_their_requests() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.jsonl");
        let mut log = log(&path);
        (0..3).for_each(|id| ask(&mut log, id));
        log.end(RequestId(2), 7);
        log.end(RequestId(0), 5);
        log.finish().expect("it is written");
        let text = std::fs::read_to_string(path).expect("it is there");
        let tokens = text.lines().map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
            row["output_tokens"].clone()
        });
        assert_eq!(tokens.collect::<Vec<_>>(), [5, 1, 7], "{text}");
    }

    #[test]
    fn a_trace_that_cannot_be_written_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = log(&folder.path().join("missing/trace.jsonl"));
        for id in 0..1000 {
            ask(&mut log, id);
            log.end(RequestId(id), 1);
            std::thread::sleep(std::time::Duration::from_millis(1));
            if log.sender.is_none() {
                break;
            }
        }
        assert!(log.sender.is_none(), "it is noticed before the end");
        assert!(matches!(log.finish(), Err(TraceError::Unwritable { .. } | TraceError::Target(_))));
    }

    #[test]
    fn a_trace_that_holds_too_much_is_given_up_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.jsonl");
        let mut log = log(&path);
        log.most_bytes = 1 << 20;
        (0..100_000).for_each(|id| ask(&mut log, id));
        assert!(log.rows.is_empty());
        let problem = log.finish().expect_err("it has failed").to_string();
        assert!(problem.contains("more than 1 MiB of requests wait"), "{problem}");
        assert!(!path.exists());
    }
}

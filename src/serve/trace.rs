//! What was asked, as a trace: `servecast run` can send it again.
//!
//! A row is written when its request is over and all before it are, by a thread of its own, so that a slow disk
//! delays no token.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::ids::RequestId;
use crate::io::traces::{self, TraceError, TraceFormat, WriteOptions};
use crate::kv::{BlockHash, ChainHasher, Lookahead};
use crate::request::Request;
use crate::workload::TraceRow;

/// Requests that are not over, and those behind them.
#[derive(Debug)]
pub(super) struct TraceLog {
    rows: VecDeque<(RequestId, TraceRow, bool)>,
    block_tokens: u32,
    names: Vec<String>,
    classes: Vec<String>,
    sender: mpsc::Sender<TraceRow>,
    writer: JoinHandle<Result<(), TraceError>>,
}

impl TraceLog {
    /// A trace in this file. Prompts are told apart by blocks of so many tokens, adapters and classes by these names.
    pub(super) fn create(
        path: &Path,
        block_tokens: u32,
        names: Vec<String>,
        classes: Vec<String>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let path = PathBuf::from(path);
        let writer = std::thread::Builder::new().name("trace".to_owned()).spawn(move || {
            let rows = receiver.into_iter().map(Ok::<_, TraceError>);
            let options = WriteOptions::default();
            traces::write(&path, TraceFormat::Jsonl, rows, &options).map(|_| ())
        })?;
        Ok(Self { rows: VecDeque::new(), block_tokens, names, classes, sender, writer })
    }

    /// A request comes.
    pub(super) fn begin(&mut self, id: RequestId, request: &Request) {
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
            // A writer that failed says so at the end.
            drop(self.rows.pop_front().map(|(_, row, _)| self.sender.send(row)));
        }
    }

    /// No more come: what was under way counts as far as it came.
    pub(super) fn finish(self) -> Result<(), TraceError> {
        for (_, row, _) in self.rows {
            drop(self.sender.send(row));
        }
        drop(self.sender);
        self.writer.join().unwrap_or(Ok(()))
    }
}

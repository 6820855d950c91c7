//! Rows of a trace as drafts of requests: lengths, prefix identity, sessions.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ids::SessionId;
use crate::request::Segment;
use crate::scenario::CopyContent;
use crate::workload::draft::AdapterName;
use crate::workload::draft::Draft;
use crate::workload::draft::Tokens;
use crate::workload::trace::TraceRow;
use crate::workload::trace::WorkloadError;

/// The rows of a trace in recorded order.
pub type TraceRows = Box<dyn Iterator<Item = Result<TraceRow, WorkloadError>> + Send>;

/// What to say of a trace no row of which asks for anything.
pub(super) const NOTHING: &str = "none of its rows has prompt tokens and output tokens";

/// Room for the number of a copy beside that of its row.
const COPY_BITS: u32 = 24;

/// Reads rows; counts those that ask for nothing.
pub(super) struct Rows {
    source: TraceRows,
    /// Rows read so far, for messages.
    number: u64,
    /// Rows without prompt or answer tokens (failures, in some traces).
    pub empty: u64,
    /// Sessions of the trace and of its copies, numbered as they appear: 16 bytes for each.
    sessions: FxHashMap<(u64, u32), SessionId>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Rows {
    /// Starts to read.
    ///
    /// # Errors
    /// When there is no trace, or no row in it.
    pub(super) fn open(rows: Option<TraceRows>) -> Result<Self, WorkloadError> {
        let unusable = |what: &str| Err(WorkloadError::Unusable(what.into()));
        let Some(mut rows) = rows else {
            return unusable("the workload replays a trace, but no trace was given");
        };
        let Some(first) = rows.next() else {
            return unusable("the trace is empty: it must have at least one row");
        };
        let rows: TraceRows = Box::new(std::iter::once(first).chain(rows));
        Ok(Self { source: rows, number: 0, empty: 0, sessions: FxHashMap::default() })
    }

    /// The next row that has a prompt and an answer.
    pub(super) fn next_row(&mut self) -> Option<Result<TraceRow, WorkloadError>> {
        loop {
            self.number += 1;
            let row = self.source.next()?;
            match row {
                Ok(row) if row.prompt_tokens == 0 || row.output_tokens == 0 => self.empty += 1,
                row => return Some(row),
            }
        }
    }

    /// The next row as a draft of the only copy.
    pub(super) fn next_draft(&mut self) -> Option<Result<Draft, WorkloadError>> {
        self.next_row().map(|row| row.and_then(|row| self.draft(&row, 0, CopyContent::Fresh)))
    }

    /// What one copy of a row asks for; its arrival is set by whoever plays it.
    pub(super) fn draft(
        &mut self,
        row: &TraceRow,
        copy: u32,
        content: CopyContent,
    ) -> Result<Draft, WorkloadError> {
        let of_content = if content == CopyContent::Fresh { copy } else { 0 };
        let session = row.session.map(|session| {
            let next = SessionId::from_index(self.sessions.len());
            *self.sessions.entry((session, copy)).or_insert(next)
        });
        let segments = self.segments(row, of_content)?;
        let adapter = row.adapter.clone().map(AdapterName::Text);
        let lengths = Draft::of_lengths(row.prompt_tokens, row.output_tokens);
        Ok(Draft { segments, session, adapter, class: row.class.clone(), ..lengths })
    }

    /// One segment for each hash id, the last one as long as what is left of the prompt. Where ids
    /// name full blocks only, the request shares the rest with nobody.
    fn segments(&self, row: &TraceRow, copy: u32) -> Result<Option<Arc<[Segment]>>, WorkloadError> {
        if row.hash_ids.is_empty() {
            return Ok(None);
        }
        let (full, blocks) = match row.hash_block_tokens {
            0 => (0, 0),
            block => (row.prompt_tokens / block, row.prompt_tokens.div_ceil(block)),
        };
        if ![full, blocks].contains(&(row.hash_ids.len() as u32)) {
            return Err(WorkloadError::trace(format!(
                "row {}: a prompt of {} tokens has {blocks} blocks of {} tokens, but \
                 {} hash ids are given",
                self.number,
                row.prompt_tokens,
                row.hash_block_tokens,
                row.hash_ids.len(),
            )));
        }
        let mut left = row.prompt_tokens;
        let segment = |&hash: &u64| {
            let len = left.min(row.hash_block_tokens);
            left -= len;
            Tokens::Recorded { hash, copy }.segment(0, len)
        };
        let mut segments: Vec<Segment> = row.hash_ids.iter().map(segment).collect();
        if left > 0 {
            let own = self.number << COPY_BITS | u64::from(copy);
            segments.push(Tokens::Body(own).segment(0, left));
        }
        Ok(Some(segments.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ids_of_full_blocks_leave_of_a_prompt_is_shared_with_nobody() {
        let row = TraceRow {
            prompt_tokens: 21,
            output_tokens: 1,
            hash_ids: vec![7],
            hash_block_tokens: 16,
            ..TraceRow::default()
        };
        let source: TraceRows = Box::new([row.clone(), row].into_iter().map(Ok));
        let mut rows = Rows::open(Some(source)).expect("two rows");
        let mut next = || rows.next_draft().expect("a row").expect("a good row");
        let [first, second] = [next(), next()].map(|draft| draft.segments.expect("it has ids"));
        let lens: Vec<u32> = first.iter().map(|segment| segment.len).collect();
        assert_eq!(lens, [16, 5]);
        assert_eq!(first[0], second[0]);
        assert_ne!(first[1].stream, second[1].stream);
    }
}

//! Prompt content as hash ids: one for each block of tokens, equal exactly where everything up to
//! the end of the block is equal, numbered as they appear.

use rustc_hash::FxHashMap;

use super::format::TraceFormat;
use crate::ids::RequestId;
use crate::kv::{BlockHash, ChainHasher, Lookahead};
use crate::request::Request;
use crate::workload::TraceRow;

/// Which prompts get ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Those whose content is known to be shared or not.
    OfSharing,
    /// All; a prompt that shares nothing gets ids of its own.
    OfAll,
}

/// Names blocks by number.
#[derive(Debug)]
pub(crate) struct Identity {
    block_tokens: u32,
    ids: Ids,
    known: FxHashMap<(BlockHash, u32), u64>,
    requests: usize,
}

impl Ids {
    /// Those that a format has to have.
    pub(crate) fn of(format: TraceFormat) -> Self {
        if format == TraceFormat::Mooncake { Self::OfAll } else { Self::OfSharing }
    }
}

impl Identity {
    pub(crate) fn new(block_tokens: u32, ids: Ids) -> Self {
        Self { block_tokens, ids, known: FxHashMap::default(), requests: 0 }
    }

    /// The row of a trace that a request would leave.
    pub(crate) fn row(&mut self, request: &Request) -> TraceRow {
        let id = RequestId::from_index(self.requests);
        self.requests += 1;
        let has_ids = self.ids == Ids::OfAll || request.content.segments.is_some();
        TraceRow {
            arrival: Some(request.arrival),
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens,
            hash_ids: if has_ids { self.hash_ids(id, request) } else { Vec::new() },
            hash_block_tokens: if has_ids { self.block_tokens } else { 0 },
            class: None,
            adapter: None,
            session: request.session.map(|session| u64::from(session.0)),
        }
    }

    fn hash_ids(&mut self, id: RequestId, request: &Request) -> Vec<u64> {
        let (tokens, block) = (request.prompt_tokens, self.block_tokens);
        let names = |block_size: u32| {
            let (content, ahead) = (&request.content, Lookahead::None);
            let mut names = Vec::new();
            ChainHasher::new(id, content, tokens, None, block_size, ahead)
                .extend(tokens, &mut names);
            names
        };
        let mut blocks: Vec<(BlockHash, u32)> =
            names(block).into_iter().map(|name| (name, block)).collect();
        // The last, partial block: the whole prompt as one block.
        if tokens % block > 0 {
            blocks.extend(names(tokens).into_iter().map(|name| (name, tokens % block)));
        }
        let number = |key| {
            let next = self.known.len() as u64;
            *self.known.entry(key).or_insert(next)
        };
        blocks.into_iter().map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Content, Segment};
    use crate::units::SimTime;

    fn request(segments: &[(u64, u32)]) -> Request {
        let segments: Vec<Segment> =
            segments.iter().map(|&(stream, len)| Segment { stream, start: 0, len }).collect();
        let tokens = segments.iter().map(|segment| segment.len).sum();
        let content = Content { segments: Some(segments.into()), ..Content::default() };
        Request { content, ..Request::new(SimTime::ZERO, tokens, 1) }
    }

    #[test]
    fn blocks_are_equal_where_everything_up_to_their_end_is() {
        let mut identity = Identity::new(4, Ids::OfSharing);
        // 9 tokens: two blocks and one token more; the second prompt shares the first 8.
        let ids = |row: TraceRow| row.hash_ids;
        assert_eq!(ids(identity.row(&request(&[(1, 8), (2, 1)]))), [0, 1, 2]);
        assert_eq!(ids(identity.row(&request(&[(1, 8), (3, 1)]))), [0, 1, 3]);
        assert_eq!(ids(identity.row(&request(&[(1, 8), (2, 1)]))), [0, 1, 2]);
        assert_eq!(ids(identity.row(&request(&[(4, 4), (1, 8)]))).len(), 3);
    }

    #[test]
    fn prompts_that_share_nothing_have_ids_only_where_all_must_have_some() {
        let plain = Request::new(SimTime::ZERO, 9, 1);
        assert!(Identity::new(4, Ids::OfSharing).row(&plain).hash_ids.is_empty());
        let mut identity = Identity::new(4, Ids::OfAll);
        assert_eq!(identity.row(&plain).hash_ids, [0, 1, 2]);
        assert_eq!(identity.row(&plain).hash_ids, [3, 4, 5]);
    }
}

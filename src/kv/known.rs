//! What a cache holds of a prompt, asked from outside: no access, nothing changes by it.

use super::{
    BlockHash, BlockTable, ChainHasher, Hits, HybridTree, KvPool, Lookahead, RadixTree, TreeKeys,
};
use crate::request::{RequestView, Segment};

/// A cache as it was at a moment.
#[derive(Debug, Clone, Default)]
pub enum CacheContent {
    /// Nothing is ever found.
    #[default]
    Nothing,
    /// vLLM's.
    Blocks {
        /// The blocks.
        pool: Box<KvPool>,
        /// Tokens of a block.
        block_size: u32,
        /// How blocks are named.
        naming: Lookahead,
    },
    /// SGLang's.
    Tree(Box<RadixTree>),
    /// SGLang's, of a hybrid model.
    Hybrid(Box<HybridTree>),
}

impl CacheContent {
    /// How many tokens of a prompt are found in it.
    pub fn cached_tokens(&self, request: RequestView<'_>) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Blocks { pool, block_size, naming } => {
                pool.cached_tokens(*block_size, *naming, request)
            }
            Self::Tree(tree) => tree.cached_tokens(request),
            Self::Hybrid(tree) => tree.cached_tokens(request),
        }
    }
}

impl KvPool {
    /// How many tokens of a prompt are cached, in whole blocks; at least one token is always computed.
    pub fn cached_tokens(
        &self,
        block_size: u32,
        naming: Lookahead,
        request: RequestView<'_>,
    ) -> u32 {
        let (id, tokens) = (request.id, request.prompt_tokens);
        if request.content.segments.is_none() {
            return 0;
        }
        let (content, adapter) = (request.content, request.adapter);
        let hasher = ChainHasher::new(id, content, tokens, adapter, block_size, naming);
        let mut table = BlockTable::new(hasher, false);
        let mut hits = Hits::default();
        self.find(&mut table, tokens, tokens.saturating_sub(1) / block_size, &mut hits);
        hits.tokens
    }
}

impl RadixTree {
    /// How many tokens of a prompt are cached, in whole pages; at least one token is always computed.
    pub fn cached_tokens(&self, request: RequestView<'_>) -> u32 {
        let lookup = Lookup::new(request, self.keys());
        lookup.map_or(0, |Lookup { namespace, sequence, keys }| {
            self.matched(namespace, &sequence, keys)
        })
    }
}

impl HybridTree {
    /// How many tokens of a prompt need not be computed, in whole pages; at least one token always is.
    pub fn cached_tokens(&self, request: RequestView<'_>) -> u32 {
        let lookup = Lookup::new(request, self.keys());
        lookup.map_or(0, |Lookup { namespace, sequence, keys }| {
            self.matched(namespace, &sequence, keys)
        })
    }
}

/// A prompt as a tree is asked for it.
struct Lookup {
    namespace: u64,
    sequence: Vec<Segment>,
    keys: u32,
}

impl Lookup {
    fn new(request: RequestView<'_>, keys: TreeKeys) -> Option<Self> {
        let segments = request.content.segments.as_deref()?;
        let mut joined: Vec<Segment> = Vec::with_capacity(segments.len());
        for &run in segments {
            match joined.last_mut() {
                Some(last) if last.is_continued_by(&run) => {
                    last.len += run.len;
                }
                _ if run.len > 0 => joined.push(run),
                _ => {}
            }
        }
        let namespace = BlockHash::namespace(request.content.salt, request.adapter).number();
        let limit = keys.count(request.prompt_tokens.saturating_sub(1));
        Some(Self { namespace, sequence: keys.of(joined), keys: limit })
    }
}

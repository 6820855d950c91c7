//! What the positions of a tree of prefixes stand for.

use crate::request::Segment;
use crate::rng::mix;

/// The keys of a tree (SGLang 0.5.23, `sglang/srt/mem_cache/radix_cache.py`, `RadixKey`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TreeKeys {
    /// Tokens.
    #[default]
    Tokens,
    /// Each token with the one behind it, because the KV that EAGLE drafts from needs both: n tokens have n − 1.
    Bigrams,
}

impl TreeKeys {
    /// How many keys so many tokens have.
    pub const fn count(self, tokens: u32) -> u32 {
        match self {
            Self::Tokens => tokens,
            Self::Bigrams => tokens.saturating_sub(1),
        }
    }

    /// The keys of a sequence. Its segments must be joined; so are those of the keys.
    ///
    /// The pairs within a segment are known by their first token. One across two segments is a stream of its own.
    pub fn of(self, tokens: Vec<Segment>) -> Vec<Segment> {
        if self == Self::Tokens {
            return tokens;
        }
        let mut keys = Vec::with_capacity(2 * tokens.len());
        for (index, run) in tokens.iter().enumerate() {
            if run.len > 1 {
                keys.push(Segment { len: run.len - 1, ..*run });
            }
            if let Some(next) = tokens.get(index + 1) {
                let last = u64::from(run.start + run.len - 1);
                let first = mix(run.stream) ^ last;
                let second = mix(next.stream) ^ u64::from(next.start);
                keys.push(Segment { stream: mix(mix(first) ^ second), start: 0, len: 1 });
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stream: u64, start: u32, len: u32) -> Segment {
        Segment { stream, start, len }
    }

    #[test]
    fn a_pair_is_known_by_both_its_tokens() {
        let keys = TreeKeys::Bigrams.of(vec![run(1, 0, 3), run(2, 5, 1), run(1, 0, 2)]);
        assert_eq!(keys.iter().map(|key| key.len).collect::<Vec<_>>(), [2, 1, 1, 1]);
        assert_eq!((keys[0], keys[3]), (run(1, 0, 2), run(1, 0, 1)));
        assert_ne!(keys[1].stream, keys[2].stream);
        let other = TreeKeys::Bigrams.of(vec![run(1, 0, 3), run(2, 6, 1)]);
        assert_eq!(keys[0], other[0]);
        assert_ne!(keys[1], other[1]);
        assert_eq!((TreeKeys::Bigrams.count(6), TreeKeys::Tokens.count(6)), (5, 6));
    }
}

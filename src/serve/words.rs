//! Text as tokens, and tokens as text.
//!
//! With a `tokenizer.json` prompts are cut as its model cuts them, and answers are words that are one token each.
//! The rule without one: so many bytes are a token, counted from the begin of each text on, and answers are
//! words of as many bytes.

use std::ops::Range;
use std::path::Path;

use tokenizers::Tokenizer;

use crate::rng::mix;

/// What the words of answers are made of, where there is no tokenizer.
const SOUNDS: &str = "bdfgklmnprstv";
const VOWELS: &str = "aeiou";

/// Words of a tokenizer that answers are made of: no more are needed, and no fewer will do.
const WORDS: Range<usize> = 16..512;
/// Words from which those are chosen.
const CANDIDATES: usize = 2048;
/// Texts of this many bytes and more are cut where they keep nobody waiting.
const LONG: usize = 4096;

/// What texts are made of.
#[derive(Debug)]
pub(super) struct Words {
    rule: Rule,
    list: Vec<(String, u32)>,
    /// Bytes of the longest token.
    longest: usize,
}

#[derive(Debug)]
enum Rule {
    Bytes(usize),
    Tokenizer(Box<Tokenizer>),
}

/// Why a tokenizer is of no use.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// It cannot be read.
    #[error("not a tokenizer: {0}")]
    Unreadable(String),
    /// It has no words that stay what they are beside others.
    #[error("it has no words that are one token each, of which answers could be made")]
    Wordless,
}

impl Words {
    /// Tokens of so many bytes, 1 to 4.
    pub(super) fn of_bytes(bytes_per_token: usize) -> Self {
        let words: Vec<String> = match bytes_per_token {
            0 | 1 => ('a'..='z').map(String::from).collect(),
            len => {
                // A space, vowels and consonants in turn.
                let all = SOUNDS.chars().flat_map(|first| {
                    VOWELS.chars().flat_map(move |vowel| {
                        SOUNDS.chars().map(move |last| [' ', first, vowel, last])
                    })
                });
                all.map(|word| word[..len.min(4)].iter().collect()).collect()
            }
        };
        let words = words.into_iter().map(|word| {
            let token = token(word.as_bytes());
            (word, token)
        });
        let longest = bytes_per_token.max(1);
        Self { rule: Rule::Bytes(longest), list: words.collect(), longest }
    }

    /// The tokens of a `tokenizer.json`.
    pub(super) fn of_file(path: &Path) -> Result<Self, TokenizerError> {
        let unreadable = |error: tokenizers::Error| TokenizerError::Unreadable(error.to_string());
        let mut tokenizer = Tokenizer::from_file(path).map_err(unreadable)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(unreadable)?;
        let words = words_of(&tokenizer).ok_or(TokenizerError::Wordless)?;
        let longest = tokenizer.get_vocab(true).keys().map(String::len).max().unwrap_or(1).max(1);
        Ok(Self { rule: Rule::Tokenizer(Box::new(tokenizer)), list: words, longest })
    }

    /// Bytes of the longest token, as it stands in a vocabulary: a text of as many times these is not fewer tokens
    /// (vLLM 0.33.0, `max_chars_per_token`).
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The tokens of a text, after those that a model has before every text where that is asked for.
    pub(super) fn tokens(&self, text: &str, with_special: bool) -> Vec<u32> {
        match &self.rule {
            Rule::Bytes(len) => text.as_bytes().chunks(*len).map(token).collect(),
            Rule::Tokenizer(tokenizer) => {
                let cut = || {
                    let cut = tokenizer.encode_fast(text, with_special);
                    cut.map(|cut| cut.get_ids().to_vec()).unwrap_or_default()
                };
                let is_served = tokio::runtime::Handle::try_current().is_ok();
                if text.len() < LONG || !is_served {
                    cut()
                } else {
                    tokio::task::block_in_place(cut)
                }
            }
        }
    }

    /// The word at a place of an answer.
    pub(super) fn word(&self, seed: u32, place: u32) -> &str {
        &self.list[self.index(seed, place)].0
    }

    /// Its token.
    pub(super) fn token(&self, seed: u32, place: u32) -> u32 {
        self.list[self.index(seed, place)].1
    }

    /// The words of an answer from one place to another.
    pub(super) fn text(&self, seed: u32, places: Range<u32>) -> String {
        let mut text = String::with_capacity(places.len() * 5);
        for place in places {
            text.push_str(self.word(seed, place));
        }
        text
    }

    fn index(&self, seed: u32, place: u32) -> usize {
        let mixed = mix(u64::from(seed) << 32 | u64::from(place));
        (mixed % self.list.len() as u64) as usize
    }
}

/// The token of a few bytes.
fn token(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |token, byte| token << 8 | u32::from(*byte))
}

/// Words that are one token each, whatever words of these stand beside them.
fn words_of(tokenizer: &Tokenizer) -> Option<Vec<(String, u32)>> {
    let mut vocabulary: Vec<(String, u32)> = tokenizer.get_vocab(false).into_iter().collect();
    vocabulary.sort_unstable_by_key(|(_, id)| *id);
    // Behind another word a word begins with what parts words.
    let is_plain = |word: &str| {
        let letters = word.trim_start_matches(['Ġ', '▁']);
        letters.len() < word.len()
            && (2..=10).contains(&letters.len())
            && letters.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    let plain = vocabulary.iter().filter(|(word, _)| is_plain(word));
    let candidates: Vec<u32> = plain.map(|(_, id)| *id).take(CANDIDATES).collect();
    let anchor = *candidates.first()?;
    let begin = tokenizer.decode(&[anchor], false).ok()?;
    let words = candidates.into_iter().filter_map(|id| {
        let both = tokenizer.decode(&[anchor, id], false).ok()?;
        let word = both.strip_prefix(&begin)?.to_owned();
        let stays = |text: String, ids: &[u32]| {
            tokenizer.encode_fast(text, false).is_ok_and(|cut| cut.get_ids() == ids)
        };
        let is_whole = word.starts_with(' ') && stays(word.repeat(3), &[id; 3]);
        is_whole.then_some((word, id))
    });
    let words: Vec<(String, u32)> = words.take(WORDS.end).collect();
    let all: String = words.iter().map(|(word, _)| word.as_str()).collect();
    let ids: Vec<u32> = words.iter().map(|(_, id)| *id).collect();
    let cut = tokenizer.encode_fast(all, false).ok()?;
    (words.len() >= WORDS.start && cut.get_ids() == ids).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_many_tokens_as_it_has_words() {
        for bytes in 1..=4 {
            let words = Words::of_bytes(bytes);
            let text = words.text(3, 0..100);
            let expected: Vec<u32> = (0..100).map(|place| words.token(3, place)).collect();
            assert_eq!(words.tokens(&text, true), expected, "{bytes} bytes");
            assert_ne!(text, words.text(4, 0..100), "answers differ");
        }
    }

    /// A byte-level BPE of 40 words: each is one token behind a space.
    fn small_tokenizer() -> serde_json::Value {
        let mut vocabulary = serde_json::Map::new();
        let mut merges = Vec::new();
        let mut add = |token: String| {
            let next = vocabulary.len();
            vocabulary.entry(token).or_insert(next.into());
        };
        for byte in ('a'..='z').chain(['Ġ', 'Ċ', '<', '>', '|', '_']) {
            add(byte.into());
        }
        for first in "bdfgk".chars() {
            for last in "aeioulmn".chars() {
                add(format!("Ġ{first}"));
                add(format!("Ġ{first}{last}"));
                merges.push(format!("Ġ {first}"));
                merges.push(format!("Ġ{first} {last}"));
            }
        }
        merges.dedup();
        serde_json::json!({
            "version": "1.0",
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
        })
    }

    #[test]
    fn answers_are_words_that_a_tokenizer_takes_for_one_token_each() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, small_tokenizer().to_string()).expect("it is written");
        let words = Words::of_file(&path).expect("it is a tokenizer");
        let text = words.text(5, 0..200);
        let expected: Vec<u32> = (0..200).map(|place| words.token(5, place)).collect();
        assert_eq!(words.tokens(&text, false), expected);
        std::fs::write(&path, "{}").expect("it is written");
        assert!(matches!(Words::of_file(&path), Err(TokenizerError::Unreadable(_))));
    }
}

//! Text as tokens, and tokens as text.
//!
//! The rule without a tokenizer of one's own: so many bytes are a token, counted from the begin of each text on.
//! Answers are words of as many bytes each.

/// What the words of answers are made of.
const SOUNDS: &str = "bdfgklmnprstv";
const VOWELS: &str = "aeiou";

/// What texts are made of.
#[derive(Debug)]
pub(super) struct Words {
    bytes_per_token: usize,
    words: Vec<(String, u32)>,
}

impl Words {
    /// Tokens of so many bytes, 1 to 4.
    pub(super) fn of_bytes(bytes_per_token: usize) -> Self {
        let letters = || (b'a'..=b'z').map(char::from);
        let words: Vec<String> = match bytes_per_token {
            0 | 1 => letters().map(String::from).collect(),
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
        Self { bytes_per_token: bytes_per_token.max(1), words: words.collect() }
    }

    /// The tokens of a text.
    pub(super) fn tokens(&self, text: &str) -> Vec<u32> {
        text.as_bytes().chunks(self.bytes_per_token).map(token).collect()
    }

    /// The word at a place of an answer.
    pub(super) fn word(&self, seed: u32, place: u32) -> &str {
        &self.words[self.index(seed, place)].0
    }

    /// Its token.
    pub(super) fn token(&self, seed: u32, place: u32) -> u32 {
        self.words[self.index(seed, place)].1
    }

    /// The words of an answer from one place to another.
    pub(super) fn text(&self, seed: u32, places: std::ops::Range<u32>) -> String {
        let mut text = String::with_capacity(places.len() * (self.bytes_per_token + 1));
        for place in places {
            text.push_str(self.word(seed, place));
        }
        text
    }

    fn index(&self, seed: u32, place: u32) -> usize {
        let mixed = crate::rng::mix(u64::from(seed) << 32 | u64::from(place));
        (mixed % self.words.len() as u64) as usize
    }
}

/// The token of a few bytes.
fn token(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |token, byte| token << 8 | u32::from(*byte))
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
            assert_eq!(words.tokens(&text), expected, "{bytes} bytes");
            assert_ne!(text, words.text(4, 0..100), "answers differ");
        }
    }
}

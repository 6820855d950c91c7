//! Prompts as bodies have them: a text, tokens, or several of either.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::app::App;
use super::context;
use super::error::ApiError;

/// Values of a list at most: what is refused need not be read to its end.
const MOST: usize = 1 << 16;

/// A prompt, or several.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prompts {
    each: Each,
    /// Whether they are a list, be it of one.
    pub(super) is_list: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Each {
    Texts(Vec<String>),
    Tokens(Vec<Vec<u32>>),
}

impl Prompts {
    /// Their tokens. One that is longer than its context could hold is refused before it is cut into tokens, as vLLM does.
    pub(super) fn tokens(
        self,
        app: &App,
        most: u32,
        with_special: bool,
    ) -> Result<Vec<Vec<u32>>, ApiError> {
        match self.each {
            Each::Tokens(all) => Ok(all),
            Each::Texts(texts) => {
                let tokens = texts.into_iter().map(|text| {
                    context::may_hold(app, most, text.len())?;
                    Ok(app.words.tokens(&text, with_special))
                });
                tokens.collect()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PromptsVisitor)
    }
}

struct PromptsVisitor;

impl<'de> Visitor<'de> for PromptsVisitor {
    type Value = Prompts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list of tokens, or a list of these")
    }

    fn visit_str<E>(self, text: &str) -> Result<Prompts, E> {
        Ok(Prompts { each: Each::Texts(vec![text.to_owned()]), is_list: false })
    }

    fn visit_string<E>(self, text: String) -> Result<Prompts, E> {
        Ok(Prompts { each: Each::Texts(vec![text]), is_list: false })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Prompts, A::Error> {
        // What the first is, all are.
        let each = match list.next_element()? {
            None => Each::Texts(Vec::new()),
            Some(First::Token(first)) => {
                let mut tokens = vec![first];
                while let Some(token) = list.next_element()? {
                    tokens.push(token);
                }
                return Ok(Prompts { each: Each::Tokens(vec![tokens]), is_list: false });
            }
            Some(First::Text(first)) => Each::Texts(rest(first, list)?),
            Some(First::Tokens(first)) => Each::Tokens(rest(first, list)?),
        };
        Ok(Prompts { each, is_list: true })
    }
}

fn rest<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
    first: T,
    mut list: A,
) -> Result<Vec<T>, A::Error> {
    let mut all = vec![first];
    while let Some(next) = list.next_element()? {
        if all.len() == MOST {
            return Err(A::Error::custom(format!("a list has at most {MOST} values")));
        }
        all.push(next);
    }
    Ok(all)
}

enum First {
    Token(u32),
    Text(String),
    Tokens(Vec<u32>),
}

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FirstVisitor;
        impl<'de> Visitor<'de> for FirstVisitor {
            type Value = First;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a token, or a list of tokens")
            }

            fn visit_u64<E: serde::de::Error>(self, token: u64) -> Result<First, E> {
                let wrong = || E::custom(format!("a token is less than 2^32, got {token}"));
                u32::try_from(token).map(First::Token).map_err(|_| wrong())
            }

            fn visit_str<E>(self, text: &str) -> Result<First, E> {
                Ok(First::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<First, A::Error> {
                let mut tokens = Vec::new();
                while let Some(token) = list.next_element()? {
                    tokens.push(token);
                }
                Ok(First::Tokens(tokens))
            }
        }
        from.deserialize_any(FirstVisitor)
    }
}

/// A text that is said of all prompts, or one of each.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Texts {
    One(String),
    Each(Vec<String>),
}

impl Texts {
    /// One of each of so many prompts.
    pub(super) fn of(self, name: &str, prompts: usize) -> Result<Vec<String>, ApiError> {
        match self {
            Self::One(text) => Ok(vec![text; prompts]),
            Self::Each(texts) if texts.len() == prompts => Ok(texts),
            Self::Each(texts) => {
                let message = format!("`{name}` has {} values for {prompts} prompts", texts.len());
                Err(ApiError::field(name, message))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
                match list.next_element()? {
                    None => Ok(Texts::Each(Vec::new())),
                    Some(first) => rest(first, list).map(Texts::Each),
                }
            }
        }
        from.deserialize_any(TextsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Prompts, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn prompts_are_texts_or_tokens_or_lists_of_one_of_them() {
        let texts = |all: &[&str], is_list| Prompts {
            each: Each::Texts(all.iter().map(|&text| text.to_owned()).collect()),
            is_list,
        };
        let tokens = |all: &[&[u32]], is_list| Prompts {
            each: Each::Tokens(all.iter().map(|tokens| tokens.to_vec()).collect()),
            is_list,
        };
        let right = [
            (r#""a\nb""#, texts(&["a\nb"], false)),
            (r#"["a"]"#, texts(&["a"], true)),
            (r#"["a", "b"]"#, texts(&["a", "b"], true)),
            ("[]", texts(&[], true)),
            ("[1, 4294967295]", tokens(&[&[1, u32::MAX]], false)),
            ("[[1, 2], []]", tokens(&[&[1, 2], &[]], true)),
        ];
        for (text, expected) in right {
            assert_eq!(read(text).expect("it is a prompt"), expected, "{text}");
        }
        let wrong = [
            "1",
            "{}",
            "true",
            "[1, \"a\"]",
            "[\"a\", 1]",
            "[[1], 2]",
            "[-1]",
            "[4294967296]",
            "[[[1]]]",
            "[null]",
            "[0.5]",
        ];
        for text in wrong {
            assert!(read(text).is_err(), "{text}");
        }
        let many = format!("[{}\"\"]", "\"\",".repeat(MOST));
        assert!(read(&many).expect_err("too many").to_string().contains("65536"));
    }

    #[test]
    fn a_text_is_said_of_all_or_one_of_each() {
        let read = |text: &str| serde_json::from_str::<Texts>(text).expect("texts");
        assert_eq!(read(r#""a""#).of("x", 2).expect("one"), ["a", "a"]);
        assert_eq!(read(r#"["a", "b"]"#).of("x", 2).expect("each"), ["a", "b"]);
        assert!(read(r#"["a"]"#).of("x", 2).is_err());
    }
}

//! Texts of recordings: pieces of streams of characters.

use serde::Deserialize;
use serde_json::Value;

use crate::cluster::sglang::text::Characters;
use crate::rng::mix;

/// The characters of all texts of a request, at most.
const CHARACTERS_MAX: u64 = 1 << 24;

/// Characters of a stream: `(stream, start, length)`.
type Piece = (u64, u64, u64);

/// The text of a request, as its kind of request has it.
#[derive(Debug, Clone)]
pub(super) enum Prompt {
    /// `/generate` with a text, or `/v1/completions` with one.
    Text(Vec<Piece>),
    /// `/v1/completions` with several.
    Texts(Vec<Vec<Piece>>),
    /// `/v1/chat/completions`: role and content.
    Messages(Vec<(String, Vec<Piece>)>),
    /// `/generate` with tokens.
    Ids(Vec<u64>),
}

impl Prompt {
    /// Reads the field `text` of a request of a kind.
    pub(super) fn read(api: &str, text: &Value) -> Result<Self, String> {
        fn parse<'a, T: Deserialize<'a>>(text: &'a Value) -> Result<T, String> {
            T::deserialize(text).map_err(|error| format!("text: {error}"))
        }
        let prompt = match api {
            "generate" | "completions" => Self::Text(parse(text)?),
            "complist" => Self::Texts(parse(text)?),
            "chat" => Self::Messages(parse(text)?),
            "ids" => Self::Ids(parse(text)?),
            other => return Err(format!("api: unknown kind of request `{other}`")),
        };
        let pieces: Vec<&Piece> = match &prompt {
            Self::Text(pieces) => pieces.iter().collect(),
            Self::Texts(texts) => texts.iter().flatten().collect(),
            Self::Messages(messages) => messages.iter().flat_map(|(_, pieces)| pieces).collect(),
            Self::Ids(_) => Vec::new(),
        };
        let total = pieces.iter().fold(0_u64, |total, piece| total.saturating_add(piece.2));
        if total > CHARACTERS_MAX {
            return Err(format!("text: must be at most {CHARACTERS_MAX} characters, got {total}"));
        }
        Ok(prompt)
    }

    /// What the router reads where one worker does all of a request.
    pub(super) fn whole(&self) -> Characters {
        match self {
            Self::Text(pieces) => Characters::new(characters(pieces)),
            Self::Texts(texts) => joined(texts.iter()),
            // Empty contents add nothing, not even a space.
            Self::Messages(messages) => {
                let contents = messages.iter().map(|(_, pieces)| pieces);
                joined(contents.filter(|pieces| pieces.iter().any(|piece| piece.2 > 0)))
            }
            Self::Ids(ids) => {
                let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
                Characters::new(ids.join(" ").chars())
            }
        }
    }

    /// What it reads where prefill and decode are apart: the first of several texts, and of a chat the first message
    /// unless the assistant wrote it.
    pub(super) fn first(&self) -> Option<Characters> {
        match self {
            Self::Texts(texts) => texts.first().map(|pieces| Characters::new(characters(pieces))),
            Self::Messages(messages) => messages
                .first()
                .filter(|(role, _)| role != "assistant")
                .map(|(_, pieces)| Characters::new(characters(pieces))),
            _ => Some(self.whole()),
        }
    }
}

fn joined<'a>(texts: impl Iterator<Item = &'a Vec<Piece>>) -> Characters {
    let mut all = Vec::new();
    for (index, pieces) in texts.enumerate() {
        all.extend((index > 0).then_some(' '));
        all.extend(characters(pieces));
    }
    Characters::new(all)
}

fn characters(pieces: &[Piece]) -> impl Iterator<Item = char> {
    pieces.iter().flat_map(|&(stream, start, len)| {
        (0..len).map(move |index| character(stream, start.wrapping_add(index)))
    })
}

/// Character `index` of a stream: a letter, or from stream 10,000 on an ideograph.
fn character(stream: u64, index: u64) -> char {
    let drawn = mix(stream.wrapping_mul(1_000_003).wrapping_add(index));
    if stream < 10_000 {
        char::from(b'a' + (drawn % 26) as u8)
    } else {
        char::from_u32(0x4e00 + (drawn % 512) as u32).expect("an ideograph")
    }
}

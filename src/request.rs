//! A request: what the world knows of it, and the part of that which a policy may know.

use std::sync::Arc;

use crate::ids::{AdapterId, ClassId, ModelId, RequestId, SessionId};
use crate::units::{SimDuration, SimTime};

/// What the world knows of a request before it is served.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// When the client wants to send it.
    pub arrival: SimTime,
    /// Prompt length in tokens, at least 1.
    pub prompt_tokens: u32,
    /// How many tokens it generates if nothing stops it earlier, at least 1. No policy sees this.
    pub output_tokens: u32,
    /// The limit the client asked for (`max_tokens`), at least `output_tokens`.
    pub max_tokens: u32,
    /// Whether it generates on past an end-of-sequence token, and so always to its limit. If not,
    /// and `output_tokens` is within the limit it gets, its last token is that of the end.
    pub ignore_eos: bool,
    /// Which tokens the prompt is made of, as far as caches can tell.
    pub content: Content,
    /// Priority as the engine in use reads it (vLLM: smaller first; SGLang: larger first).
    pub priority: i32,
    /// Its class; the first where all are alike.
    pub class: ClassId,
    /// The model it asks for; the first where there is one.
    pub model: ModelId,
    /// The LoRA adapter it needs, if any.
    pub adapter: Option<AdapterId>,
    /// The conversation it belongs to, if any.
    pub session: Option<SessionId>,
    /// What else it brings, if anything. Few requests do, and all are copied.
    pub inputs: Option<Arc<Inputs>>,
}

/// What a request may bring beside its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inputs {
    /// How long the engine compiles the grammar of its answer before it can be admitted; none without
    /// structured output.
    pub grammar: Option<SimDuration>,
    /// What an encoder computes of its prompt, in order of offsets. Placeholder tokens of equal images are equal in
    /// `content`, those of others are not.
    pub images: Vec<Image>,
}

/// An image in a prompt: placeholder tokens whose embeddings an encoder computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Equal images have equal identifiers.
    pub identifier: u64,
    /// Its first placeholder token, counted from the begin of the prompt.
    pub offset: u32,
    /// Its placeholder tokens, of which each has an embedding.
    pub tokens: u32,
}

impl Request {
    /// A request with a prompt that shares nothing with any other, that runs to its limit.
    pub fn new(arrival: SimTime, prompt_tokens: u32, output_tokens: u32) -> Self {
        Self {
            arrival,
            prompt_tokens,
            output_tokens,
            max_tokens: output_tokens,
            ignore_eos: true,
            content: Content::default(),
            priority: 0,
            class: ClassId::default(),
            model: ModelId::default(),
            adapter: None,
            session: None,
            inputs: None,
        }
    }

    /// What a router or scheduler may know.
    pub fn view(&self, id: RequestId) -> RequestView<'_> {
        RequestView {
            id,
            arrival: self.arrival,
            prompt_tokens: self.prompt_tokens,
            max_tokens: self.max_tokens,
            content: &self.content,
            priority: self.priority,
            model: self.model,
            adapter: self.adapter,
            session: self.session,
        }
    }
}

/// What a policy may know of a request: everything but how long its answer will be.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// Its id.
    pub id: RequestId,
    /// When the client wanted to send it.
    pub arrival: SimTime,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// The limit the client asked for.
    pub max_tokens: u32,
    /// Which tokens the prompt is made of.
    pub content: &'a Content,
    /// Its priority.
    pub priority: i32,
    /// The model it asks for.
    pub model: ModelId,
    /// The adapter it needs.
    pub adapter: Option<AdapterId>,
    /// Its conversation.
    pub session: Option<SessionId>,
}

/// The identity of a prompt's tokens. Two tokens are equal exactly when their stream and their
/// position in it are equal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// Separates caches that must not share (vLLM's `cache_salt`); 0 is the common namespace.
    pub salt: u64,
    /// The runs of tokens in order, adding up to the prompt; `None` for a prompt that shares
    /// nothing with any other.
    pub segments: Option<Arc<[Segment]>>,
}

/// A run of tokens: positions `start .. start + len` of one stream of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Which stream of tokens.
    pub stream: u64,
    /// The first position.
    pub start: u32,
    /// How many tokens.
    pub len: u32,
}

impl Segment {
    /// Streams from here up are the answers of requests; below are those of workloads.
    const ANSWERS: u64 = 1 << 62;
    /// Streams from here up are placeholders of images.
    const IMAGES: u64 = 1 << 61;
    /// Streams from here up are prompts that share nothing.
    const UNIQUE: u64 = 1 << 63;

    /// The end-of-sequence token: the same one at the end of every answer.
    pub const END: Self = Self { stream: u64::MAX, start: 0, len: 1 };

    /// Whether the tokens of another run follow these in their stream: as one run both say the same.
    #[inline]
    pub(crate) fn is_continued_by(&self, next: &Self) -> bool {
        self.stream == next.stream && self.start + self.len == next.start
    }

    /// The stream of tokens that a request generates, which a later turn may quote.
    pub const fn answer_stream(request: RequestId) -> u64 {
        Self::ANSWERS | request.0 as u64
    }

    /// The request whose answer these tokens are, if they are one's.
    #[inline]
    pub fn answer_of(&self) -> Option<RequestId> {
        let is_answer = (Self::ANSWERS..Self::UNIQUE).contains(&self.stream);
        is_answer.then(|| RequestId((self.stream - Self::ANSWERS) as u32))
    }

    /// The stream of the placeholder tokens of an image.
    pub const fn image_stream(identifier: u64) -> u64 {
        Self::IMAGES | identifier
    }

    /// The stream of a prompt that shares nothing with any other.
    pub const fn unique_stream(request: RequestId) -> u64 {
        Self::UNIQUE | request.0 as u64
    }
}

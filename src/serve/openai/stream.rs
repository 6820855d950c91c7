//! Answers in server-sent events.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use serde_json::Value;

use super::sampling::{Sampling, usage};
use crate::serve::answer::{End, Progress};
use crate::serve::app::{App, Dialect, Pending, unix_seconds};
use crate::serve::error::{ApiError, Voice};

/// One of the answers of a request.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) index: u32,
    pub(super) pending: Pending,
}

/// Which endpoint answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Completion,
    Chat,
}

impl Style {
    fn path(self) -> &'static str {
        match self {
            Self::Completion => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
        }
    }
}

/// What all chunks of a response have in common.
#[derive(Debug)]
struct Head {
    app: Arc<App>,
    style: Style,
    sampling: Sampling,
    /// An event up to its choices.
    begin: String,
}

/// An answer on its way.
#[derive(Debug)]
struct Way {
    head: Arc<Head>,
    choice: Choice,
    sent: u32,
    is_over: bool,
}

/// Usage of all answers, when they are over; nothing where one of them failed.
type Totals = Arc<Mutex<Option<[u32; 3]>>>;

/// A response that streams its answers.
pub(super) fn streamed(
    app: &Arc<App>,
    style: Style,
    id: &str,
    sampling: Sampling,
    choices: Vec<Choice>,
) -> Response {
    let begin = begin(style, id, &sampling.model);
    let head = Arc::new(Head { app: app.clone(), style, sampling, begin });
    let totals: Totals = Arc::new(Mutex::new(Some([0; 3])));
    let mut ways = choices.into_iter().map(|choice| {
        let way = Way { head: head.clone(), choice, sent: 0, is_over: false };
        Box::pin(way.chunks(totals.clone()))
    });
    let chunks = match (ways.next(), ways.next()) {
        (Some(only), None) => Either::Left(only),
        (first, second) => {
            let all = first.into_iter().chain(second).chain(ways);
            Either::Right(stream::select_all(all))
        }
    };
    let tail = stream::once(async move { Ok(tail(&head, &totals)) });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::from_stream(chunks.chain(tail))).into_response()
}

/// After all answers: usage, if it was asked for, and the mark of the end.
fn tail(head: &Head, totals: &Totals) -> Bytes {
    let mut text = String::new();
    let totals = *totals.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some([prompt, completion, cached]) = totals.filter(|_| head.sampling.usage.at_end) {
        let usage = Some(usage(prompt, completion, cached));
        text = head.event(&[], usage);
    }
    text.push_str("data: [DONE]\n\n");
    text.into()
}

/// What all events of a stream begin with, up to their choices.
fn begin(style: Style, id: &str, model: &str) -> String {
    let object = match style {
        Style::Completion => "text_completion",
        Style::Chat => "chat.completion.chunk",
    };
    let (id, model, created) = (Value::from(id), Value::from(model), unix_seconds());
    format!(
        r#"data: {{"id":{id},"object":"{object}","created":{created},"model":{model},"choices":"#
    )
}

/// What comes of an answer with an event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Piece<'a> {
    Completion {
        index: u32,
        text: &'a str,
        logprobs: (),
        finish_reason: Option<&'static str>,
        /// As vLLM calls it, and as SGLang does.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<()>,
        #[serde(skip_serializing_if = "Option::is_none")]
        matched_stop: Option<()>,
    },
    Chat {
        index: u32,
        delta: Delta<'a>,
        logprobs: (),
        finish_reason: Option<&'static str>,
    },
}

#[derive(Debug, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    content: &'a str,
}

impl Head {
    fn event(&self, choices: &[Piece<'_>], usage: Option<Value>) -> String {
        let choices = serde_json::to_string(choices).expect("texts and numbers are JSON");
        let usage = usage.map(|usage| format!(r#","usage":{usage}"#)).unwrap_or_default();
        [&self.begin, &choices, &usage, "}\n\n"].concat()
    }

    fn piece<'a>(&self, index: u32, text: &'a str, reason: Option<&'static str>) -> Piece<'a> {
        match self.style {
            Style::Completion => {
                let is_sglang = self.app.dialect == Dialect::Sglang;
                Piece::Completion {
                    index,
                    text,
                    logprobs: (),
                    finish_reason: reason,
                    stop_reason: (!is_sglang).then_some(()),
                    matched_stop: is_sglang.then_some(()),
                }
            }
            Style::Chat => Piece::Chat {
                index,
                delta: Delta { role: None, content: text },
                logprobs: (),
                finish_reason: reason,
            },
        }
    }
}

impl Way {
    fn chunks(self, totals: Totals) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
        stream::unfold((self, totals), |(mut way, totals)| async move {
            if way.is_over {
                return None;
            }
            let text = way.next(&totals).await;
            Some((Ok(Bytes::from(text)), (way, totals)))
        })
    }

    /// The events of what has come meanwhile: tokens, and the end or an error.
    async fn next(&mut self, totals: &Totals) -> String {
        let progress = self.choice.pending.answer.beyond(self.sent).await;
        let error = progress.end.and_then(ApiError::of);
        self.is_over = progress.end.is_some();
        let mut text = String::new();
        if error.is_none() || progress.tokens > self.sent {
            text = self.piece(&progress, progress.end.filter(|_| error.is_none()));
        }
        self.sent = progress.tokens;
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = error {
            *totals = None;
            let error = error.event(Voice::of(self.head.app.dialect, self.head.style.path()));
            text.extend(["data: ", &error.to_string(), "\n\n"]);
        } else if let Some(totals) = totals.as_mut().filter(|_| self.is_over) {
            let is_first = self.choice.index.is_multiple_of(self.head.sampling.n);
            totals[0] += if is_first { self.choice.pending.prompt_tokens } else { 0 };
            totals[1] += progress.tokens;
            totals[2] += if is_first { progress.cached_tokens } else { 0 };
        }
        text
    }

    /// The events of the tokens that have not been sent.
    fn piece(&self, progress: &Progress, end: Option<End>) -> String {
        let (head, index) = (&self.head, self.choice.index);
        let mut text = String::new();
        if self.sent == 0 && head.style == Style::Chat {
            let delta = Delta { role: Some("assistant"), content: "" };
            let role = Piece::Chat { index, delta, logprobs: (), finish_reason: None };
            text = head.event(&[role], None);
        }
        head.app.lateness.written(progress.due);
        let seed = progress.id.map_or(0, |id| id.0);
        let words = head.app.words.text(seed, self.sent..progress.tokens);
        let piece = head.piece(index, &words, end.map(End::reason));
        let prompt_tokens = self.choice.pending.prompt_tokens;
        let usage = head
            .sampling
            .usage
            .in_chunks
            .then(|| usage(prompt_tokens, progress.tokens, progress.cached_tokens));
        text.push_str(&head.event(&[piece], usage));
        text
    }
}

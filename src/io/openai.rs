//! A client of servers that speak `OpenAI`'s completions (vLLM, SGLang): what streams of tokens look
//! like from outside. Blocking, HTTP only, one thread a stream.

#![expect(clippy::disallowed_methods, reason = "the arrival of tokens is measured here")]

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::{HeaderName, HeaderValue, StatusCode};
use ureq::{Agent, Body, RequestBuilder};

const MODELS: &str = "/v1/models";

/// Why a server gives no answer that can be used.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {problem}")]
pub struct ServerError {
    /// What was asked.
    pub url: String,
    /// What is wrong, and what to do.
    pub problem: String,
    /// The status, where the server answered with one that means refusal.
    pub status: Option<u16>,
}

/// A model that a server offers.
#[derive(Debug, Clone, Deserialize)]
pub struct Offered {
    /// The name to ask for it.
    pub id: String,
    /// The engine, as `vllm` or `sglang`.
    #[serde(default)]
    pub owned_by: Option<String>,
    /// What it was loaded from.
    #[serde(default)]
    pub root: Option<String>,
    /// Its longest sequence, token.
    #[serde(default)]
    pub max_model_len: Option<u32>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Token ids.
    Tokens(Vec<u32>),
    /// Words; the server says how many tokens they are.
    Text(String),
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Streamed {
    /// When it was sent.
    pub sent: Instant,
    /// When each chunk with a token came.
    pub tokens: Vec<Instant>,
    /// Tokens of the prompt and of the answer as the server counts them.
    pub usage: Option<Usage>,
}

/// Tokens as the server counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: u32,
    /// Of the answer.
    #[serde(default)]
    pub completion_tokens: u32,
}

/// A server.
#[derive(Debug, Clone)]
pub struct Server {
    agent: Agent,
    base: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// How long the question for the models may take at most: a server that serves answers at once.
const MODELS_S: u64 = 10;

#[derive(Debug, Deserialize)]
struct Models {
    data: Vec<Offered>,
}

#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Value>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Value>,
}

impl Server {
    /// A server at `http://host:port`, with or without `/v1`. A request that takes longer than
    /// `timeout` fails.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, ServerError> {
        let base = url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        let authority = base.split_once("://").map_or(&*base, |(_, rest)| rest);
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        if let Some((_, host)) = authority.rsplit_once('@') {
            // What stands before it is nobody else's business.
            return Err(ServerError {
                url: host.to_owned(),
                problem:
                    "the address must hold no user name or password; give them as --api-key, or \
                          as --header"
                        .to_owned(),
                status: None,
            });
        }
        let host = base.strip_prefix("http://").filter(|host| !host.is_empty());
        if host.is_none() {
            return Err(ServerError {
                url: url.to_owned(),
                problem: "must begin with http:// (there is no TLS here; use a tunnel)".to_owned(),
                status: None,
            });
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_connect(Some(timeout.min(Duration::from_secs(10))))
            .timeout_global(Some(timeout))
            .build();
        Ok(Self { agent: config.into(), base, headers: Vec::new() })
    }

    /// The same server, asked with a header more. What it holds is never told.
    ///
    /// # Errors
    /// When name or value cannot be sent.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, String> {
        let name: HeaderName =
            name.parse().map_err(|_| format!("`{name}` is not the name of a header"))?;
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| format!("the value of {name} cannot be sent"))?;
        value.set_sensitive(true);
        self.headers.push((name, value));
        Ok(self)
    }

    fn with_headers<B>(&self, mut request: RequestBuilder<B>) -> RequestBuilder<B> {
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
    }

    fn fail(&self, path: &str, problem: impl Into<String>) -> ServerError {
        ServerError { url: format!("{}{path}", self.base), problem: problem.into(), status: None }
    }

    fn explain(&self, path: &str, error: &ureq::Error) -> ServerError {
        let problem = match error {
            ureq::Error::Timeout(_) if path == MODELS => {
                format!(
                    "no answer within {MODELS_S} s (or --timeout): is it an engine's HTTP port?"
                )
            }
            ureq::Error::Timeout(_) => "no answer in time (--timeout)".to_owned(),
            ureq::Error::HostNotFound => "no such host".to_owned(),
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        self.fail(path, problem)
    }

    /// An answer whose status means refusal, with the server's words.
    fn refused(&self, path: &str, status: StatusCode, body: &mut Body) -> ServerError {
        let text = body.read_to_string().unwrap_or_default();
        let words = serde_json::from_str::<Value>(&text).ok().and_then(|value| message(&value));
        let words = words.unwrap_or_else(|| text.chars().take(200).collect());
        let problem = format!("HTTP {status}: {words}").trim_end_matches([' ', ':']).to_owned();
        ServerError { status: Some(status.as_u16()), ..self.fail(path, problem) }
    }

    /// The models that it offers.
    ///
    /// # Errors
    /// When it does not answer, or not with a list of models.
    pub fn models(&self) -> Result<Vec<Offered>, ServerError> {
        let path = MODELS;
        let request = self.with_headers(self.agent.get(format!("{}{path}", self.base)));
        let soon = self.agent.config().timeouts().global.unwrap_or(Duration::MAX);
        let soon = soon.min(Duration::from_secs(MODELS_S));
        let answer = request.config().timeout_global(Some(soon)).build().call();
        let mut answer = answer.map_err(|error| self.explain(path, &error))?;
        if !answer.status().is_success() {
            return Err(self.refused(path, answer.status(), answer.body_mut()));
        }
        let text = answer.body_mut().read_to_string();
        let text = text.map_err(|error| self.explain(path, &error))?;
        let models: Models = serde_json::from_str(&text)
            .map_err(|error| self.fail(path, format!("is not a list of models: {error}")))?;
        Ok(models.data)
    }

    /// Asks for `output_tokens` tokens, neither more nor fewer, and notes when each comes.
    ///
    /// # Errors
    /// When the server does not answer, refuses, or does not stream.
    pub fn complete(
        &self,
        model: &str,
        prompt: &Prompt,
        output_tokens: u32,
    ) -> Result<Streamed, ServerError> {
        let path = "/v1/completions";
        let prompt = match prompt {
            Prompt::Tokens(ids) => json!(ids),
            Prompt::Text(text) => json!(text),
        };
        let body = json!({
            "model": model,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "temperature": 0,
            "ignore_eos": true,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        let body = body.to_string();
        let request = self.with_headers(self.agent.post(format!("{}{path}", self.base)));
        let request = request.header("Content-Type", "application/json");
        let sent = Instant::now();
        let answer = request.send(body).map_err(|error| self.explain(path, &error))?;
        let status = answer.status();
        let (_, mut body) = answer.into_parts();
        if !status.is_success() {
            return Err(self.refused(path, status, &mut body));
        }
        if body.mime_type() != Some("text/event-stream") {
            let found = body.mime_type().unwrap_or("no content type").to_owned();
            let problem = format!("the server does not stream: answers with {found}");
            return Err(self.fail(path, problem));
        }
        let mut streamed = Streamed { sent, tokens: Vec::new(), usage: None };
        for line in BufReader::new(body.into_reader()).lines() {
            let now = Instant::now();
            let line = line.map_err(|error| self.explain(path, &ureq::Error::from(error)))?;
            let Some(data) = line.strip_prefix("data:").map(str::trim) else { continue };
            if data == "[DONE]" {
                return self.whole(streamed, output_tokens);
            }
            let chunk: Chunk = serde_json::from_str(data)
                .map_err(|error| self.fail(path, format!("a chunk is not understood: {error}")))?;
            if let Some(error) = chunk.error {
                let words = message(&error).unwrap_or_else(|| error.to_string());
                return Err(self.fail(path, words));
            }
            if !chunk.choices.is_empty() {
                streamed.tokens.push(now);
            }
            streamed.usage = chunk.usage.or(streamed.usage);
        }
        Err(self.fail(path, "the stream ended before its end"))
    }

    /// The answer, if its chunks are single tokens.
    fn whole(&self, mut streamed: Streamed, expected: u32) -> Result<Streamed, ServerError> {
        let path = "/v1/completions";
        let told = streamed.usage.map_or(expected, |usage| usage.completion_tokens);
        if told != expected {
            let problem =
                format!("{told} tokens for max_tokens = {expected}: is ignore_eos heeded?");
            return Err(self.fail(path, problem));
        }
        // A last chunk may hold the reason of the end only.
        streamed.tokens.truncate(expected as usize);
        // A server in a hurry now and then puts two tokens into a chunk.
        if (streamed.tokens.len() as f64) < 0.8 * f64::from(expected) {
            let problem = format!(
                "{} chunks for {expected} tokens: start the server without speculative decoding \
                 and with a stream interval of 1",
                streamed.tokens.len()
            );
            return Err(self.fail(path, problem));
        }
        Ok(streamed)
    }
}

/// The message in a server's error.
fn message(value: &Value) -> Option<String> {
    let error = value.get("error").unwrap_or(value);
    let words = error.get("message").or_else(|| value.get("detail")).unwrap_or(error);
    words.as_str().map(str::to_owned)
}

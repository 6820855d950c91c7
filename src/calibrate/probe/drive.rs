//! Sends the rounds of a plan.

#![expect(clippy::disallowed_methods, reason = "prompts differ from those of earlier probes")]

use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rand::RngExt as _;

use super::plan::{Plan, Round};
use super::point::Answer;
use crate::io::openai::{Prompt, Server, ServerError, Streamed};
use crate::rng::Seed;

/// Ids that stand for ordinary tokens in every vocabulary of 32,000 and more.
const IDS: std::ops::Range<u32> = 1000..30_000;
/// Requests before the first measured one.
const WARM_UPS: u64 = 2;

pub(super) struct Driver<'a> {
    server: &'a Server,
    model: &'a str,
    seed: Seed,
}

/// How prompts are written.
#[derive(Debug, Clone, Copy)]
enum Form {
    Tokens,
    Text,
}

impl<'a> Driver<'a> {
    pub(super) fn new(server: &'a Server, model: &'a str, seed: Option<u64>) -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        Self { server, model, seed: Seed(seed.unwrap_or_else(|| now() as u64)) }
    }

    /// All repetitions of each round; `asked` is told how many requests have been answered since.
    pub(super) fn measure(
        &self,
        plan: &Plan,
        asked: impl Fn(u32),
    ) -> Result<Vec<Vec<Vec<Answer>>>, ServerError> {
        let form = self.form()?;
        let mut number = WARM_UPS;
        let mut measured = vec![Vec::new(); plan.rounds.len()];
        for _ in 0..plan.repetitions {
            for (round, into) in plan.rounds.iter().zip(&mut measured) {
                for _ in 0..round.times {
                    into.push(self.send(round, form, number)?);
                    number += u64::from(round.streams);
                    asked(round.streams);
                }
            }
        }
        Ok(measured)
    }

    /// Warms the server up and learns whether it takes token ids.
    fn form(&self) -> Result<Form, ServerError> {
        let ask = |form, number| {
            self.server.complete(self.model, &self.prompt(form, 64, number), 4).map(drop)
        };
        match ask(Form::Tokens, 0) {
            Ok(()) => Ok(Form::Tokens),
            Err(error) if matches!(error.status, Some(400 | 422)) => {
                ask(Form::Text, 1).map(|()| Form::Text)
            }
            Err(error) => Err(error),
        }
    }

    /// A prompt like no other.
    fn prompt(&self, form: Form, tokens: u32, number: u64) -> Prompt {
        let mut stream = self.seed.stream("probe prompt", number);
        let ids = (0..tokens).map(|_| stream.random_range(IDS));
        match form {
            Form::Tokens => Prompt::Tokens(ids.collect()),
            // Short numbers are about a token each; the server says how many they were.
            Form::Text => {
                let words: Vec<String> = ids.map(|id| (id % 1000).to_string()).collect();
                Prompt::Text(words.join(" "))
            }
        }
    }

    fn send(&self, round: &Round, form: Form, first: u64) -> Result<Vec<Answer>, ServerError> {
        let prompts: Vec<Prompt> = (0..u64::from(round.streams))
            .map(|index| self.prompt(form, round.prompt_tokens, first + index))
            .collect();
        let began = Instant::now();
        let answers: Vec<Result<Streamed, ServerError>> = thread::scope(|scope| {
            let ask = |prompt| self.server.complete(self.model, prompt, round.output_tokens);
            let threads: Vec<_> =
                prompts.iter().map(|prompt| scope.spawn(move || ask(prompt))).collect();
            threads.into_iter().map(|one| one.join().expect("a stream does not panic")).collect()
        });
        answers.into_iter().map(|answer| Ok(answer_of(&answer?, began, round))).collect()
    }
}

fn answer_of(streamed: &Streamed, began: Instant, round: &Round) -> Answer {
    let secs = |at: &Instant| at.duration_since(began).as_secs_f64();
    Answer {
        sent_s: secs(&streamed.sent),
        tokens_s: streamed.tokens.iter().map(secs).collect(),
        prompt_tokens: streamed.usage.map_or(round.prompt_tokens, |usage| usage.prompt_tokens),
    }
}

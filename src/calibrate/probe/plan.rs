//! The rounds of requests.

use std::fmt;

/// Prompt tokens of streams whose context is not the question.
const SHORT_PROMPT: u32 = 64;
/// The shortest prompt of a lone request.
const SHORTEST: u32 = 64;
/// Steps that every stream shares, at least.
const SHARED_STEPS: u32 = 32;
/// Streams at long contexts.
const CONTEXT_STREAMS: u32 = 8;
/// A lone prompt is short work and has one time only.
const LONE_TIMES: u32 = 3;
/// Tokens that a server prefills in a step at least, while others decode.
const PREFILL_STEP: u32 = 2048;

/// How far a probe goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest prompt of a lone request: at most what the server prefills in one step.
    pub prompt_tokens: u32,
    /// Longest prompt and answer together.
    pub context_tokens: u32,
    /// Most requests at once.
    pub streams: u32,
    /// How often every round is sent.
    pub repetitions: u32,
}

/// Requests that are sent together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// How many.
    pub streams: u32,
    /// Tokens of each prompt.
    pub prompt_tokens: u32,
    /// Tokens of each answer; 1 where only the first token is of interest.
    pub output_tokens: u32,
    /// How often in a row.
    pub times: u32,
}

impl Round {
    fn lone(prompt_tokens: u32) -> Self {
        Self { streams: 1, prompt_tokens, output_tokens: 1, times: LONE_TIMES }
    }

    /// Long enough an answer for the first stream to see the last one's first token, and the steps
    /// that all share after it.
    fn together(streams: u32, prompt_tokens: u32) -> Self {
        let prefills = (streams * prompt_tokens).div_ceil(PREFILL_STEP);
        let output_tokens = SHARED_STEPS + streams / 4 + prefills;
        Self { streams, prompt_tokens, output_tokens, times: 1 }
    }

    /// Whether it is about the first token.
    pub fn is_lone_prompt(&self) -> bool {
        self.output_tokens == 1
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { streams, prompt_tokens, output_tokens, times } = self;
        let many = if *streams == 1 { "request" } else { "requests" };
        write!(f, "{streams} {many}, {prompt_tokens} tokens in, {output_tokens} out")?;
        if *times == 1 { Ok(()) } else { write!(f, ", {times} times") }
    }
}

/// The rounds in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Each repetition goes through all of them, so that a server that drifts does so for all.
    pub rounds: Vec<Round>,
    /// How often.
    pub repetitions: u32,
}

/// A line each.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "each {} times:", self.repetitions)?;
        self.rounds.iter().try_for_each(|round| writeln!(f, "{round}"))
    }
}

impl Plan {
    /// Prompts of doubling lengths, doubling numbers of streams, and longer and longer contexts.
    pub fn new(limits: &Limits) -> Self {
        let prompts = limits.prompt_tokens.min(limits.context_tokens.saturating_sub(1));
        let mut rounds: Vec<Round> = doubling(SHORTEST, prompts).map(Round::lone).collect();
        rounds.extend(doubling(1, limits.streams).map(|n| Round::together(n, SHORT_PROMPT)));
        let streams = limits.streams.min(CONTEXT_STREAMS);
        let fits =
            |round: &Round| round.prompt_tokens + round.output_tokens <= limits.context_tokens;
        rounds.retain(fits);
        let longest = |prompt: &u32| fits(&Round::together(streams, *prompt));
        let contexts = doubling(8 * SHORT_PROMPT, limits.context_tokens).filter(longest);
        // Twice as long each: from the longest every other one.
        let contexts: Vec<u32> = contexts.collect();
        let kept = contexts.iter().rev().step_by(2).rev();
        rounds.extend(kept.map(|prompt| Round::together(streams, *prompt)));
        Self { rounds, repetitions: limits.repetitions }
    }

    fn sum(&self, of: impl Fn(&Round) -> u64) -> u64 {
        u64::from(self.repetitions)
            * self.rounds.iter().map(|round| u64::from(round.times) * of(round)).sum::<u64>()
    }

    /// Requests in all.
    pub fn requests(&self) -> u64 {
        self.sum(|round| u64::from(round.streams))
    }

    /// Prompt tokens in all.
    pub fn prompt_tokens(&self) -> u64 {
        self.sum(|round| u64::from(round.streams) * u64::from(round.prompt_tokens))
    }

    /// Tokens of answers in all.
    pub fn output_tokens(&self) -> u64 {
        self.sum(|round| u64::from(round.streams) * u64::from(round.output_tokens))
    }
}

fn doubling(from: u32, to: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(from), |value| value.checked_mul(2))
        .take_while(move |value| *value <= to)
}

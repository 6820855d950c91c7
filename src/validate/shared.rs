//! Prompts that repeat: `inference-perf` with shared system prompts.
//!
//! It sends the prompts of all users of all system prompts in turn and begins again, so that after
//! the first round every prompt has been seen. Prompts do not grow, whatever `multi-turn` says: the
//! lengths that it prints are within 5 % of each other. Gaps between requests are exponential.

use std::sync::Arc;

use super::record::Record;
use super::skip::Skip;
use super::workload::MOST_REQUESTS;
use crate::request::{Content, Request, Segment};
use crate::rng::Seed;
use crate::scenario::{ArrivalConfig, ContentConfig, LengthConfig, WorkloadConfig};
use crate::workload::Workload;

/// Prompts of several users under several system prompts.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedPrompts {
    groups: u32,
    users: u32,
    system_tokens: u32,
    prompt_tokens: u32,
    output_tokens: u32,
    rate_per_s: f64,
    requests: u32,
}

impl SharedPrompts {
    /// The prompts of a record of `inference-perf`; nothing if it is none.
    pub(super) fn of(record: &Record) -> Result<Option<Self>, Skip> {
        if !record.workload_text("dataset").starts_with("shared_prefix") {
            return Ok(None);
        }
        let count = |key: &str| {
            record.workload_count(key).ok_or(Skip::Lengths("prompts of the users not stated"))
        };
        let rate_per_s = record.workload_number("request_rate");
        let requests = record.metric("successful_requests");
        let prompt = record.metric("prompt_len_mean");
        let (Some(rate_per_s), Some(requests), Some(prompt)) = (rate_per_s, requests, prompt)
        else {
            return Err(Skip::Lengths("neither lengths nor totals are stated"));
        };
        if rate_per_s <= 0.0 || requests > MOST_REQUESTS || requests / rate_per_s > 1e8 {
            return Err(Skip::Setting(format!("request_rate={rate_per_s}")));
        }
        Ok(Some(Self {
            groups: count("num_unique_system_prompts")?.max(1),
            users: count("num_users_per_system_prompt")?.max(1),
            system_tokens: count("system_prompt_len")?,
            prompt_tokens: (prompt.round() as u32).max(1),
            output_tokens: count("output_len")?.max(1),
            rate_per_s,
            requests: requests as u32,
        }))
    }

    /// The same load without what prompts share.
    pub(super) fn workload(&self) -> WorkloadConfig {
        WorkloadConfig {
            arrivals: ArrivalConfig::Poisson { rate_per_s: self.rate_per_s },
            lengths: LengthConfig::Fixed {
                input_tokens: self.prompt_tokens,
                output_tokens: self.output_tokens,
            },
            content: ContentConfig::Unique {},
            ..WorkloadConfig::at_once(Some(self.requests))
        }
    }

    /// The requests, each with the content of its turn.
    pub(super) fn requests(&self, seed: Seed) -> Vec<Request> {
        let drawn = Workload::open(&self.workload(), seed, None);
        let mut requests: Vec<Request> = drawn.into_iter().flatten().flatten().collect();
        for (request, turn) in requests.iter_mut().zip(0_u64..) {
            let prompt = turn % (u64::from(self.groups) * u64::from(self.users));
            let segments = self.segments(prompt);
            request.content = Content { segments: Some(segments), ..Content::default() };
        }
        requests
    }

    /// A prompt: its system prompt, then its own tokens.
    fn segments(&self, prompt: u64) -> Arc<[Segment]> {
        let shared = self.system_tokens.min(self.prompt_tokens);
        let group = prompt / u64::from(self.users);
        let own = u64::from(self.groups) + prompt;
        let segments = [
            Segment { stream: group, start: 0, len: shared },
            Segment { stream: own, start: 0, len: self.prompt_tokens - shared },
        ];
        segments.into_iter().filter(|segment| segment.len > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPTS: SharedPrompts = SharedPrompts {
        groups: 3,
        users: 2,
        system_tokens: 100,
        prompt_tokens: 575,
        output_tokens: 248,
        rate_per_s: 8.0,
        requests: 14,
    };

    #[test]
    fn prompts_repeat_after_a_round_and_share_only_their_system_prompt() {
        let requests = PROMPTS.requests(Seed::default());
        assert_eq!(requests.len(), 14);
        let segments = |index: usize| requests[index].content.segments.clone().unwrap();
        assert_eq!(segments(0), segments(6));
        assert_eq!(segments(0)[0], segments(1)[0]);
        assert_ne!(segments(0)[1], segments(1)[1]);
        assert_ne!(segments(1)[0], segments(2)[0]);
        for request in &requests {
            let content = request.content.segments.as_ref().unwrap();
            assert_eq!(content.iter().map(|segment| segment.len).sum::<u32>(), 575);
        }
    }
}

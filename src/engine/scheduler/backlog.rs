//! What an engine has to do, as the forward-pass metrics of Dynamo 1.6 tell it.

/// Sequences that decode, and what waits. A prompt that is being computed is in neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Sequences that decode.
    pub decode_seqs: u32,
    /// Their tokens, prompts included.
    pub decode_tokens: u64,
    /// Tokens of sequences that wait to decode: they lost their memory, or their KV is on its way.
    pub queued_decode_tokens: u64,
    /// Prompt tokens of requests that wait.
    pub queued_prefill_tokens: u64,
    /// How many these are.
    pub queued_prefill_requests: u32,
}

impl Backlog {
    /// A sequence of so many tokens decodes.
    pub(super) fn add_decode(&mut self, tokens: u32) {
        self.decode_seqs += 1;
        self.decode_tokens += u64::from(tokens);
    }

    /// A request waits that has generated so many tokens; `is_prefilled` where it waits for no prompt.
    pub(super) fn add_waiting(&mut self, prompt: u32, generated: u32, is_prefilled: bool) {
        if is_prefilled || generated > 0 {
            self.queued_decode_tokens += u64::from(prompt) + u64::from(generated);
        } else {
            self.queued_prefill_tokens += u64::from(prompt);
            self.queued_prefill_requests += 1;
        }
    }

    /// With that of another.
    #[must_use]
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            decode_seqs: self.decode_seqs + other.decode_seqs,
            decode_tokens: self.decode_tokens + other.decode_tokens,
            queued_decode_tokens: self.queued_decode_tokens + other.queued_decode_tokens,
            queued_prefill_tokens: self.queued_prefill_tokens + other.queued_prefill_tokens,
            queued_prefill_requests: self.queued_prefill_requests + other.queued_prefill_requests,
        }
    }
}

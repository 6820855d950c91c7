//! What the planner knows of replicas: what they can hold, what they have to do, and how long a forward pass takes.

/// What a replica of a pool can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Tokens of a forward pass, at most, not 0.
    pub max_num_batched_tokens: u32,
    /// Sequences of a forward pass, at most, not 0.
    pub max_num_seqs: u32,
    /// Tokens of a sequence, at most, not 0.
    pub context_length: u32,
    /// Tokens that the KV memory holds, not 0.
    pub max_kv_tokens: u64,
    /// GPUs, not 0.
    pub num_gpu: u32,
}

/// The forward-pass metrics of a replica: what it decodes, and what waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForwardPassMetrics {
    /// Prompt tokens of the pass under way.
    pub scheduled_prefill_tokens: u64,
    /// Prompts that these are of.
    pub scheduled_prefill_requests: u32,
    /// Sequences that decode.
    pub decode_seqs: u32,
    /// Their tokens in KV memory.
    pub scheduled_kv_tokens: u64,
    /// Tokens in KV memory of sequences that wait to decode.
    pub queued_kv_tokens: u64,
    /// Prompt tokens that wait.
    pub queued_prefill_tokens: u64,
    /// Requests that these are of.
    pub queued_prefill_requests: u32,
}

/// How long forward passes of a replica take.
pub trait ForwardTime {
    /// Of one pass over so many tokens of prompts and so many decoding sequences with their tokens in KV memory, in seconds.
    fn forward_seconds(&self, prefill_tokens: u64, decode_seqs: u64, kv_tokens: u64) -> f64;
}

/// How long it takes to compute so many tokens of prompts in passes of at most so many, each with the same sequences that
/// decode beside them, in seconds.
pub(super) fn passes(
    model: &dyn ForwardTime,
    prefill_tokens: u64,
    tokens_max: u32,
    (decode_seqs, kv_tokens): (u64, u64),
) -> f64 {
    let tokens_max = u64::from(tokens_max);
    let (full, rest) = (prefill_tokens / tokens_max, prefill_tokens % tokens_max);
    let seconds = |tokens| model.forward_seconds(tokens, decode_seqs, kv_tokens);
    let whole = if full > 0 { seconds(tokens_max) * full as f64 } else { 0.0 };
    if rest > 0 { whole + seconds(rest) } else { whole }
}

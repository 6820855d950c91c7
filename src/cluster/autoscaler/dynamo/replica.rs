//! Forward passes of the simulation's replicas: what their cost models say.

use super::forward::{Capabilities, ForwardPassMetrics, ForwardTime};
use crate::engine::Instance;
use crate::engine::scheduler::EngineSettings;
use crate::units::SimTime;

/// What a replica with these settings can do, if the planner knows its engine.
pub fn capabilities(
    settings: &EngineSettings,
    replica: &Instance,
    num_gpu: u32,
) -> Option<Capabilities> {
    let max_num_seqs = match settings {
        EngineSettings::VllmV1(settings) => settings.max_num_active_seqs,
        EngineSettings::Sglang(settings) => settings.max_running_requests,
        _ => return None,
    };
    let load = replica.scheduler().load();
    let max_kv_tokens = u64::from(load.kv_blocks) * u64::from(settings.block_size());
    Some(Capabilities {
        max_num_batched_tokens: replica.scheduler().token_budget().max(1),
        max_num_seqs: max_num_seqs.max(1),
        context_length: settings.max_model_len().max(1),
        max_kv_tokens: max_kv_tokens.max(1),
        num_gpu,
    })
}

/// What a replica tells at such a moment, if its engine tells anything.
pub fn forward_pass_metrics(replica: &Instance, now: SimTime) -> Option<ForwardPassMetrics> {
    let backlog = replica.backlog_at(now)?;
    let (scheduled_prefill_requests, scheduled_prefill_tokens) = replica.prefilling_at(now);
    Some(ForwardPassMetrics {
        scheduled_prefill_tokens: scheduled_prefill_tokens.into(),
        scheduled_prefill_requests,
        decode_seqs: backlog.decode_seqs,
        scheduled_kv_tokens: backlog.decode_tokens,
        queued_kv_tokens: backlog.queued_decode_tokens,
        queued_prefill_tokens: backlog.queued_prefill_tokens,
        queued_prefill_requests: backlog.queued_prefill_requests,
    })
}

/// Prompt tokens of a pass are those of one prompt, and sequences that decode are equally long.
impl ForwardTime for Instance {
    fn forward_seconds(&self, prefill_tokens: u64, decode_seqs: u64, kv_tokens: u64) -> f64 {
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let mut shape = self.empty_shape();
        if decode_seqs > 0 {
            let longest = kv_tokens.div_ceil(decode_seqs);
            shape.add_decodes(small(decode_seqs), kv_tokens, small(longest));
        }
        if prefill_tokens > 0 {
            shape.add_prefill(small(prefill_tokens), 0, true);
        }
        self.price(shape).as_secs_f64()
    }
}

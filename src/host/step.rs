//! How long the host takes for each step.

use serde::{Deserialize, Serialize};

/// Host time of each step, in µs. Zero until measured. Whether it adds to the device's time or is
/// hidden behind it is the engine's `async_scheduling` (vLLM) or overlap schedule (SGLang).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// To decide a step.
    pub schedule_us: f64,
    /// The same for each sequence in it.
    pub schedule_per_sequence_us: f64,
    /// The same for each request admitted in it.
    pub schedule_per_new_request_us: f64,
    /// More to decide a step that prefills.
    pub schedule_prefill_us: f64,
    /// More to decide a step for each token that it prefills.
    pub schedule_per_prefill_token_us: f64,
    /// To prepare the inputs of a step and launch it, up to its first kernel.
    pub launch_us: f64,
    /// The same for each sequence in it.
    pub launch_per_sequence_us: f64,
    /// To launch the kernels of a step one by one, when no captured graph is replayed; beside the
    /// device, which is not done before.
    pub eager_launch_us: f64,
    /// To launch what a graph that was captured in pieces leaves out of them, in a step that prefills; beside the
    /// device, which is not done before.
    pub pieces_launch_us: f64,
    /// To hand over the outcome of the step before, beside the device, which is not done before: an engine that
    /// does so while a step runs.
    pub hand_over_us: f64,
    /// The same for each sequence, as many as are in the step that runs.
    pub hand_over_per_sequence_us: f64,
    /// To take in the outcome of a step, until its tokens can be sent.
    pub post_process_us: f64,
    /// The same for each sequence in it.
    pub post_process_per_sequence_us: f64,
    /// More to take in the outcome of a step that prefilled.
    pub post_process_prefill_us: f64,
    /// The same for each sequence that it prefilled.
    pub post_process_per_prefill_us: f64,
    /// The share of these times that the host takes right after other work, with its caches warm; all of
    /// them if absent. It rises to 1 over `cools_us` of waiting for the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_share: Option<f64>,
    /// After how long without work the caches are cold, where `warm_share` is given.
    pub cools_us: f64,
    /// More time to launch one prefill step, once: kernels compiled, tuned or loaded when a shape is
    /// met for the first time.
    pub warm_up_us: f64,
    /// Prefill steps before that one.
    pub warm_up_after_prefill_steps: u32,
}

impl HostConfig {
    /// The same on a CPU that takes so many times as long.
    #[must_use]
    pub fn on_cpu(&self, times: f64) -> Self {
        Self {
            schedule_us: self.schedule_us * times,
            schedule_per_sequence_us: self.schedule_per_sequence_us * times,
            schedule_per_new_request_us: self.schedule_per_new_request_us * times,
            schedule_prefill_us: self.schedule_prefill_us * times,
            schedule_per_prefill_token_us: self.schedule_per_prefill_token_us * times,
            launch_us: self.launch_us * times,
            launch_per_sequence_us: self.launch_per_sequence_us * times,
            eager_launch_us: self.eager_launch_us * times,
            pieces_launch_us: self.pieces_launch_us * times,
            hand_over_us: self.hand_over_us * times,
            hand_over_per_sequence_us: self.hand_over_per_sequence_us * times,
            post_process_us: self.post_process_us * times,
            post_process_per_sequence_us: self.post_process_per_sequence_us * times,
            post_process_prefill_us: self.post_process_prefill_us * times,
            post_process_per_prefill_us: self.post_process_per_prefill_us * times,
            // Caches cool down, and kernels are compiled, in their own time.
            ..*self
        }
    }

    /// Every time under its key.
    pub fn values(&self) -> [(&'static str, f64); 17] {
        [
            ("schedule_us", self.schedule_us),
            ("schedule_per_sequence_us", self.schedule_per_sequence_us),
            ("schedule_per_new_request_us", self.schedule_per_new_request_us),
            ("schedule_prefill_us", self.schedule_prefill_us),
            ("schedule_per_prefill_token_us", self.schedule_per_prefill_token_us),
            ("launch_us", self.launch_us),
            ("launch_per_sequence_us", self.launch_per_sequence_us),
            ("eager_launch_us", self.eager_launch_us),
            ("pieces_launch_us", self.pieces_launch_us),
            ("hand_over_us", self.hand_over_us),
            ("hand_over_per_sequence_us", self.hand_over_per_sequence_us),
            ("post_process_us", self.post_process_us),
            ("post_process_per_sequence_us", self.post_process_per_sequence_us),
            ("post_process_prefill_us", self.post_process_prefill_us),
            ("post_process_per_prefill_us", self.post_process_per_prefill_us),
            ("cools_us", self.cools_us),
            ("warm_up_us", self.warm_up_us),
        ]
    }
}

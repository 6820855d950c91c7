//! When a replica that decodes computes a prompt itself, by Dynamo's router (NVIDIA Dynamo 1.6.1,
//! `--router-conditional-disagg` and the fields of `--router-conditional-disagg-config`).

use serde::{Deserialize, Serialize};

use super::DynamoConfig;

/// Which prompts are computed where they are decoded, as Dynamo's router sees it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DynamoConditionalDisagg {
    /// What decides.
    pub policy: DynamoConditionalPolicy,
    /// Fewer tokens than this have to be missing in the cache of the replica that would decode …
    pub eff_isl_threshold: u64,
    /// … and a smaller share of the prompt than this, from 0 to 1.
    pub eff_isl_ratio_threshold: f64,
    /// Share of `max_num_batched_tokens` in booked prefill tokens above which the replica that would prefill is busy;
    /// `router_queue_threshold` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_busy_threshold: Option<f64>,
    /// Share of its KV blocks that the replica that would decode may have active with this request; any number if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_busy_threshold: Option<f64>,
}

impl Default for DynamoConditionalDisagg {
    fn default() -> Self {
        Self {
            policy: DynamoConditionalPolicy::default(),
            eff_isl_threshold: 2048,
            eff_isl_ratio_threshold: 0.7,
            prefill_busy_threshold: None,
            decode_busy_threshold: None,
        }
    }
}

/// What decides whether a prompt is computed where it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DynamoConditionalPolicy {
    /// Little of it is missing there.
    #[default]
    IslBounding,
    /// The replica that would prefill it is busy.
    PrefillLoad,
    /// Either.
    IslOrLoad,
}

impl DynamoConditionalPolicy {
    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IslBounding => "isl_bounding",
            Self::PrefillLoad => "prefill_load",
            Self::IslOrLoad => "isl_or_load",
        }
    }

    /// Whether it looks at the replica that would prefill.
    pub const fn looks_at_prefill(self) -> bool {
        matches!(self, Self::PrefillLoad | Self::IslOrLoad)
    }
}

impl DynamoConditionalDisagg {
    /// The first setting that is out of its range or has no meaning beside those of its router, by its place in a scenario file's router, with
    /// the rule it breaks.
    ///
    /// # Errors
    /// When there is one.
    pub(super) fn check(&self, router: &DynamoConfig) -> Result<(), (&'static str, String)> {
        let share = self.eff_isl_ratio_threshold;
        if !(0.0..=1.0).contains(&share) {
            let rule = format!("must be from 0 to 1, got {share}");
            return Err(("conditional_disagg.eff_isl_ratio_threshold", rule));
        }
        let (prefill, decode) = (
            "conditional_disagg.prefill_busy_threshold",
            "conditional_disagg.decode_busy_threshold",
        );
        for (key, value) in
            [(prefill, self.prefill_busy_threshold), (decode, self.decode_busy_threshold)]
        {
            let value = value.unwrap_or(0.0);
            if !(0.0..=f64::MAX).contains(&value) {
                return Err((key, format!("must be at least 0, got {value}")));
            }
        }
        let (looks, name) = (self.policy.looks_at_prefill(), self.policy.name());
        if !looks && self.prefill_busy_threshold.is_some() {
            let rule = format!("has no meaning: `{name}` does not look at replicas that prefill");
            return Err((prefill, rule));
        }
        if looks && router.prefill_busy_threshold().is_none() {
            let rule =
                format!("must be given for `{name}`, or router_queue_threshold in its place");
            return Err((prefill, rule));
        }
        if self.decode_busy_threshold.is_some() && !router.router_track_active_blocks {
            return Err((decode, "has no meaning without router_track_active_blocks".to_owned()));
        }
        if looks && !router.router_track_prefill_tokens {
            let rule = format!("`{name}` needs router_track_prefill_tokens");
            return Err(("conditional_disagg.policy", rule));
        }
        if !router.use_kv_events {
            let rule = "needs use_kv_events: it looks at what replicas that decode have cached";
            return Err(("conditional_disagg", rule.to_owned()));
        }
        Ok(())
    }
}

//! Arrivals by how often each adapter is asked for, and answers that end before their limit.

use serde::{Deserialize, Serialize};

use super::validate::Rules;
use super::{ArrivalConfig, WorkloadConfig};
use crate::scenario::AdapterPopularity;

/// Requests by hourly counts of calls, as those of serverless functions: of a count only its share of
/// the hour matters, which is the share of its adapter in the rate. Each adapter is a renewal process
/// with gamma gaps. Every hour gives an equal number of the requests, and begins with the last one of
/// the hour before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AdapterCountsConfig {
    /// Mean requests per second of all adapters together.
    pub rate_per_s: f64,
    /// Coefficient of variation of the gaps of each adapter.
    #[serde(default = "unit")]
    pub cv: f64,
    /// Hour by hour, how often each adapter is called.
    pub hourly_counts: Vec<Vec<u32>>,
    /// What the gaps of different adapters have to do with one another.
    #[serde(default)]
    pub streams: AdapterStreams,
}

/// What the gaps of different adapters have to do with one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AdapterStreams {
    /// Nothing.
    #[default]
    Independent,
    /// They are the same, divided by the rate of the adapter: dLoRA's workload generator seeds numpy's
    /// generator anew for each adapter, with `tool_seed` here.
    SharedStream,
}

/// Answers that end by themselves, before the limit of their request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EarlyStopConfig {
    /// The share of requests that this goes for.
    pub share: f64,
    /// Mean of their tokens, geometrically distributed, were there no limit.
    pub mean_tokens: f64,
}

fn unit() -> f64 {
    1.0
}

pub(super) fn check_counts(counts: &AdapterCountsConfig, rules: &mut Rules) {
    let cv = counts.cv;
    rules.check((1e-3..=1e3).contains(&cv), "arrivals.cv", "from 0.001 to 1000", cv);
    // The tool draws the gaps of 72 seconds at once (`workload::adapter_counts`).
    let (rate, shares) = (counts.rate_per_s, counts.streams == AdapterStreams::SharedStream);
    rules.check(
        !shares || rate <= 1e5,
        "arrivals.rate_per_s",
        "at most 10⁵ of a shared stream",
        rate,
    );
    let hours = counts.hourly_counts.len();
    rules.check(hours > 0, "arrivals.hourly_counts", "at least one hour", "none");
    for (hour, calls) in counts.hourly_counts.iter().enumerate() {
        let path = format!("arrivals.hourly_counts[{hour}]");
        let total: u64 = calls.iter().map(|count| u64::from(*count)).sum();
        rules.check(total > 0, &path, "at least one call", total);
    }
}

/// Rules on what is given by one part of a workload for another.
pub(super) fn check(config: &WorkloadConfig, rules: &mut Rules) {
    check_early_stop(config, rules);
    let mix = config.adapters.as_ref();
    let ArrivalConfig::AdapterCounts(counts) = &config.arrivals else { return };
    let Some(mix) = mix else {
        rules.broken("adapters", "must be given where arrivals are of type adapter_counts".into());
        return;
    };
    if mix.popularity != (AdapterPopularity::AsGiven {}) {
        let rule = "as_given where arrivals are of type adapter_counts, which say it";
        rules.broken("adapters.popularity", format!("must be {rule}"));
    }
    let adapters = mix.count() as usize;
    for (hour, calls) in counts.hourly_counts.iter().enumerate() {
        let path = format!("arrivals.hourly_counts[{hour}]");
        let rule = format!("a count for each of {adapters} adapters");
        rules.check(calls.len() == adapters, &path, &rule, format!("{} counts", calls.len()));
    }
    let hours = counts.hourly_counts.len() as u32;
    let divides = hours <= 1 || config.num_requests.is_some_and(|count| count % hours == 0);
    let rule = format!("a multiple of the {hours} hours of arrivals.hourly_counts");
    let got = config.num_requests.map_or_else(|| "none".to_owned(), |count| count.to_string());
    rules.check(divides, "num_requests", &rule, got);
}

fn check_early_stop(config: &WorkloadConfig, rules: &mut Rules) {
    let mut sum = 0.0;
    for (index, stop) in config.early_stop.iter().enumerate() {
        let path = |key: &str| format!("early_stop[{index}].{key}");
        rules.share(&path("share"), stop.share);
        let holds = (1.0..=1e9).contains(&stop.mean_tokens);
        rules.check(holds, &path("mean_tokens"), "from 1 to 10⁹", stop.mean_tokens);
        sum += stop.share;
    }
    rules.check(sum <= 1.0 + 1e-9, "early_stop", "shares that add up to 1 at most", sum);
    if !config.early_stop.is_empty() && config.sessions.is_some() {
        let message = "with sessions is not modelled: later turns have answers of their own";
        rules.broken("early_stop", message.into());
    }
}

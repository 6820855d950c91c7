//! What runs asked of their replicas, and what is beyond that.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Caveat, Scenario};
use crate::scenario::ReplicaRole;

/// What runs asked of their replicas on average, each from the run with the least to that with the most. Longest prompts
/// are left out: they grow with the number of requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// Requests per second that each replica served; where prefill and decode are apart, each replica of the role
    /// that has fewest. Absent where autoscalers changed their number, and where replicas serve several models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s_per_replica: Option<[f64; 2]>,
    /// Tokens of a prompt that was served.
    pub prompt_tokens: [f64; 2],
    /// Tokens of an answer.
    pub output_tokens: [f64; 2],
}

/// A figure of what runs ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DemandFigure {
    /// Requests per second of each replica.
    RequestsPerSPerReplica,
    /// Tokens of a prompt.
    PromptTokens,
    /// Tokens of an answer.
    OutputTokens,
}

impl fmt::Display for DemandFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RequestsPerSPerReplica => "requests/s per replica",
            Self::PromptTokens => "tokens a prompt on average",
            Self::OutputTokens => "tokens an answer on average",
        })
    }
}

/// So many times the most that was asked is not beyond it: draws of one workload differ.
const BEYOND: f64 = 1.25;

impl Demand {
    /// What these runs and others asked.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let joined = |[a, b]: [f64; 2], [c, d]: [f64; 2]| [a.min(c), b.max(d)];
        let rates = (self.requests_per_s_per_replica, other.requests_per_s_per_replica);
        Self {
            requests_per_s_per_replica: match rates {
                (Some(one), Some(another)) => Some(joined(one, another)),
                (one, another) => one.or(another),
            },
            prompt_tokens: joined(self.prompt_tokens, other.prompt_tokens),
            output_tokens: joined(self.output_tokens, other.output_tokens),
        }
    }

    /// The rule that it breaks, if it breaks one: the key, and what is wrong.
    pub fn broken_rule(&self) -> Option<String> {
        let rates = self.requests_per_s_per_replica;
        let mut all = [
            ("requests_per_s_per_replica", rates),
            ("prompt_tokens", Some(self.prompt_tokens)),
            ("output_tokens", Some(self.output_tokens)),
        ]
        .into_iter();
        all.find_map(|(key, range)| {
            let [least, most] = range?;
            let holds = least >= 0.0 && most >= least && most.is_finite();
            let rule = "must be the least and the most, both finite and at least 0";
            (!holds).then(|| format!("{key}: {rule}, got [{least}, {most}]"))
        })
    }

    /// Of what a run asks, the figures that are more than a quarter above the most that was asked here.
    pub fn exceeded_by(&self, run: &Self) -> Vec<Caveat> {
        let figures = [
            (
                DemandFigure::RequestsPerSPerReplica,
                self.requests_per_s_per_replica,
                run.requests_per_s_per_replica,
            ),
            (DemandFigure::PromptTokens, Some(self.prompt_tokens), Some(run.prompt_tokens)),
            (DemandFigure::OutputTokens, Some(self.output_tokens), Some(run.output_tokens)),
        ];
        let beyond = |(what, calibrated, run): (_, Option<[f64; 2]>, Option<[f64; 2]>)| {
            let ([least, most], [_, simulated]) = (calibrated?, run?);
            let caveat = Caveat::BeyondCalibration { what, least, most, simulated };
            (simulated > BEYOND * most).then_some(caveat)
        };
        figures.into_iter().filter_map(beyond).collect()
    }
}

impl Scenario {
    /// Replicas that share the requests; of prefill and decode those of the role that has fewer. Nothing where
    /// autoscalers change their number, and where they serve several models: each has requests of its own.
    pub(crate) fn replicas_that_share(&self) -> Option<u32> {
        let of = |role| {
            let groups = self.groups.iter().filter(|group| group.role == role);
            groups.map(super::ReplicaGroup::replicas).sum::<u32>()
        };
        let roles = [of(ReplicaRole::Prefill), of(ReplicaRole::Decode)];
        let fewest = roles.into_iter().filter(|count| *count > 0).min();
        let is_shared = !self.has_autoscaler() && self.models.len() == 1;
        is_shared.then(|| fewest.unwrap_or_else(|| self.replicas()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FITTED: Demand = Demand {
        requests_per_s_per_replica: Some([1.0, 6.0]),
        prompt_tokens: [12.0, 1024.0],
        output_tokens: [128.0, 128.0],
    };

    fn told(run: Demand) -> Vec<String> {
        FITTED.exceeded_by(&run).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_more_than_a_quarter_above_the_most_is_beyond() {
        assert!(told(FITTED).is_empty());
        let near = Demand {
            requests_per_s_per_replica: Some([7.5; 2]),
            prompt_tokens: [1280.0; 2],
            output_tokens: [160.0; 2],
        };
        assert!(told(near).is_empty(), "{:?}", told(near));
        let far = Demand {
            requests_per_s_per_replica: Some([14.0; 2]),
            prompt_tokens: [8000.4; 2],
            output_tokens: [160.6; 2],
        };
        let expected = [
            "the calibration was fitted on 1 to 6 requests/s per replica, and here there are 14",
            "the calibration was fitted on 12 to 1,024 tokens a prompt on average, and here there are 8,000",
            "the calibration was fitted on 128 tokens an answer on average, and here there are 161",
        ];
        assert_eq!(
            told(far),
            expected.map(|text| format!("{text}: what it says there is extrapolated"))
        );
        let unknown = Demand { requests_per_s_per_replica: None, ..far };
        assert_eq!(told(unknown).len(), 2, "a rate that is not known is not beyond");
    }

    #[test]
    fn runs_together_go_from_the_least_of_all_to_the_most() {
        let other = Demand {
            requests_per_s_per_replica: None,
            prompt_tokens: [7.0, 9.0],
            output_tokens: [200.0, 300.0],
        };
        let both = Demand { prompt_tokens: [7.0, 1024.0], output_tokens: [128.0, 300.0], ..FITTED };
        assert_eq!(FITTED.with(other), both);
        assert_eq!(other.with(FITTED), both);
    }

    #[test]
    fn ranges_that_are_none_are_named() {
        assert_eq!(FITTED.broken_rule(), None);
        let turned = Demand { prompt_tokens: [9.0, 7.0], ..FITTED };
        let rule = turned.broken_rule().expect("it is turned round");
        assert!(rule.starts_with("prompt_tokens: must be") && rule.ends_with("[9, 7]"), "{rule}");
        let rates = Some([1.0, f64::NAN]);
        let none = Demand { requests_per_s_per_replica: rates, ..FITTED };
        assert!(none.broken_rule().is_some_and(|rule| rule.ends_with("[1, NaN]")));
    }
}

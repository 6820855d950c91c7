//! What engines serve at most, whatever anybody waits: where searches begin. It is measured on a part of the
//! traffic, and proves nothing.

use super::traffic::Traffic;
use crate::cost::StepTime;
use crate::metrics::finishes_with_all_waiting;
use crate::request::Request;
use crate::resolved::{ReplicaGroup, Scenario};

/// Requests that are looked at: several times as many as run side by side.
const SAMPLE: usize = 2000;

/// What one replica serves with all requests waiting before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Prompts per second, if it did nothing else.
    pub prompts_per_s: f64,
    /// Answers per second, if it did nothing else.
    pub answers_per_s: f64,
}

impl Capacity {
    /// Of a replica of a group, for requests in a row of the traffic; nothing where it does not serve all of
    /// them.
    pub fn of(
        scenario: &Scenario,
        group: &ReplicaGroup,
        cost: &StepTime,
        traffic: &Traffic,
    ) -> Option<Self> {
        let sample = in_a_row(traffic.requests());
        let prompts: Vec<Request> = sample
            .iter()
            .map(|request| Request { output_tokens: 1, max_tokens: 1, ..request.clone() })
            .collect();
        let per_request = |requests: &[Request]| {
            let finishes = finishes_with_all_waiting(scenario, group, cost, requests)?;
            let middle = requests.len() / 4..requests.len() * 3 / 4;
            let took = (finishes[middle.end] - finishes[middle.start]).as_secs_f64();
            (took > 0.0).then(|| took / middle.len() as f64)
        };
        let (whole, prompt) = (per_request(&sample)?, per_request(&prompts)?);
        Some(Self {
            requests_per_s: 1.0 / whole,
            prompts_per_s: 1.0 / prompt,
            answers_per_s: 1.0 / (whole - prompt).max(whole / 100.0),
        })
    }
}

/// Requests in a row, from the middle, so that what they share they share here too; fewer are sent again, as
/// others, until there are enough.
fn in_a_row(requests: &[Request]) -> Vec<Request> {
    let start = requests.len().saturating_sub(SAMPLE) / 2;
    let row = &requests[start..(start + SAMPLE).min(requests.len())];
    let mut sample = Vec::with_capacity(SAMPLE);
    for copy in 0_u64.. {
        for request in row {
            if sample.len() == SAMPLE {
                return sample;
            }
            let mut request = request.clone();
            request.content.salt ^= if copy == 0 { 0 } else { crate::rng::mix(copy) };
            sample.push(request);
        }
    }
    sample
}

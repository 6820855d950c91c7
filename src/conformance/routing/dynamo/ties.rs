//! Many draws of one decision, without booking: their counts against the probabilities of the rules.
//!
//! A line counts as drawn unless its χ² is one that chance gives once in a million lines, and never where a worker was
//! drawn that cannot be.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Tally, read, wrong};
use crate::cluster::router::dynamo::probabilities;
use crate::conformance::RecordingError;

/// The quantile of the normal distribution that is passed once in a million.
const NORMAL_QUANTILE: f64 = 4.753;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(rename = "k")]
    _kind: String,
    temperature: f64,
    block_size: u32,
    #[serde(rename = "isl")]
    _isl: u64,
    draws: u64,
    /// Prefill tokens with those of the prompt, and active blocks with those of the prompt.
    potential: BTreeMap<String, (f64, f64)>,
    counts: BTreeMap<String, u64>,
    #[serde(rename = "first_200")]
    _first: Vec<u64>,
}

pub(super) fn replay(lines: &[Value]) -> Result<Tally, RecordingError> {
    let mut tally = Tally { policy: "dynamo".to_owned(), ..Tally::default() };
    for (at, line) in lines.iter().enumerate() {
        let line: Line = read(at + 1, line)?;
        if line.counts.values().fold(0, |sum: u64, one| sum.saturating_add(*one)) != line.draws
            || line.block_size == 0
        {
            return Err(wrong(
                at + 1,
                "counts: must add up to draws, in blocks of at least a token",
            ));
        }
        if !(line.temperature >= 0.0 && line.temperature.is_finite()) {
            return Err(wrong(
                at + 1,
                format!("temperature: must be at least 0, got {}", line.temperature),
            ));
        }
        let costs: Vec<f64> = (line.potential.values())
            .map(|(tokens, blocks)| tokens / f64::from(line.block_size) + blocks)
            .collect();
        let parts = parts(&costs, line.temperature);
        let drawn: Vec<u64> =
            line.potential.keys().map(|name| line.counts.get(name).copied().unwrap_or(0)).collect();
        let place = || format!("line {} (counts)", at + 1);
        if is_by_chance(&drawn, &parts, line.draws) {
            tally.drawn += 1;
        } else {
            let expected = parts.iter().map(|part| (part * line.draws as f64).round() as u64);
            tally.count(place, &drawn, &[expected.collect()]);
        }
    }
    Ok(tally)
}

fn parts(costs: &[f64], temperature: f64) -> Vec<f64> {
    let mut parts = Vec::new();
    if temperature > 0.0 {
        probabilities(costs, temperature, &mut parts);
        return parts;
    }
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let equal = costs.iter().filter(|cost| **cost <= least).count() as f64;
    parts.extend(costs.iter().map(|cost| if *cost <= least { 1.0 / equal } else { 0.0 }));
    parts
}

fn is_by_chance(drawn: &[u64], parts: &[f64], draws: u64) -> bool {
    let cells = drawn.iter().zip(parts).filter(|(_, part)| **part > 0.0);
    let freedom = cells.clone().count() as f64 - 1.0;
    let within: u64 = cells.clone().map(|(count, _)| count).sum();
    if within < draws {
        return false;
    }
    let chi_square: f64 = cells
        .map(|(count, part)| {
            let expected = part * draws as f64;
            (*count as f64 - expected).powi(2) / expected
        })
        .sum();
    // Wilson and Hilferty: the cube root of χ² over its degrees of freedom is nearly normal.
    let width = 2.0 / (9.0 * freedom.max(1.0));
    chi_square <= freedom * (1.0 - width + NORMAL_QUANTILE * width.sqrt()).powi(3)
}

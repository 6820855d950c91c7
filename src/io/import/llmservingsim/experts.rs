//! `moe.csv`: whole experts, measured once, in the folder of tensor parallel size 1.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use serde::Deserialize;

use super::{check_time, csv_rows};
use crate::cost::{ExpertsProfile, Numbers};
use crate::io::import::error::LayerImportError;

#[derive(Debug, Deserialize)]
struct Row {
    tokens: u32,
    activated_experts: u32,
    time_us: f64,
}

/// `None` for a model without experts.
pub(super) fn read(folder: &Path, tp: u32) -> Result<Option<ExpertsProfile>, LayerImportError> {
    let own = folder.join(format!("tp{tp}")).join("moe.csv");
    let path = if own.is_file() { own } else { folder.join("tp1").join("moe.csv") };
    if !path.is_file() {
        return Ok(None);
    }
    let mut by_tokens: BTreeMap<u64, BTreeMap<u64, f64>> = BTreeMap::new();
    for row in csv_rows::<Row>(&path)? {
        check_time(&path, "experts", row.time_us)?;
        let row_of = by_tokens.entry(row.tokens.into()).or_default();
        row_of.insert(row.activated_experts.into(), row.time_us);
    }
    let mut activated: Vec<u64> = by_tokens.values().flat_map(|row| row.keys().copied()).collect();
    activated.sort_unstable();
    activated.dedup();
    let mut experts_ns = Vec::new();
    for row in by_tokens.values() {
        experts_ns.extend(activated.iter().map(|count| (along(row, *count) * 1e3).round() as u64));
    }
    Ok(Some(ExpertsProfile {
        tokens: Numbers(by_tokens.keys().copied().collect()),
        activated: Numbers(activated),
        experts_ns: Numbers(experts_ns),
    }))
}

/// The value of a ragged row: linear, beyond the last point as in the last gap, constant where there
/// is one point only.
pub(super) fn along(row: &BTreeMap<u64, f64>, at: u64) -> f64 {
    let below = row.range(..=at).next_back();
    let above = row.range((Bound::Excluded(at), Bound::Unbounded)).next();
    let (low, high) = match (below, above) {
        (Some(low), Some(high)) => (low, high),
        (None, Some(only)) => return *only.1,
        (None, None) => return 0.0,
        (Some(last), None) => match row.range(..last.0).next_back() {
            Some(before) => (before, last),
            None => return *last.1,
        },
    };
    let share = (at as f64 - *low.0 as f64) / (*high.0 - *low.0) as f64;
    low.1 + share * (high.1 - low.1)
}

//! How far predictions are from logs, by engine and band of versions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::gib;
use super::{MemoryStudy, Row};
use crate::stats::{mean, percentile_sorted};

/// Predictions of one band.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct BandScore {
    /// Engine and versions.
    pub(super) band: String,
    /// Starts.
    pub(super) starts: usize,
    /// Those that were predicted and log what was.
    pub(super) scored: usize,
    /// Half of them are off by at most so many percent of the KV memory.
    pub(super) median_abs_pct: Option<f64>,
    /// Nine of ten.
    pub(super) p90_abs_pct: Option<f64>,
    /// On average, with sign.
    pub(super) mean_pct: Option<f64>,
    /// Those that are off by at most a tenth of a GiB.
    pub(super) within_tenth_gib: usize,
}

impl Row {
    /// By how much the prediction is too large, in percent.
    pub(super) fn error_pct(&self) -> Option<f64> {
        let (predicted, logged) = self.prediction.compared(&self.start)?;
        (logged > 0.0).then(|| 100.0 * (predicted / logged - 1.0))
    }

    /// The same in GiB.
    pub(super) fn error_gib(&self) -> Option<f64> {
        let logged = self.prediction.logged_kv(&self.start)?;
        Some(gib(self.prediction.kv_bytes as f64 - logged))
    }
}

impl MemoryStudy {
    /// Scores of starts of a quality, or of all, band by band and then together.
    pub(super) fn scores(&self, quality: Option<&str>) -> Vec<BandScore> {
        let is_meant = |told: &str| quality.is_none_or(|quality| quality == told);
        let mut bands: BTreeMap<String, (usize, Vec<&Row>)> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| is_meant(row.start.quality())) {
            let (starts, rows) = bands.entry(row.start.band()).or_default();
            *starts += 1;
            rows.push(row);
        }
        for (start, _) in self.left_out.iter().filter(|(start, _)| is_meant(start.quality())) {
            bands.entry(start.band()).or_default().0 += 1;
        }
        let all = bands.values().fold((0, Vec::new()), |(starts, mut rows), (more, others)| {
            rows.extend(others.iter().copied());
            (starts + more, rows)
        });
        let scores = bands.iter().map(|(name, (starts, rows))| BandScore::of(name, *starts, rows));
        scores.chain([BandScore::of("all", all.0, &all.1)]).collect()
    }
}

impl BandScore {
    fn of(band: &str, starts: usize, rows: &[&Row]) -> Self {
        let errors: Vec<f64> = rows.iter().filter_map(|row| row.error_pct()).collect();
        let mut sorted: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |p| (!sorted.is_empty()).then(|| percentile_sorted(&sorted, p));
        let near = |row: &&&Row| row.error_gib().is_some_and(|error| error.abs() <= 0.1);
        Self {
            band: band.to_owned(),
            starts,
            scored: errors.len(),
            median_abs_pct: at(50.0),
            p90_abs_pct: at(90.0),
            mean_pct: (!errors.is_empty()).then(|| mean(&errors)),
            within_tenth_gib: rows.iter().filter(near).count(),
        }
    }
}

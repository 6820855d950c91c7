//! `all_reduce.csv`: times by bytes, as a latency and a rate.

use std::collections::BTreeMap;
use std::path::Path;

use super::table::Rows as Table;
use crate::cost::AllReduceHost;
use crate::io::import::error::LayerImportError;

/// Octaves of bytes weigh the same, however many points they hold.
fn octave(bytes: u64) -> u32 {
    bytes.ilog2()
}

/// Latency and rate with the least squares of errors relative to the times, and their mean error.
pub(super) fn fit(path: &Path, gpus: u32) -> Result<(AllReduceHost, f64), LayerImportError> {
    let table = Table::read(path)?;
    let mut points = Vec::new();
    for row in table.with("num_workers", gpus)? {
        let (bytes, us) = (row.count("size")?, row.micros("all_reduce")?);
        if bytes > 0 && us > 0.0 {
            points.push((bytes, us));
        }
    }
    let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
    for (bytes, _) in &points {
        *counts.entry(octave(*bytes)).or_default() += 1.0;
    }
    // Σ weight · (latency/t + per_byte·bytes/t − 1)², with a = 1/t and b = bytes/t.
    let [mut aa, mut ab, mut bb, mut a1, mut b1] = [0.0; 5];
    for (bytes, us) in &points {
        let weight = 1.0 / counts[&octave(*bytes)];
        let (a, b) = (1.0 / us, *bytes as f64 / us);
        aa += weight * a * a;
        ab += weight * a * b;
        bb += weight * b * b;
        a1 += weight * a;
        b1 += weight * b;
    }
    let determinant = aa * bb - ab * ab;
    let (latency_us, us_per_byte) =
        ((a1 * bb - b1 * ab) / determinant, (aa * b1 - ab * a1) / determinant);
    if points.len() < 2 || !(latency_us >= 0.0 && us_per_byte > 0.0 && us_per_byte.is_finite()) {
        let problem = format!("all-reduces of {gpus} GPUs do not grow with their bytes");
        return Err(table.fail(problem));
    }
    let error =
        |(bytes, us): &(u64, f64)| ((latency_us + us_per_byte * *bytes as f64) / us - 1.0).abs();
    let mean = points.iter().map(error).sum::<f64>() / points.len() as f64;
    // Bytes per µs are 10⁶ B/s.
    let host = AllReduceHost { latency_us: round(latency_us), gb_s: round(1e-3 / us_per_byte) };
    Ok((host, mean))
}

/// To 0.01.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

//! `skew_fit.csv`: alpha by class of batch. Of batches that also prefill only the default is kept:
//! single classes of theirs rest on a handful of noisy samples.

use std::path::Path;

use serde::Deserialize;

use super::csv_rows;
use super::meta::{BucketAxes, Meta};
use crate::cost::{Numbers, SkewProfile};
use crate::io::import::error::LayerImportError;

#[derive(Debug, Deserialize)]
struct Bucket {
    pc: u64,
    n_label: String,
    skew_rate_label: String,
    kv_big_label: String,
    kp_label: String,
    alpha: f64,
}

/// `None` where `meta.yaml` switches the correction off.
pub(super) fn read(
    meta: &Meta,
    folder: &Path,
    tp: u32,
) -> Result<Option<SkewProfile>, LayerImportError> {
    let fit = &meta.skew_fit;
    if !fit.enabled {
        return Ok(None);
    }
    let path = folder.join("skew_fit.csv");
    let missing =
        |what: String| LayerImportError::content(&path, format!("meta.yaml has no {what}"));
    let axes = fit.bucket_axes.as_ref().ok_or_else(|| missing("skew_fit.bucket_axes".into()))?;
    let of_tp = fit.per_tp.get(&tp).ok_or_else(|| missing(format!("skew_fit.per_tp.{tp}")))?;
    let inner = |bins: &[f64], scale: f64| {
        let inner = bins.get(1..bins.len().saturating_sub(1)).unwrap_or_default();
        Numbers(inner.iter().map(|bound| (bound * scale).round() as u64).collect())
    };
    let mut profile = SkewProfile {
        mixed_alpha: of_tp.alpha_default,
        decode_seqs: inner(&axes.n_bins, 1.0),
        mean_percent: inner(&axes.skew_rate_bins, 100.0),
        context: inner(&axes.kv_big_bins, 1.0),
        alpha: vec![of_tp.alpha_default; axes.classes()],
    };
    for bucket in csv_rows::<Bucket>(&path)? {
        if bucket.pc == 0 && bucket.kp_label == "kp=0" {
            let class = axes.class(&bucket).ok_or_else(|| {
                LayerImportError::content(&path, format!("a class is not in meta.yaml: {bucket:?}"))
            })?;
            profile.alpha[class] = bucket.alpha;
        }
    }
    Ok(Some(profile))
}

impl BucketAxes {
    fn classes(&self) -> usize {
        self.n_labels.len() * self.skew_rate_labels.len() * self.kv_big_labels.len()
    }

    fn class(&self, bucket: &Bucket) -> Option<usize> {
        let find = |labels: &[String], label: &str| labels.iter().position(|known| known == label);
        let seqs = find(&self.n_labels, &bucket.n_label)?;
        let mean = find(&self.skew_rate_labels, &bucket.skew_rate_label)?;
        let context = find(&self.kv_big_labels, &bucket.kv_big_label)?;
        Some((seqs * self.skew_rate_labels.len() + mean) * self.kv_big_labels.len() + context)
    }
}

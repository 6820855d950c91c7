//! What unequal contexts add to the attention of a decode batch.

use super::profile::SkewProfile;

/// Shares alpha in A(mean) + alpha · (A(longest) − A(mean)).
#[derive(Debug, Clone)]
pub(super) struct Skew {
    mixed: f64,
    seqs: Vec<u64>,
    mean: Vec<f64>,
    context: Vec<u64>,
    alpha: Vec<f64>,
}

impl Skew {
    pub(super) fn new(profile: &SkewProfile) -> Self {
        Self {
            mixed: profile.mixed_alpha,
            seqs: profile.decode_seqs.to_vec(),
            mean: profile.mean_percent.iter().map(|percent| *percent as f64 / 100.0).collect(),
            context: profile.context.to_vec(),
            alpha: profile.alpha.clone(),
        }
    }

    /// Alpha of a batch that also prefills.
    pub(super) fn mixed(&self) -> f64 {
        self.mixed
    }

    /// Alpha of a batch that only decodes. The shortest context counts as none, so that nobody has
    /// to keep it: where it is long, longest and mean are close, and alpha matters little (0.04 %
    /// of the decode steps' time over 300 `ShareGPT` requests to Llama-3.1-8B).
    pub(super) fn decode(&self, seqs: u32, mean: f64, longest: u32) -> f64 {
        let place = mean / f64::from(longest);
        let seqs = self.seqs.partition_point(|bound| *bound < u64::from(seqs));
        let class = self.mean.partition_point(|bound| *bound < place);
        let context = self.context.partition_point(|bound| *bound < u64::from(longest));
        let (means, contexts) = (self.mean.len() + 1, self.context.len() + 1);
        self.alpha[(seqs * means + class) * contexts + context]
    }
}

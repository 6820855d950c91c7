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

    /// Alpha of batches that only decode so many sequences. The shortest context counts as none, so that nobody has
    /// to keep it: where it is long, longest and mean are close, and alpha matters little (0.04 %
    /// of the decode steps' time over 300 `ShareGPT` requests to Llama-3.1-8B).
    pub(super) fn decodes(&self, seqs: u32) -> Shares<'_> {
        let seqs = self.seqs.partition_point(|bound| *bound < u64::from(seqs));
        let len = (self.mean.len() + 1) * (self.context.len() + 1);
        let alpha = &self.alpha[seqs * len..][..len];
        Shares { mean: &self.mean, context: &self.context, alpha, class: 0, column: 0 }
    }
}

/// Alpha by mean and longest context. Where they were found last is where they are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares<'a> {
    mean: &'a [f64],
    context: &'a [u64],
    alpha: &'a [f64],
    class: usize,
    column: usize,
}

impl Shares<'_> {
    #[inline]
    pub(super) fn alpha(&mut self, mean: f64, longest: u32) -> f64 {
        let place = mean / f64::from(longest);
        seek(&mut self.class, self.mean, |bound| *bound < place);
        seek(&mut self.column, self.context, |bound| *bound < u64::from(longest));
        self.alpha[self.class * (self.context.len() + 1) + self.column]
    }
}

/// Moves an index to the partition point of a list.
#[inline]
fn seek<T>(at: &mut usize, list: &[T], is_below: impl Fn(&T) -> bool) {
    while list.get(*at).is_some_and(&is_below) {
        *at += 1;
    }
    while *at > 0 && !is_below(&list[*at - 1]) {
        *at -= 1;
    }
}

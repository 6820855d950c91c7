//! Attention of batches that decode the same sequences, step after step.

use super::attention::{Attention, Decodes};
use super::skew::{Shares, Skew};

/// The time by the contexts of these sequences.
#[derive(Debug, Clone, Copy)]
pub(in crate::cost) struct DecodeLine<'a> {
    seqs: u32,
    decodes: Decodes<'a>,
    shares: Option<Shares<'a>>,
    /// Where mean and longest context were found last.
    mean_at: usize,
    longest_at: usize,
}

impl<'a> DecodeLine<'a> {
    /// Of at least one sequence.
    pub(super) fn new(attention: &'a Attention, skew: Option<&'a Skew>, seqs: u32) -> Self {
        let skew = skew.filter(|_| seqs > 1);
        Self {
            seqs,
            decodes: attention.decodes(seqs),
            shares: skew.map(|skew| skew.decodes(seqs)),
            mean_at: 0,
            longest_at: 0,
        }
    }

    /// Seconds, where all contexts have so many tokens and the longest so many.
    #[inline]
    pub(in crate::cost) fn secs(&mut self, tokens: u64, longest: u32) -> f64 {
        let mean = tokens.cast_signed() as f64 / f64::from(self.seqs);
        let contexts = self.decodes.contexts;
        let secs = self.decodes.secs(contexts.locate_near(mean, &mut self.mean_at));
        match &mut self.shares {
            Some(shares) if f64::from(longest) > mean => {
                let place = contexts.locate_near(f64::from(longest), &mut self.longest_at);
                let most = self.decodes.secs(place);
                secs + shares.alpha(mean, longest) * (most - secs).max(0.0)
            }
            _ => secs,
        }
    }
}

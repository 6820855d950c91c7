//! Attention over what prefills and what decodes together: a table of four dimensions, linear in
//! each.

use super::axis::Axis;
use super::axis::Place;
use super::profile::AttentionProfile;

/// Seconds of one layer's attention by tokens prefilled, tokens in context before them, sequences
/// that decode and their context.
#[derive(Debug, Clone)]
pub(super) struct Attention {
    prefill_tokens: Axis,
    prefill_context: Axis,
    decode_seqs: Axis,
    decode_context: Axis,
    /// Places of the measured numbers of decodes.
    seqs_places: Vec<Place>,
    /// Rows of contexts, by tokens prefilled, then sequences that decode, then prefill context.
    secs: Vec<f64>,
}

/// A batch but for the context of its decodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    tokens: Place,
    cached: Place,
    seqs: Place,
}

impl Attention {
    /// Fills the dense table. Without prefill the prefill's context does not matter, without decodes
    /// theirs. Mixed batches beyond the measured number of decodes cost what the last measured one
    /// does and what the further decodes cost alone. `scale` multiplies every time.
    pub(super) fn new(profile: &AttentionProfile, scale: f64) -> Self {
        let axis = |points: &[u64], from_zero: bool| {
            let zero = from_zero.then_some(0.0);
            Axis::new(zero.into_iter().chain(points.iter().map(|p| *p as f64)).collect())
        };
        let (tokens, seqs) = (profile.prefill_tokens.len(), profile.decode_seqs.len());
        let (cached, contexts) = (profile.prefill_context.len(), profile.decode_context.len());
        let mixed_seqs = profile.mixed_tenth_us.len() / (tokens * cached * contexts);
        let decode = |d: usize, c: usize| match d {
            0 => 0.0,
            d => profile.decode_tenth_us[(d - 1) * contexts + c] as f64,
        };
        let measured = |p: usize, d: usize, k: usize, c: usize| match (p, d) {
            (0, 0) => profile.prefill_tenth_us[k] as f64,
            (0, d) => decode(d, c),
            (p, 0) => profile.prefill_tenth_us[(p - 1) * cached + k] as f64,
            (p, d) => {
                let row = ((p - 1) * mixed_seqs + d - 1) * cached + k;
                profile.mixed_tenth_us[row * contexts + c] as f64
            }
        };
        let mut secs = Vec::with_capacity((tokens + 1) * (seqs + 1) * cached * contexts);
        for p in 0..=tokens {
            for d in 0..=seqs {
                for k in 0..cached {
                    for c in 0..contexts {
                        let known = if p == 0 { d } else { d.min(mixed_seqs) };
                        let further = decode(d, c) - decode(known, c);
                        secs.push((measured(p, known, k, c) + further) * scale * 1e-7);
                    }
                }
            }
        }
        let decode_seqs = axis(&profile.decode_seqs, true);
        let measured = 0..=decode_seqs.last() as u32;
        Self {
            seqs_places: measured.map(|seqs| decode_seqs.locate(f64::from(seqs))).collect(),
            prefill_tokens: axis(&profile.prefill_tokens, true),
            prefill_context: axis(&profile.prefill_context, false),
            decode_seqs,
            decode_context: axis(&profile.decode_context, false),
            secs,
        }
    }

    /// A batch of `tokens` prefilled behind `cached` others, and `seqs` decodes.
    pub(super) fn slice(&self, tokens: u32, cached: u64, seqs: u32) -> Slice {
        Slice {
            tokens: self.prefill_tokens.locate(f64::from(tokens)),
            cached: self.prefill_context.locate(cached as f64),
            seqs: self.place_of_seqs(seqs),
        }
    }

    fn place_of_seqs(&self, seqs: u32) -> Place {
        let place = self.seqs_places.get(seqs as usize).copied();
        place.unwrap_or_else(|| self.decode_seqs.locate(f64::from(seqs)))
    }

    /// Seconds of a batch that only decodes.
    pub(super) fn decode_secs(&self, seqs: u32, context: f64) -> f64 {
        self.decodes(seqs).secs(self.decode_context.locate(context))
    }

    /// The times of batches that only decode so many sequences.
    pub(super) fn decodes(&self, seqs: u32) -> Decodes<'_> {
        let Place { index, share } = self.place_of_seqs(seqs);
        let row = |seqs: usize| {
            let contexts = self.decode_context.len();
            let at = seqs * self.prefill_context.len() * contexts;
            &self.secs[at..at + contexts]
        };
        let above = if share == 0.0 { None } else { Some((row(index + 1), share)) };
        Decodes { contexts: &self.decode_context, below: row(index), above }
    }

    /// Seconds of a batch whose decodes have this much context each.
    pub(super) fn secs(&self, slice: Slice, context: f64) -> f64 {
        let context = self.decode_context.locate(context);
        let Slice { tokens, cached, seqs } = slice;
        let below = self.plane(tokens.index, seqs, cached, context);
        if tokens.share == 0.0 {
            return below;
        }
        between(below, self.plane(tokens.index + 1, seqs, cached, context), tokens.share)
    }

    /// Whether every coordinate lies within the measured range.
    pub(super) fn covers(&self, tokens: u32, cached: u64, seqs: u32, longest: u32) -> bool {
        f64::from(tokens) <= self.prefill_tokens.last()
            && cached as f64 <= self.prefill_context.last()
            && f64::from(seqs) <= self.decode_seqs.last()
            && f64::from(longest) <= self.decode_context.last()
    }

    fn plane(&self, tokens: usize, seqs: Place, cached: Place, context: Place) -> f64 {
        let (cached_len, contexts) = (self.prefill_context.len(), self.decode_context.len());
        let row = |seqs: usize, cached: usize| {
            let row = (tokens * self.decode_seqs.len() + seqs) * cached_len + cached;
            let at = row * contexts + context.index;
            between(self.secs[at], self.secs[at + 1], context.share)
        };
        let line = |seqs: usize| {
            let below = row(seqs, cached.index);
            if cached.share == 0.0 {
                return below;
            }
            between(below, row(seqs, cached.index + 1), cached.share)
        };
        let below = line(seqs.index);
        if seqs.share == 0.0 {
            return below;
        }
        between(below, line(seqs.index + 1), seqs.share)
    }
}

/// The times of batches that only decode, by context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decodes<'a> {
    pub(super) contexts: &'a Axis,
    /// Those of the next smaller measured number of sequences, and of the next larger one.
    below: &'a [f64],
    above: Option<(&'a [f64], f64)>,
}

impl Decodes<'_> {
    #[inline]
    pub(super) fn secs(&self, context: Place) -> f64 {
        let Place { index, share } = context;
        let at = |row: &[f64]| between(row[index], row[index + 1], share);
        let below = at(self.below);
        self.above.map_or(below, |(above, share)| between(below, at(above), share))
    }
}

fn between(below: f64, above: f64, share: f64) -> f64 {
    below + share * (above - below)
}

//! Embeddings of images: how many an encoder computes in a step, and which are kept (vLLM 0.33.0,
//! `vllm/v1/core/encoder_cache_manager.py`, `scheduler.py`, `_try_schedule_encoder_inputs`).
//!
//! A step computes so many embeddings at most, beside its tokens. Embeddings of an image are kept from the
//! step that computes them until their place is needed, and those that a request has not come past are not
//! given up. Requests with equal images share them.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::VllmV1;
use super::limits::StepLimits;
use super::sequence::Sequence;
use crate::engine::StepPlan;
use crate::ids::RequestId;
use crate::request::Image;

/// The limits of an engine's encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderSettings {
    /// Embeddings computed in a step at most; vLLM's is at least that of the largest image.
    pub compute_budget: u32,
    /// Embeddings kept (`encoder_cache_size`).
    pub cache_size: u32,
    /// Whether an image is computed with the chunk that has all its tokens, or not at all
    /// (`disable_chunked_mm_input`).
    pub whole_images: bool,
}

#[derive(Debug, Clone, Default)]
struct Kept {
    tokens: u32,
    /// Requests that have not come past it, each with the index of the image: a request may have it twice.
    users: Vec<(RequestId, u32)>,
}

/// An encoder and what is kept of what it has computed.
#[derive(Debug, Clone)]
pub(super) struct Encoder {
    settings: EncoderSettings,
    kept: FxHashMap<u64, Kept>,
    /// Images without a user, in the order in which the last one came past.
    freeable: VecDeque<u64>,
    /// Embeddings for which there is a place.
    free: u32,
    /// The same with those of images without a user.
    reclaimable: u32,
}

impl Encoder {
    fn new(settings: EncoderSettings) -> Self {
        Self {
            kept: FxHashMap::default(),
            freeable: VecDeque::new(),
            free: settings.cache_size,
            reclaimable: settings.cache_size,
            settings,
        }
    }

    /// Whether an image is kept; then this one of a request is one of its users.
    fn joins(&mut self, user: (RequestId, u32), image: &Image) -> bool {
        let Some(kept) = self.kept.get_mut(&image.identifier) else { return false };
        if kept.users.is_empty() {
            self.freeable.retain(|other| *other != image.identifier);
            self.reclaimable -= kept.tokens;
        }
        if !kept.users.contains(&user) {
            kept.users.push(user);
        }
        true
    }

    /// Whether there is a place for so many embeddings; images without a user make way at once.
    fn makes_room(&mut self, tokens: u32) -> bool {
        if tokens > self.reclaimable {
            return false;
        }
        while tokens > self.free {
            let oldest = self.freeable.pop_front().expect("an image without a user is left");
            self.free += self.kept.remove(&oldest).map_or(0, |kept| kept.tokens);
        }
        true
    }

    fn keep(&mut self, user: (RequestId, u32), image: &Image) {
        self.free -= image.tokens;
        self.reclaimable -= image.tokens;
        let users = vec![user];
        self.kept.insert(image.identifier, Kept { tokens: image.tokens, users });
    }

    /// A request has come past an image, or leaves.
    fn part(&mut self, leaves: (RequestId, u32), image: &Image) {
        let Some(kept) = self.kept.get_mut(&image.identifier) else { return };
        if kept.users.is_empty() {
            return;
        }
        kept.users.retain(|user| *user != leaves);
        if kept.users.is_empty() {
            self.freeable.push_back(image.identifier);
            self.reclaimable += kept.tokens;
        }
    }
}

/// What a share takes of the encoder.
#[derive(Debug, Clone, Default)]
pub(super) struct Encoded {
    /// The tokens that it computes in the end.
    pub(super) tokens: u32,
    /// The images to compute, by their index in the request.
    images: Vec<u32>,
    embeddings: u32,
}

impl VllmV1 {
    /// The same engine with an encoder of images.
    #[must_use]
    pub fn with_encoder(mut self, settings: EncoderSettings) -> Self {
        self.encoder = Some(Box::new(Encoder::new(settings)));
        self.groups = false;
        self
    }

    /// Places for embeddings that are free, and those that are free or would be given up; none without an
    /// encoder.
    pub fn encoder_places(&self) -> Option<(u32, u32)> {
        self.encoder.as_ref().map(|encoder| (encoder.free, encoder.reclaimable))
    }

    /// Embeddings that a step may compute.
    pub(super) fn encoder_budget(&self) -> u32 {
        self.encoder.as_ref().map_or(0, |encoder| encoder.settings.compute_budget)
    }

    /// How many of `tokens` tokens from `computed` on a request may compute, and which images for it.
    #[inline]
    pub(super) fn encode(
        &mut self,
        slot: u32,
        (computed, tokens): (u32, u32),
        limits: &StepLimits,
    ) -> Encoded {
        if self.encoder.is_none() {
            return Encoded { tokens, ..Encoded::default() };
        }
        self.choose_images(slot, (computed, tokens), limits)
    }

    fn choose_images(
        &mut self,
        slot: u32,
        (computed, tokens): (u32, u32),
        limits: &StepLimits,
    ) -> Encoded {
        let whole = Encoded { tokens, ..Encoded::default() };
        let s = &self.sequences[slot as usize];
        let (Some(encoder), Some(inputs)) = (&mut self.encoder, &s.inputs) else { return whole };
        let (id, end, images) = (s.life.id, computed + tokens, &inputs.images);
        let mut chosen = whole;
        for (index, image) in (0..).zip(images.iter()) {
            let last = image.offset + image.tokens;
            if image.offset >= end {
                break;
            }
            if last <= computed {
                continue;
            }
            let is_split = encoder.settings.whole_images && computed <= image.offset && end < last;
            if is_split {
                chosen.tokens = image.offset.saturating_sub(computed);
                break;
            }
            let same = |other: &u32| images[*other as usize].identifier == image.identifier;
            if chosen.images.iter().any(same) || encoder.joins((id, index), image) {
                continue;
            }
            let is_affordable = image.tokens <= limits.encoder - chosen.embeddings;
            if !is_affordable || !encoder.makes_room(chosen.embeddings + image.tokens) {
                chosen.tokens = image.offset.saturating_sub(computed);
                break;
            }
            chosen.embeddings += image.tokens;
            chosen.images.push(index);
        }
        chosen
    }

    /// A share with these images is part of the step.
    #[inline]
    pub(super) fn keep_encoded(
        &mut self,
        slot: u32,
        encoded: Encoded,
        limits: &mut StepLimits,
        plan: &mut StepPlan,
    ) {
        if !encoded.images.is_empty() {
            self.keep_images(slot, encoded, limits, plan);
        }
    }

    fn keep_images(
        &mut self,
        slot: u32,
        encoded: Encoded,
        limits: &mut StepLimits,
        plan: &mut StepPlan,
    ) {
        let s = &self.sequences[slot as usize];
        let (Some(encoder), Some(inputs)) = (&mut self.encoder, &s.inputs) else { return };
        for &index in &encoded.images {
            encoder.keep((s.life.id, index), &inputs.images[index as usize]);
        }
        limits.encoder -= encoded.embeddings;
        plan.encoded.push((s.life.id, encoded.images));
    }

    /// Takes back from a victim what it was given of the encoder in this step.
    pub(super) fn take_back_encoded(
        sequence: &Sequence,
        limits: &mut StepLimits,
        plan: &mut StepPlan,
    ) {
        let Some(inputs) = &sequence.inputs else { return };
        let images = &inputs.images;
        let id = sequence.life.id;
        let own = plan.encoded.iter().filter(|(other, _)| *other == id);
        let indices = own.flat_map(|(_, indices)| indices);
        limits.encoder += indices.map(|&index| images[index as usize].tokens).sum::<u32>();
        plan.encoded.retain(|(other, _)| *other != id);
    }

    /// A request has no more use for the images that end at or before a token.
    #[inline]
    pub(super) fn pass_images(&mut self, slot: u32, token: u32) {
        if self.encoder.is_some() {
            self.part_with_images(slot, token);
        }
    }

    fn part_with_images(&mut self, slot: u32, token: u32) {
        let s = &self.sequences[slot as usize];
        let (Some(encoder), Some(inputs)) = (&mut self.encoder, &s.inputs) else { return };
        let images = &inputs.images;
        let passed = |(_, image): &(u32, &Image)| image.offset + image.tokens <= token;
        for (index, image) in (0..).zip(images.iter()).filter(passed) {
            encoder.part((s.life.id, index), image);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(identifier: u64, tokens: u32) -> Image {
        Image { identifier, offset: 0, tokens }
    }

    #[test]
    fn images_that_nobody_uses_make_way_oldest_first() {
        let settings = EncoderSettings { compute_budget: 9, cache_size: 10, whole_images: false };
        let mut encoder = Encoder::new(settings);
        let users = [(RequestId(0), 0), (RequestId(1), 0), (RequestId(1), 1)];
        encoder.keep(users[0], &image(1, 4));
        encoder.keep(users[1], &image(2, 4));
        assert!(!encoder.makes_room(4), "both are in use");
        encoder.part(users[1], &image(2, 4));
        encoder.part(users[0], &image(1, 4));
        assert_eq!((encoder.free, encoder.reclaimable), (2, 10));
        assert!(encoder.makes_room(4));
        // The second was let go first.
        assert!(!encoder.joins(users[2], &image(2, 4)) && encoder.joins(users[2], &image(1, 4)));
        assert_eq!((encoder.free, encoder.reclaimable), (6, 6));
    }

    #[test]
    fn an_image_that_a_request_has_twice_is_in_use_until_both_are_passed() {
        let settings = EncoderSettings { compute_budget: 9, cache_size: 4, whole_images: false };
        let mut encoder = Encoder::new(settings);
        encoder.keep((RequestId(0), 0), &image(1, 4));
        assert!(encoder.joins((RequestId(0), 1), &image(1, 4)));
        encoder.part((RequestId(0), 0), &image(1, 4));
        assert_eq!(encoder.reclaimable, 0);
        encoder.part((RequestId(0), 1), &image(1, 4));
        assert_eq!(encoder.reclaimable, 4);
    }
}

//! Which beginnings of prompts were sent to which instance: what a gateway believes that caches hold.
//!
//! One radix tree of tokens per instance, kept by the gateway from the prompts it sent. It knows
//! nothing of answers and of what engines evicted. Each tree is bounded: what was sent longest ago is
//! dropped first, leaf by leaf. Prompts of different adapters or salts have nothing in common, as in
//! the caches of engines.

use crate::ids::InstanceId;
use crate::kv::RadixTree;
use crate::request::RequestView;
use crate::request::Segment;
use crate::rng::mix;

/// The prompts sent to each instance.
#[derive(Debug, Clone)]
pub(super) struct PrefixIndex {
    trees: Vec<RadixTree>,
    max_tree_tokens: u32,
    /// The prompt at hand: its runs, none of which continues the one before.
    prompt: Vec<Segment>,
    tokens: u32,
    namespace: u64,
}

impl PrefixIndex {
    pub(super) fn new(max_tree_tokens: u32) -> Self {
        Self { trees: Vec::new(), max_tree_tokens, prompt: Vec::new(), tokens: 0, namespace: 0 }
    }

    /// Takes a prompt at hand.
    pub(super) fn read(&mut self, request: RequestView<'_>, instances: u32) {
        self.trees.resize_with(instances as usize, || RadixTree::new(1));
        let adapter = request.adapter.map_or(0, |adapter| 1 + u64::from(adapter.0));
        self.namespace = mix(request.content.salt).rotate_left(32) ^ adapter;
        self.prompt.clear();
        self.tokens = request.prompt_tokens;
        let unique = Segment {
            stream: Segment::unique_stream(request.id),
            start: 0,
            len: request.prompt_tokens,
        };
        for &run in request.content.segments.as_deref().unwrap_or(&[unique]) {
            match self.prompt.last_mut() {
                Some(last) if last.is_continued_by(&run) => {
                    last.len += run.len;
                }
                _ if run.len > 0 => self.prompt.push(run),
                _ => {}
            }
        }
    }

    /// How many tokens the prompt at hand has in common with what was sent to an instance.
    #[inline]
    pub(super) fn matched(&self, instance: InstanceId) -> u32 {
        self.trees[instance.index()].matched(self.namespace, &self.prompt, self.tokens)
    }

    /// The share of the prompt at hand that this is.
    pub(super) fn match_rate(&self, instance: InstanceId) -> f64 {
        f64::from(self.matched(instance)) / f64::from(self.tokens)
    }

    /// Tokens in the tree of an instance.
    pub(super) fn tree_tokens(&self, instance: InstanceId) -> u32 {
        self.trees[instance.index()].evictable()
    }

    /// The prompt at hand is sent to an instance. Of one that is longer than a tree may be, only the
    /// beginning is kept.
    pub(super) fn insert(&mut self, instance: InstanceId) {
        let tree = &mut self.trees[instance.index()];
        tree.insert(self.namespace, &self.prompt, self.tokens.min(self.max_tree_tokens));
        let excess = tree.evictable().saturating_sub(self.max_tree_tokens);
        tree.evict(excess);
    }
}

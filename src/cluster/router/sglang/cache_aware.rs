//! `cache_aware`: where the beginning of a prompt was sent first, unless the load is imbalanced.

use super::balance::Balance;
use super::draw::Draw;
use super::policy::{Asked, Worker, Workers};
use super::text::Text;
use super::tree::Tree;

/// The settings of the policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The share of a prompt that has to be known, and more.
    pub(crate) threshold: f32,
    /// When the least loaded worker gets the request whatever is known.
    pub(crate) balance: Balance,
    /// Whether prompts are remembered. Where prefill and decode are apart they are not.
    pub(crate) remembers: bool,
}

/// The tree of prompts, which all workers share.
#[derive(Debug, Clone)]
pub(crate) struct CacheAware<T: Text> {
    rules: Rules,
    tree: Tree<T>,
}

impl<T: Text> CacheAware<T> {
    /// A policy without history, whose counter of uses stands at `uses`.
    pub(crate) fn new(rules: Rules, uses: u64) -> Self {
        Self { rules, tree: Tree::new(uses) }
    }

    /// The worker that first got the beginning of the prompt if enough of it is known, or the least loaded.
    pub(crate) fn choose(
        &mut self,
        asked: &Asked<'_, T>,
        workers: Workers<'_>,
        draw: &mut impl Draw,
    ) -> Option<Worker> {
        let least = workers.least_loaded()?;
        let (fewest, most) = workers.loads_between();
        let is_imbalanced = self.rules.balance.is_lost(fewest.into(), most.into());
        if !self.rules.remembers {
            return if is_imbalanced { Some(least) } else { workers.any(draw) };
        }
        let Some(text) = asked.text else {
            return Some(least);
        };
        if is_imbalanced {
            self.tree.insert(text, least);
            return Some(least);
        }
        let (matched, owner) = self.tree.find(text, draw);
        let worker = match owner {
            Some(owner) if share(matched, text.len()) > self.rules.threshold => {
                if !workers.has(owner) {
                    self.tree.remove(owner);
                    return workers.available.first().copied();
                }
                owner
            }
            _ => least,
        };
        self.tree.insert(text, worker);
        Some(worker)
    }

    /// Whether an owner may have to be drawn.
    pub(crate) fn may_draw(&self) -> bool {
        !self.rules.remembers || self.tree.may_draw()
    }

    /// Every worker becomes one of the empty prompt.
    pub(crate) fn register(&mut self, workers: &[Worker]) {
        if self.rules.remembers {
            for worker in workers {
                self.tree.register(*worker);
            }
        }
    }

    /// A worker goes with all that is known of it.
    pub(crate) fn remove(&mut self, worker: Worker) {
        self.tree.remove(worker);
    }

    /// The tree.
    pub(crate) fn tree(&mut self) -> &mut Tree<T> {
        &mut self.tree
    }
}

/// Which share of a prompt is known, in 32 bits.
fn share(matched: u32, length: u32) -> f32 {
    if length == 0 { 0.0 } else { matched as f32 / length as f32 }
}

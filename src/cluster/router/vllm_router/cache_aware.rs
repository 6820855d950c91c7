//! `cache_aware` of vLLM's router: where the most of the beginning of a prompt was sent before, and of several such
//! workers to the least loaded.
//!
//! The router asks engines for the tokens of a prompt; one that is not tokenised (`/generate`) goes to the least
//! load and is not remembered.

use super::super::sglang::balance::Balance;
use super::super::sglang::policy::{Asked, Worker, Workers};
use super::super::sglang::text::Text;
use super::super::sglang::tree::Tree;

/// The prompts that workers got.
#[derive(Debug, Clone)]
pub(crate) struct CacheAware<T: Text> {
    threshold: f64,
    balance: Balance,
    tree: Tree<T>,
}

impl<T: Text> CacheAware<T> {
    /// A policy without history.
    pub(crate) fn new(threshold: f64, balance: Balance) -> Self {
        Self { threshold, balance, tree: Tree::new(0) }
    }

    /// The least loaded of those that know the most of a prompt if that is enough, or of all.
    pub(crate) fn choose(&mut self, asked: &Asked<'_, T>, workers: Workers<'_>) -> Option<Worker> {
        let least = workers.least_loaded()?;
        let Some(text) = asked.text else {
            return Some(least);
        };
        let (fewest, most) = workers.loads_between();
        let worker = if self.balance.is_lost(fewest.into(), most.into()) {
            least
        } else {
            self.best(text, workers).unwrap_or(least)
        };
        self.tree.insert(text, worker);
        Some(worker)
    }

    /// The prompts.
    pub(crate) fn tree(&mut self) -> &mut Tree<T> {
        &mut self.tree
    }

    fn best(&self, text: &T, workers: Workers<'_>) -> Option<Worker> {
        let known = self.tree.known(text);
        let of = |worker: Worker| known.get(worker.index()).copied().unwrap_or(0);
        let most = workers.available.iter().map(|worker| of(*worker)).max()?;
        let is_enough = f64::from(most) / f64::from(text.len().max(1)) > self.threshold;
        let best = workers.available.iter().copied().filter(|worker| of(*worker) == most);
        best.min_by_key(|worker| workers.load(*worker)).filter(|_| is_enough)
    }
}

//! `power_of_two`: of two random workers the one whose engine holds fewer tokens.

use super::draw::Draw;
use super::policy::{Worker, Workers};

/// What engines said last of the tokens they hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct PowerOfTwo {
    /// By worker; -1 for one that did not answer, none for one that was never asked.
    tokens: Vec<Option<i64>>,
}

impl PowerOfTwo {
    /// A poll of all engines replaces what is known.
    pub(crate) fn polled(&mut self, tokens: Vec<Option<i64>>) {
        self.tokens = tokens;
    }

    /// The first of two if it is not the worse: by tokens where they are known of both, by requests if not.
    pub(crate) fn choose(&self, workers: Workers<'_>, draw: &mut impl Draw) -> Option<Worker> {
        let count = workers.available.len();
        if count < 2 {
            return workers.available.first().copied();
        }
        let first = draw.below(count);
        let other = draw.below(count - 1);
        let second = other + usize::from(other >= first);
        let (first, second) = (workers.available[first], workers.available[second]);
        let is_first = match (self.tokens_of(first), self.tokens_of(second)) {
            (Some(a), Some(b)) => a <= b,
            _ => workers.load(first) <= workers.load(second),
        };
        Some(if is_first { first } else { second })
    }

    fn tokens_of(&self, worker: Worker) -> Option<i64> {
        self.tokens.get(worker.index()).copied().flatten()
    }
}

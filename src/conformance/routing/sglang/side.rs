//! The policy that chooses one of several workers, in every state that it may be in.

use crate::cluster::sglang::draw::Draw;
use crate::cluster::sglang::policy::{Asked, Policy, Worker, Workers};
use crate::cluster::sglang::text::Characters;

/// States that are kept beside one another.
const STATES_MAX: usize = 32;

/// Workers of one role, and who chooses among them.
#[derive(Debug)]
pub(super) struct Side {
    /// In the router's order.
    pub(super) order: Vec<Worker>,
    /// All states that agree with what was recorded so far; at least one.
    pub(super) states: Vec<Policy<Characters>>,
}

impl Side {
    pub(super) fn new(order: Vec<Worker>, mut policy: Policy<Characters>) -> Self {
        policy.register(&order);
        Self { order, states: vec![policy] }
    }

    /// Whom the rules allow, in the order in which they were found. States go on that agree with what was recorded;
    /// where none does, the first one goes its own way.
    pub(super) fn choose(
        &mut self,
        asked: &Asked<'_, Characters>,
        workers: Workers<'_>,
        recorded: Option<Worker>,
    ) -> Vec<Option<Worker>> {
        let mut allowed = Vec::new();
        let mut agreeing = Vec::new();
        let mut other = None;
        for state in std::mem::take(&mut self.states) {
            for (chosen, next) in outcomes(state, asked, workers) {
                if !allowed.contains(&chosen) {
                    allowed.push(chosen);
                }
                if chosen == recorded && agreeing.len() < STATES_MAX {
                    agreeing.push(next);
                } else {
                    other.get_or_insert(next);
                }
            }
        }
        // What a policy without a tree drew is seen: its states are equal.
        if agreeing.first().is_some_and(|state| !matches!(state, Policy::CacheAware(_))) {
            agreeing.truncate(1);
        }
        if agreeing.is_empty() {
            agreeing.extend(other);
        }
        self.states = agreeing;
        allowed
    }

    /// Something happens to the policy, whatever its state.
    pub(super) fn each(&mut self, mut happen: impl FnMut(&mut Policy<Characters>)) {
        self.states.iter_mut().for_each(&mut happen);
    }

    /// Keeps the states of which something is true, if there are any; says whether there are.
    pub(super) fn narrow(
        &mut self,
        mut is_so: impl FnMut(&mut Policy<Characters>) -> bool,
    ) -> bool {
        let are_so: Vec<bool> = self.states.iter_mut().map(&mut is_so).collect();
        let is_any = are_so.contains(&true);
        if is_any {
            let mut are_so = are_so.into_iter();
            self.states.retain(|_| are_so.next().unwrap_or_default());
        }
        is_any
    }
}

/// All that a state may choose, with the state after it.
fn outcomes(
    state: Policy<Characters>,
    asked: &Asked<'_, Characters>,
    workers: Workers<'_>,
) -> Vec<(Option<Worker>, Policy<Characters>)> {
    let mut script = Script::default();
    if !state.may_draw() {
        let mut next = state;
        let chosen = next.choose(asked, workers, &mut script);
        return vec![(chosen, next)];
    }
    let mut outcomes: Vec<(Option<Worker>, Policy<Characters>)> = Vec::new();
    loop {
        let mut next = state.clone();
        let chosen = next.choose(asked, workers, &mut script);
        outcomes.push((chosen, next));
        if !script.advance() {
            return outcomes;
        }
    }
}

/// Draws in all ways, one after the other.
#[derive(Debug, Default)]
struct Script {
    /// What each draw gives, of how many.
    drawn: Vec<(usize, usize)>,
    next: usize,
}

impl Script {
    /// The next way; false after the last.
    fn advance(&mut self) -> bool {
        self.drawn.truncate(self.next);
        self.next = 0;
        while let Some((drawn, count)) = self.drawn.pop() {
            if drawn + 1 < count {
                self.drawn.push((drawn + 1, count));
                return true;
            }
        }
        false
    }
}

impl Draw for Script {
    fn below(&mut self, count: usize) -> usize {
        if self.next == self.drawn.len() {
            self.drawn.push((0, count));
        }
        self.next += 1;
        self.drawn[self.next - 1].0
    }
}

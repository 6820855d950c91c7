//! How long answers are.

use crate::rng::{Seed, Stream};

use rand::RngExt;

/// A limit, and how long the answer will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) output_tokens: u32,
    /// The limit, which schedulers know: that of the client, or what its prompt leaves of the context.
    pub(super) max_tokens: u32,
    /// Whether its last token ends it, and not its limit.
    pub(super) ends_itself: bool,
}

/// What a client says of the length of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// The limit, if it has one.
    pub(super) limit: Option<u32>,
    /// Tokens that the prompt leaves of the context.
    pub(super) room: u32,
    pub(super) at_least: u32,
    /// It does not end by itself.
    pub(super) ignore_eos: bool,
}

/// Where the length of an answer comes from.
#[derive(Debug)]
pub(super) struct Lengths {
    /// Those of the workload.
    of_workload: Vec<u32>,
    /// Whether answers with a limit are drawn too, and end at it at the latest.
    draws_all: bool,
    stream: Stream,
}

impl Lengths {
    /// Answers as long as their limit, or drawn from these lengths: those without a limit, or all.
    pub(super) fn new(of_workload: Vec<u32>, draws_all: bool, seed: Seed) -> Self {
        Self { of_workload, draws_all, stream: seed.stream("answers", 0) }
    }

    /// The length of the next answer.
    pub(super) fn draw(&mut self, wanted: Wanted) -> Drawn {
        let max_tokens = wanted.limit.unwrap_or(wanted.room).max(1);
        if wanted.ignore_eos || (wanted.limit.is_some() && !self.draws_all) {
            return Drawn { output_tokens: max_tokens, max_tokens, ends_itself: false };
        }
        let place = self.stream.random_range(0..self.of_workload.len().max(1));
        let drawn = self.of_workload.get(place).copied().unwrap_or(1).max(wanted.at_least).max(1);
        Drawn { output_tokens: drawn.min(max_tokens), max_tokens, ends_itself: drawn <= max_tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted { limit: None, room: 1000, at_least: 0, ignore_eos: false };

    fn cut(tokens: u32) -> Drawn {
        Drawn { output_tokens: tokens, max_tokens: tokens, ends_itself: false }
    }

    fn ended(output_tokens: u32, max_tokens: u32) -> Drawn {
        Drawn { output_tokens, max_tokens, ends_itself: true }
    }

    #[test]
    fn answers_are_as_long_as_they_are_asked_to_be_unless_all_are_drawn() {
        let limit = |limit| Wanted { limit: Some(limit), ..WANTED };
        let mut asked = Lengths::new(vec![50], false, Seed(1));
        assert_eq!(asked.draw(limit(7)), cut(7));
        assert_eq!(asked.draw(WANTED), ended(50, 1000));
        let mut drawn = Lengths::new(vec![50], true, Seed(1));
        assert_eq!(drawn.draw(limit(70)), ended(50, 70));
        assert_eq!(drawn.draw(limit(50)), ended(50, 50));
        assert_eq!(drawn.draw(limit(7)), cut(7));
        assert_eq!(drawn.draw(Wanted { at_least: 60, ..limit(70) }), ended(60, 70));
        assert_eq!(drawn.draw(Wanted { ignore_eos: true, ..limit(70) }), cut(70));
    }

    #[test]
    fn an_answer_without_a_limit_has_what_its_prompt_leaves_of_the_context() {
        let mut lengths = Lengths::new(vec![50], false, Seed(1));
        assert_eq!(lengths.draw(Wanted { room: 50, ..WANTED }), ended(50, 50));
        assert_eq!(lengths.draw(Wanted { room: 49, ..WANTED }), cut(49));
        assert_eq!(lengths.draw(Wanted { ignore_eos: true, ..WANTED }), cut(1000));
    }
}

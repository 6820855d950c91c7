//! Text as the tree of prompts sees it: labels in order.
//!
//! In the router a label is a Unicode character. In the simulation prompts are runs of token streams, and a label is
//! a token: two are equal where their stream and their position in it are.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use crate::ids::RequestId;
use crate::request::{Content, Segment};

/// A text that can be compared and cut.
pub(crate) trait Text: Clone + Debug + Send {
    /// What tells texts apart by their first label.
    type Head: Copy + Eq + Hash + Debug + Send;

    /// How many labels it has.
    fn len(&self) -> u32;

    /// The first label.
    ///
    /// # Panics
    /// When it is empty.
    fn head(&self) -> Self::Head;

    /// How many labels it has in common with the beginning of another.
    fn common(&self, other: &Self) -> u32;

    /// The labels from a place on.
    fn after(&self, place: u32) -> Self;

    /// The labels before a place.
    fn before(&self, place: u32) -> Self;
}

/// Characters.
#[derive(Debug, Clone)]
pub(crate) struct Characters {
    all: Arc<[char]>,
    start: u32,
    end: u32,
}

impl Characters {
    /// All of a text.
    pub(crate) fn new(text: impl IntoIterator<Item = char>) -> Self {
        let all: Arc<[char]> = text.into_iter().collect();
        let end = u32::try_from(all.len()).expect("a text has less than 2^32 characters");
        Self { all, start: 0, end }
    }

    fn labels(&self) -> &[char] {
        &self.all[self.start as usize..self.end as usize]
    }
}

impl Text for Characters {
    type Head = char;

    fn len(&self) -> u32 {
        self.end - self.start
    }

    fn head(&self) -> char {
        self.labels()[0]
    }

    fn common(&self, other: &Self) -> u32 {
        let pairs = self.labels().iter().zip(other.labels());
        pairs.take_while(|(a, b)| a == b).count() as u32
    }

    fn after(&self, place: u32) -> Self {
        Self { start: self.start + place, ..self.clone() }
    }

    fn before(&self, place: u32) -> Self {
        Self { end: self.start + place, ..self.clone() }
    }
}

/// Tokens of a prompt.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    /// The runs of the prompt; none for one that shares nothing.
    runs: Option<Arc<[Segment]>>,
    request: RequestId,
    /// Where the text begins: in which run, and how far in it.
    run: u32,
    offset: u32,
    len: u32,
}

impl Tokens {
    /// All of a prompt.
    pub(crate) fn new(request: RequestId, content: &Content, prompt_tokens: u32) -> Self {
        let runs = content.segments.clone();
        Self { runs, request, run: 0, offset: 0, len: prompt_tokens }.normal()
    }

    /// The tokens that are left of the run at the beginning, in it.
    fn first(&self) -> Segment {
        match &self.runs {
            Some(runs) => {
                let Segment { stream, start, len } = runs[self.run as usize];
                let len = (len - self.offset).min(self.len);
                Segment { stream, start: start + self.offset, len }
            }
            None => Segment {
                stream: Segment::unique_stream(self.request),
                start: self.offset,
                len: self.len,
            },
        }
    }

    /// Goes on by labels, all in the first run or up to its end.
    fn advance(&mut self, labels: u32) {
        self.offset += labels;
        self.len -= labels;
        let is_at_end = |runs: &Arc<[Segment]>| {
            runs.get(self.run as usize).is_some_and(|run| run.len == self.offset)
        };
        if self.runs.as_ref().is_some_and(is_at_end) {
            self.run += 1;
            self.offset = 0;
        }
    }

    /// Empty runs are passed.
    fn normal(mut self) -> Self {
        while self.len > 0 && self.first().len == 0 {
            self.run += 1;
            self.offset = 0;
        }
        self
    }
}

impl Text for Tokens {
    type Head = (u64, u32);

    fn len(&self) -> u32 {
        self.len
    }

    fn head(&self) -> (u64, u32) {
        let Segment { stream, start, .. } = self.first();
        (stream, start)
    }

    fn common(&self, other: &Self) -> u32 {
        let (mut a, mut b) = (self.clone(), other.clone());
        let mut common = 0;
        while a.len > 0 && b.len > 0 {
            let (one, two) = (a.first(), b.first());
            if (one.stream, one.start) != (two.stream, two.start) {
                break;
            }
            let same = one.len.min(two.len);
            common += same;
            a.advance(same);
            b.advance(same);
            (a, b) = (a.normal(), b.normal());
        }
        common
    }

    fn after(&self, mut place: u32) -> Self {
        let mut rest = self.clone();
        while place > 0 {
            let step = rest.first().len.min(place);
            rest.advance(step);
            rest = rest.normal();
            place -= step;
        }
        rest
    }

    fn before(&self, place: u32) -> Self {
        Self { len: place, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;

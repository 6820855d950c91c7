//! Names of blocks in order, by runs: those of blocks of one run of tokens are a step apart from each other
//! (`BlockHash::after`), so that thousands of blocks are a few runs, whatever becomes of them.

use std::ops::Range;

use super::BlockHash;
use super::names::{NameRun, STEP};

/// Names of blocks, in order.
///
/// Runs are as long as they can be: equal names are equal runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    runs: Vec<Run>,
}

/// Names that are a step apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u64,
    /// How many names there are up to its last one, with those of the runs before.
    end: u32,
}

impl Names {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.runs.last().map_or(0, |run| run.end as usize)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// None, with room for as many runs as others have, and some.
    pub fn with_room_of(others: NameSlice<'_>, more: usize) -> Self {
        Self { runs: Vec::with_capacity(others.runs().len() + more) }
    }

    /// The name at a place, if there is one.
    #[inline]
    pub fn get(&self, at: usize) -> Option<u64> {
        self.all().get(at)
    }

    /// All of them.
    #[inline]
    pub fn all(&self) -> NameSlice<'_> {
        NameSlice { of: self, from: 0, to: self.len() }
    }

    /// Some of them.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> NameSlice<'_> {
        self.all().slice(range)
    }

    /// The last place of a name.
    pub fn last_place(&self, name: u64) -> Option<usize> {
        self.places(name).next()
    }

    /// Whether a name is among the first so many.
    pub fn has_before(&self, end: usize, name: u64) -> bool {
        self.places(name).any(|at| at < end)
    }

    /// The places of a name, the last one first.
    fn places(&self, name: u64) -> impl Iterator<Item = usize> {
        (0..self.runs.len()).rev().filter_map(move |index| {
            let (Run { first, end }, start) = (self.runs[index], self.start(index));
            let steps = name.wrapping_sub(first).wrapping_mul(STEPS_BACK);
            (steps < u64::from(end - start)).then(|| start as usize + steps as usize)
        })
    }

    /// Appends a name.
    pub fn push(&mut self, name: u64) {
        self.push_run(NameRun { first: BlockHash::numbered(name), blocks: 1 });
    }

    /// Appends names that are a step apart.
    #[inline]
    pub(super) fn push_run(&mut self, run: NameRun) {
        let NameRun { first, blocks } = run;
        let start = self.len() as u32;
        let before = self.runs.len().checked_sub(2).map_or(0, |index| self.runs[index].end);
        match self.runs.last_mut() {
            Some(last) if nth(last.first, start - before) == first.number() => last.end += blocks,
            _ if blocks > 0 => self.runs.push(Run { first: first.number(), end: start + blocks }),
            _ => {}
        }
    }

    /// Appends others.
    pub fn extend(&mut self, others: NameSlice<'_>) {
        let mut runs = others.runs();
        // Of all others none goes on where the one before ends.
        let Some(first) = runs.next() else { return };
        self.push_run(first);
        let mut end = self.len() as u32;
        self.runs.reserve(runs.len());
        for NameRun { first, blocks } in runs {
            end += blocks;
            self.runs.push(Run { first: first.number(), end });
        }
    }

    /// Leaves the first so many; returns the others.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        let behind = self.slice(at..self.len()).to_names();
        self.truncate(at);
        behind
    }

    /// Leaves so many at most.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        let whole = self.runs.partition_point(|run| run.end as usize <= len);
        if self.start(whole) as usize == len {
            self.runs.truncate(whole);
        } else {
            self.runs.truncate(whole + 1);
            self.runs[whole].end = len as u32;
        }
    }

    /// Leaves none.
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    #[inline]
    fn start(&self, index: usize) -> u32 {
        if index == 0 { 0 } else { self.runs[index - 1].end }
    }
}

/// What a difference of names is multiplied by to be one of places in a run: the inverse of [`STEP`].
const STEPS_BACK: u64 = {
    let (mut inverse, mut round) = (STEP, 0);
    // Newton's method: each round doubles the bits that are right, of which there are three at first.
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(STEP.wrapping_mul(inverse)));
        round += 1;
    }
    assert!(inverse.wrapping_mul(STEP) == 1, "the step is odd");
    inverse
};

#[inline]
const fn nth(first: u64, blocks: u32) -> u64 {
    BlockHash::numbered(first).after(blocks).number()
}

impl FromIterator<u64> for Names {
    fn from_iter<I: IntoIterator<Item = u64>>(names: I) -> Self {
        let mut all = Self::default();
        names.into_iter().for_each(|name| all.push(name));
        all
    }
}

/// Some names of a list that follow each other.
#[derive(Debug, Clone, Copy)]
pub struct NameSlice<'a> {
    of: &'a Names,
    from: usize,
    to: usize,
}

impl<'a> NameSlice<'a> {
    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.to - self.from
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.from == self.to
    }

    /// The name at a place, if there is one.
    #[inline]
    pub fn get(self, at: usize) -> Option<u64> {
        let at = self.from + at;
        if at >= self.to {
            return None;
        }
        let index = self.run_at(at);
        Some(nth(self.of.runs[index].first, at as u32 - self.of.start(index)))
    }

    /// The first one, if there is one.
    #[inline]
    pub fn first(self) -> Option<u64> {
        self.get(0)
    }

    /// The last one, if there is one.
    #[inline]
    pub fn last(self) -> Option<u64> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Some of them.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    #[must_use]
    pub fn slice(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "a slice of names");
        Self { of: self.of, from: self.from + range.start, to: self.from + range.end }
    }

    /// Those from a place on.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    #[must_use]
    pub fn behind(self, at: usize) -> Self {
        self.slice(at..self.len())
    }

    /// A list of them alone.
    pub fn to_names(self) -> Names {
        let mut names = Names::with_room_of(self, 0);
        names.extend(self);
        names
    }

    /// Each of them.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u64> + use<'a> {
        self.runs().flat_map(NameRun::each).map(BlockHash::number)
    }

    /// How many are equal to others from the first one on.
    pub fn common(self, others: Self) -> usize {
        let (mut own, mut theirs) = (self.runs(), others.runs());
        let (mut one, mut other) = (own.next(), theirs.next());
        let mut common = 0;
        while let (Some(a), Some(b)) = (one, other)
            && a.first == b.first
        {
            let blocks = a.blocks.min(b.blocks);
            common += blocks as usize;
            one = a.behind(blocks).or_else(|| own.next());
            other = b.behind(blocks).or_else(|| theirs.next());
        }
        common
    }

    /// How many are equal to others from the last one on.
    pub fn common_at_end(self, others: Self) -> usize {
        let (mut own, mut theirs) = (self.runs().rev(), others.runs().rev());
        let (mut one, mut other) = (own.next(), theirs.next());
        let mut common = 0;
        while let (Some(a), Some(b)) = (one, other)
            && a.last() == b.last()
        {
            let blocks = a.blocks.min(b.blocks);
            common += blocks as usize;
            one = a.before(blocks).or_else(|| own.next());
            other = b.before(blocks).or_else(|| theirs.next());
        }
        common
    }

    /// Its runs, those at its ends as far as they are in it.
    #[inline]
    pub(super) fn runs(self) -> Runs<'a> {
        let Self { of, from, to } = self;
        if from == to {
            return Runs { of: &[], from: 0, to: 0, start: 0 };
        }
        let (first, last) = (self.run_at(from), self.run_at(to - 1));
        let start = of.start(first);
        Runs { of: &of.runs[first..=last], from: from as u32, to: to as u32, start }
    }

    /// The run of a place, which is mostly the last one or the first one.
    #[inline]
    fn run_at(self, at: usize) -> usize {
        let (runs, last) = (&self.of.runs, self.of.runs.len() - 1);
        if at >= self.of.start(last) as usize {
            last
        } else if at < runs[0].end as usize {
            0
        } else {
            runs.partition_point(|run| run.end as usize <= at)
        }
    }
}

/// The runs of some names.
#[derive(Debug, Clone)]
pub(super) struct Runs<'a> {
    of: &'a [Run],
    /// The places that are left, and where the first of the runs begins.
    from: u32,
    to: u32,
    start: u32,
}

impl Iterator for Runs<'_> {
    type Item = NameRun;

    #[inline]
    fn next(&mut self) -> Option<NameRun> {
        let (run, rest) = self.of.split_first()?;
        let first = BlockHash::numbered(nth(run.first, self.from - self.start));
        let end = run.end.min(self.to);
        let blocks = end - self.from;
        (self.of, self.from, self.start) = (rest, end, run.end);
        Some(NameRun { first, blocks })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.of.len(), Some(self.of.len()))
    }
}

impl DoubleEndedIterator for Runs<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<NameRun> {
        let (run, rest) = self.of.split_last()?;
        let (start, from) = match rest.last() {
            Some(before) => (before.end, before.end),
            None => (self.start, self.from),
        };
        let first = BlockHash::numbered(nth(run.first, from - start));
        let blocks = self.to - from;
        (self.of, self.to) = (rest, from);
        Some(NameRun { first, blocks })
    }
}

impl ExactSizeIterator for Runs<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lists with runs of all lengths, of few names.
    fn lists() -> impl Strategy<Value = Vec<u64>> {
        let run = (0..3_u64, 0..6_u32, 1..5_u32).prop_map(|(first, skipped, blocks)| {
            (skipped..skipped + blocks).map(move |at| nth(first << 40, at)).collect::<Vec<_>>()
        });
        proptest::collection::vec(run, 0..6).prop_map(|runs| runs.concat())
    }

    proptest! {
        #[test]
        fn lists_of_names_are_lists(a in lists(), b in lists(), cut in 0..30_usize, name in 0..9_u32) {
            let (names, others): (Names, Names) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            let cut = cut.min(a.len());
            prop_assert_eq!(names.all().iter().collect::<Vec<_>>(), a.clone());
            prop_assert_eq!(names.all().iter().rev().collect::<Vec<_>>(), a.iter().rev().copied().collect::<Vec<_>>());
            prop_assert_eq!(names.slice(cut..a.len()).iter().collect::<Vec<_>>(), a[cut..].to_vec());
            prop_assert_eq!(names.slice(0..cut).last(), a[..cut].last().copied());
            prop_assert_eq!((0..=a.len()).map(|at| names.get(at)).collect::<Vec<_>>(),
                (0..=a.len()).map(|at| a.get(at).copied()).collect::<Vec<_>>());
            let name = nth(1 << 40, name);
            prop_assert_eq!(names.last_place(name), a.iter().rposition(|one| *one == name));
            prop_assert_eq!(names.has_before(cut, name), a[..cut].contains(&name));
            let (own, theirs) = (names.slice(cut..a.len()), others.all());
            let same = a[cut..].iter().zip(&b).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(own.common(theirs), same);
            let same = a[cut..].iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(own.common_at_end(theirs), same);
            let mut front = names.clone();
            let behind = front.split_off(cut);
            prop_assert_eq!((&front, &behind), (&a[..cut].iter().copied().collect(), &a[cut..].iter().copied().collect()));
            front.extend(others.all());
            prop_assert_eq!(front, a[..cut].iter().chain(&b).copied().collect());
        }
    }
}

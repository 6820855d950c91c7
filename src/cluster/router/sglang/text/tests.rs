//! Texts of runs beside texts of single tokens.

use proptest::prelude::*;

use super::*;

/// A prompt of runs, and its labels one by one.
fn prompt(runs: &[(u64, u32, u32)]) -> (Tokens, Vec<(u64, u32)>) {
    let segments: Vec<_> =
        runs.iter().map(|&(stream, start, len)| Segment { stream, start, len }).collect();
    let labels: Vec<_> =
        runs.iter().flat_map(|&(s, at, len)| (at..at + len).map(move |i| (s, i))).collect();
    let content = Content { salt: 0, segments: Some(segments.into()) };
    (Tokens::new(RequestId(0), &content, labels.len() as u32), labels)
}

proptest! {
    #[test]
    fn runs_are_cut_and_compared_as_their_tokens_one_by_one(
        one in prop::collection::vec((0_u64..2, 0_u32..4, 0_u32..5), 1..5),
        two in prop::collection::vec((0_u64..2, 0_u32..4, 0_u32..5), 1..5),
        cut in 0_u32..20,
    ) {
        let ((a, labels_a), (b, labels_b)) = (prompt(&one), prompt(&two));
        let common = |x: &[(u64, u32)], y: &[(u64, u32)]| x.iter().zip(y).take_while(|(p, q)| p == q).count() as u32;
        prop_assert_eq!(a.common(&b), common(&labels_a, &labels_b));
        let cut = cut.min(a.len());
        let (before, after) = (a.before(cut), a.after(cut));
        prop_assert_eq!(before.len() + after.len(), a.len());
        let (head, tail) = labels_a.split_at(cut as usize);
        prop_assert_eq!(after.common(&b), common(tail, &labels_b));
        prop_assert_eq!(b.common(&before), common(&labels_b, head));
        prop_assert_eq!((after.len() > 0).then(|| after.head()), tail.first().copied());
    }
}

#[test]
fn prompts_that_share_nothing_are_equal_to_themselves_alone() {
    let content = Content::default();
    let one = Tokens::new(RequestId(1), &content, 9);
    let two = Tokens::new(RequestId(2), &content, 9);
    assert_eq!((one.common(&one), one.common(&two)), (9, 0));
    assert_eq!(one.after(4).common(&one.after(4)), 5);
    assert_eq!(one.after(4).common(&one), 0);
}

//! Searches over sizes and rates, by trials.
//!
//! They take it that more replicas, or fewer requests per second, never miss an SLO that was met.
//! What they answer was tried, and so was its neighbour that misses an SLO.

use std::convert::Infallible;

/// The smallest size from 1 to `most` that meets its SLOs; nothing where `most` does not. It looks
/// around `start` first, in steps that double.
///
/// # Errors
/// Those of a trial.
///
/// # Panics
/// When `most` is 0.
pub fn fewest<E>(
    start: u32,
    most: u32,
    mut keeps: impl FnMut(u32) -> Result<bool, E>,
) -> Result<Option<u32>, E> {
    assert!(most > 0, "a search needs a size to look at");
    let start = start.clamp(1, most);
    // Sizes known to break and to keep them; 0 replicas keep nothing.
    let (mut broken, mut kept, mut step) = (0, start, 1);
    while !keeps(kept)? {
        if kept == most {
            return Ok(None);
        }
        broken = kept;
        kept = kept.saturating_add(step).min(most);
        step *= 2;
    }
    step = 1;
    while broken == 0 && kept > 1 {
        let size = kept.saturating_sub(step).max(1);
        step *= 2;
        if keeps(size)? {
            kept = size;
        } else {
            broken = size;
        }
    }
    while kept - broken > 1 {
        let size = broken + (kept - broken) / 2;
        if keeps(size)? {
            kept = size;
        } else {
            broken = size;
        }
    }
    Ok(Some(kept))
}

/// Replicas of one kind that are tried for one of the other.
const SWAP_MAX: i32 = 8;

/// Replicas that prefill and replicas that decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Those that prefill.
    pub prefill: u32,
    /// Those that decode.
    pub decode: u32,
}

impl Pair {
    fn moved(self, prefill: i32, decode: i32) -> Option<Self> {
        let prefill = self.prefill.checked_add_signed(prefill).filter(|count| *count > 0)?;
        let decode = self.decode.checked_add_signed(decode).filter(|count| *count > 0)?;
        Some(Self { prefill, decode })
    }
}

/// What a pair does about its SLOs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// All are kept.
    All,
    /// One is broken that hangs on the replicas that prefill, or it is not known.
    PrefillShort,
    /// One is broken that hangs on the replicas that decode.
    DecodeShort,
}

/// A pair that meets its SLOs and has no cheaper neighbour that does: no replica can be left out, and none
/// of one kind be had for so many of the other as cost less. `cost` is that of a pair, infinite where there cannot be
/// as many.
///
/// # Errors
/// Those of a trial.
pub fn fewest_pair<E>(
    start: Pair,
    cost: impl Fn(Pair) -> f64,
    mut tried: impl FnMut(Pair) -> Result<Kept, E>,
) -> Result<Option<Pair>, E> {
    let mut known: Vec<(Pair, Kept)> = Vec::new();
    let mut look = |pair: Pair| {
        if let Some((_, kept)) = known.iter().find(|(known, _)| *known == pair) {
            return Ok(*kept);
        }
        let kept = tried(pair)?;
        known.push((pair, kept));
        Ok(kept)
    };
    let Some(start) = reduced(start, &cost) else { return Ok(None) };
    let enough = if let Some(enough) = grown(start, &cost, &mut look)? {
        enough
    } else {
        // The kind that is blamed has taken all the room. What it lacked may have been the other one.
        let most = multiplied(start, &cost);
        if look(most)? != Kept::All {
            return Ok(None);
        }
        most
    };
    let pair = shrunk(enough, &mut look)?;
    cheapest_around(pair, &cost, &mut look).map(Some)
}

/// Half of a pair, and half of that, until it can be; nothing where one of each cannot.
fn reduced(start: Pair, cost: impl Fn(Pair) -> f64) -> Option<Pair> {
    let mut pair = start;
    while !cost(pair).is_finite() {
        if pair == (Pair { prefill: 1, decode: 1 }) {
            return None;
        }
        pair = Pair { prefill: pair.prefill.div_ceil(2), decode: pair.decode.div_ceil(2) };
    }
    Some(pair)
}

/// The first pair that meets its SLOs when that kind grows which there are too few of; nothing where there is
/// no room to grow.
fn grown<E>(
    start: Pair,
    cost: impl Fn(Pair) -> f64,
    mut look: impl FnMut(Pair) -> Result<Kept, E>,
) -> Result<Option<Pair>, E> {
    let mut pair = start;
    loop {
        // An eighth more at a time, the last ones by one; where there is no room for one kind, of the other.
        let (by_prefill, by_decode) = match look(pair)? {
            Kept::All => return Ok(Some(pair)),
            Kept::PrefillShort => ((pair.prefill.div_ceil(8), 0), (0, 1)),
            Kept::DecodeShort => ((0, pair.decode.div_ceil(8)), (1, 0)),
        };
        let by_one = (by_prefill.0.min(1), by_prefill.1.min(1));
        let larger = [by_prefill, by_one, by_decode].map(|(prefill, decode)| Pair {
            prefill: pair.prefill + prefill,
            decode: pair.decode + decode,
        });
        match larger.into_iter().find(|pair| cost(*pair).is_finite()) {
            Some(larger) => pair = larger,
            None => return Ok(None),
        }
    }
}

/// The most times a pair that there is room for; `start` can be.
fn multiplied(start: Pair, cost: impl Fn(Pair) -> f64) -> Pair {
    let times = |times: u32| Pair {
        prefill: start.prefill.saturating_mul(times),
        decode: start.decode.saturating_mul(times),
    };
    let is_too_much = |count: u32| Ok::<_, Infallible>(!cost(times(count)).is_finite());
    let Ok(too_many) = fewest(2, u32::MAX, is_too_much);
    times(too_many.map_or(u32::MAX, |count| count - 1))
}

/// A pair that meets its SLOs with as few of one kind as do, then of the other.
fn shrunk<E>(enough: Pair, mut look: impl FnMut(Pair) -> Result<Kept, E>) -> Result<Pair, E> {
    let Pair { prefill, decode } = enough;
    let mut keeps = |prefill, decode| Ok(look(Pair { prefill, decode })? == Kept::All);
    let decode = fewest(decode, decode, |decode| keeps(prefill, decode))?.unwrap_or(decode);
    let prefill = fewest(prefill, prefill, |prefill| keeps(prefill, decode))?.unwrap_or(prefill);
    Ok(Pair { prefill, decode })
}

/// A pair, or what is reached from it over cheaper neighbours that meet their SLOs.
fn cheapest_around<E>(
    start: Pair,
    cost: impl Fn(Pair) -> f64,
    mut look: impl FnMut(Pair) -> Result<Kept, E>,
) -> Result<Pair, E> {
    let mut pair = start;
    'next: loop {
        // As many of one kind as cost less than one of the other.
        let swaps = (1..=SWAP_MAX).flat_map(|count| [(-1, count), (count, -1)]);
        let steps = [(-1, 0), (0, -1)].into_iter().chain(swaps);
        let moved = steps.filter_map(|(prefill, decode)| pair.moved(prefill, decode));
        let mut cheaper: Vec<Pair> = moved.filter(|other| cost(*other) < cost(pair)).collect();
        cheaper.sort_by(|a, b| cost(*a).total_cmp(&cost(*b)));
        for other in cheaper {
            if look(other)? == Kept::All {
                pair = other;
                continue 'next;
            }
        }
        return Ok(pair);
    }
}

/// How many times as fast requests may come: the highest factor found that meets the SLOs, and the
/// lowest that does not, apart by no more than `tolerance` as a share, or infinite where `most` keeps them; nothing
/// where a billionth of the rate is too much. `start` is looked at first.
///
/// # Errors
/// Those of a trial.
pub fn highest_factor<E>(
    start: f64,
    most: f64,
    tolerance: f64,
    mut keeps: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<(f64, f64)>, E> {
    const LEAST: f64 = 1e-9;
    let mut step = 1.25;
    let (mut kept, mut broken) = (0.0, f64::INFINITY);
    let mut factor = if start.is_finite() { start.clamp(LEAST, most) } else { most };
    while kept == 0.0 || broken.is_infinite() {
        if keeps(factor)? {
            kept = factor;
            if factor >= most {
                return Ok(Some((kept, broken)));
            }
            factor = (factor * step).min(most);
        } else {
            broken = factor;
            if factor <= LEAST {
                return Ok(None);
            }
            factor = (factor / step).max(LEAST);
        }
        step *= step;
    }
    while broken / kept > 1.0 + tolerance {
        let factor = (kept * broken).sqrt();
        if keeps(factor)? {
            kept = factor;
        } else {
            broken = factor;
        }
    }
    Ok(Some((kept, broken)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn least(start: u32, most: u32, threshold: u32) -> (Option<u32>, Vec<u32>) {
        let mut tried = Vec::new();
        let found = fewest(start, most, |size| {
            tried.push(size);
            Ok::<_, Infallible>(size >= threshold)
        });
        let Ok(found) = found;
        (found, tried)
    }

    proptest! {
        #[test]
        fn the_fewest_are_those_of_a_search_one_by_one(
            start in 1_u32..200, most in 1_u32..200, threshold in 1_u32..250,
        ) {
            let (found, tried) = least(start, most, threshold);
            prop_assert_eq!(found, (threshold <= most).then_some(threshold));
            // What is answered was tried, and so was one less.
            if let Some(found) = found {
                prop_assert!(tried.contains(&found));
                prop_assert!(found == 1 || tried.contains(&(found - 1)));
            }
            let mut once = tried.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), tried.len(), "no size is tried twice: {:?}", tried);
        }

        #[test]
        fn a_pair_has_no_cheaper_neighbour(
            needs in (1_u32..12, 1_u32..12), start in (1_u32..12, 1_u32..12), price in 1_u32..5,
        ) {
            // Decode replicas must be enough for both, prefill replicas help out.
            let kept = |pair: Pair| {
                if pair.prefill < needs.0 {
                    Kept::PrefillShort
                } else if pair.decode < needs.1 {
                    Kept::DecodeShort
                } else {
                    Kept::All
                }
            };
            let cost = |pair: Pair| f64::from(pair.prefill) + f64::from(price * pair.decode);
            let start = Pair { prefill: start.0, decode: start.1 };
            let Ok(found) = fewest_pair(start, cost, |pair| Ok::<_, Infallible>(kept(pair)));
            prop_assert_eq!(found, Some(Pair { prefill: needs.0, decode: needs.1 }));
        }

        #[test]
        fn the_highest_factor_is_within_the_tolerance(
            limit in 0.01_f64..100.0, start in 0.1_f64..10.0,
        ) {
            let Ok(found) = highest_factor(start, 1e6, 0.01, |factor| Ok::<_, Infallible>(factor <= limit));
            let (kept, broken) = found.expect("it is in range");
            prop_assert!(kept <= limit && limit < broken && broken / kept <= 1.01, "{kept} {broken}");
        }
    }

    #[test]
    fn a_kind_that_is_blamed_in_vain_does_not_end_the_search() {
        let cost = |pair: Pair| {
            let count = pair.prefill + pair.decode;
            if count <= 50 { f64::from(count) } else { f64::INFINITY }
        };
        // Decode is blamed, but both kinds are short.
        let mut last = None;
        let Ok(found) = fewest_pair(Pair { prefill: 1, decode: 2 }, cost, |pair| {
            last = Some(pair);
            let is_kept = pair.prefill >= 9 && pair.decode >= 11;
            Ok::<_, Infallible>(if is_kept { Kept::All } else { Kept::DecodeShort })
        });
        assert_eq!(found, Some(Pair { prefill: 9, decode: 11 }));
        // Nothing is enough: the last look is at as many as there is room for, in the proportion of the start.
        let Ok(none) = fewest_pair(Pair { prefill: 1, decode: 2 }, cost, |pair| {
            last = Some(pair);
            Ok::<_, Infallible>(Kept::DecodeShort)
        });
        assert_eq!((none, last), (None, Some(Pair { prefill: 16, decode: 32 })));
    }

    #[test]
    fn a_pair_that_costs_too_much_is_none() {
        let cost = |pair: Pair| {
            let count = pair.prefill + pair.decode;
            if count <= 50 { f64::from(count) } else { f64::INFINITY }
        };
        let start = Pair { prefill: 1, decode: 1 };
        let mut largest = 0;
        let Ok(found) = fewest_pair(start, cost, |pair| {
            largest = largest.max(pair.prefill + pair.decode);
            Ok::<_, Infallible>(Kept::DecodeShort)
        });
        assert_eq!((found, largest), (None, 50));
        // A start that cannot be does not end the search.
        let far = Pair { prefill: 100, decode: 3 };
        let Ok(found) = fewest_pair(far, cost, |_| Ok::<_, Infallible>(Kept::All));
        assert_eq!(found, Some(start));
        let Ok(none) = highest_factor(1.0, 1e6, 0.01, |_| Ok::<_, Infallible>(false));
        assert_eq!(none, None);
        let Ok(all) = highest_factor(f64::INFINITY, 100.0, 0.01, |_| Ok::<_, Infallible>(true));
        assert_eq!(all, Some((100.0, f64::INFINITY)));
    }
}

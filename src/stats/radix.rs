//! Sorting numbers digit by digit: several times faster than comparing once there are thousands.

/// The most bits that one pass looks at: its counters still fit the nearest cache.
const DIGIT_BITS_MAX: u32 = 12;
/// Below this many values comparing is faster.
const FEW: usize = 512;

/// Sorts by the bits from `low` on; equal values keep their order. With one list beside, where
/// [`sorted_by_high_bits`] has two.
pub(crate) fn sort_by_high_bits(values: &mut Vec<u64>, low: u32) {
    if values.len() < FEW {
        return values.sort_by_key(|value| value >> low);
    }
    let Some(Digits { lowest, bits, passes }) = Digits::of(values, low) else { return };
    let mut target = vec![0; values.len()];
    for pass in 0..passes {
        scatter(values, &mut target, lowest + pass * bits, bits);
        std::mem::swap(values, &mut target);
    }
}

/// These values in the order of their bits from `low` on; equal ones keep their order. From the lowest
/// digit to the highest, in as few passes as the bits in which they differ need: values of one run have
/// few of them.
pub(crate) fn sorted_by_high_bits(values: &[u64], low: u32) -> Vec<u64> {
    if values.len() < FEW {
        let mut sorted = values.to_vec();
        sorted.sort_by_key(|value| value >> low);
        return sorted;
    }
    let Some(Digits { lowest, bits, passes }) = Digits::of(values, low) else {
        return values.to_vec();
    };
    let mut sorted = vec![0; values.len()];
    scatter(values, &mut sorted, lowest, bits);
    if passes > 1 {
        let mut target = vec![0; values.len()];
        for pass in 1..passes {
            scatter(&sorted, &mut target, lowest + pass * bits, bits);
            std::mem::swap(&mut sorted, &mut target);
        }
    }
    sorted
}

/// The digits in which values differ.
struct Digits {
    lowest: u32,
    bits: u32,
    passes: u32,
}

impl Digits {
    /// Of values from the bit `low` on; nothing where they are all equal.
    fn of(values: &[u64], low: u32) -> Option<Self> {
        let first = values.first()?;
        let differ = values.iter().fold(0, |bits, value| bits | (value ^ first)) >> low << low;
        if differ == 0 {
            return None;
        }
        let lowest = differ.trailing_zeros();
        let width = u64::BITS - differ.leading_zeros() - lowest;
        let passes = width.div_ceil(DIGIT_BITS_MAX);
        Some(Self { lowest, bits: width.div_ceil(passes), passes })
    }
}

/// Puts values in the order of one digit, equal ones in the order they have.
fn scatter(values: &[u64], target: &mut [u64], shift: u32, digit_bits: u32) {
    let mask = (1 << digit_bits) - 1;
    let digit = |value: u64| (value.wrapping_shr(shift) as usize & mask) % (1 << DIGIT_BITS_MAX);
    // Fewer than 2^32 values: half the cache, and checked.
    let mut places = [0_u32; 1 << DIGIT_BITS_MAX];
    for &value in values {
        places[digit(value)] += 1;
    }
    let mut next = 0;
    for place in &mut places[..=mask] {
        next += std::mem::replace(place, next);
    }
    for &value in values {
        let place = &mut places[digit(value)];
        target[*place as usize] = value;
        *place += 1;
    }
}

/// Sorts in the order of [`f64::total_cmp`].
pub(crate) fn sort(values: &mut [f64]) {
    if values.len() < FEW {
        values.sort_unstable_by(f64::total_cmp);
        return;
    }
    // With the sign turned, and all other bits of what is below zero, bits are in that order.
    let sign = 1 << (u64::BITS - 1);
    let mut bits: Vec<u64> = values
        .iter()
        .map(|value| value.to_bits())
        .map(|bits| if bits & sign == 0 { bits | sign } else { !bits })
        .collect();
    sort_by_high_bits(&mut bits, 0);
    for (value, bits) in values.iter_mut().zip(bits) {
        *value = f64::from_bits(if bits & sign == 0 { !bits } else { bits & !sign });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;

    #[test]
    fn the_order_is_that_of_comparing() {
        for count in [0, 1, FEW, 20_000] {
            let values: Vec<f64> = (0..count as u64)
                .map(|index| {
                    let magnitude = (mix(index) % 100) as i32 - 50;
                    (mix(index + 1) as f64 - 2e18) * 2_f64.powi(magnitude)
                })
                .chain([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY])
                .collect();
            let (mut sorted, mut compared) = (values.clone(), values);
            sort(&mut sorted);
            compared.sort_unstable_by(f64::total_cmp);
            let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&sorted), bits(&compared));
        }
    }

    #[test]
    fn any_bits_may_differ() {
        for (shift, bits) in [(0, 1), (0, 12), (7, 13), (24, 24), (30, 34), (0, 64), (63, 1)] {
            for low in [0, 8, 24] {
                let mask = u64::MAX >> (u64::BITS - bits);
                let values: Vec<u64> =
                    (0..2_000).map(|index| 0x5a00_0100 ^ (mix(index) & mask) << shift).collect();
                let mut compared = values.clone();
                compared.sort_by_key(|value| value >> low);
                assert_eq!(sorted_by_high_bits(&values, low), compared, "{bits} from {shift}");
                let mut in_place = values;
                sort_by_high_bits(&mut in_place, low);
                assert_eq!(in_place, compared, "{bits} from {shift}");
            }
        }
    }

    #[test]
    fn low_bits_do_not_count_and_equals_keep_their_order() {
        let values: Vec<u64> =
            (0..5_000).map(|index| ((mix(index) % 300) << 8) | (index & 0xff)).collect();
        let (mut sorted, mut compared) = (values.clone(), values);
        sort_by_high_bits(&mut sorted, 8);
        compared.sort_by_key(|value| value >> 8);
        assert_eq!(sorted, compared);
    }
}

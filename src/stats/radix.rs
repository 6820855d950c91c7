//! Sorting numbers digit by digit: several times faster than comparing once there are thousands.

/// Bits that one pass looks at.
const DIGIT_BITS: u32 = 11;
/// Below this many values comparing is faster.
const FEW: usize = 512;

/// Sorts by the bits from `low` on, from the lowest digit to the highest. Values of one run have few
/// digits in which they differ.
pub(crate) fn sort_by_high_bits(values: &mut Vec<u64>, low: u32) {
    if values.len() < FEW {
        values.sort_by_key(|value| value >> low);
        return;
    }
    let differ = values.windows(2).fold(0, |bits, pair| bits | (pair[0] ^ pair[1]));
    let mut target = vec![0; values.len()];
    for shift in (low..u64::BITS).step_by(DIGIT_BITS as usize) {
        let digit = |value: u64| (value >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        if digit(differ) == 0 {
            continue;
        }
        let mut places = [0_usize; 1 << DIGIT_BITS];
        for &value in values.iter() {
            places[digit(value)] += 1;
        }
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for &value in values.iter() {
            let place = &mut places[digit(value)];
            target[*place] = value;
            *place += 1;
        }
        std::mem::swap(values, &mut target);
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
    fn low_bits_do_not_count_and_equals_keep_their_order() {
        let values: Vec<u64> =
            (0..5_000).map(|index| ((mix(index) % 300) << 8) | (index & 0xff)).collect();
        let (mut sorted, mut compared) = (values.clone(), values);
        sort_by_high_bits(&mut sorted, 8);
        compared.sort_by_key(|value| value >> 8);
        assert_eq!(sorted, compared);
    }
}

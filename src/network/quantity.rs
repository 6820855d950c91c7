//! Whole-number rates and amounts: what is added and taken away is exact, in every order.
//!
//! A rate counts in 2⁻¹⁶ bytes per second, an amount in what such a rate moves in one nanosecond.
//! A share of a link is rounded down to such a unit: n flows leave less than n units of a link
//! unused, 10⁻¹² of what each of them gets at 10 MB/s.

/// Rates are whole multiples of 1 / this, in bytes per second.
const UNITS_PER_BYTE_PER_S: u64 = 1 << 16;
/// The largest rate, in bytes per second: 281 TB/s.
const MAX_BYTES_PER_S: f64 = (1_u64 << 48) as f64;

/// A rate in units of 2⁻¹⁶ bytes per second.
pub(super) type Rate = u64;
/// An amount in units of 2⁻¹⁶ · 10⁻⁹ bytes: rate × nanoseconds.
pub(super) type Work = u128;

/// The amount that one byte is.
pub(super) const WORK_PER_BYTE: Work = UNITS_PER_BYTE_PER_S as Work * 1_000_000_000;

/// The nearest rate; `None` unless it lies between 1 byte/s and 281 TB/s.
pub(super) fn rate(bytes_per_s: f64) -> Option<Rate> {
    (1.0..MAX_BYTES_PER_S)
        .contains(&bytes_per_s)
        .then(|| (bytes_per_s * UNITS_PER_BYTE_PER_S as f64).round() as Rate)
}

/// A rate in bytes per second.
pub(super) fn bytes_per_s(rate: Rate) -> f64 {
    rate as f64 / UNITS_PER_BYTE_PER_S as f64
}

/// An amount in bytes.
pub(super) fn bytes(work: Work) -> f64 {
    work as f64 / WORK_PER_BYTE as f64
}

/// What `rate` moves in `nanos` nanoseconds.
pub(super) fn moved(rate: Rate, nanos: u64) -> Work {
    Work::from(rate) * Work::from(nanos)
}

/// Nanoseconds until `work` is moved at `rate`, rounded up; `None` when that takes more than 584
/// years.
pub(super) fn nanos_to_move(work: Work, rate: Rate) -> Option<u64> {
    if rate == 0 {
        return (work == 0).then_some(0);
    }
    let whole = work / Work::from(rate);
    // One division of this width, and not another for the rest.
    let nanos = u64::try_from(whole).ok()?;
    if moved(rate, nanos) < work { nanos.checked_add(1) } else { Some(nanos) }
}

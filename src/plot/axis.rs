//! Axes: limits, ticks at 1, 2 or 5 times a power of ten, and the way numbers are written.

use crate::plain::separate;

/// A tick: where, and what it says; one between the labelled ones says nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
}

/// An axis in the units of its labels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    min: f64,
    max: f64,
    pub(super) ticks: Vec<Tick>,
}

impl Axis {
    /// An axis that shows `min ..= max`, with about `ticks` ticks inside it.
    pub(super) fn linear(min: f64, max: f64, ticks: f64) -> Self {
        let step = nice_above((max - min) / ticks);
        let (first, last) = ((min / step - 1e-9).ceil() as i64, (max / step + 1e-9).floor() as i64);
        let label = number_format(max.abs().max(min.abs()), step);
        let ticks = (first..=last)
            .map(|multiple| multiple as f64 * step)
            .map(|at| Tick { at, label: label(at) })
            .collect();
        Self { scale: Scale::Linear, min, max, ticks }
    }

    /// The same axis without ticks.
    pub(super) fn without_ticks(self) -> Self {
        Self { ticks: Vec::new(), ..self }
    }

    /// An axis from 0 to the first tick at or above `max`; 0 to 1 if there is nothing to show.
    pub(super) fn from_zero(max: f64, ticks: f64) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = nice_above(max / ticks);
        Self::linear(0.0, (max / step - 1e-9).ceil() * step, ticks)
    }

    /// A logarithmic axis that shows `min ..= max`, both above 0. Ticks are at 1, 2 and 5 of each
    /// decade; where there is no room for `ticks` labels, only decades are labelled.
    pub(super) fn log(min: f64, max: f64, ticks: f64) -> Self {
        // A margin may lead beyond the numbers that there are.
        let (min, max) = (min.max(f64::MIN_POSITIVE), max.min(f64::MAX));
        let (low, high) = (min.log10().floor() as i32, max.log10().ceil() as i32);
        let decades = max.log10() - min.log10();
        let inside = (min * (1.0 - 1e-9))..=(max * (1.0 + 1e-9));
        let has_labels = |mantissa: f64, exponent: i32| {
            let stride = (decades / ticks).ceil().max(1.0) as i32;
            let is_decade = (mantissa - 1.0).abs() < 0.5 && (exponent - low) % stride == 0;
            is_decade || decades * 3.0 <= ticks
        };
        let ticks = (low..=high)
            .flat_map(|exponent| [1.0, 2.0, 5.0].map(|mantissa| (mantissa, exponent)))
            .map(|(mantissa, exponent)| (mantissa, exponent, 10_f64.powi(exponent)))
            .filter(|(mantissa, _, decade)| inside.contains(&(mantissa * decade)))
            .map(|(mantissa, exponent, decade)| {
                let at = mantissa * decade;
                let label = number_format(at, decade)(at);
                let label = if has_labels(mantissa, exponent) { label } else { String::new() };
                Tick { at, label }
            })
            .collect();
        Self { scale: Scale::Log, min, max, ticks }
    }

    /// An axis for positive and widely spread, or close values: logarithmic when the largest is
    /// 30 times the smallest or more.
    pub(super) fn for_spread(smallest: f64, largest: f64, ticks: f64) -> Self {
        const LOG_FROM: f64 = 30.0;
        const DECADES_MAX: f64 = 1e9;
        if smallest > 0.0 && largest >= smallest * LOG_FROM {
            let smallest = smallest.max(largest / DECADES_MAX);
            let margin = (largest / smallest).powf(0.03);
            return Self::log(smallest / margin, largest * margin, ticks);
        }
        let span = largest - smallest;
        let margin = if span > largest * 1e-6 { span * 0.05 } else { largest * 0.1 };
        match smallest - margin {
            _ if largest <= 0.0 => Self::linear(0.0, 1.0, ticks),
            low if low < largest * 0.25 => Self::linear(0.0, largest + margin, ticks),
            low => Self::linear(low, largest + margin, ticks),
        }
    }

    /// The same, from 0 where it is not logarithmic.
    pub(super) fn for_spread_from_zero(smallest: f64, largest: f64, ticks: f64) -> Self {
        let axis = Self::for_spread(smallest, largest, ticks);
        if axis.scale == Scale::Log { axis } else { Self::from_zero(largest, ticks) }
    }

    /// Where a value lies, as a share of the axis; values beyond its ends lie at the ends.
    pub(super) fn share(&self, value: f64) -> f64 {
        let value = value.clamp(self.min, self.max);
        match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Log => (value / self.min).ln() / (self.max / self.min).ln(),
        }
    }

    /// What to add to the axis title.
    pub(super) fn scale_note(&self) -> &'static str {
        match self.scale {
            Scale::Linear => "",
            Scale::Log => ", log scale",
        }
    }
}

/// The smallest of 1, 2, 5, 10, 20, … (and their fractions) that is not below `x`.
pub(super) fn nice_above(x: f64) -> f64 {
    let decade = 10_f64.powi(x.log10().floor() as i32);
    let mantissas = [1.0, 2.0, 5.0, 10.0];
    let mantissa = mantissas.into_iter().find(|m| m * decade >= x * (1.0 - 1e-9)).unwrap_or(10.0);
    // a fraction is divided, not multiplied: 3 · 0.1 is not 0.3
    if decade < 1.0 { mantissa / (1.0 / decade).round() } else { mantissa * decade }
}

/// The least of values, infinite if there are none, and the largest, 0 at least.
pub(super) fn limits(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

/// How to write numbers up to `max` that are multiples of `step`.
fn number_format(max: f64, step: f64) -> impl Fn(f64) -> String {
    let (unit, suffix) = match max {
        1e9.. => (1e9, "G"),
        1e6.. => (1e6, "M"),
        _ => (1.0, ""),
    };
    let decimals = (-(step / unit).log10() - 1e-9).ceil().max(0.0) as usize;
    move |x| {
        let zero_has_no_suffix = if x.abs() < step / 2.0 { "" } else { suffix };
        let sign = if x < -step / 2.0 { "−" } else { "" };
        format!("{sign}{}{zero_has_no_suffix}", fixed(x.abs() / unit, decimals))
    }
}

/// A number with this many decimals and its thousands separated.
pub(super) fn fixed(x: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", x.max(0.0));
    match plain.split_once('.') {
        None => separate(&plain),
        Some((whole, fraction)) => format!("{}.{fraction}", separate(whole)),
    }
}

/// A number with three significant digits, or all digits before its point.
pub(super) fn significant(x: f64) -> String {
    let digits_before_point = if x > 0.0 { x.log10().floor() as i32 + 1 } else { 3 };
    fixed(x, (3 - digits_before_point).clamp(0, 6) as usize)
}

/// The same of any number.
pub(super) fn significant_signed(x: f64) -> String {
    let sign = if x < 0.0 { "−" } else { "" };
    format!("{sign}{}", significant(x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(
            labels(&Axis::from_zero(937.0, 5.0)),
            ["0", "200", "400", "600", "800", "1,000"]
        );
        assert_eq!(labels(&Axis::from_zero(0.0, 5.0)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&Axis::linear(0.21, 0.34, 4.0)), ["0.25", "0.30"]);
        assert_eq!(labels(&Axis::linear(-3.1, 3.1, 4.0)), ["−2", "0", "2"]);
        assert_eq!(labels(&Axis::from_zero(2.4e6, 4.0)), ["0", "1M", "2M", "3M"]);
        assert_eq!(labels(&Axis::from_zero(14_000.0, 3.0)), ["0", "5,000", "10,000", "15,000"]);
    }

    #[test]
    fn log_ticks_thin_out_when_decades_are_many() {
        assert_eq!(labels(&Axis::log(0.03, 1.5, 6.0)), ["0.05", "0.1", "0.2", "0.5", "1"]);
        let wide = ["0.5", "1", "", "", "10", "", "", "100", "", "", "1,000", ""];
        assert_eq!(labels(&Axis::log(0.5, 2e3, 6.0))[1..], wide[1..]);
        let widest = Axis::log(1e-3, 1e9, 6.0);
        assert!(labels(&widest).iter().filter(|label| !label.is_empty()).count() <= 7);
    }

    #[test]
    fn an_axis_holds_its_values_whatever_their_spread() {
        for (smallest, largest) in [(0.0, 0.0), (3.0, 3.0), (0.0, 5.0), (1e-9, 9.0), (2.0, 2.1)] {
            let axis = Axis::for_spread(smallest, largest, 6.0);
            let (low, high) = (axis.share(smallest), axis.share(largest));
            assert!(0.0 <= low && low <= high && high <= 1.0, "{smallest} {largest}");
            assert!(
                axis.ticks.iter().filter(|tick| !tick.label.is_empty()).count() >= 2,
                "{smallest} {largest}"
            );
        }
    }

    #[test]
    fn numbers_keep_three_digits() {
        let written = [1234.5, 123.4, 12.345, 1.2345, 0.123_45, 0.0].map(significant);
        assert_eq!(written, ["1,234", "123", "12.3", "1.23", "0.123", "0"]);
    }

    #[test]
    fn nice_steps_are_never_below() {
        for x in [0.011, 0.1, 0.3, 1.0, 2.1, 49.0, 51.0, 1e-7] {
            let nice = nice_above(x);
            assert!(nice >= x * (1.0 - 1e-9) && nice <= x * 2.5 + 1e-12, "{x} {nice}");
        }
    }
}

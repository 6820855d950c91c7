//! A figure with its interval in print.

use std::fmt;

/// A value with half the width of its interval. [`Display`](fmt::Display) writes `12.30 ± 0.45`, the value alone where
/// there is no interval, and with `{:+}` the sign of what is more than 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The value.
    pub value: f64,
    /// Half the width of its interval; none if 0.
    pub half_width: f64,
    unit: &'static str,
}

impl Interval {
    /// Of a value and half the width of its interval, in the same unit.
    pub fn new(value: f64, half_width: f64) -> Self {
        Self { value, half_width, unit: "" }
    }

    /// Of shares, written in percent.
    pub fn in_percent(share: f64, half_width: f64) -> Self {
        Self { value: share * 1e2, half_width: half_width * 1e2, unit: " %" }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, half_width) = around(self.value, self.half_width);
        let is_zero = value.chars().all(|letter| "0.".contains(letter));
        let sign = if f.sign_plus() && self.value > 0.0 && !is_zero { "+" } else { "" };
        write!(f, "{sign}{value}{}", self.unit)?;
        half_width.map_or(Ok(()), |half_width| write!(f, " ± {half_width}{}", self.unit))
    }
}

/// A value and half the width of its interval, which has two significant digits, with as many decimals.
fn around(value: f64, half_width: f64) -> (String, Option<String>) {
    if half_width <= 0.0 || !half_width.is_finite() {
        return (quantity(value), None);
    }
    let decimals = (1 - half_width.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|letter| "-0.".contains(letter));
    let text = if is_zero { text.replacen('-', "", 1) } else { text };
    (text, Some(format!("{half_width:.decimals$}")))
}

/// A number with three significant digits, or all before its point.
pub fn quantity(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        0.0 => 0,
        _ => (2 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_written_with_as_many_decimals_as_its_width_has() {
        for (value, half_width, plain, signed) in [
            (12.3456, 0.45, "12.35 ± 0.45", "+12.35 ± 0.45"),
            (-7193.4, 3325.2, "-7193 ± 3325", "-7193 ± 3325"),
            (0.001, 2.0, "0.0 ± 2.0", "0.0 ± 2.0"),
            (-0.001, 2.0, "0.0 ± 2.0", "0.0 ± 2.0"),
            // Of what is not drawn there is no interval.
            (1234.0, 0.0, "1234", "+1234"),
            (0.0, 0.0, "0", "0"),
        ] {
            let interval = Interval::new(value, half_width);
            assert_eq!(interval.to_string(), plain);
            assert_eq!(format!("{interval:+}"), signed);
        }
        assert_eq!(Interval::in_percent(0.3484, 0.0053).to_string(), "34.84 % ± 0.53 %");
    }
}

//! What may be said of a difference.

use super::Difference;
use crate::study::Sense;

/// A difference, judged by which way the figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The second scenario is better.
    Better,
    /// It is worse.
    Worse,
    /// It is higher, and no way is better.
    Higher,
    /// It is lower, and no way is better.
    Lower,
    /// Chance explains what was seen.
    NoDifference,
    /// Every run of one gave what the other gave.
    Identical,
}

impl Verdict {
    /// What is said where a difference stands, or does not.
    pub fn new(found: &Difference, sense: Sense, stands: bool) -> Self {
        let difference = found.difference();
        match sense {
            _ if difference == 0.0 && found.half_width == 0.0 => Self::Identical,
            _ if !stands || difference == 0.0 => Self::NoDifference,
            Sense::LowerIsBetter if difference < 0.0 => Self::Better,
            Sense::HigherIsBetter if difference > 0.0 => Self::Better,
            Sense::LowerIsBetter | Sense::HigherIsBetter => Self::Worse,
            Sense::Neither if difference > 0.0 => Self::Higher,
            Sense::Neither => Self::Lower,
        }
    }

    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::NoDifference => "no difference",
            Self::Identical => "identical",
        }
    }

    /// A sentence on requests that every run sends again, such as `B lowers P99 TTFT by 18.0 % for these requests`.
    pub fn of_these(self, other: &str, figure: &str, found: &Difference) -> String {
        let difference = found.difference();
        if difference == 0.0 {
            return format!("{other} has the same {figure}");
        }
        let verb = if difference < 0.0 { "lowers" } else { "raises" };
        let amount = match found.relative {
            Some(relative) => percent(relative.change.abs()),
            None => quantity(difference.abs()),
        };
        format!("{other} {verb} {figure} by {amount} for these requests")
    }

    /// A sentence, such as `B lowers P99 TTFT by 18.0 % ± 3.0 % (95 %): better`, with a note on the
    /// interval.
    pub fn sentence(self, other: &str, figure: &str, found: &Difference, note: &str) -> String {
        let difference = found.difference();
        let verb = if difference < 0.0 { "lowers" } else { "raises" };
        let amount = if let Some(relative) = found.relative {
            let (change, half) = around(relative.change.abs() * 1e2, relative.half_width * 1e2);
            format!("{change} % ± {half} %")
        } else {
            let (difference, half) = around(difference.abs(), found.half_width);
            format!("{difference} ± {half}")
        };
        // As far from none as the interval reaches.
        let farthest = match found.relative {
            Some(relative) => percent(relative.change.abs() + relative.half_width),
            None => quantity(difference.abs() + found.half_width),
        };
        match self {
            Self::Better | Self::Worse => {
                format!("{other} {verb} {figure} by {amount} {note}: {}", self.name())
            }
            Self::Higher | Self::Lower => format!("{other} {verb} {figure} by {amount} {note}"),
            Self::NoDifference => {
                format!("{other} shows no difference in {figure}: it is within ± {farthest} {note}")
            }
            Self::Identical => format!("{other} has the same {figure} in every run {note}"),
        }
    }
}

/// A value and half the width of its interval, which has two significant digits, with as many decimals.
pub fn around(value: f64, half_width: f64) -> (String, String) {
    if half_width <= 0.0 || !half_width.is_finite() {
        return (quantity(value), "0".to_owned());
    }
    let decimals = (1 - half_width.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|letter| "-0.".contains(letter));
    let text = if is_zero { text.replacen('-', "", 1) } else { text };
    (text, format!("{half_width:.decimals$}"))
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{} %", quantity(share * 100.0))
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

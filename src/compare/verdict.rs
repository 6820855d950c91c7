//! What may be said of a difference.

use super::{Difference, Interval, quantity};
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
        let amount = match found.relative {
            Some(relative) => {
                Interval::in_percent(relative.change.abs(), relative.half_width).to_string()
            }
            None => Interval::new(difference.abs(), found.half_width).to_string(),
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

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{} %", quantity(share * 100.0))
}

//! Axes: a setting and the values it takes.

use crate::plain::shown;
use serde::{Deserialize, Serialize};
use toml::Value;

/// A setting and the values it takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The path of its key, such as `cluster.replicas`.
    pub path: String,
    /// Its values.
    pub levels: Levels,
}

/// The values of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Levels {
    /// These, in this order.
    List(Vec<Value>),
    /// Numbers between two ends.
    Range(Range),
}

/// Numbers between two ends, both of them included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// What is even between them.
    pub scale: Scale,
    /// Which numbers.
    pub kind: NumberKind,
    /// How many levels a grid has; all whole numbers if absent.
    pub count: Option<u32>,
}

/// What is even between the ends of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Differences.
    #[default]
    Linear,
    /// Ratios.
    Log,
}

/// Which numbers a range has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberKind {
    /// Whole ones.
    Integer,
    /// All, to six significant digits: logarithms differ in their last digits from machine to machine.
    Real,
}

/// The largest whole number up to which all are floating-point numbers.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

impl Levels {
    /// The rule that they break.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::List(values) if values.is_empty() => Some("has no values".to_owned()),
            Self::List(values) => {
                let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
                let is_double = |at: &usize| texts[..*at].contains(&texts[*at]);
                let double = (0..texts.len()).find(is_double);
                double.map(|at| format!("lists {} twice", texts[at]))
            }
            Self::Range(range) => range.problem(),
        }
    }

    /// How many levels a grid has of them, at most; nothing where it is not said how many.
    pub(super) fn count(&self) -> Option<u64> {
        match self {
            Self::List(values) => Some(values.len() as u64),
            Self::Range(range) => range.levels(),
        }
    }

    /// The levels of a grid; none where it is not said how many.
    pub fn of_grid(&self) -> Vec<Value> {
        match self {
            Self::List(values) => values.clone(),
            Self::Range(range) => range.of_grid(),
        }
    }

    /// The level at a share of the way, from 0 up to but not including 1: of a list, each value has an
    /// equal part of it.
    pub(super) fn at(&self, share: f64) -> Value {
        match self {
            Self::List(values) => {
                let place = (share * values.len() as f64) as usize;
                values[place.min(values.len() - 1)].clone()
            }
            Self::Range(range) => range.at(share),
        }
    }
}

impl Range {
    fn problem(&self) -> Option<String> {
        let Self { low, high, .. } = *self;
        if !(low < high && low.is_finite() && high.is_finite()) {
            return Some(format!(
                "{}..{} is empty: the first must be below the second",
                shown(low),
                shown(high)
            ));
        }
        if self.scale == Scale::Log && low <= 0.0 {
            return Some(format!("a logarithmic range must begin above 0, got {}", shown(low)));
        }
        if self.kind == NumberKind::Integer && low.abs().max(high.abs()) > INTEGER_MAX {
            return Some(format!("{}..{} has whole numbers beyond 2^53", shown(low), shown(high)));
        }
        match self.count {
            Some(count) if count < 2 => {
                Some(format!("a range has at least 2 levels, its ends; got {count}"))
            }
            Some(count)
                if self.kind == NumberKind::Integer && f64::from(count) > self.integers() =>
            {
                Some(format!("{low}..{high} has no {count} whole numbers"))
            }
            _ => None,
        }
    }

    fn integers(&self) -> f64 {
        self.high - self.low + 1.0
    }

    fn levels(&self) -> Option<u64> {
        let counts_itself = self.kind == NumberKind::Integer && self.scale == Scale::Linear;
        self.count.map(u64::from).or(counts_itself.then(|| self.integers() as u64))
    }

    /// Levels from end to end; of whole numbers those that fall together once.
    fn of_grid(&self) -> Vec<Value> {
        let count = self.levels().unwrap_or_default();
        let share = |place: u64| place as f64 / (count - 1) as f64;
        let mut levels: Vec<Value> =
            (0..count).map(|place| self.value(self.between(share(place)))).collect();
        levels.dedup();
        levels
    }

    /// Whole numbers have an equal part of the way each, or one as wide as their ratio to the next.
    fn at(&self, share: f64) -> Value {
        match self.kind {
            NumberKind::Real => self.value(self.between(share)),
            NumberKind::Integer => {
                let above = Self { high: self.high + 1.0, ..*self };
                self.value(above.between(share).floor())
            }
        }
    }

    /// What is this share of the way from the lower to the upper end.
    fn between(&self, share: f64) -> f64 {
        match self.scale {
            Scale::Linear => self.low + share * (self.high - self.low),
            Scale::Log => self.low * (share * (self.high / self.low).ln()).exp(),
        }
    }

    fn value(&self, number: f64) -> Value {
        match self.kind {
            NumberKind::Integer => Value::Integer(number.round().clamp(self.low, self.high) as i64),
            NumberKind::Real => {
                let rounded = format!("{number:.5e}").parse().unwrap_or(number);
                Value::Float(rounded.clamp(self.low, self.high))
            }
        }
    }
}

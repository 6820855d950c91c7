//! What comes of the layouts of a plan, and which is the best.

use std::fmt;

use super::hunt::Tried;
use super::layouts::Size;
use super::question::Seeks;
use super::{Merit, Trial};

/// Why a layout serves the traffic in no number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Nobody says what this GPU costs.
    NoPrice(String),
    /// The memory of its GPUs does not hold it.
    Memory(String),
    /// Its smallest cluster has more GPUs than a cluster may have.
    Size {
        /// Those of that cluster.
        gpus: u32,
        /// The most GPUs that a cluster may have.
        max_gpus: u32,
    },
    /// A cluster may not have so many GPUs that all adapters have room.
    Room {
        /// Replicas that have room for all adapters.
        replicas: u32,
        /// Their GPUs.
        gpus: u32,
        /// The most GPUs that a cluster may have.
        max_gpus: u32,
    },
    /// A rule is broken.
    Other(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrice(_) => f.write_str("no price is known"),
            Self::Size { gpus, max_gpus } => {
                write!(
                    f,
                    "its smallest cluster has {gpus} GPUs, more than the {max_gpus} that are allowed"
                )
            }
            Self::Room { replicas, gpus, max_gpus } => write!(
                f,
                "room for all adapters takes {replicas} replicas, {gpus} GPUs, more than the {max_gpus} that are allowed"
            ),
            Self::Memory(reason) | Self::Other(reason) => f.write_str(reason),
        }
    }
}

/// What came of a layout.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a layout, and most of them meet the SLOs")]
pub enum Outcome {
    /// It cannot serve the traffic in any number.
    Impossible(Obstacle),
    /// The largest number that is no dearer than the second cheapest answer misses an SLO.
    TooDear {
        /// That number.
        broken: Size,
        /// What it costs.
        cost: f64,
    },
    /// No number of replicas that may be meets the SLOs; with `--rate`, no rate.
    TooMany {
        /// The largest number that was tried, simulated to its end; nothing of rates.
        largest: Option<Box<(Size, Trial)>>,
    },
    /// So many keep them, at so many times the rate, and the next ones do not.
    Keeps {
        /// They.
        found: Tried,
        /// The next ones, where there are some.
        misses: Option<(Size, Trial)>,
        /// How many times as fast the requests come.
        factor: f64,
    },
}

/// A layout and what came of it.
#[derive(Debug)]
pub struct Row {
    /// The place of the layout among those of the question.
    pub place: usize,
    /// Whether it is planned for servers that are slower than most of their class.
    pub is_for_slow: bool,
    /// What came of it.
    pub outcome: Outcome,
}

/// What keeps a layout from being smaller, or the rate from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedBy {
    /// An SLO, by its place: one replica less misses it. Of pairs, that which takes most of what is allowed, as each kind of
    /// their replicas may have an SLO of its own.
    Slo(usize),
    /// What the engines serve: requests pile up on one replica less.
    Throughput,
    /// The room that adapters need.
    Room,
    /// There is no smaller size.
    Least,
}

impl Row {
    /// What limits the size that meets all SLOs, if one does, or its rate; nothing where requests can come at any speed.
    pub(super) fn limited_by(&self, seeks: Seeks) -> Option<LimitedBy> {
        let Outcome::Keeps { found, misses, .. } = &self.outcome else { return None };
        let is_of_rate = seeks == Seeks::HighestRate;
        let Some((_, broken)) = misses else {
            return match found.size {
                _ if is_of_rate => None,
                Size::Mixed(replicas) if replicas > 1 => Some(LimitedBy::Room),
                _ => Some(LimitedBy::Least),
            };
        };
        if broken.is_overloaded {
            // What piles up in another pair may hang on the kind that it has fewer of.
            let is_told = is_of_rate || matches!(found.size, Size::Mixed(_));
            return is_told.then_some(LimitedBy::Throughput);
        }
        let missed = broken.values.as_deref();
        let is_missed = |place: usize| missed.is_none_or(|values| values[place].used > 1.0);
        let used = found.trial.values.iter().flatten().map(|value| value.used).enumerate();
        let tightest = used.filter(|(place, _)| is_missed(*place));
        let tightest = tightest.max_by(|(_, a), (_, b)| a.total_cmp(b));
        tightest.map(|(place, _)| LimitedBy::Slo(place))
    }

    /// The size that meets all SLOs, if one does.
    pub fn found(&self) -> Option<&Tried> {
        match &self.outcome {
            Outcome::Keeps { found, .. } => Some(found),
            _ => None,
        }
    }

    /// Whether it was not tried because no price of its GPUs is known.
    pub(super) fn lacks_a_price(&self) -> bool {
        matches!(self.outcome, Outcome::Impossible(Obstacle::NoPrice(_)))
    }

    /// The next size, which does not.
    pub fn misses(&self) -> Option<&(Size, Trial)> {
        match &self.outcome {
            Outcome::Keeps { misses, .. } => misses.as_ref(),
            _ => None,
        }
    }

    /// How many times as fast the requests come.
    pub fn factor(&self) -> f64 {
        if let Outcome::Keeps { factor, .. } = self.outcome { factor } else { 1.0 }
    }

    /// What speaks for it; with `--rate` its price is that of a request. What keeps nothing comes last.
    pub(super) fn merit(&self) -> Merit {
        let none = Merit { price: f64::INFINITY, gpus: u32::MAX, used: Vec::new() };
        self.found().map_or(none, |found| found.merit(self.factor()))
    }
}

/// The best first.
pub(super) fn ranked(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| a.merit().order(&b.merit()).then(a.place.cmp(&b.place)));
    rows
}

/// The best layout that meets all SLOs, of ranked ones: no other is nowhere worse and somewhere better.
pub(super) fn winner(rows: &[Row]) -> Option<(&Row, &Tried)> {
    rows.first().and_then(|row| Some((row, row.found()?)))
}

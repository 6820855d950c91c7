//! Designs: which combinations of levels are points.

use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use toml::Value;

use super::axis::Axis;
use crate::rng::Seed;

/// Which combinations of levels are points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Design {
    /// Every level of each axis with every level of the others; the last axis varies fastest.
    #[default]
    Grid,
    /// The first levels of all axes together, then the second, and so on: a list of points.
    Zip,
    /// Independent uniform draws on every axis.
    Random {
        /// How many points.
        points: u32,
        /// Of the draws.
        seed: Seed,
    },
    /// Draws of which each axis has exactly one in each of as many equal parts as there are points
    /// (`McKay`, Beckman, Conover: Technometrics 21, 1979).
    LatinHypercube {
        /// How many points.
        points: u32,
        /// Of the draws.
        seed: Seed,
    },
}

impl Design {
    /// The values that an axis takes, one for each point; of a grid one for each level.
    pub(super) fn column(self, index: usize, axis: &Axis) -> Vec<Value> {
        let (points, seed) = match self {
            Self::Grid | Self::Zip => return axis.levels.of_grid(),
            Self::Random { points, seed } | Self::LatinHypercube { points, seed } => (points, seed),
        };
        // An axis of its own stream: adding one does not change the others.
        let mut stream = seed.stream("design", index as u64);
        let mut strata: Vec<u32> = (0..points).collect();
        if matches!(self, Self::LatinHypercube { .. }) {
            strata.shuffle(&mut stream);
        }
        let share = |stratum: u32| {
            let within: f64 = stream.random();
            match self {
                Self::LatinHypercube { .. } => (f64::from(stratum) + within) / f64::from(points),
                _ => within,
            }
        };
        strata.into_iter().map(share).map(|share| axis.levels.at(share)).collect()
    }

    /// Whether points are drawn, so that levels need not be counted.
    pub(super) fn is_drawn(self) -> bool {
        matches!(self, Self::Random { .. } | Self::LatinHypercube { .. })
    }
}

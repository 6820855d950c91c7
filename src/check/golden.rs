//! Recorded figures, and how much worse they may be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::outcome::{Deviation, Standing};
use crate::scenario::NAME_MAX;
use crate::study::{self, Figures, LOSSES, Sense};

/// The key of the tolerance of figures that are not named.
const DEFAULT: &str = "default";
/// A figure that the requests alone decide.
const REQUESTS: &str = "arrived";

/// By the name of a figure.
type ByFigure = BTreeMap<String, f64>;

/// A file of recorded figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// How much worse a figure may be, relative to the recorded one; `default` for those not named, `inf`
    /// for figures that fail in no case.
    pub tolerances: ByFigure,
    /// The same for single scenarios.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tolerances_of: BTreeMap<String, ByFigure>,
    /// What was recorded, by scenario.
    #[serde(default)]
    pub figures: BTreeMap<String, ByFigure>,
}

/// Why recorded figures cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenError {
    /// It is no such file.
    #[error(transparent)]
    Format(#[from] toml::de::Error),
    /// A tolerance is none.
    #[error("{place}: must be 0 or more, or inf, got {value}")]
    Tolerance {
        /// The key.
        place: String,
        /// Its value.
        value: f64,
    },
    /// A tolerance is for nothing that was recorded.
    #[error("tolerances_of.{0}: nothing of that name is recorded")]
    Unrecorded(String),
    /// A name is longer than names of scenarios and figures are.
    #[error("figures: names have at most {NAME_MAX} letters, got {0}")]
    Name(usize),
    /// There is no default.
    #[error("tolerances.default: is missing")]
    NoDefault,
}

impl Golden {
    /// Nothing recorded, with the tolerances that the project takes.
    pub fn empty() -> Self {
        let tolerances = [
            (DEFAULT, 0.02),
            ("p90_ttft_ms", 0.05),
            ("p95_ttft_ms", 0.05),
            ("p99_ttft_ms", 0.05),
            ("p99_itl_ms", 0.05),
            ("finished", 0.0),
            // A means, whose ends are judged.
            ("preemptions", f64::INFINITY),
            ("cache_hit_rate", f64::INFINITY),
            ("busy_max_over_mean", f64::INFINITY),
        ];
        // Requests that are lost are no latencies that shift a little.
        let losses = LOSSES.map(|name| (name, 0.0));
        let parts = study::parts().map(|part| (part, f64::INFINITY));
        let tolerances = tolerances.into_iter().chain(losses).chain(parts);
        Self {
            tolerances: tolerances.map(|(name, value)| (name.to_owned(), value)).collect(),
            tolerances_of: BTreeMap::new(),
            figures: BTreeMap::new(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is none, or a tolerance is wrong.
    pub fn parse(text: &str) -> Result<Self, GoldenError> {
        let golden: Self = toml::from_str(text)?;
        if !golden.tolerances.contains_key(DEFAULT) {
            return Err(GoldenError::NoDefault);
        }
        let names = golden.figures.iter().flat_map(|(name, of)| of.keys().chain([name]));
        let letters = |name: &String| name.chars().count();
        if let Some(long) = names.map(letters).find(|letters| *letters > NAME_MAX) {
            return Err(GoldenError::Name(long));
        }
        let of = golden.tolerances_of.iter();
        let of = of.map(|(scenario, own)| (format!("tolerances_of.{scenario}"), own));
        for (place, own) in of.chain([("tolerances".to_owned(), &golden.tolerances)]) {
            if let Some((figure, value)) =
                own.iter().find(|(_, value)| value.is_nan() || **value < 0.0)
            {
                let place = format!("{place}.{figure}");
                return Err(GoldenError::Tolerance { place, value: *value });
            }
        }
        Ok(golden)
    }

    /// Makes sure that tolerances of single scenarios are of scenarios and figures that were recorded.
    ///
    /// # Errors
    /// When one is not.
    pub fn check_names(&self) -> Result<(), GoldenError> {
        for (scenario, own) in &self.tolerances_of {
            let Some(recorded) = self.figures.get(scenario) else {
                return Err(GoldenError::Unrecorded(scenario.clone()));
            };
            let is_there =
                |name: &str| recorded.keys().any(|one| one == name || of_all(one) == name);
            if let Some(name) = own.keys().find(|name| *name != DEFAULT && !is_there(name)) {
                return Err(GoldenError::Unrecorded(format!("{scenario}.{name}")));
            }
        }
        Ok(())
    }

    /// The text of the file.
    ///
    /// # Panics
    /// Never: names and numbers can be written.
    pub fn text(&self) -> String {
        let head = "# Recorded by `servecast check --update`. Tolerances are set by hand and kept: relative, in \
                    the worse direction.\n";
        let body = toml::to_string(self).expect("names and numbers can be written");
        format!("{head}{body}")
    }

    /// Records the figures of a scenario in place of those before.
    pub fn record(&mut self, scenario: &str, figures: &Figures) {
        let figures = figures.iter().map(|(name, value)| (name.to_owned(), value));
        self.figures.insert(scenario.to_owned(), figures.collect());
    }

    /// Where figures are not as recorded; `None` where nothing is recorded of the scenario.
    pub fn deviations(&self, scenario: &str, figures: &Figures) -> Option<Vec<Deviation>> {
        let recorded = self.figures.get(scenario)?;
        let fresh = figures.iter().filter(|(name, _)| !recorded.contains_key(*name));
        let fresh = fresh.map(|(name, now)| (name, None, Some(now)));
        let known =
            recorded.iter().map(|(name, golden)| (name.as_str(), Some(*golden), figures.get(name)));
        let all = known.chain(fresh).filter_map(|(name, golden, now)| {
            let tolerance = self.tolerance(scenario, name);
            let standing = standing(name, golden, now, tolerance)?;
            Some(Deviation { figure: name.to_owned(), golden, now, tolerance, standing })
        });
        Some(all.collect())
    }

    pub(super) fn tolerance(&self, scenario: &str, figure: &str) -> f64 {
        // Of a class as of all.
        let names = [figure, of_all(figure)];
        let own = self.tolerances_of.get(scenario);
        let named = |table: &ByFigure| names.iter().find_map(|name| table.get(*name).copied());
        let default = |table: &ByFigure| table.get(DEFAULT).copied();
        own.and_then(named)
            .or_else(|| named(&self.tolerances))
            .or_else(|| own.and_then(default))
            .or_else(|| default(&self.tolerances))
            .unwrap_or_default()
    }
}

/// The figure of all requests that one of a class is a part of.
fn of_all(figure: &str) -> &str {
    figure.rsplit('.').next().unwrap_or(figure)
}

/// How a figure stands; `None` where it is as recorded.
fn standing(name: &str, golden: Option<f64>, now: Option<f64>, tolerance: f64) -> Option<Standing> {
    let (golden, now) = match (golden, now) {
        (Some(golden), Some(now)) => (golden, now),
        (None, _) => return Some(Standing::New),
        (_, None) => return Some(Standing::Gone),
    };
    if golden.to_bits() == now.to_bits() {
        return None;
    }
    if name == REQUESTS {
        return Some(Standing::OtherRequests);
    }
    let worse_by = match study::sense(name) {
        Sense::Neither => return Some(Standing::Changed),
        Sense::LowerIsBetter => now - golden,
        Sense::HigherIsBetter => golden - now,
    };
    // Where 0 is recorded, nothing but an infinite tolerance allows more.
    let is_allowed = tolerance.is_infinite() || worse_by <= tolerance * golden.abs();
    Some(match (worse_by > 0.0, is_allowed) {
        (false, _) => Standing::Better,
        (true, true) => Standing::WorseWithinTolerance,
        (true, false) => Standing::Worse,
    })
}

//! The highest rate of each layout.

use super::answer::Found;
use super::hunt::Hunt;
use super::layouts::{Layout, Size};
use super::limits::Limits;
use super::outcome::{Outcome, Row, ranked, winner};
use super::study::Study;
use super::{PlanError, Traffic};
use crate::load::Draft;

impl Study {
    /// The highest rate of each layout with the replicas of the scenario.
    pub(super) fn rates(&self) -> Result<Found, PlanError> {
        let hunts = self.layouts.iter().map(|layout| self.hunt(layout, self.base(), &self.traffic));
        let hunts = hunts.collect::<Result<Vec<_>, _>>()?;
        let rows = hunts.iter().enumerate().map(|(place, hunt)| match hunt {
            Ok(hunt) => {
                let outcome = self.highest_rate(&self.layouts[place], hunt)?;
                Ok(Row { place, is_for_slow: self.is_for_slow(hunt), outcome })
            }
            Err(reason) => {
                let outcome = Outcome::Impossible(reason.clone());
                Ok(Row { place, is_for_slow: false, outcome })
            }
        });
        let rows = ranked(rows.collect::<Result<Vec<_>, PlanError>>()?);
        let limits = match winner(&rows).map(|(row, found)| (row, &hunts[row.place], found)) {
            Some((row, Ok(hunt), found)) => {
                let (place, size, factor) = (row.place, found.size, row.factor());
                let rates = self.replicas(|draft, traffic| {
                    self.rate_of(place, size, factor, &draft, &traffic)
                })?;
                let rates_of_faster = self.faster(hunt, |draft| {
                    self.rate_of(place, size, factor, &draft, &self.traffic)
                })?;
                let on_typical = self.on_typical(place, hunt, (size, factor))?;
                Limits { rates, on_typical, rates_of_faster, ..Limits::default() }
            }
            _ => Limits::default(),
        };
        Ok(Found { rows, tried: Vec::new(), limits, known: self.known(&hunts) })
    }

    fn highest_rate(&self, layout: &Layout, hunt: &Hunt<'_>) -> Result<Outcome, PlanError> {
        let size = layout.told(self.base());
        let throughput = hunt.throughput_factor(size, &self.traffic);
        let start = if throughput.is_finite() { 0.8 * throughput } else { 1.0 };
        let highest = hunt.highest_factor(size, &self.traffic, start)?;
        let Some((factor, broken)) = highest else { return Ok(Outcome::TooMany { largest: None }) };
        let found = hunt.priced(size, hunt.attempt(size, &self.traffic, factor)?);
        if broken.is_infinite() {
            return Ok(Outcome::Keeps { found, misses: None, factor });
        }
        let misses = (size, hunt.attempt(size, &self.traffic, broken)?);
        let misses = self.whole(hunt, misses, broken)?;
        Ok(Outcome::Keeps { found, misses: Some(misses), factor })
    }

    /// The highest rate of a layout for other requests or servers, in requests per second.
    fn rate_of(
        &self,
        place: usize,
        size: Size,
        start: f64,
        draft: &Draft,
        traffic: &Traffic,
    ) -> Result<f64, PlanError> {
        let Ok(hunt) = self.hunt(&self.layouts[place], draft, traffic)? else { return Ok(0.0) };
        let highest = hunt.highest_factor(size, traffic, start)?;
        Ok(highest.map_or(0.0, |(kept, _)| kept * traffic.rate_per_s()))
    }
}

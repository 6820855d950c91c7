//! The fewest replicas of each layout.

use super::PlanError;
use super::Trial;
use super::answer::Found;
use super::hunt::{Hunt, Tried};
use super::layouts::Size;
use super::limits::{Limits, Need, Stretch, Windows};
use super::outcome::{Outcome, Row, ranked, winner};
use super::study::Study;
use crate::resolved::Unstated;
use crate::threads;

/// Layouts that are searched before the cheapest so far are looked at: few enough that those which cannot be
/// cheaper are left out, enough for some threads.
const WAVE: usize = 4;

/// A layout that can serve the traffic.
struct Candidate<'a> {
    place: usize,
    hunt: &'a Hunt<'a>,
    /// The size that has the throughput, and what it costs: no answer costs less.
    least: Size,
    bound: f64,
}

impl Study {
    /// The fewest replicas of each layout that may be the cheapest or the second cheapest.
    pub(super) fn sizes(&self) -> Result<Found, PlanError> {
        let hunts = self.layouts.iter().map(|layout| self.hunt(layout, self.base(), &self.traffic));
        let hunts = hunts.collect::<Result<Vec<_>, _>>()?;
        let (mut rows, mut candidates) = (Vec::new(), Vec::new());
        for (place, hunt) in hunts.iter().enumerate() {
            match hunt {
                Ok(hunt) => {
                    let least = hunt.least(self.traffic.rate_per_s());
                    candidates.push(Candidate { place, hunt, least, bound: hunt.cost(least) });
                }
                Err(reason) => {
                    let outcome = Outcome::Impossible(reason.clone());
                    rows.push(Row { place, is_for_slow: false, outcome });
                }
            }
        }
        candidates.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(a.place.cmp(&b.place)));
        rows.extend(self.search(&candidates)?);
        let rows = ranked(rows);
        let limits = match winner(&rows).map(|(row, found)| (row.place, &hunts[row.place], found)) {
            Some((place, Ok(hunt), found)) => {
                let limits = self.limits(place, hunt, found)?;
                let typical = limits.sizes_of_faster.and_then(|faster| faster.typical);
                let need = typical.unwrap_or_else(|| Need::of(hunt, found.size));
                let best = Some((place, need));
                Limits { cheapest_typical: self.cheapest_typical(&rows, best)?, ..limits }
            }
            _ => Limits {
                cheapest_typical: self.cheapest_typical(&rows, None)?,
                ..Limits::default()
            },
        };
        let tried = hunts.iter().enumerate().flat_map(|(place, hunt)| {
            let tried = hunt.iter().flat_map(Hunt::tried);
            tried.map(move |one| (place, one))
        });
        Ok(Found { rows, tried: tried.collect(), limits, known: self.known(&hunts) })
    }

    /// What comes of layouts, those that may be cheapest before the others.
    fn search(&self, candidates: &[Candidate<'_>]) -> Result<Vec<Row>, PlanError> {
        let mut rows = Vec::with_capacity(candidates.len());
        // What was found, cheapest first.
        let mut paid: Vec<f64> = Vec::new();
        for wave in candidates.chunks(WAVE) {
            let second = paid.get(1).copied().unwrap_or(f64::INFINITY);
            let outcomes = threads::map(wave, |candidate| self.fewest(candidate, second));
            for (candidate, outcome) in wave.iter().zip(outcomes) {
                let is_for_slow = self.is_for_slow(candidate.hunt);
                let row = Row { place: candidate.place, is_for_slow, outcome: outcome? };
                paid.extend(row.found().map(|found| found.cost));
                rows.push(row);
            }
            paid.sort_by(f64::total_cmp);
        }
        Ok(rows)
    }

    /// The fewest replicas of a layout, if it may be cheaper than the second cheapest so far.
    fn fewest(&self, candidate: &Candidate<'_>, second: f64) -> Result<Outcome, PlanError> {
        let Candidate { hunt, least, bound, .. } = *candidate;
        if !self.question.all
            && bound > second
            && let Some(broken) =
                hunt.largest_for(second, least).filter(|size| hunt.has_room(*size))
            && !hunt.remembered(broken, &self.traffic)?.is_kept
        {
            return Ok(Outcome::TooDear { broken, cost: hunt.cost(broken) });
        }
        if let Some(reason) = hunt.lacks_room(self.question.max_gpus) {
            return Ok(Outcome::Impossible(reason));
        }
        let found = hunt.fewest(least, &self.traffic, self.question.max_gpus)?;
        let Some(found) = found else {
            // The search ends with the most that it has room for, of pairs mostly in the proportion of its start.
            let largest = hunt.tried().pop();
            let largest = largest.map(|one| self.whole(hunt, (one.size, one.trial), 1.0));
            return Ok(Outcome::TooMany { largest: largest.transpose()?.map(Box::new) });
        };
        // Another size that was tried on the way may be as cheap, and better.
        let kept = hunt.tried().into_iter().filter(|tried| tried.trial.is_kept);
        let found = kept.fold(found, |best, tried| {
            if tried.merit(1.0).order(&best.merit(1.0)).is_lt() { tried } else { best }
        });
        let misses = nearest_miss(found.size, hunt.tried());
        let misses = misses.map(|miss| self.whole(hunt, miss, 1.0)).transpose()?;
        Ok(Outcome::Keeps { found, misses, factor: 1.0 })
    }

    /// How far the cheapest layout carries.
    fn limits(&self, place: usize, hunt: &Hunt<'_>, found: &Tried) -> Result<Limits, PlanError> {
        let stretches = self.stretches(place, found.size)?;
        let sizes_of_faster = self.faster(hunt, |draft| {
            let hunt = self.hunt(&self.layouts[place], &draft, &self.traffic)?;
            let Ok(hunt) = hunt else { return Ok(None) };
            let fewest = hunt.fewest_of(found.size, &self.traffic, self.question.max_gpus)?;
            Ok(fewest.map(|size| Need::of(&hunt, size)))
        })?;
        let on_typical = self.on_typical(place, hunt, (found.size, 1.0))?;
        if self.drifts() {
            return Ok(Limits { stretches, sizes_of_faster, on_typical, ..Limits::default() });
        }
        let start = hunt.throughput_factor(found.size, &self.traffic).clamp(1.01, 2.0);
        let highest = hunt.highest_factor(found.size, &self.traffic, start)?;
        // At the traffic itself it keeps them.
        let factor = highest.map_or(1.0, |(kept, _)| kept.max(1.0));
        // Where adapters are placed anew for every number of replicas, half of them carry less than half.
        let windows = (!self.places_adapters())
            .then(|| Windows::new(&self.traffic, self.question.window_s, found.size, factor))
            .flatten();
        Ok(Limits {
            stretches,
            carries: Some(factor),
            windows,
            sizes_of_faster,
            on_typical,
            ..Limits::default()
        })
    }

    /// The cheapest layout if servers are typical: the best one, which then needs so much, or one that is cheaper. Where no
    /// layout does on slow servers, the cheapest of all that do on typical ones.
    ///
    /// Layouts of which nothing is assumed need what they were found to need. One that was left out there costs more than
    /// the second cheapest, and so more than the best one on typical servers, which need no more than slow ones.
    fn cheapest_typical(
        &self,
        rows: &[Row],
        best: Option<(usize, Need)>,
    ) -> Result<Option<(usize, Need)>, PlanError> {
        /// So much cheaper at least, as a share: sums of the same prices differ by rounding.
        const CHEAPER: f64 = 1e-6;
        if rows.iter().all(|row| !row.is_for_slow) {
            return Ok(None);
        }
        let base = self.base().clone().of_server(Unstated::TYPICAL);
        let others = rows
            .iter()
            .filter(|row| row.is_for_slow && best.is_none_or(|(place, _)| row.place != place));
        let hunts = others.map(|row| {
            let hunt = self.hunt(&self.layouts[row.place], &base, &self.traffic)?;
            Ok::<_, PlanError>(hunt.ok().map(|hunt| (row.place, hunt)))
        });
        let hunts = hunts.collect::<Result<Vec<_>, _>>()?;
        let mut hunts: Vec<(usize, Hunt<'_>, Size)> = hunts
            .into_iter()
            .flatten()
            .map(|(place, hunt)| {
                let least = hunt.least(self.traffic.rate_per_s());
                (place, hunt, least)
            })
            .collect();
        let bound = |(_, hunt, least): &(usize, Hunt<'_>, Size)| hunt.cost(*least);
        hunts.sort_by(|a, b| bound(a).total_cmp(&bound(b)));
        let mut cheapest = best;
        for wave in hunts.chunks(WAVE) {
            let most = cheapest.map_or(f64::INFINITY, |(_, need)| need.cost * (1.0 - CHEAPER));
            for found in threads::map(wave, |one| self.cheaper_than(most, one)) {
                let Some(found) = found? else { continue };
                if cheapest.is_none_or(|(_, need)| found.1.cost < need.cost * (1.0 - CHEAPER)) {
                    cheapest = Some(found);
                }
            }
        }
        Ok(cheapest)
    }

    /// What a layout needs, if that costs no more than this.
    fn cheaper_than(
        &self,
        most: f64,
        (place, hunt, least): &(usize, Hunt<'_>, Size),
    ) -> Result<Option<(usize, Need)>, PlanError> {
        let max_gpus = self.question.max_gpus;
        if hunt.cost(*least) > most || hunt.lacks_room(max_gpus).is_some() {
            return Ok(None);
        }
        // The largest that is cheap enough; if that misses an SLO, so do the smaller ones.
        if most.is_finite() {
            let Some(largest) = hunt.largest_for(most, *least) else { return Ok(None) };
            let fits = hunt.has_room(largest) && hunt.gpus(largest) <= max_gpus;
            if fits && !hunt.remembered(largest, &self.traffic)?.is_kept {
                return Ok(None);
            }
        }
        let found = hunt.fewest(*least, &self.traffic, max_gpus)?;
        let found = found.filter(|found| found.cost <= most);
        Ok(found.map(|found| (*place, Need::of(hunt, found.size))))
    }

    /// The fewest replicas of a layout for other requests.
    fn stretches(&self, place: usize, size: Size) -> Result<Vec<Stretch>, PlanError> {
        self.replicas(|draft, traffic| {
            let Ok(hunt) = self.hunt(&self.layouts[place], &draft, &traffic)? else {
                return Ok(Stretch { size: None, cost: f64::INFINITY, is_enough: false });
            };
            let is_enough = hunt.attempt(size, &traffic, 1.0)?.is_kept;
            let fewest = hunt.fewest_of(size, &traffic, self.question.max_gpus)?;
            let cost = fewest.map_or(f64::INFINITY, |size| hunt.cost(size));
            Ok(Stretch { size: fewest, cost, is_enough })
        })
    }
}

impl Need {
    /// Of a size of a layout.
    fn of(hunt: &Hunt<'_>, size: Size) -> Self {
        Self { size, gpus: hunt.gpus(size), cost: hunt.cost(size) }
    }
}

/// Of the trials that miss an SLO, that whose size comes next to the one that was found.
fn nearest_miss(found: Size, tried: Vec<Tried>) -> Option<(Size, Trial)> {
    let count = |size: Size| size.replicas().into_iter().map(u64::from).sum::<u64>();
    let broken = tried.into_iter().filter(|one| !one.trial.is_kept);
    let smaller = broken.filter(|one| count(one.size) <= count(found));
    smaller.max_by_key(|one| count(one.size)).map(|one| (one.size, one.trial))
}

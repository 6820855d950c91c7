//! The search for the size of one layout.

use std::sync::{Mutex, PoisonError};

use super::checks::check_scenario;
use super::layouts::{Layout, Size};
use super::outcome::Obstacle;
use super::prices::Prices;
use super::told::Told;
use super::{
    Capacity, End, GoesOn, Kept, Merit, Objective, Pair, PlanError, Setup, Slo, Traffic, Trial,
    WarmUp,
};
use crate::cost::StepTime;
use crate::load::{Draft, LoadError, Origin};
use crate::metrics::bench::Latency;
use crate::resolved::{Basis, Scenario};
use crate::scenario::{AdapterMix, PlacementConfig, ScenarioFile};
use crate::sim;

/// What all layouts are held to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) slos: &'a [Slo],
    pub(super) warm_up: WarmUp,
    /// Whether its requests are all that come.
    pub(super) is_trace: bool,
    pub(super) prices: &'a Prices,
    pub(super) told: &'a Told,
}

/// A layout that can be tried.
#[derive(Debug)]
pub(super) struct Hunt<'a> {
    layout: &'a Layout,
    terms: Terms<'a>,
    base: &'a Draft,
    costs: Vec<StepTime>,
    /// What each kind of its replicas rests on.
    basis: Vec<Basis>,
    /// Whether its servers are what is expected of a class.
    is_assumed: bool,
    /// Of a replica of each group: US dollars per hour, and its GPUs.
    prices: Vec<(f64, u32)>,
    /// Of each group; nothing where a replica does not serve a part of the traffic.
    capacities: Option<Vec<Capacity>>,
    /// The fewest replicas that have room for all adapters, where those are placed on replicas; else 1.
    least_with_room: u32,
    /// What was tried of the traffic that is planned for, as it is.
    tried: Mutex<Vec<(Size, Trial)>>,
}

/// A size of a layout that was simulated, and what it costs.
#[derive(Debug, Clone)]
pub struct Tried {
    /// How many replicas.
    pub size: Size,
    /// How it went.
    pub trial: Trial,
    /// In US dollars per hour, or GPUs where no price is known.
    pub cost: f64,
    /// Its GPUs.
    pub gpus: u32,
    /// Fewer replicas have no room for all adapters.
    pub least: u32,
}

impl Tried {
    /// What speaks for it, at so many times the rate.
    pub(super) fn merit(&self, factor: f64) -> Merit {
        let values = self.trial.values.iter().flatten();
        let used = values.map(|value| value.used).collect();
        Merit { price: self.cost / factor, gpus: self.gpus, used }
    }
}

impl<'a> Hunt<'a> {
    /// Gets a layout ready; the reason where it cannot serve the traffic in any number.
    pub(super) fn new(
        layout: &'a Layout,
        base: &'a Draft,
        terms: Terms<'a>,
        traffic: &Traffic,
    ) -> Result<Result<Self, Obstacle>, PlanError> {
        let loaded = match layout.alone(base)?.resolve() {
            Ok(loaded) => loaded,
            Err(error) => return Ok(Err(told(&error, base))),
        };
        let scenario = &loaded.scenario;
        if let Err(error) = check_scenario(base, scenario) {
            return Ok(Err(told(&error, base)));
        }
        let least_with_room = least_with_room(layout, base, scenario)?;
        let least = match layout.one() {
            Size::Mixed(_) => Size::Mixed(least_with_room),
            apart @ Size::Disaggregated(_) => apart,
        };
        if let Err(error) = layout.draft(base, least)?.resolve() {
            return Ok(Err(told(&error, base)));
        }
        let costs = match sim::step_times(scenario) {
            Ok(costs) => costs,
            Err(error) => return Ok(Err(Obstacle::Other(error.to_string()))),
        };
        let groups = scenario.groups.iter().zip(&costs);
        let capacities: Option<Vec<Capacity>> =
            groups.map(|(group, cost)| Capacity::of(scenario, group, cost, traffic)).collect();
        let prices = match terms.prices.of(scenario) {
            Ok(prices) => prices,
            Err(gpu) => return Ok(Err(Obstacle::NoPrice(gpu))),
        };
        let is_assumed = scenario.groups.iter().any(|group| group.class.is_some());
        let basis = scenario.groups.iter().zip(&costs);
        let basis = basis.map(|(group, cost)| Basis::of(group, cost)).collect();
        let tried = Mutex::default();
        Ok(Ok(Self {
            layout,
            terms,
            base,
            costs,
            basis,
            is_assumed,
            prices,
            capacities,
            least_with_room,
            tried,
        }))
    }

    /// Whether its servers are what is expected of a class, of which some are faster than others.
    pub(super) fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    /// What each kind of its replicas rests on.
    pub(super) fn basis(&self) -> &[Basis] {
        &self.basis
    }

    /// Whether replicas have room for all adapters.
    pub(super) fn has_room(&self, size: Size) -> bool {
        match size {
            Size::Mixed(replicas) => replicas >= self.least_with_room,
            Size::Disaggregated(_) => true,
        }
    }

    /// Why no number of replicas on at most so many GPUs will do, if none does.
    pub(super) fn lacks_room(&self, max_gpus: u32) -> Option<Obstacle> {
        let smallest = self.gpus(self.layout.one());
        if smallest > max_gpus {
            return Some(Obstacle::Size { gpus: smallest, max_gpus });
        }
        let replicas = self.least_with_room;
        let gpus = self.gpus(Size::Mixed(replicas));
        let lacks = Obstacle::Room { replicas, gpus, max_gpus };
        (replicas > 1 && gpus > max_gpus).then_some(lacks)
    }

    /// What a size costs, in US dollars per hour.
    pub(super) fn cost(&self, size: Size) -> f64 {
        let replicas = size.replicas();
        self.prices.iter().zip(replicas).map(|((usd, _), count)| usd * f64::from(count)).sum()
    }

    /// GPUs of a size.
    pub(super) fn gpus(&self, size: Size) -> u32 {
        let replicas = size.replicas();
        self.prices.iter().zip(replicas).map(|((_, gpus), count)| gpus * count).sum()
    }

    /// The size that has the throughput for a rate, if nobody minded waiting.
    pub(super) fn least(&self, rate_per_s: f64) -> Size {
        let count = |per_s: f64| ((rate_per_s / per_s).ceil() as u32).max(1);
        match self.capacities.as_deref().unwrap_or_default() {
            [] => match self.layout.one() {
                Size::Mixed(_) => Size::Mixed(self.least_with_room),
                apart @ Size::Disaggregated(_) => apart,
            },
            [mixed] => Size::Mixed(count(mixed.requests_per_s).max(self.least_with_room)),
            [prefill, decode] => Size::Disaggregated(Pair {
                prefill: count(prefill.prompts_per_s),
                decode: count(decode.answers_per_s),
            }),
            _ => unreachable!("a layout has one group or two"),
        }
    }

    /// One run, as far as it decides.
    pub(super) fn attempt(
        &self,
        size: Size,
        traffic: &Traffic,
        factor: f64,
    ) -> Result<Trial, PlanError> {
        self.simulate(size, traffic, factor, End::Early)
    }

    /// One run.
    pub(super) fn simulate(
        &self,
        size: Size,
        traffic: &Traffic,
        factor: f64,
        end: End,
    ) -> Result<Trial, PlanError> {
        let loaded = self.layout.draft(self.base, size)?.resolve()?;
        self.terms.told.begins(|| format!("{} x {}", size.name(), self.layout.name()));
        let goes_on = if self.terms.is_trace {
            GoesOn::AsRecorded
        } else {
            GoesOn::ForEver { throughput_factor: self.throughput_factor(size, traffic) }
        };
        let setup = Setup {
            scenario: &loaded.scenario,
            costs: &self.costs,
            policies: self.base.policies(),
            traffic,
            factor,
            slos: self.terms.slos,
            warm_up: self.terms.warm_up,
            end,
            goes_on,
        };
        let trial = setup.run()?;
        self.terms.told.ended();
        Ok(trial)
    }

    /// One run of the traffic that is planned for, which is remembered.
    pub(super) fn remembered(&self, size: Size, traffic: &Traffic) -> Result<Trial, PlanError> {
        let tried = || self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, trial)) = tried().iter().find(|(known, _)| *known == size) {
            return Ok(trial.clone());
        }
        let trial = self.attempt(size, traffic, 1.0)?;
        tried().push((size, trial.clone()));
        Ok(trial)
    }

    /// All runs of the traffic that is planned for, in the order in which they were made.
    pub(super) fn tried(&self) -> Vec<Tried> {
        let tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.iter().map(|(size, trial)| self.priced(*size, trial.clone())).collect()
    }

    /// A trial with what its size costs.
    pub(super) fn priced(&self, size: Size, trial: Trial) -> Tried {
        let (cost, gpus) = (self.cost(size), self.gpus(size));
        Tried { size, trial, cost, gpus, least: self.least_with_room }
    }

    /// The largest size that costs no more than so much, of the kinds of replicas in the proportion of a size.
    pub(super) fn largest_for(&self, cost: f64, proportion: Size) -> Option<Size> {
        let share = cost / self.cost(proportion) * (1.0 + 1e-9);
        let scaled = |count: u32| (f64::from(count) * share) as u32;
        let size = match proportion {
            Size::Mixed(count) => Size::Mixed(scaled(count)),
            Size::Disaggregated(pair) => Size::Disaggregated(Pair {
                prefill: scaled(pair.prefill),
                decode: scaled(pair.decode),
            }),
        };
        Some(size).filter(|size| size.replicas().iter().all(|count| *count > 0))
    }

    /// The least size that meets all SLOs, beginning at one; nothing where none of at most so many
    /// GPUs does.
    pub(super) fn fewest(
        &self,
        start: Size,
        traffic: &Traffic,
        max_gpus: u32,
    ) -> Result<Option<Tried>, PlanError> {
        let size = self.fewest_by(start, max_gpus, traffic.rate_per_s(), |size| {
            self.remembered(size, traffic)
        })?;
        size.map(|size| Ok(self.priced(size, self.remembered(size, traffic)?))).transpose()
    }

    /// The same for other traffic: only the size.
    pub(super) fn fewest_of(
        &self,
        start: Size,
        traffic: &Traffic,
        max_gpus: u32,
    ) -> Result<Option<Size>, PlanError> {
        let attempt = |size| self.attempt(size, traffic, 1.0);
        self.fewest_by(start, max_gpus, traffic.rate_per_s(), attempt)
    }

    fn fewest_by(
        &self,
        start: Size,
        max_gpus: u32,
        rate_per_s: f64,
        mut attempt: impl FnMut(Size) -> Result<Trial, PlanError>,
    ) -> Result<Option<Size>, PlanError> {
        match start {
            Size::Mixed(start) => {
                let most = max_gpus / self.prices[0].1;
                if most < self.least_with_room {
                    return Ok(None);
                }
                let found = super::fewest(start, most, |replicas| {
                    let size = Size::Mixed(replicas);
                    Ok::<_, PlanError>(self.has_room(size) && attempt(size)?.is_kept)
                })?;
                Ok(found.map(Size::Mixed))
            }
            Size::Disaggregated(start) => {
                let cost = |pair| {
                    let size = Size::Disaggregated(pair);
                    // More GPUs than there are cost too much.
                    let is_there = self.gpus(size) <= max_gpus;
                    if is_there { self.cost(size) } else { f64::INFINITY }
                };
                let found = super::fewest_pair(start, cost, |pair| {
                    let trial = attempt(Size::Disaggregated(pair))?;
                    Ok::<_, PlanError>(self.shortage(&trial, pair, rate_per_s))
                })?;
                Ok(found.map(Size::Disaggregated))
            }
        }
    }

    /// Which replicas there are too few of. Time per token hangs on those that decode; of what else is late
    /// those are blamed that are nearer to what they can serve.
    fn shortage(&self, trial: &Trial, pair: Pair, rate_per_s: f64) -> Kept {
        if trial.is_kept {
            return Kept::All;
        }
        // Where requests pile up, no SLO says where.
        let binding = trial.binding().filter(|_| !trial.is_overloaded);
        let slo = binding.map(|place| &self.terms.slos[place].objective);
        if let Some(Objective::Latency(Latency::Tpot | Latency::Itl, _)) = slo {
            return Kept::DecodeShort;
        }
        let Some([of_prefill, of_decode]) = self.capacities.as_deref() else {
            return if pair.prefill <= pair.decode {
                Kept::PrefillShort
            } else {
                Kept::DecodeShort
            };
        };
        let prefill = rate_per_s / (f64::from(pair.prefill) * of_prefill.prompts_per_s);
        let decode = rate_per_s / (f64::from(pair.decode) * of_decode.answers_per_s);
        if prefill >= decode { Kept::PrefillShort } else { Kept::DecodeShort }
    }

    /// How many times as fast the requests may come to a size, and how many times they may not.
    pub(super) fn highest_factor(
        &self,
        size: Size,
        traffic: &Traffic,
        start: f64,
    ) -> Result<Option<(f64, f64)>, PlanError> {
        let most = if self.terms.is_trace { MOST_OF_A_TRACE } else { 1e9 };
        super::highest_factor(start, most, TOLERANCE, |factor| {
            Ok(self.attempt(size, traffic, factor)?.is_kept)
        })
    }

    /// The factor at which a size has just the throughput for the traffic; infinite where it is not known.
    pub(super) fn throughput_factor(&self, size: Size, traffic: &Traffic) -> f64 {
        let per_s = match (size, self.capacities.as_deref().unwrap_or_default()) {
            (_, []) => f64::INFINITY,
            (Size::Mixed(count), [mixed]) => f64::from(count) * mixed.requests_per_s,
            (Size::Disaggregated(pair), [prefill, decode]) => {
                let prompts = f64::from(pair.prefill) * prefill.prompts_per_s;
                prompts.min(f64::from(pair.decode) * decode.answers_per_s)
            }
            _ => unreachable!("a layout has one group or two"),
        };
        per_s / traffic.rate_per_s()
    }
}

/// How near to a factor that misses an SLO one is searched that keeps them all.
const TOLERANCE: f64 = 0.01;

/// How many times as fast a trace is tried: faster, it is over before its first answers end.
pub(super) const MOST_OF_A_TRACE: f64 = 100.0;

/// The fewest replicas that have room for all adapters, where those are placed on replicas; else 1.
fn least_with_room(layout: &Layout, base: &Draft, alone: &Scenario) -> Result<u32, PlanError> {
    let file: ScenarioFile = layout.draft(base, layout.one())?.read()?;
    let placement = file.cluster.lora.as_ref().and_then(|lora| lora.placement.as_ref());
    let computed = placement.and_then(PlacementConfig::computed);
    let adapters = alone.workload.adapters.as_ref().map_or(0, AdapterMix::count);
    Ok(computed.map_or(1, |computed| {
        let room = computed.room(&alone.first().cluster.engine);
        adapters.div_ceil(room.max(1)).max(1)
    }))
}

/// A problem without the name of the file or the override, which is that of all layouts.
fn told(error: &LoadError, base: &Draft) -> Obstacle {
    let text = text_of(error, base);
    match error {
        LoadError::Settings(broken) if broken.0.iter().all(|one| one.problem.is_of_memory) => {
            Obstacle::Memory(text)
        }
        _ => Obstacle::Other(text),
    }
}

fn text_of(error: &LoadError, base: &Draft) -> String {
    let is_of_all = |origin: &Origin| match origin {
        Origin::File(name) => name == base.name(),
        Origin::Override(_) => true,
        Origin::Argument(_) => false,
    };
    if let LoadError::Settings(broken) = error
        && broken.0.iter().all(|one| is_of_all(&one.origin))
    {
        let problems: Vec<String> = broken.0.iter().map(|one| one.problem.to_string()).collect();
        return problems.join("\n");
    }
    error.to_string()
}

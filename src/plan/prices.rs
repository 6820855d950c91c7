//! What an hour of a GPU costs.

use std::collections::BTreeMap;

use toml::Value;

use super::PlanError;
use super::error::{asked, stated};
use super::layouts::{Gpu, unknown_gpu};
use super::question::Plan;
use crate::load::{Draft, LoadError};
use crate::profiles;
use crate::resolved::Scenario;
use crate::scenario::{GpuPrice, Offer};

/// What a cluster is paid in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    UsdPerHour,
    /// Where all layouts have one kind of GPU, whose price is not known: it does not matter then.
    Gpus,
}

/// Prices by the GPU's name, and the offer that holds for the others.
#[derive(Debug)]
pub(super) struct Prices {
    given: BTreeMap<String, GpuPrice>,
    offer: Offer,
    unit: Unit,
}

impl Prices {
    /// Those of the question, else of the scenario, else low offers.
    /// `gpus` are those of the layouts.
    pub(super) fn new(question: &Plan, gpus: &BTreeMap<&str, &Gpu>) -> Result<Self, PlanError> {
        let offer = question.offer.unwrap_or(Offer::Low);
        let mut prices = Self { given: BTreeMap::new(), offer, unit: Unit::UsdPerHour };
        if question.offer.is_none() && question.prices.is_empty() {
            prices.put_stated(&question.draft, gpus)?;
        }
        for (gpu, usd) in &question.prices {
            let wrong = |problem: &str| asked("--price", format_args!("{gpu}={usd}: {problem}"));
            if !(*usd > 0.0 && *usd <= 1e6) {
                return Err(wrong("give US dollars per hour, above 0 and at most 10⁶"));
            }
            let unknown = |hint| asked("--price", format_args!("{gpu}: {hint}"));
            let known = known(gpu, gpus).map_err(unknown)?;
            if !gpus.contains_key(known.as_str()) {
                return Err(asked("--price", format_args!("{gpu}: no layout has this GPU")));
            }
            if prices.given.insert(known, GpuPrice::UsdPerHour(*usd)).is_some() {
                return Err(asked("--price", format_args!("{gpu} has two prices")));
            }
        }
        if let [gpu] = gpus.values().collect::<Vec<_>>()[..]
            && !prices.given.contains_key(&gpu.name)
            && !gpu.has_offer
        {
            prices.unit = Unit::Gpus;
        }
        Ok(prices)
    }

    /// Takes `report.prices` of the scenario, if it has them.
    fn put_stated(&mut self, base: &Draft, gpus: &BTreeMap<&str, &Gpu>) -> Result<(), LoadError> {
        const AT: &str = "report.prices";
        let Some(told) = base.get(&["report", "prices"]) else { return Ok(()) };
        let told: BTreeMap<String, GpuPrice> =
            Value::clone(told).try_into().map_err(|error| stated(base, AT, error))?;
        for (gpu, price) in told {
            let known = known(&gpu, gpus).map_err(|problem| stated(base, AT, problem))?;
            if self.given.insert(known, price).is_some() {
                return Err(stated(base, AT, format_args!("{gpu} has two prices")));
            }
        }
        Ok(())
    }

    /// Of a replica of each group of a scenario: US dollars per hour, and its GPUs; what is missing where a
    /// price is.
    pub(super) fn of(&self, scenario: &Scenario) -> Result<Vec<(f64, u32)>, String> {
        let of_group = scenario.groups.iter().map(|group| {
            let gpu = &group.gpu.name;
            let gpus = group.cluster.gpus_per_replica();
            if self.unit == Unit::Gpus {
                return Ok((f64::from(gpus), gpus));
            }
            let price = self.given.get(gpu).copied().unwrap_or(GpuPrice::Offer(self.offer));
            let usd = price.usd_per_hour(group.gpu.price.as_ref());
            let usd =
                usd.ok_or_else(|| format!("no price is known; give one as in --price {gpu}=2.5"))?;
            Ok((usd * f64::from(gpus), gpus))
        });
        of_group.collect()
    }

    /// What clusters cost.
    pub(super) fn unit(&self) -> Unit {
        self.unit
    }
}

/// The name of a GPU of the layouts or of the catalogue.
fn known(gpu: &str, gpus: &BTreeMap<&str, &Gpu>) -> Result<String, String> {
    if gpus.contains_key(gpu) {
        return Ok(gpu.to_owned());
    }
    profiles::gpu(gpu).map(|spec| spec.name).ok_or_else(|| unknown_gpu(gpu))
}

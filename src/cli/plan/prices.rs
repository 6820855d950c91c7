//! What an hour of a GPU costs.

use std::collections::BTreeMap;

use toml::Value;

use super::layouts::{Gpu, known_gpu};
use crate::cli::Failure;
use crate::load::Draft;
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
    /// Those of the arguments, else of the scenario, else low offers.
    /// `gpus` are those of the layouts.
    pub(super) fn new(
        arguments: &[String],
        base: &Draft,
        gpus: &BTreeMap<&str, &Gpu>,
    ) -> Result<Self, Failure> {
        let mut prices = Self { given: BTreeMap::new(), offer: Offer::Low, unit: Unit::UsdPerHour };
        if arguments.is_empty()
            && let Some(told) = base.get(&["report", "prices"])
        {
            let told: Result<BTreeMap<String, GpuPrice>, _> = Value::clone(told).try_into();
            let told = told.map_err(|error| {
                Failure::input(format!("{}: report.prices: {error}", base.name()))
            })?;
            for (gpu, price) in told {
                prices.put("report.prices", &gpu, price, gpus)?;
            }
        }
        for given in arguments {
            match (given.as_str(), given.split_once('=')) {
                ("low", _) => prices.offer = Offer::Low,
                ("high", _) => prices.offer = Offer::High,
                (_, Some((gpu, usd))) => {
                    let usd: Option<f64> = usd.trim().parse().ok();
                    let usd = usd.filter(|usd| *usd > 0.0 && *usd <= 1e6).ok_or_else(|| {
                        Failure::input(format!(
                            "--price {given}: give US dollars per hour, above 0 and at most 10⁶"
                        ))
                    })?;
                    prices.put("--price", gpu.trim(), GpuPrice::UsdPerHour(usd), gpus)?;
                }
                _ => {
                    let problem = format!("--price {given}: give low, high or GPU=USD");
                    return Err(Failure::input(problem));
                }
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

    fn put(
        &mut self,
        place: &str,
        gpu: &str,
        price: GpuPrice,
        gpus: &BTreeMap<&str, &Gpu>,
    ) -> Result<(), Failure> {
        let known = if gpus.contains_key(gpu) { gpu.to_owned() } else { known_gpu(place, gpu)? };
        if place == "--price" && !gpus.contains_key(known.as_str()) {
            return Err(Failure::input(format!("--price {gpu}: no layout has this GPU")));
        }
        if self.given.insert(known, price).is_some() {
            return Err(Failure::input(format!("{place}: {gpu} has two prices")));
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

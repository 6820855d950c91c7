//! What an hour of a GPU costs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use toml::Value;

use super::error::{asked, stated};
use super::layouts::{Gpu, unknown_gpu};
use super::question::Plan;
use super::{PlanError, PriceList};
use crate::load::{self, Draft, LoadError};
use crate::resolved::Scenario;
use crate::scenario::{GpuPrice, Offer};

/// What a cluster is paid in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    UsdPerHour,
    /// Where all layouts have one kind of GPU, whose price is not known: it does not matter then.
    Gpus,
}

/// What an hour of a GPU costs, and who says so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuCost {
    /// The GPU.
    pub gpu: String,
    /// US dollars; nothing where no price is known.
    pub usd_per_hour: Option<f64>,
    /// Who says so.
    pub from: String,
}

/// Prices by the GPU's name, and the offer that holds for the others.
#[derive(Debug)]
pub(super) struct Prices {
    given: BTreeMap<String, GpuPrice>,
    offer: Offer,
    unit: Unit,
    /// Of the GPUs of the layouts, in the order of the question.
    pub(super) costs: Vec<GpuCost>,
}

impl Prices {
    /// Those of the question, else of its list, else of the scenario, else low offers.
    /// `gpus` are those of the layouts, each once.
    pub(super) fn new(question: &Plan, gpus: &[&Gpu]) -> Result<Self, PlanError> {
        let given = Given::of(question, gpus)?;
        let offer = question.offer.unwrap_or(Offer::Low);
        let costs: Vec<GpuCost> = gpus.iter().map(|gpu| given.cost(gpu, offer)).collect();
        let unit = match &costs[..] {
            [GpuCost { usd_per_hour: None, .. }] => Unit::Gpus,
            _ => Unit::UsdPerHour,
        };
        let given = given.0.into_iter().map(|(gpu, (price, _))| (gpu, price)).collect();
        Ok(Self { given, offer, unit, costs })
    }

    /// Of a replica of each group of a scenario: US dollars per hour, and its GPUs; the GPU that has no price
    /// where one has none.
    pub(super) fn of(&self, scenario: &Scenario) -> Result<Vec<(f64, u32)>, String> {
        let of_group = scenario.groups.iter().map(|group| {
            let gpu = &group.gpu.name;
            let gpus = group.cluster.gpus_per_replica();
            if self.unit == Unit::Gpus {
                return Ok((f64::from(gpus), gpus));
            }
            let price = self.given.get(gpu).copied().unwrap_or(GpuPrice::Offer(self.offer));
            let usd = price.usd_per_hour(group.gpu.price.as_ref()).ok_or_else(|| gpu.clone())?;
            Ok((usd * f64::from(gpus), gpus))
        });
        of_group.collect()
    }

    /// What clusters cost.
    pub(super) fn unit(&self) -> Unit {
        self.unit
    }
}

/// Prices that somebody gave, and who.
struct Given(BTreeMap<String, (GpuPrice, String)>);

impl Given {
    fn of(question: &Plan, gpus: &[&Gpu]) -> Result<Self, PlanError> {
        let mut given = Self(BTreeMap::new());
        let is_asked = !question.prices.is_empty() || question.price_list.is_some();
        if question.offer.is_none() && !is_asked {
            given.put_stated(&question.draft, gpus)?;
        }
        if let Some(list) = &question.price_list {
            given.put_list(list, gpus)?;
        }
        given.put_asked(&question.prices, gpus)?;
        Ok(given)
    }

    /// Takes `report.prices` of the scenario, if it has them.
    fn put_stated(&mut self, base: &Draft, gpus: &[&Gpu]) -> Result<(), LoadError> {
        const AT: &str = "report.prices";
        let Some(told) = base.get(&["report", "prices"]) else { return Ok(()) };
        let told: BTreeMap<String, GpuPrice> =
            Value::clone(told).try_into().map_err(|error| stated(base, AT, error))?;
        for (gpu, price) in told {
            let known =
                known(&gpu, gpus, base.folder()).map_err(|problem| stated(base, AT, problem))?;
            if self.0.insert(known, (price, AT.to_owned())).is_some() {
                return Err(stated(base, AT, format_args!("{gpu} has two prices")));
            }
        }
        Ok(())
    }

    /// Takes a list, which may have GPUs that no layout has. Paths in it are relative to its file.
    fn put_list(&mut self, list: &PriceList, gpus: &[&Gpu]) -> Result<(), LoadError> {
        let folder = Path::new(&list.name).parent().unwrap_or(Path::new(""));
        for (gpu, usd) in &list.prices {
            let known = known(gpu, gpus, folder).map_err(|problem| list.wrong(gpu, &problem))?;
            if !is_price(*usd) {
                let problem = format!("must be {PRICE}, got {usd}");
                return Err(list.wrong(gpu, &problem));
            }
            let price = (GpuPrice::UsdPerHour(*usd), list.name.clone());
            if self.0.insert(known, price).is_some() {
                return Err(list.wrong(gpu, "has two prices"));
            }
        }
        Ok(())
    }

    /// Takes those of arguments, which hold before those of a list.
    fn put_asked(&mut self, prices: &[(String, f64)], gpus: &[&Gpu]) -> Result<(), PlanError> {
        const FLAG: &str = "--price";
        let mut seen: Vec<String> = Vec::new();
        for (gpu, usd) in prices {
            if !is_price(*usd) {
                return Err(asked(FLAG, format_args!("{gpu}={usd}: give {PRICE}")));
            }
            let known = known(gpu, gpus, Path::new("")).map_err(|problem| asked(FLAG, problem))?;
            if gpus.iter().all(|one| one.name != known) {
                return Err(asked(FLAG, format_args!("{gpu}: no layout has this GPU")));
            }
            if seen.contains(&known) {
                return Err(asked(FLAG, format_args!("{gpu} has two prices")));
            }
            seen.push(known.clone());
            self.0.insert(known, (GpuPrice::UsdPerHour(*usd), FLAG.to_owned()));
        }
        Ok(())
    }

    /// What a GPU costs, by these prices, else by an offer.
    fn cost(&self, gpu: &Gpu, offer: Offer) -> GpuCost {
        let (price, from) = match self.0.get(&gpu.name) {
            Some((price, from)) => (*price, Some(from)),
            None => (GpuPrice::Offer(offer), None),
        };
        let usd_per_hour = price.usd_per_hour(gpu.offers.as_ref());
        let from = match (price, &gpu.offers, from) {
            (GpuPrice::UsdPerHour(_), _, Some(from)) => from.clone(),
            (GpuPrice::Offer(Offer::High), Some(offers), _) => {
                format!("high offer, {}", offers.source)
            }
            (_, Some(offers), _) => format!("low offer, {}", offers.source),
            (_, None, _) => "none known".to_owned(),
        };
        GpuCost { gpu: gpu.name.clone(), usd_per_hour, from }
    }
}

/// What a price is.
const PRICE: &str = "US dollars per hour, above 0 and at most 10⁶";

fn is_price(usd: f64) -> bool {
    usd > 0.0 && usd <= 1e6
}

/// The name of a GPU of the layouts or of the catalogue that goes by this one whatever its case, or by the path of
/// its file, which is relative to a folder.
fn known(gpu: &str, gpus: &[&Gpu], folder: &Path) -> Result<String, String> {
    if let Some(own) = gpus.iter().find(|one| one.name.eq_ignore_ascii_case(gpu)) {
        return Ok(own.name.clone());
    }
    let found = load::gpu("", gpu, folder).map_err(|problem| problem.to_string())?;
    let own = || gpus.iter().map(|one| one.name.as_str());
    found.map(|spec| spec.name).ok_or_else(|| unknown_gpu(gpu, own()))
}

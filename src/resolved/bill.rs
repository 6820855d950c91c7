//! Rules of prices and power.

use std::collections::BTreeMap;

use super::{Rules, ScenarioError, fail};
use crate::hardware::GpuSpec;
use crate::problem::Problem;
use crate::profiles;
use crate::scenario::{GpuPower, GpuPrice, ReportConfig};

pub(super) fn rules(report: &ReportConfig, rules: &mut Rules) {
    for (gpu, price) in &report.prices {
        if let GpuPrice::UsdPerHour(usd) = price {
            let path = format!("report.prices.{gpu}");
            rules.check((0.0..=1e6).contains(usd), &path, "from 0 to 10⁶ USD per hour", usd);
        }
    }
    for (gpu, GpuPower { idle_w, prefill_w, decode_w }) in &report.power {
        let watts = [("idle_w", idle_w), ("prefill_w", prefill_w), ("decode_w", decode_w)];
        for (key, value) in watts {
            let path = format!("report.power.{gpu}.{key}");
            rules.check((0.0..=1e6).contains(value), &path, "from 0 to 10⁶ W", value);
        }
    }
}

/// Finds the GPUs that are meant, and makes sure that those of the cluster are among them. GPUs of files of one's own
/// may be called by what the scenario calls them.
pub(super) fn resolve(
    report: &mut ReportConfig,
    used: &[&GpuSpec],
    own: &BTreeMap<String, GpuSpec>,
) -> Result<(), ScenarioError> {
    report.prices = by_name("report.prices", &report.prices, (used, own))?;
    report.power = by_name("report.power", &report.power, (used, own))?;
    for gpu in used.iter().map(|gpu| &gpu.name) {
        if !report.prices.is_empty() && !report.prices.contains_key(gpu) {
            let problem = format!("no price is given for `{gpu}`, on which the cluster runs");
            return Err(fail("report.prices", &problem));
        }
        if !report.power.is_empty() && !report.power.contains_key(gpu) {
            let problem = format!("no power is given for `{gpu}`, on which the cluster runs");
            return Err(fail("report.power", &problem));
        }
    }
    // The name in a file tells nothing where no server of the cluster has that file.
    let is_known = |gpu: &String| known(gpu, used).is_some();
    report.prices.retain(|gpu, _| is_known(gpu));
    report.power.retain(|gpu, _| is_known(gpu));
    for (gpu, price) in &mut report.prices {
        let offers = known(gpu, used).and_then(|spec| spec.price);
        let Some(usd) = price.usd_per_hour(offers.as_ref()) else {
            let problem = "no offer of this GPU is known; give US dollars per hour";
            return Err(fail(&format!("report.prices.{gpu}"), problem));
        };
        if profiles::gpu(gpu).is_none() {
            *price = GpuPrice::UsdPerHour(usd);
        }
    }
    Ok(())
}

/// A GPU of the cluster, or of the catalogue.
fn known(name: &str, used: &[&GpuSpec]) -> Option<GpuSpec> {
    let used = used.iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name));
    used.map(|gpu| (*gpu).clone()).or_else(|| profiles::gpu(name))
}

fn by_name<T: Copy>(
    path: &str,
    given: &BTreeMap<String, T>,
    (used, own): (&[&GpuSpec], &BTreeMap<String, GpuSpec>),
) -> Result<BTreeMap<String, T>, ScenarioError> {
    let mut named = BTreeMap::new();
    for (name, value) in given {
        let found = own.get(name).cloned().or_else(|| known(name, used));
        let gpu = found.ok_or_else(|| {
            let what = format!("`{name}` is not in the catalogue of GPUs");
            let names = profiles::gpu_names().map(|name| -> &str { name });
            let names = names.chain(used.iter().map(|gpu| gpu.name.as_str()));
            Problem::new(path, what).or_near(profiles::closest(name, names))
        })?;
        if named.insert(gpu.name.clone(), *value).is_some() {
            return Err(fail(path, &format!("{} is given twice, also as `{name}`", gpu.name)));
        }
    }
    Ok(named)
}

//! What was asked of `servecast serve`, as a scenario that asks for it again.
//!
//! Its clock begins with the first request, as that of a recorded trace does: faults move with it. Those at random
//! times (`faults` of type `random`) are drawn anew.

use anyhow::Context;

use crate::resolved::Scenario;
use crate::scenario::FaultConfig;
use crate::units::{SimDuration, SimTime};

/// In the folder of results: what was asked.
pub(super) const TRACE: &str = "trace.jsonl";

/// The scenario with what was asked as its workload: `text` is the scenario that was served, the first request came
/// so many seconds after its start, and `told` are faults that it was told of meanwhile.
///
/// # Errors
/// Never for what was served: a scenario can be read and written.
pub(super) fn again(
    text: &str,
    scenario: &Scenario,
    began_s: f64,
    told: &[FaultConfig],
) -> anyhow::Result<String> {
    let mut table: toml::Table = text.parse()?;
    // It was measured under another load.
    table.remove("measured");
    let mut workload = toml::toml! {
        arrivals = { type = "trace" }
        lengths = { type = "trace" }
    };
    let mut columns = toml::Table::new();
    if let Some(toml::Value::Table(served)) = table.remove("workload") {
        keep_classes(&served, &mut workload, &mut columns);
        keep_adapters(&served, &mut workload, &mut columns);
    }
    let mut trace = toml::Table::new();
    trace.insert("path".to_owned(), TRACE.into());
    trace.insert("format".to_owned(), "jsonl".into());
    if !columns.is_empty() {
        trace.insert("columns".to_owned(), columns.into());
    }
    let mut faults = Vec::new();
    for fault in scenario.faults.iter().chain(told) {
        if let Some(fault) = moved(fault, began_s).filter(|fault| has_effect(fault, scenario)) {
            faults.push(toml::Value::try_from(fault).context("faults")?);
        }
    }
    table.remove("faults");
    if !faults.is_empty() {
        table.insert("faults".to_owned(), faults.into());
    }
    table.insert("trace".to_owned(), trace.into());
    table.insert("workload".to_owned(), workload.into());
    Ok(toml::to_string(&table)?)
}

/// Classes stay whose they are; how many requests each has and how long they are, the trace says.
fn keep_classes(served: &toml::Table, workload: &mut toml::Table, columns: &mut toml::Table) {
    let Some(toml::Value::Array(classes)) = served.get("classes") else { return };
    let of_trace = |class: &toml::Value| {
        let mut class = class.clone();
        if let Some(class) = class.as_table_mut() {
            class.retain(|key, _| !["share", "input_tokens", "output_tokens"].contains(&key));
        }
        class
    };
    let classes: Vec<toml::Value> = classes.iter().map(of_trace).collect();
    workload.insert("classes".to_owned(), classes.into());
    columns.insert("class".to_owned(), "class".into());
}

fn keep_adapters(served: &toml::Table, workload: &mut toml::Table, columns: &mut toml::Table) {
    let Some(mut adapters) = served.get("adapters").cloned() else { return };
    if let Some(adapters) = adapters.as_table_mut() {
        adapters.remove("drift");
        adapters.insert("popularity".to_owned(), toml::toml! { type = "as_given" }.into());
    }
    workload.insert("adapters".to_owned(), adapters);
    columns.insert("adapter".to_owned(), "adapter".into());
}

/// A fault on a clock that begins so much later: what is left of it, if anything is.
fn moved(fault: &FaultConfig, later_s: f64) -> Option<FaultConfig> {
    let mut fault = fault.clone();
    let Some((at_s, lasts_s)) = fault.times_mut() else { return Some(fault) };
    // In whole nanoseconds: what ends where another one begins still does.
    let (at, later) = (SimTime::from_secs_f64(*at_s), SimTime::from_secs_f64(later_s));
    let missed_s = later.saturating_since(at).as_secs_f64();
    *at_s = at.saturating_since(later).as_secs_f64();
    if missed_s > 0.0 {
        let lasts_s = lasts_s?;
        let left = (at + SimDuration::from_secs_f64(*lasts_s)).saturating_since(later);
        if left == SimDuration::ZERO {
            return None;
        }
        *lasts_s = left.as_secs_f64();
    }
    if let FaultConfig::Crash { down_s, detection_s, .. } = &mut fault {
        *detection_s = (*detection_s - missed_s).clamp(0.0, *down_s);
    }
    Some(fault)
}

/// Scenarios refuse to take a cache away that no replica has; servers are told to flush it all the same.
fn has_effect(fault: &FaultConfig, scenario: &Scenario) -> bool {
    match fault {
        FaultConfig::LostCache { replica, .. } => {
            let kind = scenario.kinds().of(crate::ids::InstanceId(*replica));
            scenario.groups[kind].cluster.engine.keeps_prefixes()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_fault_is_what_comes_after_the_first_request() {
        let crash = |at_s, down_s, detection_s| FaultConfig::Crash {
            replica: 1,
            at_s,
            down_s,
            detection_s,
        };
        assert_eq!(moved(&crash(7.0, 3.0, 1.0), 2.5), Some(crash(4.5, 3.0, 1.0)));
        assert_eq!(moved(&crash(7.0, 3.0, 1.0), 7.5), Some(crash(0.0, 2.5, 0.5)));
        assert_eq!(moved(&crash(7.0, 3.0, 1.0), 9.5), Some(crash(0.0, 0.5, 0.0)));
        assert_eq!(moved(&crash(7.0, 3.0, 1.0), 10.0), None);
        let lost = |at_s| FaultConfig::LostCache { replica: 0, at_s };
        assert_eq!(moved(&lost(7.0), 2.5), Some(lost(4.5)));
        assert_eq!(moved(&lost(7.0), 7.5), None, "there was nothing to lose yet");
    }

    #[test]
    fn a_fault_that_follows_another_still_does() {
        let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|it| it.parse().ok());
        let seed: u64 = seed.unwrap_or(11);
        let mut draw = crate::rng::Seed(seed).stream("replay", 0);
        let scenario = |faults: &[FaultConfig]| {
            let mut table: toml::Table = "workload.num_requests = 1".parse().expect("it is TOML");
            let faults = faults.iter().map(|it| toml::Value::try_from(it).expect("it is TOML"));
            table.insert("faults".to_owned(), faults.collect::<Vec<_>>().into());
            let text = toml::to_string(&table).expect("it is TOML");
            crate::load::from_text(&text).expect("a scenario").resolve()
        };
        for _ in 0..200 {
            let crash =
                |at_s, down_s| FaultConfig::Crash { replica: 0, at_s, down_s, detection_s: 0.0 };
            let (at_s, down_s) = (rand::RngExt::random_range(&mut draw, 5.0..20.0), 5.2);
            let later_s = rand::RngExt::random_range(&mut draw, 0.0..12.0);
            let pair = [crash(at_s, down_s), crash(at_s + down_s, 3.0)];
            if scenario(&pair).is_err() {
                continue;
            }
            let left: Vec<FaultConfig> = pair.iter().filter_map(|it| moved(it, later_s)).collect();
            assert!(scenario(&left).is_ok(), "seed {seed}: {pair:?} less {later_s} s is {left:?}");
        }
    }
}

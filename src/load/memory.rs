//! Whether a run fits into memory, before it begins: the system ends a process that takes more without a word.

use std::fs;

use super::LoadError;
use super::notes::{Listener, Note};
use crate::metrics::Folding;
use crate::resolved::Scenario;
use crate::scenario::{ArrivalConfig, WorkloadConfig};

/// What any run takes.
const BASE_BYTES: u64 = 40_000_000;
/// A request that was answered: its record. Of 100,000 and 300,000 requests, maximum resident size.
const RECORD_BYTES: u64 = 220;
/// A request in the worst case: it waits inside an engine, and its lists are just being copied to twice
/// their size. An overload of 20,000 and 100,000 requests took 520 bytes each.
const REQUEST_BYTES_MAX: u64 = 800;
/// A replica that never gets a request. Of 1,000 and 20,000 replicas with 1,000 requests.
const REPLICA_BYTES: u64 = 14_000;
/// What a replica takes beside that once it serves. Of 1 and 1,000 replicas.
const SERVING_BYTES: u64 = 160_000;

/// A second of a run without records: of tokens, of requests that come and that leave.
const SECOND_BYTES: u64 = 24;

/// A request that a tool draws before it sends the first, beside what is left of it. Of 1.2 and 3 million
/// without records.
const DRAWN_BYTES: u64 = 20;

/// What a run leaves of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// All their records.
    Records,
    /// Figures.
    Figures,
}

/// Refuses a run that cannot fit into memory, and warns of one that may not.
///
/// # Errors
/// What it needs and what is free.
pub fn check(scenario: &Scenario, leaves: Leaves, listener: &Listener) -> Result<(), LoadError> {
    let Some(available) = available() else { return Ok(()) };
    let forgets = leaves == Leaves::Figures && Folding::of(scenario).is_some();
    let (least, most) = needed(scenario, forgets);
    if most <= available {
        return Ok(());
    }
    let replicas = scenario.replicas();
    let requests = requests(&scenario.workload)
        .map_or_else(String::new, |requests| format!("{requests} requests on "));
    let plural = if replicas == 1 { "" } else { "s" };
    let (name, run) = (&scenario.name, format!("{requests}{replicas} replica{plural}"));
    let free = shown(available);
    if least > available {
        return Err(LoadError::Memory { name: name.clone(), run, needed: shown(least), free });
    }
    let when = if forgets { " if they come faster than they are served" } else { "" };
    listener.tell(&Note::Warning(format!(
        "{name}: {run} may need up to {} of memory{when}, and {free} are free",
        shown(most)
    )));
    Ok(())
}

/// Bytes that a run takes at least, and at most.
fn needed(scenario: &Scenario, forgets: bool) -> (u64, u64) {
    let replicas = u64::from(scenario.replicas());
    let requests = requests(&scenario.workload).unwrap_or(0);
    let serving = replicas.min(requests);
    let cluster = BASE_BYTES + replicas * REPLICA_BYTES + serving * SERVING_BYTES;
    let most = cluster + requests * REQUEST_BYTES_MAX;
    if !forgets {
        return (cluster + requests * RECORD_BYTES, most);
    }
    let seconds = rate_per_s(&scenario.workload.arrivals)
        .map_or(0, |rate_per_s| (requests as f64 / rate_per_s) as u64);
    let remembered = requests.min(Folding::LIMIT.into()) * RECORD_BYTES;
    let drawn = if scenario.workload.draws_first() { requests * DRAWN_BYTES } else { 0 };
    ((cluster + remembered + drawn).saturating_add(seconds.saturating_mul(SECOND_BYTES)), most)
}

/// Requests of a workload, where it says how many or how long.
fn requests(workload: &WorkloadConfig) -> Option<u64> {
    let rate_per_s = rate_per_s(&workload.arrivals);
    let counted = workload.num_requests.map(u64::from);
    let timed = workload.duration_s.zip(rate_per_s).map(|(s, rate_per_s)| (s * rate_per_s) as u64);
    // No run has more: requests are counted in 32 bits.
    let timed = timed.map(|requests| requests.min(u32::MAX.into()));
    match (counted, timed) {
        (Some(counted), Some(timed)) => Some(counted.min(timed)),
        (counted, timed) => counted.or(timed),
    }
}

fn rate_per_s(arrivals: &ArrivalConfig) -> Option<f64> {
    match *arrivals {
        ArrivalConfig::Constant { rate_per_s }
        | ArrivalConfig::Poisson { rate_per_s }
        | ArrivalConfig::Gamma { rate_per_s, .. }
        | ArrivalConfig::Weibull { rate_per_s, .. }
        | ArrivalConfig::Sine { rate_per_s, .. }
        | ArrivalConfig::Sglang { rate_per_s }
        | ArrivalConfig::Vllm2024 { rate_per_s } => Some(rate_per_s),
        ArrivalConfig::AdapterCounts(ref counts) => Some(counts.rate_per_s),
        ArrivalConfig::Vllm { rate_per_s, .. } => rate_per_s,
        ArrivalConfig::AllAtOnce {} | ArrivalConfig::Trace(_) => None,
    }
}

fn shown(bytes: u64) -> String {
    if bytes < 1_000_000_000 {
        return format!("{:.0} MB", bytes as f64 / 1e6);
    }
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// Bytes that this process may still take: of the machine, of its control group (`memory.max`), of its
/// address space (`ulimit -v`). Nothing where the system does not say.
fn available() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let kib = |text: &str, label: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(label))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    let machine = read("/proc/meminfo").and_then(|text| kib(&text, "MemAvailable:"));
    let group = || {
        let own = read("/proc/self/cgroup")?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let number = |file: &str| -> Option<u64> {
            read(&format!("/sys/fs/cgroup{path}/{file}"))?.trim().parse().ok()
        };
        Some(number("memory.max")?.saturating_sub(number("memory.current")?))
    };
    let space = || {
        let limits = read("/proc/self/limits")?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        let taken = kib(&read("/proc/self/status")?, "VmSize:")?;
        Some(limit.saturating_sub(taken))
    };
    [machine, group(), space()].into_iter().flatten().min()
}

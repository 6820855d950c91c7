//! What a cluster serves before the requests that count.
//!
//! Each run is simulated to its end. The next one begins at time zero on the same cluster: schedulers with
//! their caches, and routers, go on from where they are; clocks, networks and requests begin anew. Requests are
//! numbered from zero in each run, so that their answers are the same tokens each time.

use super::build::{cold, disaggregation};
use super::source::Requests;
use crate::cluster::{Cluster, Wires};
use crate::engine::Instance;
use crate::request::Request;
use crate::resolved::{Scenario, ScenarioError};
use crate::units::SimTime;
use crate::workload::Workload;

/// The cluster of a scenario when it has served what comes before the requests that count.
pub(super) fn warmed_up(scenario: &Scenario, cluster: Cluster) -> Result<Cluster, ScenarioError> {
    let Some(warm_up) = scenario.workload.warm_up.filter(|warm_up| warm_up.is_any()) else {
        return Ok(cluster);
    };
    let workload =
        Workload::open(&scenario.workload, scenario.seed, None).map_err(|error| failed(&error))?;
    let drawn = if warm_up.runs > 0 { usize::MAX } else { 1 };
    let all: Vec<Request> =
        workload.take(drawn).collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    let first = all.first().map(|first| Request { arrival: SimTime::ZERO, ..first.clone() });
    let copies: Vec<Request> = first.into_iter().cycle().take(warm_up.requests as usize).collect();
    let mut cluster = served(scenario, cluster, copies.clone())?;
    for _ in 0..warm_up.runs {
        cluster = served(scenario, cluster, all.clone())?;
        cluster = served(scenario, cluster, copies.clone())?;
    }
    Ok(cluster)
}

/// A cluster when it has answered these requests, at time zero again.
fn served(
    scenario: &Scenario,
    cluster: Cluster,
    requests: Vec<Request>,
) -> Result<Cluster, ScenarioError> {
    if requests.is_empty() {
        return Ok(cluster);
    }
    let run = cold(scenario, cluster, Requests(requests.into_iter()));
    let (counts, mut cluster) = run.run_to_rest(&mut ()).map_err(|error| failed(&error))?;
    if counts.stuck > 0 {
        return Err(failed(&format!("{} requests are never answered", counts.stuck)));
    }
    cluster.instances = cluster.instances.into_iter().map(Instance::at_time_zero).collect();
    if let Some(before) = cluster.disaggregation.take() {
        let anew = disaggregation(scenario, &mut Wires::default())?;
        cluster.disaggregation = anew.map(|parts| parts.in_place_of(before));
    }
    cluster.wires.rewind();
    Ok(cluster)
}

fn failed(problem: &impl ToString) -> ScenarioError {
    ScenarioError::at("workload.warm_up", problem.to_string())
}

//! Rules of what is served before the requests that count.

use super::Rules;
use crate::scenario::ScenarioFile;

/// More than anybody waits for.
const TIMES_MAX: u32 = 1000;

pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let Some(warm_up) = file.workload.warm_up else { return };
    let bounded = |times: u32| times <= TIMES_MAX;
    let rule = "at most 1000";
    rules.check(bounded(warm_up.runs), "workload.warm_up.runs", rule, warm_up.runs);
    rules.check(bounded(warm_up.requests), "workload.warm_up.requests", rule, warm_up.requests);
    let (workload, cluster) = (&file.workload, &file.cluster);
    let groups = &cluster.groups;
    let scales = cluster.autoscaler.is_some() || groups.iter().any(|it| it.autoscaler.is_some());
    let not_modelled = [
        ("a workload that reads a trace", workload.reads_trace()),
        ("workload.sessions", workload.sessions.is_some()),
        ("workload.adapters", workload.adapters.is_some()),
        ("workload.client.stop_after_s", workload.client.stop_after_s.is_some()),
        ("clients that give up or retry", workload.client.may_give_up()),
        ("cluster.kv_tiers", cluster.kv_tiers.is_some()),
        ("an autoscaler", scales),
        ("faults", !file.faults.is_empty()),
    ];
    for (what, _) in not_modelled.into_iter().filter(|(_, is_there)| *is_there) {
        rules.broken(
            "workload.warm_up",
            &format!("is not modelled with {what}; take one of them out"),
        );
    }
}

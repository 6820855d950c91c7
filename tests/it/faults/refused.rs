//! What is refused before a run, and how.

use super::at_once;
use crate::support::resolve;

fn fault(kind: &str, rest: &str) -> String {
    format!("[[faults]]\ntype = '{kind}'\n{rest}\n")
}

fn problem(client: &str, faults: &str) -> String {
    resolve(&at_once(2, 2, client, faults)).expect_err("it is refused")
}

#[test]
fn faults_that_cannot_be_are_refused_by_name() {
    let crash = |rest: &str| fault("crash", rest);
    for (faults, message) in [
        (
            crash("replica = 2\nat_s = 1.0\ndown_s = 1.0"),
            "faults[0].replica: must be below the 2 replicas of the cluster, got 2",
        ),
        (
            crash("replica = 0\nat_s = -1.0\ndown_s = 1.0"),
            "faults[0].at_s: must be a time from 0 to 10⁹ seconds, got -1",
        ),
        (
            crash("replica = 0\nat_s = 1.0\ndown_s = 0.0"),
            "faults[0].down_s: must be a time above 0 and up to 10⁹ seconds, got 0",
        ),
        (
            crash("replica = 0\nat_s = 1e10\ndown_s = 1.0"),
            "faults[0].at_s: must be a time from 0 to 10⁹ seconds, got 10000000001",
        ),
        (
            crash("replica = 0\nat_s = 1.0\ndown_s = 1.0\ndetection_s = 2.0"),
            "faults[0].detection_s: must be at most down_s, got 2",
        ),
        (
            fault("straggler", "replica = 0\nat_s = 1.0\nfor_s = 1.0\nfactor = 0.5"),
            "faults[0].factor: must be from 1 to 1000000, got 0.5",
        ),
        (
            fault("slow_link", "replica = 0\nat_s = 1.0\nfor_s = 1.0\nshare = 0.5"),
            "faults[0]: there is no network: it needs cluster.disaggregation",
        ),
        (
            fault("lost_transfers", "replica = 0\nat_s = 1.0"),
            "faults[0]: there is no network: it needs cluster.disaggregation",
        ),
        (
            fault("random", "fault = { type = 'crash' }\nmean_time_between_s = 5.0\nuntil_s = 9.0"),
            "faults[0].mean_duration_s: must be given for what lasts",
        ),
        (
            fault(
                "random",
                "fault = { type = 'lost_cache' }\nmean_time_between_s = 5.0\nuntil_s = 9.0\n\
                 mean_duration_s = 1.0",
            ),
            "faults[0].mean_duration_s: must be absent for what does not last, got 1",
        ),
        (
            fault(
                "random",
                "fault = { type = 'lost_cache' }\nmean_time_between_s = 1e-6\nuntil_s = 9.0\n\
                 replicas = [0, 3]",
            ),
            "faults[0].until_s: must be 0 to 1000000 faults expected until then, got 9\n\
             faults[0].replicas[1]: must be below the 2 replicas of the cluster, got 3",
        ),
    ] {
        assert_eq!(problem("", &faults), message);
    }
}

#[test]
fn a_replica_has_one_fault_of_a_kind_at_a_time() {
    let crash = |replica: u32, at_s: f64| {
        fault("crash", &format!("replica = {replica}\nat_s = {at_s}\ndown_s = 2.0"))
    };
    let random = "fault = { type = 'crash' }\nmean_time_between_s = 5.0\nmean_duration_s = 1.0\n\
                  until_s = 9.0";
    let overlaps = |later: u32, earlier: u32, replica: u32| {
        format!(
            "faults[{later}]: overlaps with the crash of replica {replica} in faults[{earlier}]; a \
             replica has one at a time"
        )
    };
    let message = problem("", &format!("{}{}", crash(1, 3.0), crash(1, 1.5)));
    assert_eq!(message, overlaps(0, 1, 1));
    let message = problem("", &format!("{}{}", crash(1, 3.0), fault("random", random)));
    assert_eq!(message, overlaps(0, 1, 1));
    // One after the other, or beside each other, is well.
    let beside = format!("{}{}{}", crash(1, 3.0), crash(1, 1.0), crash(0, 1.5));
    assert_eq!(resolve(&at_once(2, 2, "", &beside)).map(|_| ()), Ok(()));
}

#[test]
fn engines_without_a_prefix_cache_lose_none() {
    let lost = fault("lost_cache", "replica = 0\nat_s = 1.0");
    let none =
        |name: &str| format!("faults[0]: {name} keeps no prefix cache here that could be lost");
    for (engine, name) in [
        ("type = 'vllm_v1'\nenable_prefix_caching = false", "vllm_v1"),
        ("type = 'sglang'\ndisable_radix_cache = true", "sglang"),
        ("type = 'vllm_v0'", "vllm_v0"),
        ("type = 'sarathi'", "sarathi"),
        ("type = 'orca'", "orca"),
        ("type = 'faster_transformer'", "faster_transformer"),
        ("type = 'static_batching'", "static_batching"),
    ] {
        let text = at_once(1, 1, "", &lost);
        let text = text.replace("type = 'vllm_v1'\nasync_scheduling = false", engine);
        assert_eq!(resolve(&text).expect_err("it is refused"), none(name));
    }
}

#[test]
fn clients_that_cannot_be_are_refused_by_name() {
    for (client, message) in [
        (
            "client.timeout_s = 0.0",
            "workload.client.timeout_s: must be a time above 0 and up to 10⁹ seconds, got 0",
        ),
        (
            "client.first_token_timeout_s = -1.0",
            "workload.client.first_token_timeout_s: must be a time above 0 and up to 10⁹ seconds, got -1",
        ),
        (
            "client.cancellations = { share = 1.5, mean_s = 1.0 }",
            "workload.client.cancellations.share: must be above 0 and at most 1, got 1.5",
        ),
        (
            "client.retries = { max_retries = 0 }\nclient.timeout_s = 1.0",
            "workload.client.retries.max_retries: must be from 1 to 1000, got 0",
        ),
        (
            "client.retries = {}",
            "workload.client.retries: nothing can fail that is retried: no crash in `faults`, no \
             timeout, no gateway that turns requests away",
        ),
        (
            "client.retries = { on_timeout = false }\nclient.timeout_s = 1.0",
            "workload.client.retries: nothing can fail that is retried: no crash in `faults`, no \
             timeout, no gateway that turns requests away",
        ),
    ] {
        assert_eq!(problem(client, ""), message);
    }
}

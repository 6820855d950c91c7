//! What is refused before a run, and how.

use super::{autoscaler, scenario};
use crate::support::resolve;

fn problem(rest: &str) -> String {
    // Later keys of the settings replace earlier ones.
    let mut text = scenario(10, 1.0, &autoscaler(4, ""));
    for line in rest.lines() {
        let key = line.split(" = ").next().expect("a key");
        let kept = |known: &&str| !known.starts_with(&format!("{key} ="));
        let others: Vec<&str> = text.lines().filter(kept).collect();
        text = others.join("\n");
        text = text.replace("[cluster.autoscaler]", &format!("[cluster.autoscaler]\n{line}"));
    }
    resolve(&text).expect_err("it is refused")
}

#[test]
fn autoscalers_that_cannot_be_are_refused_by_name() {
    let path = "cluster.autoscaler";
    for (rest, message) in [
        (
            "min_replicas = 0",
            format!(
                "{path}.min_replicas: `0` needs a cluster.gateway where requests wait: \
                 max_outstanding_per_replica, or a rate_limit with over = \"wait\""
            ),
        ),
        (
            "signal = { type = 'gateway_queue_per_replica', target = 4.0 }",
            format!(
                "{path}.signal: `gateway_queue_per_replica` needs a cluster.gateway where requests \
                 wait: max_outstanding_per_replica, or a rate_limit with over = \"wait\""
            ),
        ),
        (
            "min_replicas = 5",
            format!("{path}.max_replicas: must be at least min_replicas, 5, got 4"),
        ),
        (
            "initial_replicas = 5",
            format!(
                "{path}.initial_replicas: must be from 1 to 4, min_replicas to max_replicas, got 5"
            ),
        ),
        (
            "interval_s = 0.0",
            format!("{path}.interval_s: must be from 0.001 to 10⁹ seconds, got 0"),
        ),
        (
            "stabilisation_up_s = 0.5",
            format!("{path}.stabilisation_up_s: must be 0, or at least interval_s, 1, got 0.5"),
        ),
        ("tolerance = 1.0", format!("{path}.tolerance: must be at least 0 and below 1, got 1")),
        ("max_added = 0", format!("{path}.max_added: must be at least 1, got 0")),
        (
            "provisioning_s = -1.0",
            format!("{path}.provisioning_s: must be a time from 0 to 10⁹ seconds, got -1"),
        ),
        (
            "weights_gib_per_s = 0.0",
            format!("{path}.weights_gib_per_s: must be from 0.000001 to 200000 GiB/s, got 0"),
        ),
        (
            "signal = { type = 'waiting_per_replica', target = 0.0 }",
            format!("{path}.signal.target: must be a finite number above 0, got 0"),
        ),
        (
            "signal = { type = 'utilisation', target = 1.5 }",
            format!("{path}.signal.target: must be above 0 and at most 1, got 1.5"),
        ),
        (
            "signal = { type = 'slo_headroom', target = 0.9 }",
            format!("{path}.signal: ttft_ms or tpot_ms, or both, must be given"),
        ),
        (
            "signal = { type = 'slo_headroom', ttft_ms = 300.0, target = 0.9 }\ntolerance = 0.2",
            format!(
                "{path}.tolerance: has no effect with `slo_headroom`, whose margin is `spare`; leave it out"
            ),
        ),
    ] {
        assert_eq!(problem(rest), message);
    }
}

#[test]
fn an_unknown_signal_is_answered_with_those_that_there_are() {
    let message = problem("signal = { type = 'moon', target = 1.0 }");
    assert!(message.contains("unknown variant `moon`"), "{message}");
    assert!(message.contains("`kv_usage`, `utilisation`, `slo_headroom`"), "{message}");
}

#[test]
fn clusters_that_it_does_not_fit_are_refused() {
    let scaled = autoscaler(4, "");
    let of = |cluster: &str| resolve(&scenario(10, 1.0, &format!("{cluster}\n{scaled}")));
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 3, transfer = { \
                 nic_gb_per_s = 1.0 } }";
    assert_eq!(
        of(parts).expect_err("it is refused"),
        "cluster.autoscaler: replicas of several kinds are scaled apart: give each kind its own, \
         cluster.groups[].autoscaler"
    );
    let groups = "groups = [{ replicas = 2 }, { replicas = 2, gpu = 'L40S' }]";
    let message = of(groups).expect_err("it is refused");
    assert!(message.contains("give each kind its own, cluster.groups[].autoscaler"), "{message}");
    let message = of("replicas = 3").expect_err("it is refused");
    assert!(message.contains("cluster.replicas: must be absent, or max_replicas"), "{message}");
    assert_eq!(of("replicas = 4").expect("it is max_replicas").replicas(), 4);
}

#[test]
fn autoscalers_of_groups_are_refused_by_their_place() {
    let of = |group: &str| {
        let groups = format!(
            "groups = [{{ role = 'prefill', replicas = 2 }}, {{ role = 'decode', replicas = 3, \
             autoscaler = {{ {group}, signal = {{ type = 'kv_usage', target = 0.5 }} }} }}]\n\
             disaggregation = {{ transfer = {{ nic_gb_per_s = 1.0 }} }}\n\
             gateway = {{ max_outstanding_per_replica = 2 }}"
        );
        resolve(&scenario(10, 1.0, &groups)).map(|_| ()).expect_err("it is refused")
    };
    assert_eq!(
        of("max_replicas = 4"),
        "cluster.groups[1].replicas: must be max_replicas of cluster.groups[1].autoscaler, got 3"
    );
    assert_eq!(
        of("min_replicas = 0, max_replicas = 3"),
        "cluster.groups[1].autoscaler.min_replicas: `0` is for replicas that requests wait for at the \
         gateway; they are not sent from there to replicas that decode"
    );
}

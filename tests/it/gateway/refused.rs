//! What the gateway and classes refuse, with field, rule and value.

use super::scenario;
use crate::support::resolve;

const ARRIVALS: &str = "num_requests = 10\narrivals = { type = 'all_at_once' }\n\
                        lengths = { type = 'fixed', input_tokens = 10, output_tokens = 2 }\n";
const TWO: &str = "[[workload.classes]]\nname = 'a'\nshare = 0.5\n\
                   [[workload.classes]]\nname = 'b'\nshare = 0.5\n";

fn problem(workload: &str, gateway: &str) -> String {
    let text = scenario(&format!("{ARRIVALS}{workload}"), gateway);
    resolve(&text).expect_err(&text)
}

#[test]
fn gateways_that_make_no_sense_are_refused() {
    let limit = "max_outstanding_per_replica = 4\n";
    for (gateway, message) in [
        (
            "max_outstanding_per_replica = 0",
            "max_outstanding_per_replica: must be at least 1, got 0",
        ),
        (
            &format!("{limit}deadline_ms = 0.0"),
            "deadline_ms: must be a time above 0 and up to 10⁹ seconds, got 0",
        ),
        (
            &format!("{limit}order = {{ type = 'vtc' }}"),
            "order: `vtc` is an order by tenant: workload.classes must have two tenants at least, got 0",
        ),
        (
            &format!("{limit}order = {{ type = 'priority' }}"),
            "order: `priority` needs workload.classes of different priority",
        ),
        (
            "max_waiting = 5",
            "max_waiting: nothing waits at the gateway: it needs max_outstanding_per_replica, or a \
             rate_limit with over = \"wait\"",
        ),
        (
            "rate_limit = { requests_per_s = 0.0, burst = 1 }",
            "rate_limit.requests_per_s: must be a finite number above 0, got 0",
        ),
        (
            "rate_limit = { requests_per_s = 1.0 }",
            "rate_limit.burst: must be given with requests_per_s",
        ),
        (
            "rate_limit = { requests_per_s = 1.0, burst = 0 }",
            "rate_limit.burst: must be at least 1, got 0",
        ),
        (
            "rate_limit = { requests_per_s = 1.0, burst = 1, per = 'tenant' }",
            "rate_limit.per: `tenant` needs workload.classes",
        ),
    ] {
        let expected = format!("cluster.gateway.{message}");
        assert_eq!(problem("", &format!("[cluster.gateway]\n{gateway}\n")), expected);
    }
    let nothing = "cluster.gateway: must limit something: leave the table out otherwise";
    assert_eq!(problem("", "[cluster.gateway]\n"), nothing);
}

#[test]
fn orders_by_tenant_need_weights_quanta_and_whole_replicas() {
    let gateway = |order: &str| {
        format!("[cluster.gateway]\nmax_outstanding_per_replica = 4\norder = {order}\n")
    };
    assert_eq!(
        problem(TWO, &gateway("{ type = 'drr', quantum_tokens = 0 }")),
        "cluster.gateway.order.quantum_tokens: must be at least 1, got 0"
    );
    assert_eq!(
        problem(TWO, &gateway("{ type = 'vtc', input_weight = -1.0 }")),
        "cluster.gateway.order.input_weight: must be from 0 to 1000000, got -1"
    );
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 1, transfer = { \
                 nic_gb_per_s = 10.0, latency_us = 50.0 } }";
    let text = scenario(&format!("{ARRIVALS}{TWO}"), &gateway("{ type = 'vtc' }"));
    let text = text.replace("replicas = 2", parts);
    let message = resolve(&text).expect_err("it is not modelled");
    assert!(
        message.starts_with("cluster.gateway.order: `vtc` with cluster.disaggregation"),
        "{message}"
    );
}

#[test]
fn classes_that_make_no_sense_are_refused() {
    let class = |more: &str| format!("[[workload.classes]]\nname = 'a'\n{more}\n");
    for (classes, message) in [
        (
            class("share = 0.5"),
            "workload.classes: must be classes whose shares sum up to 1, got 0.5",
        ),
        (class("share = -1.0"), "workload.classes[0].share: must be above 0 and at most 1, got -1"),
        (
            class(""),
            "workload.classes[0].share: must be given where no trace.columns.class names the classes",
        ),
        (
            class("share = 0.5") + &class("share = 0.5"),
            "workload.classes[1].name: `a` is given twice",
        ),
        (
            class("share = 1.0\nttft_ms = 0.0"),
            "workload.classes[0].ttft_ms: must be finite and above 0, got 0",
        ),
        (
            class("share = 1.0\npriority = 3"),
            "workload.classes[0].priority: nobody reads it: neither is cluster.gateway.order \
             `priority`, nor does an engine serve by priority",
        ),
        (
            class("share = 1.0\ndeadline_ms = 3.0"),
            "workload.classes[0].deadline_ms: nothing waits at the gateway (cluster.gateway)",
        ),
    ] {
        let problem = problem(&classes, "");
        assert!(problem.lines().any(|line| line == message), "{problem}");
    }
}

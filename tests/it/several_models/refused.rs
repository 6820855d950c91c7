//! What clusters of several models refuse, with field, rule and value.

use super::{CLASSES, CLUSTER, LARGE_GROUP, SMALL_GROUP, WORKLOAD};
use crate::support::resolve;

fn problem(text: &str) -> String {
    resolve(text).expect_err(text)
}

fn with(classes: &str, cluster: &str, groups: &str) -> String {
    format!("{WORKLOAD}{classes}{CLUSTER}{cluster}{groups}")
}

#[test]
fn requests_for_what_nobody_serves_are_refused() {
    let served = "cluster.groups must list some that serve it";
    assert_eq!(
        problem(&with(CLASSES, "replicas = 4\n", "")),
        format!(
            "workload.classes[1].model: `meta-llama/Llama-3.1-8B` is served by no replica; {served}"
        )
    );
    assert_eq!(
        problem(&with(CLASSES, "", LARGE_GROUP)),
        format!(
            "workload.classes[1].model: `meta-llama/Llama-3.1-8B` is served by no replica; {served}"
        )
    );
    let nowhere = problem(&with(CLASSES, "", SMALL_GROUP));
    let first = "workload.classes[0].model: `meta-llama/Llama-3.1-70B` is served by no replica";
    assert!(nowhere.starts_with(first), "{nowhere}");
}

#[test]
fn replicas_that_nobody_asks_for_are_refused() {
    let idle = "cluster.groups[1].model: no request asks for `meta-llama/Llama-3.1-8B`; a class of \
                workload.classes must name it";
    assert_eq!(problem(&with("", "", &format!("{LARGE_GROUP}{SMALL_GROUP}"))), idle);
}

#[test]
fn a_model_of_the_cluster_that_no_group_takes_is_refused() {
    let class = "[[workload.classes]]\nname = 'a'\nshare = 1.0\nmodel = 'Llama-3.1-8B'\n";
    assert_eq!(
        problem(&with(class, "", SMALL_GROUP)),
        "cluster.model: must be a model that a group serves, got `meta-llama/Llama-3.1-70B`"
    );
}

#[test]
fn an_unknown_model_is_refused_where_it_is_named() {
    let groups = SMALL_GROUP.replace("3.1-8B", "3.1-8Z");
    let classes = CLASSES.replace("3.1-8B", "3.1-8Z");
    let unknown = problem(&with(&classes, "", &format!("{LARGE_GROUP}{groups}")));
    for path in ["workload.classes[1].model", "cluster.groups[1].model"] {
        let expected = format!("{path}: `meta-llama/Llama-3.1-8Z` is neither in the catalogue");
        assert!(unknown.contains(&expected), "{unknown}");
    }
    let misspelt = problem(&with(CLASSES, "", &format!("{LARGE_GROUP}{groups}")));
    let expected = "cluster.groups[1].model: `meta-llama/Llama-3.1-8Z` is neither in the catalogue";
    assert!(misspelt.starts_with(expected), "{misspelt}");
}

#[test]
fn a_model_that_fits_on_no_gpu_is_refused_where_it_is_named() {
    let swapped = CLUSTER.replace("70B", "8B");
    let classes = CLASSES.replace("3.1-8B", "3.1-70B");
    let groups = SMALL_GROUP.replace("3.1-8B", "3.1-70B");
    let text = format!("{WORKLOAD}{classes}{swapped}{LARGE_GROUP}{groups}");
    let problem = problem(&text);
    assert!(problem.starts_with("cluster.groups[1].model: "), "{problem}");
}

#[test]
fn shares_that_make_no_whole_are_refused() {
    let none = CLASSES.replace("share = 0.5", "share = 0.0");
    let problem = problem(&with(&none, "", &format!("{LARGE_GROUP}{SMALL_GROUP}")));
    for expected in [
        "workload.classes[0].share: must be above 0 and at most 1, got 0",
        "workload.classes: must be classes whose shares sum up to 1, got 0",
    ] {
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn a_model_with_half_of_the_roles_is_refused() {
    let transfer = "disaggregation = { transfer = { nic_gb_per_s = 50.0 } }\n";
    let roles = |role: &str| format!("{SMALL_GROUP}role = '{role}'\n");
    let apart = format!("{LARGE_GROUP}role = 'prefill'\n{LARGE_GROUP}role = 'decode'\n");
    for (role, other) in [("prefill", "decode"), ("decode", "prefill")] {
        assert_eq!(
            problem(&with(CLASSES, transfer, &format!("{apart}{}", roles(role)))),
            format!(
                "cluster.groups[2].role: `{role}` replicas of `meta-llama/Llama-3.1-8B` need others \
                 with role `{other}` that serve it too"
            )
        );
    }
    let beside = format!("{apart}{LARGE_GROUP}{SMALL_GROUP}");
    assert_eq!(
        problem(&with(CLASSES, transfer, &beside)),
        "cluster.groups[2].role: `mixed` beside `prefill` replicas of one model \
         (`meta-llama/Llama-3.1-70B`) is not modelled where there are several models"
    );
}

#[test]
fn what_is_not_modelled_with_several_models_is_refused() {
    let groups = format!("{LARGE_GROUP}{SMALL_GROUP}");
    let limit = "max_outstanding_per_replica = 4";
    let adapters = format!(
        "{}[workload.adapters]\nkinds = [{{ count = 4, rank = 16 }}]\n",
        with(CLASSES, "lora = {}\n", &groups)
    );
    let apart = |more: &str| {
        let roles = "[[cluster.groups]]\nreplicas = 1\nrole = 'prefill'\n\
                     [[cluster.groups]]\nreplicas = 1\nrole = 'decode'\n";
        let small = roles.replace("role", "model = 'meta-llama/Llama-3.1-8B'\nrole");
        with(CLASSES, &format!("disaggregation = {{ {more} }}\n"), &format!("{roles}{small}"))
    };
    for (text, expected) in [
        (adapters, "workload.adapters: adapters"),
        (
            with(CLASSES, &format!("gateway = {{ {limit}, order.type = 'vtc' }}\n"), &groups),
            "cluster.gateway.order: orders by tenant",
        ),
        (
            with(
                CLASSES,
                "gateway = { rate_limit = { requests_per_s = 5.0, burst = 3 } }\n",
                &groups,
            ),
            "cluster.gateway.rate_limit: rate limits",
        ),
        (
            with(CLASSES, "kv_tiers = { host = { memory_gib = 64.0 } }\n", &groups),
            "cluster.kv_tiers: KV tiers",
        ),
        (
            with(CLASSES, "", &groups.replacen("replicas", "autoscaler = { max_replicas = 2, signal = { type = 'outstanding_per_replica', target = 4.0 } }\nreplicas", 1)),
            "cluster.groups[0].autoscaler: autoscalers",
        ),
        (
            apart("transfer = { nic_gb_per_s = 50.0, message_us = 1.0 }"),
            "cluster.disaggregation.transfer.message_us: messages of several models",
        ),
        (
            apart("transfer = { nic_gb_per_s = 50.0, message_overhead_bytes = 64 }"),
            "cluster.disaggregation.transfer.message_overhead_bytes: messages of several models",
        ),
        (
            apart("transfer = { nic_gb_per_s = 50.0 }, local_prefill = { max_prompt_tokens = 9 }"),
            "cluster.disaggregation.local_prefill: local prefills",
        ),
        (
            apart(
                "transfer = { nic_gb_per_s = 50.0, granularity = 'layer_wise' }, \
                 protocol = { type = 'reserve' }",
            ),
            "cluster.disaggregation.transfer.granularity: `layer_wise` transfers of several models",
        ),
    ] {
        let expected = format!("{expected} are not modelled where there are several models");
        assert_eq!(problem(&text), expected, "{text}");
    }
}

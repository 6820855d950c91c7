//! Rules of the gateway, and of classes where it or engines read them.

use super::Rules;
use super::groups::asked;
use crate::scenario::{
    EngineConfig, GatewayConfig, GatewayOrder, OverRate, Policy, RateLimitConfig, RateScope,
    ScenarioFile, tenants,
};

/// The longest prompt, in tokens.
const LONGEST_PROMPT: f64 = u32::MAX as f64;
/// Thirty years.
const LONGEST_S: f64 = 1e9;

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    class_rules(file, rules);
    let Some(gateway) = &file.cluster.gateway else { return };
    let path = |key: &str| format!("cluster.gateway.{key}");
    rules.count(
        &path("max_outstanding_per_replica"),
        gateway.max_outstanding_per_replica.unwrap_or(1),
    );
    rules.lasting(&path("deadline_ms"), gateway.deadline_ms.unwrap_or(1e3) / 1e3);
    order_rules(file, gateway, rules);
    if let Some(limit) = &gateway.rate_limit {
        limit_rules(file, limit, rules);
    }
    if gateway.holds_requests() {
        return;
    }
    let waits = "nothing waits at the gateway: it needs max_outstanding_per_replica, or a rate_limit \
                 with over = \"wait\"";
    let useless = [
        ("max_waiting", gateway.max_waiting.is_some()),
        ("deadline_ms", gateway.deadline_ms.is_some()),
        ("order", gateway.order != GatewayOrder::default()),
    ];
    for (key, _) in useless.iter().filter(|(_, is_given)| *is_given) {
        rules.broken(&path(key), waits);
    }
    if gateway.rate_limit.is_none() && useless.iter().all(|(_, is_given)| !is_given) {
        rules.broken("cluster.gateway", "must limit something: leave the table out otherwise");
    }
}

fn order_rules(file: &ScenarioFile, gateway: &GatewayConfig, rules: &mut Rules) {
    let path = "cluster.gateway.order";
    let (tenants, _) = tenants(&file.workload.classes);
    if gateway.order.is_by_tenant() && tenants.len() < 2 {
        let name = gateway.order.name();
        let message = format!(
            "`{name}` is an order by tenant: workload.classes must have two tenants at least, got {}",
            tenants.len()
        );
        rules.broken(path, &message);
    }
    match gateway.order {
        GatewayOrder::Fcfs {} => {}
        GatewayOrder::Priority {} => {
            let priorities = file.workload.classes.iter().map(|class| class.priority);
            let least = priorities.clone().min();
            if least == priorities.max() {
                let message = "`priority` needs workload.classes of different priority";
                rules.broken(path, message);
            }
            let mut engines =
                asked(&file.cluster).into_iter().map(|group| is_sglang(&group.cluster.engine));
            let first = engines.next();
            if engines.any(|engine| Some(engine) != first) {
                let message = "`priority` among SGLang and other engines, which read priorities the \
                               other way round, is not modelled";
                rules.broken(path, message);
            }
        }
        GatewayOrder::Vtc { input_weight, output_weight } => {
            for (key, weight) in [("input_weight", input_weight), ("output_weight", output_weight)]
            {
                let holds = (0.0..=1e6).contains(&weight);
                rules.check(holds, &format!("{path}.{key}"), "from 0 to 1000000", weight);
            }
            if input_weight + output_weight <= 0.0 {
                rules.broken(path, "a weight must be above 0");
            }
            if file.cluster.disaggregation.is_some() {
                let message = "`vtc` with cluster.disaggregation is not modelled: answers come out of \
                               other replicas than the gateway sends to; take `drr`";
                rules.broken(path, message);
            }
        }
        GatewayOrder::Drr { quantum_tokens } => {
            rules.count(&format!("{path}.quantum_tokens"), quantum_tokens);
        }
    }
}

fn limit_rules(file: &ScenarioFile, limit: &RateLimitConfig, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.gateway.rate_limit.{key}");
    let buckets = [
        ("requests_per_s", limit.requests_per_s, "burst", limit.burst, 1.0),
        (
            "prompt_tokens_per_s",
            limit.prompt_tokens_per_s,
            "burst_prompt_tokens",
            limit.burst_prompt_tokens,
            LONGEST_PROMPT,
        ),
    ];
    for (rate_key, rate, burst_key, burst, most) in buckets {
        rules.count(&path(burst_key), burst.unwrap_or(1));
        match (rate, burst) {
            (Some(rate), Some(burst)) => {
                rules.positive(&path(rate_key), rate);
                let fills = f64::from(burst).max(most) / rate <= LONGEST_S;
                let rule =
                    "so high that the bucket fills and the longest prompt passes within 10⁹ s";
                rules.check(fills || rate <= 0.0, &path(rate_key), rule, rate);
            }
            (Some(_), None) => {
                rules.broken(&path(burst_key), &format!("must be given with {rate_key}"));
            }
            (None, Some(_)) => {
                rules.broken(&path(rate_key), &format!("must be given with {burst_key}"));
            }
            (None, None) => {}
        }
    }
    if limit.requests_per_s.is_none() && limit.prompt_tokens_per_s.is_none() {
        rules.broken(&path("requests_per_s"), "must be given, or prompt_tokens_per_s");
    }
    if limit.per == RateScope::Tenant {
        if file.workload.classes.is_empty() {
            rules.broken(&path("per"), "`tenant` needs workload.classes");
        }
        if limit.over == OverRate::Wait {
            let message = "`tenant` with over = \"wait\" is not modelled: who waits for the bucket of \
                           one tenant would hold up the others";
            rules.broken(&path("per"), message);
        }
    }
}

/// What classes say has to be read by somebody.
fn class_rules(file: &ScenarioFile, rules: &mut Rules) {
    let classes = &file.workload.classes;
    let gateway = file.cluster.gateway.as_ref();
    let by_priority = gateway.is_some_and(|gateway| gateway.order == GatewayOrder::Priority {})
        || asked(&file.cluster).iter().any(|group| reads_priority(&group.cluster.engine));
    let holds = gateway.is_some_and(GatewayConfig::holds_requests);
    let named = file.trace.as_ref().is_some_and(|trace| trace.columns.class.is_some());
    for (index, class) in classes.iter().enumerate() {
        let path = |key: &str| format!("workload.classes[{index}].{key}");
        if class.priority != 0 && !by_priority {
            let message = "nobody reads it: neither is cluster.gateway.order `priority`, nor does an \
                           engine serve by priority";
            rules.broken(&path("priority"), message);
        }
        if class.deadline_ms.is_some() && !holds {
            rules.broken(&path("deadline_ms"), "nothing waits at the gateway (cluster.gateway)");
        }
        if class.share.is_none() && !named {
            rules.broken(
                &path("share"),
                "must be given where no trace.columns.class names the classes",
            );
        }
        if class.share.is_some() && named {
            rules.broken(&path("share"), "is given, but trace.columns.class names the classes");
        }
    }
    if named && classes.is_empty() {
        rules.broken("trace.columns.class", "is given, but workload.classes declares no class");
    }
}

fn is_sglang(engine: &EngineConfig) -> bool {
    matches!(engine, EngineConfig::Sglang(_))
}

fn reads_priority(engine: &EngineConfig) -> bool {
    match engine {
        EngineConfig::VllmV1(vllm) => vllm.policy == Policy::Priority,
        EngineConfig::Sglang(sglang) => sglang.enable_priority_scheduling,
        _ => false,
    }
}

//! Rules and derived values of expert parallelism.

use super::{Rules, ScenarioError, fail};
use crate::model::ModelSpec;
use crate::scenario::{
    ClusterConfig, EngineConfig, ExchangeKind, ExpertParallelConfig, StepTimeConfig,
};

/// Rules that need no look-up.
pub(super) fn rules(cluster: &ClusterConfig, rules: &mut Rules) {
    let Some(parallel) = &cluster.expert_parallel else { return };
    rules.count("cluster.expert_parallel.size", parallel.size.unwrap_or(1));
    let holds = parallel.imbalance >= 1.0 && parallel.imbalance.is_finite();
    let path = "cluster.expert_parallel.imbalance";
    rules.check(holds, path, "a finite number of at least 1", parallel.imbalance);
    let (path, sigma) = ("cluster.expert_parallel.imbalance_sigma", parallel.imbalance_sigma);
    rules.check((0.0..=3.0).contains(&sigma), path, "from 0 to 3", sigma);
    if sigma > 0.0 && is_even(parallel) {
        rules.broken(path, "has no effect with imbalance 1; leave it out, or set imbalance");
    }
}

/// Whether tokens are spread evenly over the GPUs.
pub(super) fn is_even(parallel: &ExpertParallelConfig) -> bool {
    parallel.imbalance.to_bits() == 1.0_f64.to_bits()
}

/// Fills in over how many GPUs the experts are spread, and makes sure that they can be.
pub(super) fn resolve(cluster: &mut ClusterConfig, model: &ModelSpec) -> Result<(), ScenarioError> {
    let (tp, ranks) = (cluster.tensor_parallel_size, cluster.data_parallel_size);
    let all = tp.saturating_mul(ranks);
    let Some(parallel) = &mut cluster.expert_parallel else { return Ok(()) };
    let Some(experts) = model.experts() else {
        return Err(fail("cluster.expert_parallel", &format!("{} has no experts", model.name)));
    };
    let size = *parallel.size.get_or_insert(all);
    let wrong = |rule: &str| {
        Err(fail("cluster.expert_parallel.size", &format!("must be {rule}, got {size}")))
    };
    let product = match ranks {
        1 => format!("tensor_parallel_size ({tp})"),
        _ => format!("tensor_parallel_size × data_parallel_size ({all})"),
    };
    if !all.is_multiple_of(size) {
        return wrong(&format!("a divisor of {product}"));
    }
    let goes_to_some = parallel.exchange.is_some_and(|way| way.kind == ExchangeKind::AllToAll);
    if size != all && goes_to_some {
        return wrong(&format!("{product} where tokens go to some GPUs only"));
    }
    if size > experts.count {
        return wrong(&format!("at most the {} experts of {}", experts.count, model.name));
    }
    // Ranks of vLLM share every expert unless told otherwise.
    let is_cut = ranks > 1 && size == 1;
    if size != all && !is_cut && !matches!(cluster.engine, EngineConfig::Sglang(_)) {
        return wrong(&format!("{product}: only SGLang spreads over fewer"));
    }
    if parallel.imbalance > f64::from(size) {
        let problem = format!(
            "must be at most size ({size}), got {}",
            crate::plain::shown(parallel.imbalance)
        );
        return Err(fail("cluster.expert_parallel.imbalance", &problem));
    }
    let is_even = is_even(parallel);
    match &cluster.step_time {
        StepTimeConfig::LayerTable(_) if size != all || !is_even => Err(fail(
            "cluster.expert_parallel",
            "a layer_table holds times of whole experts with tokens spread evenly over the GPUs of a \
             replica; leave size and imbalance out, or take another type",
        )),
        StepTimeConfig::StepTable { .. } | StepTimeConfig::Linear { .. } => Err(fail(
            "cluster.expert_parallel",
            "a step_table and a linear law hold times of whole steps, wherever the experts were; leave \
             it out, or take another type",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::resolved::Scenario;
    use crate::scenario::ScenarioFile;

    fn resolve(model: &str, cluster: &str) -> Result<Scenario, String> {
        let text = format!(
            "name = 'experts'
             [workload]
             num_requests = 2
             arrivals = {{ type = 'all_at_once' }}
             lengths = {{ type = 'fixed', input_tokens = 10, output_tokens = 2 }}
             [cluster]
             model = '{model}'
             gpu = 'H200'
             tensor_parallel_size = 4
             {cluster}"
        );
        let file: ScenarioFile = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
        Scenario::resolve(file, None).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_table_spreads_the_experts_over_all_gpus() {
        let scenario = resolve("Qwen/Qwen3-30B-A3B", "expert_parallel = {}").unwrap();
        let parallel = scenario.first().cluster.expert_parallel.unwrap();
        assert_eq!(parallel.size, Some(4));
        let again = Scenario::resolve(scenario.written(), None).unwrap();
        assert_eq!(again.written(), scenario.written());
    }

    #[test]
    fn experts_that_cannot_lie_like_this_are_refused_by_name() {
        let mixture = "Qwen/Qwen3-30B-A3B";
        for (model, cluster, problem) in [
            ("Qwen/Qwen3-8B", "expert_parallel = {}", "Qwen/Qwen3-8B has no experts"),
            (mixture, "expert_parallel = { size = 3 }", "a divisor of tensor_parallel_size (4)"),
            (mixture, "expert_parallel = { size = 2 }", "only SGLang spreads over fewer"),
            (mixture, "expert_parallel = { imbalance = 0.9 }", "a finite number of at least 1"),
            (mixture, "expert_parallel = { imbalance = 5 }", "must be at most size (4)"),
            (
                mixture,
                "expert_parallel = {}
                 step_time = { type = 'linear', base_us = 1, prefill_token_us = 1, decode_seq_us = 1 }",
                "times of whole steps",
            ),
        ] {
            let told = resolve(model, cluster).unwrap_err();
            assert!(told.contains("cluster.expert_parallel"), "{told}");
            assert!(told.contains(problem), "{told}");
        }
        // Over ranks: every expert on all GPUs of all ranks, or, with SGLang, on some.
        let ranks = "data_parallel_size = 2";
        let way = "{ type = 'all_to_all', latency_us = 5, gb_per_s = 100 }";
        for (size, exchange, engine, problem) in [
            ("1", "", "vllm_v1", None),
            ("2", "", "sglang", None),
            ("2", "", "vllm_v1", Some("only SGLang spreads over fewer")),
            ("3", "", "sglang", Some("a divisor of tensor_parallel_size × data_parallel_size (8)")),
            ("1", way, "sglang", Some("where tokens go to some GPUs only")),
        ] {
            let exchange = if exchange.is_empty() {
                String::new()
            } else {
                format!(", exchange = {exchange}")
            };
            let cluster = format!(
                "{ranks}
                 expert_parallel = {{ size = {size}{exchange} }}
                 engine = {{ type = '{engine}' }}"
            );
            let told = resolve(mixture, &cluster).map(|_| ());
            let is_as_expected = match (&told, problem) {
                (Ok(()), None) => true,
                (Err(told), Some(problem)) => told.contains(problem),
                _ => false,
            };
            assert!(is_as_expected, "{cluster}: {told:?}");
        }
        let engine = "engine = { type = 'sglang' }";
        resolve(mixture, &format!("expert_parallel = {{ size = 2 }}\n{engine}")).unwrap();
    }
}

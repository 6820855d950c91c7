//! Records of servers with ranks, stages and replicas.

use serde_json::{Value, json};

use super::plan;
use crate::resolved::Scenario;
use crate::scenario::{
    EngineConfig, GroupConfig, ReplicaRole, RouterConfig, ScenarioFile, SglangConfig,
};

const DENSE: &str = "Qwen/Qwen3-8B";
const MIXTURE: &str = "Qwen/Qwen3-30B-A3B";
const VLLM: [&str; 2] = ["vLLM", "0.19.0"];
const SGLANG: [&str; 2] = ["SGLang", "0.5.9"];

/// Replicas, GPUs of a rank of a stage, stages, ranks, and over how many GPUs experts are spread; 0
/// where they are not.
type Laid = [u32; 5];

/// The scenario of a record of a server on eight GPUs.
fn server(
    [engine, version]: [&str; 2],
    model: &str,
    flags: &str,
    parallel: &Value,
) -> Result<ScenarioFile, String> {
    let launch = if engine == "vLLM" { "vllm serve m" } else { "python3 -m sglang.launch_server" };
    let changes = [
        ("engine", json!({"name": engine, "version": version})),
        ("hardware", json!({"gpu": "H100", "count": 8})),
        ("model.name", json!(model)),
        ("server_command", json!(format!("{launch} {flags}"))),
        ("parallel", parallel.clone()),
    ];
    plan(&changes).map(|plan| plan.scenario)
}

/// How a resolved scenario is spread over GPUs.
fn laid(file: ScenarioFile) -> Result<Laid, String> {
    let resolved = Scenario::resolve(file, None).map_err(|error| error.to_string())?;
    let cluster = resolved.written().cluster;
    let spread = cluster.expert_parallel.map_or(0, |parallel| parallel.size.unwrap_or(0));
    let [tensor, stages, ranks] =
        [cluster.tensor_parallel_size, cluster.pipeline_parallel_size, cluster.data_parallel_size];
    Ok([cluster.replicas, tensor, stages, ranks, spread])
}

fn sglang(flags: &str) -> SglangConfig {
    let file = server(SGLANG, MIXTURE, flags, &json!({})).unwrap_or_else(|skip| panic!("{skip}"));
    let EngineConfig::Sglang(config) = file.cluster.engine else { panic!("SGLang") };
    config
}

#[test]
fn a_launch_line_is_spread_as_its_engine_does() {
    for (engine, model, flags, expected) in [
        // SGLang: no ranks where there is one, ranks that share the GPUs, and replicas.
        (SGLANG, MIXTURE, "--tp 4 --enable-dp-attention", [1, 4, 1, 1, 0]),
        (SGLANG, MIXTURE, "--tp 4 --dp 1 --enable-dp-attention --ep 4", [1, 4, 1, 1, 4]),
        (SGLANG, MIXTURE, "--tp 8 --dp 4 --enable-dp-attention --ep-size 8", [1, 2, 1, 4, 8]),
        (
            SGLANG,
            MIXTURE,
            "--tp 8 --dp 8 --enable-dp-attention --enable-dp-lm-head --ep 8",
            [1, 1, 1, 8, 8],
        ),
        // Experts cut over all GPUs of the ranks, or whole on two of them.
        (SGLANG, MIXTURE, "--tp 8 --dp 8 --enable-dp-attention", [1, 1, 1, 8, 1]),
        (SGLANG, MIXTURE, "--tp 8 --dp 4 --enable-dp-attention --ep 4", [1, 2, 1, 4, 4]),
        (VLLM, MIXTURE, "-dp 8", [1, 1, 1, 8, 1]),
        (SGLANG, DENSE, "--tp 2 --dp-size 4", [4, 2, 1, 1, 0]),
        (SGLANG, MIXTURE, "--tp 2 --dp-size 4 --load-balance-method round_robin", [4, 2, 1, 1, 0]),
        (SGLANG, DENSE, "--tp 8 --pp-size 1 --dp-size 1", [1, 8, 1, 1, 0]),
        // vLLM: engines that serve on their own, or ranks that share the experts, and stages.
        (VLLM, DENSE, "-tp 2 --data-parallel-size 4", [4, 2, 1, 1, 0]),
        (VLLM, DENSE, "-dp 8", [8, 1, 1, 1, 0]),
        (VLLM, MIXTURE, "-tp 2 -dp 4 --enable-expert-parallel", [1, 2, 1, 4, 8]),
        (VLLM, DENSE, "-tp 2 --pipeline-parallel-size 2", [1, 2, 2, 1, 0]),
        (VLLM, DENSE, "-pp 2 -dp 2 -tp 2", [2, 2, 2, 1, 0]),
        (VLLM, MIXTURE, "-tp 4 -dp 1 -pp 1 --enable-expert-parallel", [1, 4, 1, 1, 4]),
    ] {
        let found = server(engine, model, flags, &json!({})).and_then(laid);
        assert_eq!(found, Ok(expected), "{engine:?} {model} {flags}");
    }
}

/// Engine with its version, model, flags, what `parallel` says, and the reason to leave it out.
type LeftOut = ([&'static str; 2], &'static str, &'static str, Value, &'static str);

fn are_left_out<const N: usize>(cases: [LeftOut; N]) {
    for (engine, model, flags, parallel, reason) in cases {
        let found = server(engine, model, flags, &parallel).and_then(laid);
        assert_eq!(found, Err(reason.to_owned()), "{engine:?} {model} {flags}");
    }
}

#[test]
fn what_is_not_modelled_is_left_out_by_name() {
    are_left_out([
        (
            SGLANG,
            DENSE,
            "--tp 8 --dp 8 --enable-dp-attention",
            json!({}),
            "not modelled: data-parallel attention of a model without experts",
        ),
        (
            SGLANG,
            DENSE,
            "--pp-size 4",
            json!({"pp": 4}),
            "not modelled: pipeline parallelism of SGLang",
        ),
        (
            ["vLLM", "0.6.3"],
            DENSE,
            "-pp 2",
            json!({}),
            "not modelled: pipeline parallelism of vLLM's V0 engine",
        ),
        (
            ["vLLM", "0.6.3"],
            DENSE,
            "-dp 2",
            json!({}),
            "not modelled: data parallelism of vLLM's V0 engine",
        ),
        (
            VLLM,
            MIXTURE,
            "-tp 4",
            json!({"dp_attention": true}),
            "not modelled: data-parallel attention over a number of ranks that is not stated",
        ),
        (
            VLLM,
            DENSE,
            "--enable-dp-attention",
            json!({}),
            "unmodelled flag: enable-dp-attention=true",
        ),
        (
            SGLANG,
            DENSE,
            "--dp 2 --load-balance-method shortest_queue",
            json!({}),
            "unmodelled flag: load-balance-method=shortest_queue",
        ),
        (VLLM, DENSE, "-dp 0", json!({}), "unmodelled flag: dp=0"),
        (VLLM, DENSE, "-pp two", json!({}), "unmodelled flag: pp=two"),
    ]);
}

#[test]
fn what_contradicts_itself_is_left_out_by_name() {
    are_left_out([
        (
            SGLANG,
            MIXTURE,
            "--tp 8 --dp 3 --enable-dp-attention --ep 8",
            json!({}),
            "contradiction: 3 ranks of attention share 8 GPUs",
        ),
        (SGLANG, MIXTURE, "--tp 8 --dp 8", json!({}), "contradiction: 64 GPUs of 8"),
        (VLLM, DENSE, "-tp 8 -pp 2", json!({}), "contradiction: 16 GPUs of 8"),
        (VLLM, DENSE, "-dp 2", json!({"dp": 4}), "contradiction: data parallelism of 2 and of 4"),
        (
            VLLM,
            DENSE,
            "-pp 2",
            json!({"pp": 4}),
            "contradiction: pipeline parallelism of 2 and of 4",
        ),
        (
            SGLANG,
            MIXTURE,
            "--enable-dp-attention",
            json!({"dp_attention": false}),
            "contradiction: data-parallel attention of true and of false",
        ),
        (
            VLLM,
            MIXTURE,
            "-dp 8 --enable-expert-parallel",
            json!({"dp_attention": false}),
            "contradiction: data parallelism of 8 without data-parallel attention",
        ),
        (VLLM, MIXTURE, "-dp 4", json!({"ep": 8}), "contradiction: experts over 8 GPUs of 4"),
        (
            VLLM,
            MIXTURE,
            "-tp 8",
            json!({"ep": 8, "expert_parallel": false}),
            "contradiction: experts over 8 GPUs without expert parallelism",
        ),
        (
            VLLM,
            MIXTURE,
            "-tp 8 --enable-expert-parallel",
            json!({"expert_parallel": false}),
            "contradiction: expert parallelism of true and of false",
        ),
        (
            VLLM,
            MIXTURE,
            "-tp 8 --enable-expert-parallel",
            json!({"ep": 1}),
            "contradiction: expert parallelism over 1 GPU of 8",
        ),
        (
            SGLANG,
            MIXTURE,
            "--tp 8 --ep 8",
            json!({"ep": 4}),
            "contradiction: expert parallelism of 8 and of 4",
        ),
        (
            ["vLLM", "0.15.1"],
            DENSE,
            "-pp 2 --async-scheduling",
            json!({}),
            "contradiction: asynchronous scheduling over 2 stages before vLLM 0.16",
        ),
    ]);
}

#[test]
fn what_the_simulator_refuses_is_left_out_with_its_rule() {
    for (flags, reason) in [
        ("-tp 2 -pp 2 -dp 2 --enable-expert-parallel", "ranks of several stages are not modelled"),
        ("-pp 64", "must be from 1 to 16"),
        ("-dp 4294967295 -tp 4294967295 -pp 4294967295 --enable-expert-parallel", "from 1 to 16"),
    ] {
        let changes = [
            ("hardware", json!({"gpu": "H100"})),
            ("parallel", json!({})),
            ("model.name", json!(MIXTURE)),
            ("server_command", json!(format!("vllm serve m {flags}"))),
        ];
        let skip = plan(&changes).and_then(|plan| laid(plan.scenario)).unwrap_err();
        assert!(skip.contains(reason), "{skip}");
    }
}

#[test]
fn gpus_without_a_degree_of_tensor_parallelism_are_divided() {
    let laid = |engine: [&str; 2], gpus: u32, parallel: Value| {
        let [name, version] = engine;
        let changes = [
            ("engine", json!({"name": name, "version": version})),
            ("hardware.gpus_used", json!(gpus)),
            ("model.name", json!(MIXTURE)),
            ("parallel", parallel),
        ];
        plan(&changes).and_then(|plan| laid(plan.scenario))
    };
    assert_eq!(laid(VLLM, 8, json!({"pp": 2})), Ok([1, 4, 2, 1, 0]));
    assert_eq!(laid(SGLANG, 8, json!({"dp": 2})), Ok([2, 4, 1, 1, 0]));
    let shared = json!({"dp": 4, "dp_attention": true, "ep": 8});
    assert_eq!(laid(SGLANG, 8, shared), Ok([1, 2, 1, 4, 8]));
    // Neither how many ranks nor flags that leave that at its default.
    let open = laid(SGLANG, 8, json!({"dp_attention": true})).unwrap_err();
    assert!(open.contains("a number of ranks that is not stated"), "{open}");
    let told = laid(VLLM, 8, json!({"pp": 3}));
    assert_eq!(told, Err("contradiction: 3 engines, ranks or stages on 8 GPUs".to_owned()));
    // As AIConfigurator counts, ranks have the GPUs that are told each.
    let counted = |ranks: u32, experts: u32| {
        let (ranks, experts) = (json!(ranks), json!(experts));
        json!({"tp_size": 2, "attention_dp_size": ranks, "moe_tp_size": 1, "moe_ep_size": experts})
    };
    assert_eq!(laid(SGLANG, 8, counted(4, 8)), Ok([1, 2, 1, 4, 8]));
    assert_eq!(laid(VLLM, 8, counted(4, 8)), Ok([1, 2, 1, 4, 8]));
    assert_eq!(laid(VLLM, 8, counted(1, 2)), Ok([1, 2, 1, 1, 2]));
    // Each expert shared by two GPUs, or by all.
    assert_eq!(laid(SGLANG, 8, counted(4, 4)), Ok([1, 2, 1, 4, 4]));
    let shared = laid(VLLM, 8, counted(4, 4)).unwrap_err();
    assert!(shared.contains("experts of vLLM over some"), "{shared}");
    for engine in [SGLANG, VLLM] {
        assert_eq!(laid(engine, 8, counted(4, 1)), Ok([1, 2, 1, 4, 1]));
    }
    // Its dumps of InferenceX count the GPUs of a server twice.
    let twice = |told: [u32; 4]| {
        let [tp, ranks, cut, over] = told.map(|number| json!(number));
        json!({"tp_size": tp, "attention_dp_size": ranks, "moe_tp_size": cut, "moe_ep_size": over})
    };
    assert_eq!(laid(SGLANG, 4, twice([16, 1, 4, 4])), Ok([1, 4, 1, 1, 4]));
    assert_eq!(laid(VLLM, 4, twice([4, 4, 1, 16])), Ok([1, 4, 1, 1, 4]));
}

#[test]
fn replicas_of_each_role_are_told_apart() {
    let told = |prefill: Value, decode: Value| {
        let changes = [
            ("engine", json!({"name": "SGLang", "version": "0.5.9"})),
            ("hardware", json!({"gpu": "H100"})),
            ("model.name", json!(MIXTURE)),
            ("parallel", json!({"prefill": prefill, "decode": decode})),
        ];
        plan(&changes).map(|plan| plan.scenario)
    };
    let prefill = json!({"num_workers": 2, "tp_size": 2, "moe_tp_size": 1, "moe_ep_size": 2});
    let file = told(prefill.clone(), json!({"num_workers": 3, "tp_size": 4})).expect("a plan");
    let resolved = Scenario::resolve(file, None).expect("a scenario");
    let groups = resolved.written().cluster.groups.clone();
    let laid = |group: &GroupConfig| {
        (group.replicas, group.role, group.tensor_parallel_size, group.expert_parallel.is_some())
    };
    let expected =
        [(2, ReplicaRole::Prefill, Some(2), true), (3, ReplicaRole::Decode, Some(4), false)];
    assert_eq!(groups.iter().map(laid).collect::<Vec<_>>(), expected);
    // 400 Gbit/s for each GPU of the smaller replicas.
    let transfer = resolved.written().cluster.disaggregation.expect("roles").transfer;
    assert!((transfer.nic_gb_per_s - 100.0).abs() < 1e-9);
    let open = told(prefill.clone(), json!({"tp_size": 4})).unwrap_err();
    assert!(open.contains("that is not stated"), "{open}");
    let of_ranks =
        json!({"num_workers": 1, "tp_size": 1, "attention_dp_size": 8, "moe_ep_size": 8});
    let ranks = told(prefill, of_ranks).unwrap_err();
    assert!(ranks.contains("ranks or stages of replicas"), "{ranks}");
}

#[test]
fn ranks_share_what_a_launch_line_of_sglang_says() {
    let given = "--tp 8 --ep 8 --chunked-prefill-size 8192 --max-running-requests 256";
    let whole = sglang(given);
    assert_eq!((whole.chunked_prefill_size, whole.max_running_requests), (Some(8192), Some(256)));
    let shared = sglang(&format!("{given} --dp 4 --enable-dp-attention"));
    assert_eq!((shared.chunked_prefill_size, shared.max_running_requests), (Some(2048), Some(64)));
    // Replicas do not.
    let replicas = sglang("--dp 4 --chunked-prefill-size 8192 --max-running-requests 256");
    assert_eq!(
        (replicas.chunked_prefill_size, replicas.max_running_requests),
        (Some(8192), Some(256))
    );
    // Without chunks.
    let never = sglang("--tp 8 --ep 8 --dp 4 --enable-dp-attention --chunked-prefill-size=-1");
    assert_eq!(never.chunked_prefill_size, Some(-1));
}

#[test]
fn requests_go_to_replicas_as_the_front_end_sends_them() {
    let router =
        |engine, flags| server(engine, DENSE, flags, &json!({})).map(|file| file.cluster.router);
    assert_eq!(router(SGLANG, "--dp 4"), Ok(RouterConfig::RoundRobin {}));
    assert_eq!(router(VLLM, "-dp 4"), Ok(RouterConfig::LeastOutstandingRequests {}));
    assert_eq!(router(VLLM, "-tp 4"), Ok(RouterConfig::RoundRobin {}));
}

#[test]
fn stages_are_scheduled_ahead_by_default_from_the_version_that_can() {
    let is_async = |version: &str, flags: &str| {
        let file = server(["vLLM", version], DENSE, flags, &json!({})).unwrap();
        let EngineConfig::VllmV1(config) = file.cluster.engine else { panic!("V1") };
        config.async_scheduling
    };
    assert_eq!([is_async("0.15.1", "-pp 2"), is_async("0.15.1", "-tp 2")], [false, true]);
    assert_eq!([is_async("0.16.0", "-pp 2"), is_async("0.13.0", "-tp 2")], [true, false]);
}

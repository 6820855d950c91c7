//! Engines that cannot be are refused with the path of the field; what an engine turns away is
//! counted; defaults are those of the engines.

use servecast::metrics::Recorder;
use servecast::resolved::{Scenario, ScenarioError};
use servecast::scenario::{EngineConfig, ScenarioFile, SglangConfig};
use servecast::sim::{Counts, Simulation, cluster};
use servecast::units::{Bytes, SimDuration};
use servecast::workload::{Client, Workload};

/// Qwen2.5-7B on one A10 (24 GB), three requests of 50 tokens.
fn file(cluster: &str, engine: &str) -> ScenarioFile {
    let text = format!(
        "name = 'settings'
         [workload]
         num_requests = 3
         arrivals = {{ type = 'all_at_once' }}
         lengths = {{ type = 'fixed', input_tokens = 50, output_tokens = 4 }}
         [cluster]
         model = 'Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4'
         gpu = 'A10'
         {cluster}
         [cluster.engine]
         {engine}"
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn resolve(cluster: &str, engine: &str) -> Result<Scenario, ScenarioError> {
    Scenario::resolve(file(cluster, engine), None)
}

fn refused(engine: &str, message: &str) {
    let problems = resolve("", engine).expect_err(engine).to_string();
    assert!(problems.contains(message), "{engine}: {problems}");
}

#[test]
fn impossible_settings_of_vllm_are_refused() {
    for (setting, message) in [
        ("block_size = 0", "block_size: must be at least 1, got 0"),
        ("max_num_batched_tokens = 0", "max_num_batched_tokens: must be at least 1, got 0"),
        ("max_num_seqs = 0", "max_num_seqs: must be at least 1, got 0"),
        (
            "max_num_seqs = 65\nmax_num_batched_tokens = 64",
            "max_num_batched_tokens: must be at least max_num_seqs (65), got 64",
        ),
        ("num_gpu_blocks = 1", "num_gpu_blocks: must be at least 2"),
        ("num_gpu_blocks = 100", "max_model_len: a sequence of"),
        ("cudagraph_capture_sizes = []", "cudagraph_capture_sizes: must hold at least one size"),
        (
            "cudagraph_capture_sizes = [4, 2]",
            "cudagraph_capture_sizes: must ascend, got 4 before 2",
        ),
        (
            "cudagraph_capture_sizes = [1, 1]",
            "cudagraph_capture_sizes: must ascend, got 1 before 1",
        ),
        (
            "cudagraph_capture_sizes = [0, 1]",
            "cudagraph_capture_sizes: must be sizes of at least 1",
        ),
        (
            "cudagraph_capture_sizes = [1, 2]\nmax_cudagraph_capture_size = 4",
            "max_cudagraph_capture_size: must be the last of cudagraph_capture_sizes (2), got 4",
        ),
        (
            "cudagraph_capture_sizes = [1, 9000]",
            "cudagraph_capture_sizes: must be at most max_num_batched_tokens (2048), got 9000",
        ),
        (
            "enforce_eager = true\nmax_cudagraph_capture_size = 4",
            "max_cudagraph_capture_size: has no effect with enforce_eager",
        ),
        ("host.schedule_us = -1.0", "host.schedule_us: must be a time from 0 to 1000 seconds"),
        ("host.launch_us = nan", "host.launch_us: must be a time from 0 to 1000 seconds"),
    ] {
        let engine = format!("type = 'vllm_v1'\n{setting}");
        refused(&engine, &format!("cluster.engine.{message}"));
    }
    for share in ["0.0", "1.5", "nan"] {
        let cluster = format!("gpu_memory_utilization = {share}");
        let problems = resolve(&cluster, "type = 'vllm_v1'").unwrap_err().to_string();
        assert!(problems.contains("cluster.gpu_memory_utilization: must be above 0"), "{problems}");
    }
}

#[test]
fn impossible_settings_of_sglang_are_refused() {
    for (setting, message) in [
        ("page_size = 0", "page_size: must be at least 1, got 0"),
        ("max_prefill_tokens = 0", "max_prefill_tokens: must be at least 1, got 0"),
        ("max_total_tokens = 0", "max_total_tokens: must be at least one page, got 0"),
        ("context_length = 1", "context_length: must be at least 2"),
        (
            "page_size = 64\nchunked_prefill_size = 16",
            "chunked_prefill_size: must be at least one page",
        ),
        ("mem_fraction_static = 0.0", "mem_fraction_static: must be above 0 and below 1, got 0"),
        ("mem_fraction_static = 1.0", "mem_fraction_static: must be above 0 and below 1, got 1"),
        ("mem_fraction_static = nan", "mem_fraction_static: must be above 0 and below 1, got NaN"),
        ("cuda_graph_bs = []", "cuda_graph_bs_decode: must hold at least one size"),
        ("cuda_graph_bs_prefill = [8, 4]", "cuda_graph_bs_prefill: must ascend, got 8 before 4"),
        ("cuda_graph_max_bs = 0", "cuda_graph_max_bs_decode: must be at least 1, got 0"),
        (
            "disable_cuda_graph = true\ncuda_graph_max_bs = 8",
            "cuda_graph_max_bs_decode: has no effect with disable_cuda_graph",
        ),
    ] {
        let engine = format!("type = 'sglang'\n{setting}");
        refused(&engine, &format!("cluster.engine.{message}"));
    }
    refused("type = 'sglang'\nmem_fraction_static = 0.2", "does not fit");
    let problems = resolve("gpu_memory_utilization = 0.8", "type = 'sglang'").unwrap_err();
    let message = "cluster.gpu_memory_utilization: is not a setting of SGLang";
    assert!(problems.to_string().contains(message), "{problems}");
}

#[test]
fn impossible_settings_of_the_baselines_are_refused() {
    for (engine, message) in [
        ("type = 'vllm_v0'\nblock_size = 0", "block_size: must be at least 1, got 0"),
        (
            "type = 'vllm_v0'\nmax_num_batched_tokens = 0",
            "max_num_batched_tokens: must be at least",
        ),
        ("type = 'sarathi'\nchunk_size = 0", "chunk_size: must be at least 1, got 0"),
        ("type = 'orca'\nmax_batch_size = 0", "max_batch_size: must be at least 1, got 0"),
        ("type = 'faster_transformer'\nkv_tokens = 0", "kv_tokens: must be at least 1, got 0"),
        ("type = 'static_batching'\nbatch_size = 0", "batch_size: must be at least 1, got 0"),
        ("type = 'orca'\nkv_tokens = 100", "max_model_len: a sequence of"),
        ("type = 'orca'\nhost.post_process_us = -2.0", "host.post_process_us: must be a time"),
    ] {
        refused(engine, &format!("cluster.engine.{message}"));
    }
}

fn run(scenario: &Scenario) -> Counts {
    let workload = Workload::open(&scenario.workload, scenario.seed, None);
    let client = Client::new(&scenario.workload.client);
    let cluster = cluster(scenario).expect("the step times are known");
    Simulation::new(workload.expect("it opens"), client, cluster, SimDuration::ZERO)
        .run(&mut Recorder::default())
        .expect("the workload has no errors")
}

#[test]
fn prompts_beyond_the_pool_of_sglang_are_rejected_and_counted() {
    let counts = run(&resolve("", "type = 'sglang'\nmax_total_tokens = 40").unwrap());
    assert_eq!(counts, Counts { arrived: 3, rejected: 3, ..Counts::default() });
    let counts = run(&resolve("", "type = 'sglang'\nmax_total_tokens = 4000").unwrap());
    assert_eq!(counts, Counts { arrived: 3, finished: 3, ..Counts::default() });
}

fn sglang(engine: &str) -> SglangConfig {
    let scenario = resolve("", &format!("type = 'sglang'\n{engine}")).expect(engine);
    let EngineConfig::Sglang(config) = scenario.first().cluster.engine.clone() else {
        panic!("{engine}")
    };
    config
}

#[test]
fn sglang_keeps_free_what_its_chunks_and_graphs_need() {
    // 512 + 1.5·8192 + 128 + 2·256 + 8·58 = 13904 MiB of 80 GiB
    let thousandths = |gib: f64, tp: u32, tokens: u32, graphs: f64| {
        let memory = Bytes::from_gib(gib);
        let share = SglangConfig::mem_fraction_static_for(memory, tp, tokens, graphs);
        (share * 1000.0).round() as u32
    };
    assert_eq!(thousandths(80.0, 1, 8192, 512.0 + 464.0), 830);
    // 512 + 3072 + 1024 MiB are less than the 10 GiB that large GPUs keep free
    assert_eq!(thousandths(80.0, 8, 2048, 0.0), 875);
    assert_eq!(thousandths(16.0, 1, 2048, 0.0), 773);
    let batch = |gib, tp| SglangConfig::cuda_graph_max_bs_for(Bytes::from_gib(gib), tp);
    assert_eq!(
        [16.0, 24.0, 48.0, 80.0, 141.0, 180.0].map(|gib| batch(gib, 1)),
        [8, 48, 32, 256, 256, 512]
    );
    assert_eq!(
        [16.0, 24.0, 48.0, 80.0, 141.0, 180.0].map(|gib| batch(gib, 4)),
        [8, 160, 160, 512, 512, 512]
    );
}

#[test]
fn the_pool_of_sglang_is_its_share_of_memory_less_the_weights() {
    let all = sglang("mem_fraction_static = 0.9").max_total_tokens.unwrap();
    let less = sglang("mem_fraction_static = 0.8").max_total_tokens.unwrap();
    let scenario = resolve("", "type = 'sglang'").unwrap();
    let token = 28 * 2 * 4 * 128 * 2;
    // The context takes 0.45 GiB before SGLang looks at what is free.
    let memory = scenario.first().gpu.memory().0 - Bytes::from_gib(0.45).0;
    let model = &scenario.first().model;
    // Sines and cosines of all positions.
    let weights = model.weight_bytes(1).0 + u64::from(model.max_position) * 128 * 2;
    assert_eq!(u64::from(all), ((memory as f64 * 0.9) as u64 - weights) / token);
    assert_eq!(u64::from(less), ((memory as f64 * 0.8) as u64 - weights) / token);
    let capped = sglang("mem_fraction_static = 0.8\nmax_total_tokens = 1000");
    assert_eq!(capped.max_total_tokens, Some(1000));
    let asked = format!("mem_fraction_static = 0.8\nmax_total_tokens = {all}");
    assert_eq!(sglang(&asked).max_total_tokens, Some(less));
}

#[test]
fn a_resolved_engine_resolves_to_itself() {
    for engine in ["type = 'vllm_v1'", "type = 'vllm_v1'\nmax_num_seqs = 5", "type = 'sglang'"] {
        let once = resolve("", engine).unwrap().written();
        let again = Scenario::resolve(once.clone(), None).unwrap().written();
        assert_eq!(once, again, "{engine}");
    }
}

#[test]
fn sglang_captures_prompts_of_models_that_it_has_tried() {
    let captures = |model: &str, gpu: &str, keys: &str| {
        let mut file = file("tensor_parallel_size = 8", &format!("type = 'sglang'\n{keys}"));
        (file.cluster.model, file.cluster.gpu) = (model.to_owned(), gpu.to_owned());
        let scenario = Scenario::resolve(file, None).unwrap();
        let EngineConfig::Sglang(engine) = &scenario.first().cluster.engine else { panic!() };
        let largest = engine.cuda_graph_max_bs_prefill;
        assert_eq!(engine.disable_prefill_cuda_graph, Some(largest.is_none()), "{model} on {gpu}");
        largest
    };
    assert_eq!(captures("Qwen/Qwen3-32B", "H200", ""), Some(8192));
    assert_eq!(captures("google/gemma-4-31B-it", "H200", ""), None);
    assert_eq!(captures("deepseek-ai/DeepSeek-V3", "H200", ""), Some(8192));
    assert_eq!(captures("deepseek-ai/DeepSeek-V3", "B200", ""), None);
    let told = "cuda_graph_max_bs_prefill = 4096";
    assert_eq!(captures("deepseek-ai/DeepSeek-V3", "B200", told), Some(4096));
    let on = "disable_prefill_cuda_graph = false";
    assert_eq!(captures("deepseek-ai/DeepSeek-V3", "B200", on), Some(8192));
}

#[test]
fn a_captured_step_is_padded_and_an_eager_one_is_not() {
    let step = |engine: &str| {
        let scenario = resolve("", engine).unwrap();
        let mut log = servecast::metrics::StepLog::default();
        let workload = Workload::open(&scenario.workload, scenario.seed, None).unwrap();
        let client = Client::new(&scenario.workload.client);
        let cluster = cluster(&scenario).unwrap();
        assert!(cluster.instances.iter().all(|instance| instance.scheduler().is_balanced()));
        Simulation::new(workload, client, cluster, SimDuration::ZERO).run(&mut log).unwrap();
        log.steps.iter().map(|step| step.shape.cuda_graph).collect::<Vec<_>>()
    };
    // Prompts of 150 tokens together, then three decodes.
    let padded = |sizes: [Option<u32>; 2]| vec![sizes[0], sizes[1], sizes[1], sizes[1]];
    assert_eq!(step("type = 'vllm_v1'"), padded([Some(152), Some(4)]));
    assert_eq!(step("type = 'vllm_v1'\nenforce_eager = true"), padded([None, None]));
    assert_eq!(step("type = 'vllm_v1'\nmax_cudagraph_capture_size = 2"), padded([None, None]));
    assert_eq!(step("type = 'sglang'"), padded([Some(160), Some(4)]));
    assert_eq!(step("type = 'sglang'\ndisable_prefill_cuda_graph = true"), padded([None, Some(4)]));
    assert_eq!(
        step("type = 'sglang'\ncuda_graph_bs = [2, 4]\ndisable_cuda_graph_padding = true"),
        padded([Some(160), None])
    );
    assert_eq!(step("type = 'vllm_v0'"), padded([None, Some(4)]));
    assert_eq!(step("type = 'sarathi'\nchunk_size = 1000"), padded([None, None]));
}

#[test]
fn as_many_sequences_as_tokens_of_a_step_run_unless_told() {
    let seqs = |engine: &str| {
        let scenario = resolve("", engine).expect("a scenario");
        let EngineConfig::VllmV1(vllm) = &scenario.first().cluster.engine else { panic!("vLLM") };
        vllm.max_num_seqs
    };
    assert_eq!(seqs("type = 'vllm_v1'\nmax_num_batched_tokens = 64"), Some(64));
    assert_eq!(seqs("type = 'vllm_v1'\nmax_num_batched_tokens = 64\nmax_num_seqs = 9"), Some(9));
    assert_eq!(seqs("type = 'vllm_v1'"), Some(256), "the default of this GPU");
}

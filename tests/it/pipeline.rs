//! Scenarios with pipeline parallelism: what they derive, what they refuse, and how they fare.

use proptest::prelude::*;

use servecast::metrics::{Recorder, ReplicaKind, Status};
use servecast::model::{KvDtype, ModelSpec, Stage};
use servecast::profiles;
use servecast::resolved::{KvSource, Scenario};
use servecast::sim::{Counts, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use crate::support::resolve;

fn scenario(cluster: &str) -> Result<Scenario, String> {
    resolve(&format!(
        "name = 'stages'
         [workload]
         num_requests = 200
         arrivals = {{ type = 'poisson', rate_per_s = 4.0 }}
         [workload.lengths]
         type = 'sampled'
         input_tokens = {{ type = 'uniform', min_tokens = 10, max_tokens = 2000 }}
         output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 100 }}
         [cluster]
         model = 'meta-llama/Llama-3.1-70B'
         gpu = 'L40S'
         {cluster}"
    ))
}

fn run(scenario: &Scenario, in_lanes: bool) -> (Counts, Recorder) {
    let workload = Workload::open(&scenario.workload, scenario.seed, None);
    let costs = step_times(scenario).expect("step times are known");
    let run = simulation(scenario, &costs, workload.expect("it opens")).expect("it is built");
    let mut recorder = Recorder::default();
    let counts = if in_lanes { run.run_in_lanes(&mut recorder) } else { run.run(&mut recorder) };
    (counts.expect("no trace is read"), recorder)
}

const FOUR: &str = "engine = { type = 'vllm_v1', max_model_len = 4096 }";

#[test]
fn a_replica_has_the_gpus_of_all_its_stages_and_the_blocks_of_the_fullest() {
    let [wide, long] =
        ["tensor_parallel_size = 4", "tensor_parallel_size = 2\npipeline_parallel_size = 2"]
            .map(|sizes| scenario(&format!("{sizes}\n{FOUR}")).unwrap());
    assert_eq!((wide.gpus(), long.gpus()), (4, 4));
    assert_eq!(ReplicaKind::of(&long)[0].gpus, 4);
    assert_eq!(long.first().name(), "L40S TP2×PP2");
    let [KvSource::Derived(wide), KvSource::Derived(deep)] = [wide.first().kv, long.first().kv]
    else {
        panic!("blocks are derived");
    };
    // A block holds half of the layers with twice the heads, and the same number of weights is on a GPU
    // but for the norm.
    assert_eq!(wide.block_bytes, deep.block_bytes);
    assert!(wide.blocks.abs_diff(deep.blocks) < wide.blocks / 20, "{wide:?} {deep:?}");
    let link = long.first().cluster.pipeline_link.expect("it is filled in");
    assert!((link.gb_per_s - 19.2).abs() < 1e-9, "the all-reduce of two L40S: {link:?}");
    assert_eq!(Scenario::resolve(long.written(), None).unwrap().written(), long.written());
}

#[test]
fn stages_that_cannot_be_are_refused_by_name() {
    let path = "cluster.pipeline_parallel_size";
    for (cluster, at, problem) in [
        ("pipeline_parallel_size = 0", path, "must be from 1 to 16, got 0"),
        ("pipeline_parallel_size = 2\nengine.type = 'sglang'", path, "stages of sglang are not modelled"),
        ("pipeline_parallel_size = 2\nengine.type = 'sarathi'", path, "stages of sarathi"),
        (
            "pipeline_parallel_size = 2
             engine = { type = 'vllm_v1', speculation = { method = 'ngram', num_speculative_tokens = 2, \
             acceptance = { type = 'per_position', probability = 0.5 } } }",
            path,
            "speculation over several stages",
        ),
        ("pipeline_parallel_size = 2\nstep_time.type = 'layer_table'", path, "a layer_table"),
        ("pipeline_parallel_size = 2\nstep_time.type = 'step_table'", path, "a step_table"),
        (
            "pipeline_link = { gb_per_s = 10.0, latency_us = 5.0 }",
            "cluster.pipeline_link",
            "has no effect with pipeline_parallel_size 1",
        ),
        (
            "pipeline_parallel_size = 2\npipeline_link = { gb_per_s = 0.0, latency_us = 5.0 }",
            "cluster.pipeline_link.gb_per_s",
            "at least, got 0",
        ),
        (
            "pipeline_parallel_size = 2\npipeline_link = { gb_per_s = 9.0, latency_us = 5.0 }
             step_time = { type = 'roofline', communication = 'ignored' }",
            "cluster.pipeline_link",
            "has no effect with step_time.communication",
        ),
        (
            "tensor_parallel_size = 8\npipeline_parallel_size = 2",
            "cluster.pipeline_link",
            "8×2 L40S do not fit in a node of 8",
        ),
        (
            "tensor_parallel_size = 1\npipeline_parallel_size = 2",
            "cluster.model",
            "does not fit at tensor × pipeline parallel size 1×2",
        ),
        (
            "[[cluster.groups]]\nreplicas = 1\npipeline_parallel_size = 20",
            "cluster.groups[0].pipeline_parallel_size",
            "from 1 to 16, got 20",
        ),
    ] {
        let told = scenario(cluster).unwrap_err();
        assert!(told.contains(&format!("{at}: ")), "{cluster}: {told}");
        assert!(told.contains(problem), "{cluster}: {told}");
    }
}

#[test]
fn a_cluster_of_stages_answers_all_and_fares_alike_in_lanes() {
    let sizes = "replicas = 3\ntensor_parallel_size = 2\npipeline_parallel_size = 2";
    for is_async in [false, true] {
        let engine = format!(
            "engine = {{ type = 'vllm_v1', max_model_len = 4096, async_scheduling = {is_async} }}"
        );
        let scenario = scenario(&format!("{sizes}\n{engine}")).unwrap();
        let (counts, recorder) = run(&scenario, false);
        assert_eq!((counts.arrived, counts.finished), (200, 200));
        assert!(recorder.requests.iter().all(|record| record.status == Status::Finished));
        let (lane_counts, lanes) = run(&scenario, true);
        assert_eq!(counts, lane_counts);
        assert_eq!(recorder.requests, lanes.requests);
        assert_eq!(recorder.replicas, lanes.replicas);
        for log in &recorder.replicas {
            assert!(log.activity.busy() <= log.activity.end() - SimTime::ZERO);
        }
    }
}

fn layers(model: &str, stages: u32) -> Vec<u32> {
    let model = profiles::model(model).expect("it is in the catalogue");
    model.stages(stages).iter().map(|stage| stage.model.num_layers()).collect()
}

#[test]
fn layers_left_over_go_before_the_last_stage() {
    assert_eq!(layers("Llama-3.1-70B", 4), [20; 4]);
    // 80 = 6·13 + 2, 126 = 4·31 + 2, 32 = 3·10 + 2
    assert_eq!(layers("Llama-3.1-70B", 6), [13, 13, 13, 14, 14, 13]);
    assert_eq!(layers("Llama-3.1-405B", 4), [31, 32, 32, 31]);
    assert_eq!(layers("Llama-3.1-8B", 3), [11, 11, 10]);
}

#[test]
fn a_tied_table_lies_on_both_end_stages() {
    let model = profiles::model("Qwen/Qwen2.5-0.5B").unwrap();
    assert!(model.tied_embeddings);
    let table = model.lm_head(1).params() * 2;
    let sum: u64 = model.stages(3).iter().map(|stage| stage.weight_bytes(1).0).sum();
    assert_eq!(sum, model.weight_bytes(1).0 + table);
}

proptest! {
    #[test]
    fn stages_hold_what_the_model_holds(index in 0..profiles::models().count(), count in 1_u32..=16) {
        let model = &profiles::models().nth(index).expect("a model").spec;
        prop_assume!(count <= model.num_layers());
        let stages = model.stages(count);
        prop_assert_eq!(stages.len(), count as usize);
        let sum = |figure: &dyn Fn(&Stage) -> u64| stages.iter().map(figure).sum::<u64>();
        let kv = |model: &ModelSpec| model.kv_bytes_per_token(1, KvDtype::Auto);
        // Layers of DeepSeek-V4 cache parts of bytes.
        prop_assert!(sum(&|stage| kv(&stage.model)).abs_diff(kv(model)) <= u64::from(count));
        let sparse = |model: &ModelSpec| u64::from(model.sparse_layers());
        prop_assert_eq!(sum(&|stage| sparse(&stage.model)), sparse(model));
        let windows =
            |model: &ModelSpec| u64::from(model.window().map_or(0, |w| w.layers));
        prop_assert_eq!(sum(&|stage| windows(&stage.model)), windows(model));
        let twice = u64::from(model.tied_embeddings && count > 1);
        let table = twice * model.lm_head(1).params() * model.dtype.bytes();
        prop_assert_eq!(sum(&|s| s.weight_bytes(1).0), model.weight_bytes(1).0 + table);
    }
}

//! KV memory of models whose layers keep different amounts of a token, in real runs.

use servecast::load::{self, Draft};
use servecast::model::layout::{Machine, VllmLayout};
use servecast::model::{Generation, KvCapacity, KvGroups};
use servecast::profiles;
use servecast::resolved::{KvSource, Scenario};
use servecast::scenario::EngineConfig;
use servecast::units::Bytes;

fn served(model: &str, tp: u32) -> Draft {
    let text = format!(
        "name = 'laid out'\nseed = 2\n[workload]\nnum_requests = 40\n\
         arrivals = {{ type = 'poisson', rate_per_s = 4.0 }}\n\
         lengths = {{ type = 'fixed', input_tokens = 3000, output_tokens = 60 }}\n\
         [cluster]\nmodel = '{model}'\ngpu = 'B200'\ntensor_parallel_size = {tp}\n\
         [cluster.engine]\ntype = 'vllm_v1'\nmax_model_len = 8192\n"
    );
    load::from_text(&text).expect("a scenario")
}

/// The blocks, their bytes, and the tokens of one.
fn memory(scenario: &Scenario) -> (KvCapacity, u32) {
    let group = scenario.first();
    let KvSource::Derived(kv) = group.kv else { panic!("it is derived") };
    let EngineConfig::VllmV1(vllm) = &group.cluster.engine else { panic!("vLLM's engine") };
    (kv, vllm.block_size)
}

fn layout(scenario: &Scenario) -> VllmLayout {
    let group = scenario.first();
    let (tp, dtype) = (group.cluster.tensor_parallel_size, group.cluster.kv_cache_dtype);
    VllmLayout::of(&group.model, Machine::new(group.gpu.card().generation, tp, dtype))
}

#[test]
fn blocks_are_those_of_the_layout() {
    for (name, tp, tokens) in [
        ("google/gemma-4-26B-A4B", 1, 128),
        ("google/gemma-4-26B-A4B", 8, 64),
        ("google/gemma-4-31B-it", 2, 128),
        ("XiaomiMiMo/MiMo-V2-Flash", 4, 32),
        ("XiaomiMiMo/MiMo-V2-Flash", 8, 16),
        ("deepseek-ai/DeepSeek-V4-Flash", 4, 256),
    ] {
        let scenario = served(name, tp).resolve().expect("it is served").scenario;
        let (layout, (kv, block_size)) = (layout(&scenario), memory(&scenario));
        assert_eq!(kv.block_bytes, Bytes(layout.bytes_per_block), "{name}");
        let room = scenario.first().gpu.memory().0 as f64
            * scenario.first().cluster.gpu_memory_utilization.expect("resolved");
        let room = Bytes(room as u64 - kv.weights.0 - kv.reserve.0);
        assert_eq!(u64::from(kv.blocks), layout.blocks(room), "{name}");
        let whole = layout.groups.iter().find(|group| group.kind.keeps_all()).expect("one");
        assert_eq!((block_size, whole.block_size), (tokens, tokens), "{name}");
        let run = served(name, tp).run().expect("it runs");
        assert_eq!(run.counts.finished, 40, "{name}");
    }
}

#[test]
fn a_request_has_as_many_blocks_as_in_the_layout() {
    for (name, tp) in [
        ("google/gemma-4-26B-A4B", 1),
        ("google/gemma-4-26B-A4B", 8),
        ("XiaomiMiMo/MiMo-V2-Flash", 4),
        ("stepfun-ai/Step-3.7-Flash", 4),
        ("deepseek-ai/DeepSeek-V4-Flash", 4),
    ] {
        let model = profiles::model(name).expect("in the catalogue");
        let machine = Machine::new(Generation::Blackwell, tp, model.kv_cache_dtype);
        let layout = VllmLayout::of(&model, machine);
        let groups = KvGroups::on(&model, machine).expect("its layers keep different things");
        // Of other models the engine's block size counts.
        let block_size = groups.block_size.unwrap_or(layout.block_size);
        for tokens in [40_000_u32, 65_536] {
            // Two steps of the default budget of large GPUs are in flight.
            let blocks = tokens.div_ceil(block_size) + groups.most(tokens, 2 * 16_384, block_size);
            assert_eq!(u64::from(blocks), layout.blocks_of_request(tokens), "{name}, {tokens}");
        }
    }
}

#[test]
fn blocks_of_another_size_are_refused() {
    let of =
        |tokens: i64| served("google/gemma-4-26B-A4B", 1).with("cluster.engine.block_size", tokens);
    let problem = of(32).expect("a setting").resolve().expect_err("it is refused").to_string();
    assert!(problem.contains("cluster.engine.block_size") && problem.contains("128"), "{problem}");
    of(128).expect("a setting").resolve().expect("it is what follows");
}

//! Blocks beside weights and what else is kept.

use super::super::layout::SglangPoolFlags;
use super::*;
use crate::model::{Mixer, Reach};

const JSON: &str = r#"{"model_type": "mistral", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512}"#;

fn budget(gpu_memory: u64, tp: u32) -> MemoryBudget {
    MemoryBudget {
        gpu_memory: Bytes(gpu_memory),
        utilization: 0.5,
        tp,
        pp: 1,
        ranks: 1,
        block_size: 16,
        kv_dtype: KvDtype::Auto,
        loading: Loading::Checkpoint,
        reserve: Bytes(1000),
        adapters: Bytes(0),
        window: WindowMemory::Whole,
        drafts: DraftMemory::default(),
    }
}

#[test]
fn layers_with_a_window_leave_room_as_their_engine_has_it() {
    let mut model = ModelSpec::from_hf_config(JSON, None, "small").unwrap();
    let room = 10_000_000;
    let blocks = |model: &ModelSpec, window| {
        let memory = 2 * (190_080 + 1000 + room);
        let budget = MemoryBudget { window, ..budget(memory, 1) };
        u64::from(KvCapacity::derive(model, &budget).unwrap().blocks)
    };
    let pools = |model: &ModelSpec| {
        let machine = Machine::new(Generation::Hopper, 1, KvDtype::Auto);
        let flags = SglangPoolFlags {
            page_size: Some(16),
            swa_full_tokens_ratio: Some(0.5),
            ..SglangPoolFlags::default()
        };
        WindowMemory::Pools(SglangLayout::told(model, machine, &flags))
    };
    let grouped = WindowMemory::Grouped;
    let whole = room / 8192;
    for all in [WindowMemory::Whole, grouped, pools(&model)] {
        assert_eq!(blocks(&model, all), whole, "no layer has a window");
    }
    model = model.with_windows(16, 1);
    assert_eq!(blocks(&model, WindowMemory::Whole), whole);
    assert_eq!(blocks(&model, grouped), room / 4096, "a block holds one layer of two");
    assert_eq!(blocks(&model, pools(&model)), whole, "SGLang has one pool for it");
    model.family = "gpt_oss".to_owned();
    assert_eq!(blocks(&model, pools(&model)), room / (4096 + 2048));
    if let Some(Mixer::Grouped(grouped)) = &mut model.layers[0].mixer {
        grouped.reach = Reach::Chunk(16);
    }
    assert_eq!(blocks(&model, grouped), whole, "chunks are kept");
}

#[test]
fn blocks_fill_what_weights_and_reserve_leave() {
    let model = ModelSpec::from_hf_config(JSON, None, "small").unwrap();
    // 95,040 parameters of 2 B; a block is 16 tokens · 2 layers · 2·4·16 elements · 2 B.
    assert_eq!(model.weight_bytes(1), Bytes(2 * 95_040));
    let capacity = KvCapacity::derive(&model, &budget(2 * (190_080 + 1000 + 5 * 8192), 1));
    let capacity = capacity.unwrap();
    assert_eq!((capacity.blocks, capacity.block_bytes), (5, Bytes(8192)));
    assert_eq!(capacity.tokens(16), 64);
}

#[test]
fn a_model_that_does_not_fit_says_what_would() {
    let model = ModelSpec::from_hf_config(JSON, None, "small").unwrap();
    let error = KvCapacity::derive(&model, &budget(300_000, 1)).unwrap_err().to_string();
    assert!(error.contains("weights need 185.6 KiB"), "{error}");
    assert!(error.contains("tensor parallel size 2 or on a GPU of at least"), "{error}");
}

#[test]
fn the_fullest_stage_decides_how_many_blocks_there_are() {
    let model = ModelSpec::from_hf_config(JSON, None, "small").unwrap();
    // Either of two layers has half of the 16-token blocks' 8192 B; the last has norm and head too.
    let stages: Vec<u64> = model.stages(2).iter().map(|stage| stage.weight_bytes(1).0).collect();
    assert_eq!(stages[1] - stages[0], 2 * 64);
    let memory = 2 * (stages[1] + 1000 + 5 * 4096);
    let two = MemoryBudget { pp: 2, ..budget(memory, 1) };
    let capacity = KvCapacity::derive(&model, &two).unwrap();
    assert_eq!((capacity.blocks, capacity.block_bytes), (5, Bytes(4096)));
    assert_eq!(capacity.weights.0, stages[1]);
    let small = MemoryBudget { pp: 2, ..budget(2 * stages[1], 1) };
    let error = KvCapacity::derive(&model, &small).unwrap_err().to_string();
    assert!(error.contains("at tensor × pipeline parallel size 1×2"), "{error}");
    assert!(error.contains("it would fit at tensor × pipeline parallel size 2×2"), "{error}");
}

#[test]
fn heads_are_shared_evenly_or_not_at_all() {
    let model = ModelSpec::from_hf_config(JSON, None, "small").unwrap();
    assert!(model.check_tensor_parallel(4).is_ok());
    let error = KvCapacity::derive(&model, &budget(1 << 30, 3)).unwrap_err();
    assert!(matches!(error, ModelError::TensorParallel { tp: 3, .. }));
}

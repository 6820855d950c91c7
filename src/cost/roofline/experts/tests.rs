//! The busiest GPU beside draws of experts, and laws of expert parallelism.

use rand::RngExt as _;

use super::*;
use crate::cost::{CostModel, Roofline, RooflineOptions, StepShape};
use crate::profiles;
use crate::rng::Seed;
use crate::scenario::Communication;

fn moe(count: u32, per_token: u32) -> ExpertShape {
    let model = profiles::model("Qwen3-30B-A3B").expect("in the catalogue");
    ExpertShape { count, per_token, ..*model.experts().expect("it is a mixture") }
}

/// A part of every expert on each GPU.
const CUT: Option<ExpertParallelConfig> = None;

fn over(size: u32, imbalance: f64) -> ExpertParallelConfig {
    ExpertParallelConfig { size: Some(size), imbalance, ..Default::default() }
}

fn experts(moe: &ExpertShape, parallel: ExpertParallelConfig) -> Experts {
    let spread = Spread::of(moe, Some(parallel), 8);
    let (count, visits) = (spread.held(moe.count), spread.visits(f64::from(moe.per_token)));
    let product = Product { read: 1.0, read_row: 0.0, multiply_row: 0.0, fixed: 0.0 };
    Experts { count, idle_share: 1.0 - visits / count, product, spread }
}

/// The means over draws of the most experts visited and the most visits on one GPU.
fn drawn(moe: &ExpertShape, gpus: usize, rows: u32) -> (f64, f64) {
    const DRAWS: usize = 400;
    let mut rng = Seed(7).stream("experts", 0);
    let held = moe.count as usize / gpus;
    let (mut touched, mut visits) = (0, 0);
    for _ in 0..DRAWS {
        let mut visited = vec![0_usize; moe.count as usize];
        for _ in 0..rows {
            let mut order: Vec<usize> = (0..moe.count as usize).collect();
            for place in 0..moe.per_token as usize {
                let other = rng.random_range(place..order.len());
                order.swap(place, other);
                visited[order[place]] += 1;
            }
        }
        let of_gpus = visited.chunks(held);
        touched += of_gpus.clone().map(|own| own.iter().filter(|n| **n > 0).count()).max().unwrap();
        visits += of_gpus.map(|own| own.iter().sum::<usize>()).max().unwrap();
    }
    (touched as f64 / DRAWS as f64, visits as f64 / DRAWS as f64)
}

#[test]
fn the_busiest_gpu_is_the_one_that_draws_of_experts_give() {
    for (count, each, gpus) in [(128, 8, 8_u32), (128, 4, 2), (256, 8, 8), (160, 8, 4)] {
        let moe = moe(count, each);
        let spread = experts(&moe, over(gpus, 1.0));
        for rows in [1_u32, 4, 16, 64] {
            let (touched, visits) = drawn(&moe, gpus as usize, rows);
            let mean = f64::from(each) / f64::from(gpus);
            let found = (spread.touched(rows), mean * spread.spread.rows(f64::from(rows)));
            for (found, drawn) in [(found.0, touched), (found.1, visits)] {
                let error = found / drawn - 1.0;
                let setting = format!("{count} experts, {each} each, {gpus} GPUs, {rows} rows");
                assert!(
                    error.abs() < 0.14 / f64::from(rows).sqrt(),
                    "{setting}: {found} instead of {drawn}"
                );
            }
        }
    }
}

fn part(parallel: impl Into<Option<ExpertParallelConfig>>, rows: u32) -> f64 {
    let model = profiles::model("Qwen3-235B-A22B").expect("in the catalogue");
    let gpu = profiles::gpu("H200").expect("in the catalogue");
    let options = RooflineOptions {
        tensor_parallel_size: 8,
        expert_parallel: parallel.into(),
        communication: Communication::Ignored,
        ..RooflineOptions::default()
    };
    let mut shape = StepShape::default();
    shape.add_prefill(rows, 0, true);
    Roofline::new(&model, &gpu, &options).unwrap().parts(&shape).experts
}

#[test]
fn whole_experts_cost_as_much_as_parts_once_every_gpu_has_enough_to_do() {
    assert_eq!(part(over(1, 1.0), 100).to_bits(), part(CUT, 100).to_bits());
    // Chance is a matter of small batches: one token keeps some GPUs idle.
    assert!(part(over(8, 1.0), 1) > part(CUT, 1));
    let ratio = part(over(8, 1.0), 60_000) / part(CUT, 60_000);
    assert!((0.99..1.03).contains(&ratio), "{ratio}");
}

#[test]
fn experts_cut_over_ranks_cost_as_much_as_cut_over_as_many_gpus_of_one() {
    let model = profiles::model("Qwen3-235B-A22B").expect("in the catalogue");
    let gpu = profiles::gpu("H200").expect("in the catalogue");
    let secs = |tp: u32, ranks: u32, size: u32| {
        let options = RooflineOptions {
            tensor_parallel_size: tp,
            data_parallel_size: ranks,
            expert_parallel: Some(over(size, 1.0)),
            communication: Communication::Ignored,
            ..RooflineOptions::default()
        };
        Roofline::new(&model, &gpu, &options).unwrap().expert_secs(300, 1.0)
    };
    for size in [1, 2, 4, 8] {
        let of_one = secs(8, 1, size).to_bits();
        assert_eq!([secs(4, 2, size), secs(1, 8, size)].map(f64::to_bits), [of_one; 2], "{size}");
    }
}

#[test]
fn the_busiest_gpu_sets_the_time_of_a_layer() {
    let ratio = part(over(8, 2.0), 60_000) / part(over(8, 1.0), 60_000);
    assert!((1.9..2.0).contains(&ratio), "{ratio}");
    for imbalance in [1.0, 1.5, 8.0] {
        let times: Vec<f64> = (1..3000).map(|rows| part_of(imbalance, rows)).collect();
        assert!(times.is_sorted(), "{imbalance}");
    }
}

/// The time that experts take to be read and multiplied, of a small mixture.
fn part_of(imbalance: f64, rows: u32) -> f64 {
    let mut experts = experts(&moe(128, 8), over(8, imbalance));
    experts.product.multiply_row = 0.01;
    experts.secs(rows)
}

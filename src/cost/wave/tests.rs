//! Steps of ranks in lock step, graphs they agree on, and imbalances that are drawn.

use super::*;
use crate::cost::{CapturedSizes, Roofline, RooflineOptions};
use crate::profiles;
use crate::scenario::ExpertParallelConfig;

fn roofline(gpus: u32, imbalance: f64) -> (ModelSpec, StepTime) {
    let model = profiles::model("Qwen3-30B-A3B").unwrap();
    let gpu = profiles::gpu("H200").unwrap();
    let parallel = ExpertParallelConfig { size: Some(gpus), imbalance, ..Default::default() };
    let options = RooflineOptions { expert_parallel: Some(parallel), ..Default::default() };
    let cost = StepTime::Roofline(Roofline::new(&model, &gpu, &options).unwrap());
    (model, cost)
}

fn decodes(seqs: u32, context: u64) -> RankStep {
    let mut shape = StepShape::default();
    shape.add_decodes(seqs, context * u64::from(seqs), context as u32);
    RankStep { shape, ..RankStep::default() }
}

#[test]
fn one_rank_takes_what_a_replica_without_ranks_does() {
    let (model, cost) = roofline(1, 1.0);
    let wave = Wave::new(&model, cost.clone(), 1, Exchange::NONE);
    for rank in [decodes(1, 10), decodes(40, 3000)] {
        let whole = cost.step_duration(&rank.shape).as_nanos();
        let wave = wave.price(0, &mut [rank]).as_nanos();
        assert!(whole.abs_diff(wave) <= 1, "two parts are rounded: {whole} and {wave}");
    }
}

#[test]
fn a_step_waits_for_the_slowest_rank_and_has_the_experts_of_all() {
    let (model, cost) = roofline(4, 1.0);
    let wave = Wave::new(&model, cost.clone(), 4, Exchange::NONE);
    let mut ranks = [decodes(8, 100), decodes(8, 9000), decodes(2, 50), RankStep::default()];
    let duration = wave.price(0, &mut ranks);
    assert!(ranks[1].own > ranks[0].own && ranks[0].own > ranks[3].own);
    let experts = SimDuration::from_secs_f64(cost.expert_secs(8 + 8 + 2 + 1, 1.0));
    assert_eq!(duration, ranks[1].own + experts);
    assert!(ranks[3].own > SimDuration::ZERO, "a rank without requests computes a token");
}

#[test]
fn ranks_replay_graphs_of_one_size_or_none() {
    let graphs =
        CudaGraphs::new(CapturedSizes::new([1, 2, 4, 8]), CapturedSizes::new([1, 2, 4, 8]));
    let mut ranks = [decodes(3, 10), decodes(7, 10), RankStep::default()];
    assert_eq!(agree_on_graph(&graphs, &mut ranks), Some(8));
    assert!(ranks.iter().all(|rank| rank.shape.cuda_graph == Some(8)));
    let mut ranks = [decodes(3, 10), decodes(9, 10)];
    assert_eq!(agree_on_graph(&graphs, &mut ranks), None);
    assert!(ranks.iter().all(|rank| rank.shape.cuda_graph.is_none()));
}

#[test]
fn drawn_imbalances_keep_their_mean_and_differ_between_replicas() {
    for (imbalance, sigma, gpus) in [(1.5, 0.6, 8), (1.5, 3.0, 8), (1.9, 2.0, 2), (2.0, 0.5, 2)] {
        let draws = ImbalanceDraws::new(imbalance, sigma, gpus, Seed(7));
        let mean = draws.factors.iter().sum::<f64>() / DRAWS as f64;
        assert!((mean - 1.0).abs() < 1e-9, "{imbalance}, {sigma}, {gpus}: {mean}");
        let most = draws.factors.iter().copied().fold(0.0, f64::max);
        assert!(imbalance * most <= f64::from(gpus) * (1.0 + 1e-12), "one GPU has them all");
    }
    let draws = ImbalanceDraws::new(1.5, 0.6, 8, Seed(7));
    let least = draws.factors.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(1.5 * least >= 1.0, "no GPU is busier than the busiest");
    let sequence = |draws: &ImbalanceDraws| (0..50).map(|step| draws.of(step)).collect::<Vec<_>>();
    assert_eq!(sequence(&draws), sequence(&draws.clone()));
    assert_ne!(sequence(&draws), sequence(&draws.of_replica(1)));
}

#[test]
fn a_step_of_more_imbalance_is_that_of_a_model_with_as_much() {
    let (_, even) = roofline(8, 1.2);
    let (_, uneven) = roofline(8, 1.8);
    for rows in [1, 16, 300, 9000] {
        let [skewed, built] = [even.expert_secs(rows, 1.5), uneven.expert_secs(rows, 1.0)];
        assert!((skewed / built - 1.0).abs() < 1e-9, "{rows} rows: {skewed} and {built}");
    }
}

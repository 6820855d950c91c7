//! Plans against a search that simulates every size of every layout.

use servecast::metrics::{RequestRecord, Status};
use servecast::resolved::Scenario;
use servecast::scenario::ScenarioFile;
use servecast::study::Case;

use super::{STUDY, plan, study};
use crate::cli::Cli;

const TPOT_MS: f64 = 9.0;
const TTFT_MS: f64 = 300.0;

/// The 99th percentile as numpy has it.
fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = 0.99 * (values.len() - 1) as f64;
    let (low, high) = (values[rank.floor() as usize], values[rank.ceil() as usize]);
    low + rank.fract() * (high - low)
}

/// How much of the tighter limit a cluster takes: up to 1 it keeps both.
fn used(gpu: &str, tensor_parallel: u32, replicas: u32) -> f64 {
    let mut file: ScenarioFile = toml::from_str(STUDY).expect("it is a scenario");
    gpu.clone_into(&mut file.cluster.gpu);
    file.cluster.tensor_parallel_size = tensor_parallel;
    file.cluster.replicas = replicas;
    let (ttft_ms, tpot_ms) = p99s(file);
    (ttft_ms / TTFT_MS).max(tpot_ms / TPOT_MS)
}

/// The 99th percentiles of TTFT and TPOT in ms, where all are answered.
fn p99s(file: ScenarioFile) -> (f64, f64) {
    let scenario = Scenario::resolve(file, None).expect("it fits");
    let run = Case::new(scenario, None).and_then(|case| case.run()).expect("it runs");
    let records: &[RequestRecord] = &run.recorder.requests;
    assert!(records.iter().all(|record| record.status == Status::Finished));
    let ttft = records.iter().map(|record| record.ttft().as_millis_f64()).collect();
    let tpot = records.iter().filter_map(|r| Some(r.tpot()?.as_millis_f64())).collect();
    (p99(ttft), p99(tpot))
}

#[test]
fn the_plan_is_that_of_trying_everything() {
    // What the catalogue lists for the two.
    let prices = [("H100-SXM5-80GB", 1.99), ("A100-SXM4-80GB", 0.8)];
    // The cheapest; of equally cheap ones on as many GPUs, that with more room.
    let mut best: Option<(f64, f64, &str, u32, u32)> = None;
    for (gpu, usd) in prices {
        for tensor_parallel in [1, 2] {
            let each = (1..=16).map(|replicas| (replicas, used(gpu, tensor_parallel, replicas)));
            let Some((replicas, used)) = each.into_iter().find(|(_, used)| *used <= 1.0) else {
                continue;
            };
            let cost = usd * f64::from(tensor_parallel * replicas);
            if best.is_none_or(|(known, room, ..)| (cost, used) < (known, room)) {
                best = Some((cost, used, gpu, tensor_parallel, replicas));
            }
        }
    }
    let (cost, _, gpu, tensor_parallel, replicas) = best.expect("something keeps them");
    let answer = plan(
        &study(),
        &[
            "--slo",
            &format!("p99_tpot_ms<={TPOT_MS}"),
            "--slo",
            &format!("p99_ttft_ms<={TTFT_MS}"),
            "--gpu",
            "H100,A100",
            "--tensor-parallel",
            "1,2",
            "--resamples",
            "0",
            "--warm-up",
            "counts",
        ],
    );
    let winner = &answer["layouts"][0];
    assert_eq!(winner["layout"], format!("{gpu} TP{tensor_parallel}"), "{answer:#}");
    assert_eq!(winner["replicas"][0], replicas, "{answer:#}");
    assert!((winner["usd_per_hour"].as_f64().expect("a price") - cost).abs() < 1e-9);
}

#[test]
fn the_plan_of_prefill_and_decode_apart_is_the_cheapest_of_all_pairs() {
    const MOST: u32 = 6;
    let (ttft_ms, tpot_ms) = (40.0, 6.82);
    let keeps = |prefill: u32, decode: u32| {
        let text = STUDY.to_owned()
            + &format!(
                "[cluster.disaggregation]\nprefill_replicas = {prefill}\ndecode_replicas = {decode}\n\
                 transfer = {{ nic_gb_per_s = 50.0 }}\n"
            );
        let (ttft, tpot) = p99s(toml::from_str(&text).expect("it is a scenario"));
        ttft <= ttft_ms && tpot <= tpot_ms
    };
    let pairs = (1..=MOST).flat_map(|prefill| (1..=MOST).map(move |decode| (prefill, decode)));
    let fewest = pairs.filter(|(prefill, decode)| keeps(*prefill, *decode)).map(|(p, d)| p + d);
    let fewest = fewest.min().expect("some pair keeps them");
    assert!((3..=MOST).contains(&fewest), "{fewest}: choose SLOs that tell sizes apart");
    let answer = plan(
        &study(),
        &[
            "--slo",
            &format!("p99_tpot_ms<={tpot_ms}"),
            "--slo",
            &format!("p99_ttft_ms<={ttft_ms}"),
            "--layout",
            "disaggregated",
            "--nic-gb-per-s",
            "50",
            "--resamples",
            "0",
            "--warm-up",
            "counts",
        ],
    );
    let replicas = &answer["layouts"][0]["replicas"];
    let [prefill, decode] = [0, 1].map(|role| replicas[role].as_u64().expect("a number") as u32);
    assert!(keeps(prefill, decode), "{answer:#}");
    assert_eq!(prefill + decode, fewest, "{answer:#}");
}

#[test]
fn a_pool_is_reached_over_the_nics_of_a_layout() {
    let tiers = "[cluster.kv_tiers]\npool = { memory_gib = 64.0, nic_gb_per_s = 25.0 }\n";
    let study = Cli::new().file("study.toml", STUDY.to_owned() + tiers);
    let layouts = ["--layout", "mixed,disaggregated", "--nic-gb-per-s", "50"];
    let slo = ["--slo", "p99_ttft_ms<=400", "--resamples", "0", "--warm-up", "counts"];
    let answer = plan(&study, &[&layouts[..], &slo[..]].concat());
    assert_eq!(answer["layouts"].as_array().map(Vec::len), Some(2), "{answer:#}");
}

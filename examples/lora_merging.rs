//! When does it pay to merge an adapter into the weights? `scenarios/lora-merged.toml` for requests
//! that prefer one adapter more and more: a table, and the figure of `docs/lora.md`.
//!
//! ```sh
//! cargo run --release --no-default-features --features plot --example lora_merging -- docs/figures
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::path::PathBuf;

use servecast::metrics::Recorder;
use servecast::plot::{CrossingChart, CrossingCurve, crossing_figure};
use servecast::resolved::Scenario;
use servecast::rng::Seed;
use servecast::scenario::{
    AdapterBatchingConfig, AdapterPopularity, DloraCreditConfig, MergedOnlyConfig, ScenarioFile,
};
use servecast::sim::{simulation, step_times};
use servecast::workload::Workload;

const SCENARIO: &str = include_str!("../scenarios/lora-merged.toml");
const SEEDS: [u64; 3] = [1, 2, 3];

fn rules() -> Vec<(&'static str, AdapterBatchingConfig)> {
    let little = DloraCreditConfig { credit: 100.0, ..DloraCreditConfig::default() };
    vec![
        ("unmerged", AdapterBatchingConfig::Unmerged {}),
        ("merged_only", AdapterBatchingConfig::MergedOnly(MergedOnlyConfig::default())),
        ("dlora_credit, credit = 100", AdapterBatchingConfig::DloraCredit(little)),
        (
            "dlora_credit, credit = 10,000 as published",
            AdapterBatchingConfig::DloraCredit(DloraCreditConfig::default()),
        ),
    ]
}

/// Mean end-to-end latency, in seconds.
fn mean_e2e_s(scenario: &Scenario) -> Result<f64, Box<dyn Error>> {
    let mut recorder = Recorder::of(scenario);
    let workload = Workload::open(&scenario.workload, scenario.seed, None)?;
    simulation(scenario, &step_times(scenario)?, workload)?.run(&mut recorder)?;
    let sum: f64 = recorder.requests.iter().map(|request| request.e2e().as_secs_f64()).sum();
    Ok(sum / recorder.requests.len() as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut table: toml::Table = toml::from_str(SCENARIO)?;
    // The command line takes variants out before it reads the rest.
    table.remove("variants");
    let plain: ScenarioFile = table.try_into()?;
    let exponents: Vec<f64> = (0..=16).map(|half| f64::from(half) / 2.0).collect();
    let mut curves: Vec<CrossingCurve> = Vec::new();
    for (name, batching) in rules() {
        let mut points = Vec::new();
        for &exponent in &exponents {
            let mut sum = 0.0;
            for seed in SEEDS {
                let mut file = plain.clone();
                file.seed = Seed(seed);
                file.cluster.lora.get_or_insert_default().batching = batching;
                if let Some(adapters) = &mut file.workload.adapters {
                    adapters.popularity = AdapterPopularity::Zipf { exponent };
                }
                sum += mean_e2e_s(&Scenario::resolve(file, None)?)?;
            }
            points.push((exponent, sum / SEEDS.len() as f64));
        }
        curves.push(CrossingCurve { name: name.to_owned(), points });
    }
    println!("mean E2E in s, and what dlora_credit takes of the better of the other two");
    println!("exponent  unmerged  merged  credit 100  published");
    for (index, exponent) in exponents.iter().enumerate() {
        let [unmerged, merged, little, published] =
            [0, 1, 2, 3].map(|n: usize| curves[n].points[index].1);
        let better = unmerged.min(merged);
        println!(
            "{exponent:8.1}  {unmerged:8.2}  {merged:6.2}  {little:4.2} {:5.3}  {published:4.2} {:5.3}",
            little / better,
            published / better
        );
    }
    let crossings = curves[0].crossings(&curves[1]);
    for (exponent, _) in &crossings {
        println!("unmerged and merged_only cross at an exponent of {exponent:.2}");
    }
    let compared = CrossingChart {
        across: "exponent of the adapters' popularity: how much requests prefer one of them"
            .to_owned(),
        upwards: "mean E2E latency, s".to_owned(),
        curves,
        crossings,
    };
    let subtitle = "scenarios/lora-merged.toml, mean of three seeds";
    let title = "Merged or apart: eight adapters on one GPU";
    let figure = crossing_figure(("lora-merged.svg", title), subtitle, &compared);
    if let Some(folder) = std::env::args_os().nth(1) {
        let folder = PathBuf::from(folder);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(figure.file_name), figure.svg)?;
    }
    Ok(())
}

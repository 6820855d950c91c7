//! vLLM with Mooncake on A10: what the rows that took no part in the fit come out as.

use serde_json::Value;

use super::reference_runs;

const MEANS: [&str; 4] = ["mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms"];
const TAILS: [&str; 2] = ["p99_ttft_ms", "p99_tpot_ms"];
const LAYOUTS: [&str; 5] = ["plain", "chunked", "Mooncake RDMA", "Mooncake 2 NICs", "Mooncake TCP"];
const LOADS: [&str; 5] = [
    "1024/6 at 2 req/s",
    "256/6 at 2 req/s",
    "256/6 at 4 req/s",
    "256/6 at 6 req/s",
    "256/6 at 8 req/s",
];

/// All rows, as `servecast validate` scores them.
fn rows() -> Vec<Value> {
    let runs = reference_runs()["runs"].as_array().unwrap().iter();
    let rows: Vec<Value> =
        runs.filter(|run| run["family"] == "reference-runs/vllm-mooncake-a10").cloned().collect();
    assert_eq!(rows.len(), LAYOUTS.len() * LOADS.len());
    rows
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { values[middle - 1].midpoint(values[middle]) }
}

/// The median of the absolute errors over the rows with Mooncake that were held out, in percent.
fn error(rows: &[Value], metric: &str) -> f64 {
    let held_out = rows.iter().filter(|row| {
        let is_fitted = row["approximated"][0] == "parameters were fitted to this run";
        row["id"].as_str().unwrap().contains(", Mooncake ") && !is_fitted
    });
    median(
        held_out.map(|row| row["metrics"][metric]["error_pct"].as_f64().unwrap().abs()).collect(),
    )
}

/// Goals that are not met, as the median error in percent that they stay below.
const OPEN: [(&str, f64); 3] =
    [("mean_ttft_ms", 20.0), ("median_ttft_ms", 20.0), ("p99_tpot_ms", 28.0)];

#[test]
fn held_out_rows_meet_their_goals_but_for_those_known_to_be_open() {
    let rows = rows();
    let goals = MEANS.map(|metric| (metric, 10.0)).into_iter().chain(TAILS.map(|one| (one, 20.0)));
    for (metric, goal) in goals {
        let error = error(&rows, metric);
        let verdict = if error <= goal { "met" } else { "NOT MET" };
        println!("{metric}: median error {error:.1} %, goal {goal} %: {verdict}");
        let open = OPEN.iter().find(|(one, _)| *one == metric).map(|(_, limit)| *limit);
        assert!(error <= open.unwrap_or(goal), "{metric}: {error:.1} %");
    }
}

/// Pairs of layouts whose measured figures of one load are more than 10 % apart: how many there are, and
/// those that come out the other way round.
fn pairs(rows: &[Value]) -> (usize, Vec<String>) {
    let figure = |layout: &str, load: &str, metric: &str, which: &str| {
        let name = format!("vLLM 0.6 on A10, {layout}, {load}");
        let row = rows.iter().find(|row| row["id"] == *name);
        let row = row.unwrap_or_else(|| panic!("no row is called {name}"));
        row["metrics"][metric][which].as_f64().unwrap()
    };
    let (mut count, mut wrong) = (0, Vec::new());
    for (load, metric) in
        LOADS.iter().flat_map(|load| MEANS.iter().chain(&TAILS).map(move |metric| (load, metric)))
    {
        for (index, one) in LAYOUTS.iter().enumerate() {
            for other in &LAYOUTS[index + 1..] {
                let [measured, simulated] = ["measured", "simulated"].map(|which| {
                    figure(one, load, metric, which) / figure(other, load, metric, which)
                });
                if measured.max(1.0 / measured) <= 1.1 {
                    continue;
                }
                count += 1;
                if (measured > 1.0) != (simulated > 1.0) {
                    wrong.push(format!("{load}, {metric}: {one}, {other}"));
                }
            }
        }
    }
    (count, wrong)
}

/// Of the pairs, as many come out the other way round at most.
const WRONG_PAIRS: usize = 7;

#[test]
fn layouts_come_out_in_the_measured_order_where_they_are_apart() {
    let (count, wrong) = pairs(&rows());
    println!("{} of {count} pairs in another order: {wrong:#?}", wrong.len());
    assert!(wrong.len() <= WRONG_PAIRS, "{wrong:#?}");
}

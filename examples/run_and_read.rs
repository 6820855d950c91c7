//! Runs a scenario, changes a setting, runs it again, and reads figures and records.
//!
//! ```sh
//! cargo run --release --no-default-features --example run_and_read
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use servecast::load::{self, LoadError};

const SCENARIO: &str = r#"
name = "chat"

[workload]
num_requests = 2000
arrivals = { type = "poisson", rate_per_s = 12.0 }

[workload.lengths]
type = "sampled"
input_tokens = { type = "log_normal", median_tokens = 600.0, sigma = 1.0, max_tokens = 8000 }
output_tokens = { type = "uniform", min_tokens = 50, max_tokens = 250 }

[cluster]
model = "Qwen/Qwen3-8B"
gpu = "A100-SXM4-80GB"
"#;

fn main() -> Result<(), LoadError> {
    // `load::load("chat.toml")` reads a file.
    let chat = load::from_text(SCENARIO)?;
    for replicas in [1, 2, 4] {
        let run = chat.clone().with("cluster.replicas", replicas)?.with_seed(7)?.run()?;
        let figures = run.figures();
        let of = |name: &str| figures.get(name).unwrap_or(f64::NAN);
        let preempted = run.recorder.requests.iter().filter(|one| one.preemptions > 0).count();
        println!(
            "{replicas} replicas: P99 TTFT {:.0} ms, P99 TPOT {:.1} ms, {preempted} requests preempted",
            of("p99_ttft_ms"),
            of("p99_tpot_ms")
        );
    }
    // What is wrong with a setting is data: its path, the rule, the value, the nearest name.
    let wrong = chat.with("cluster.gpu", "A100-SXM4-80")?.resolve();
    if let Err(LoadError::Settings(broken)) = wrong {
        for one in &broken.0 {
            println!("{}: {}, near is {:?}", one.origin, one.problem.at, one.problem.near);
        }
    }
    Ok(())
}

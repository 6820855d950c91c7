//! A plan in code: which layout serves these requests within these SLOs, at what price.
//!
//! ```sh
//! cargo run --release --no-default-features --example plan_in_code
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use servecast::scenario::Offer;
use servecast::{Plan, load};

const SCENARIO: &str = r#"
name = "chat"

[workload]
num_requests = 400
arrivals = { type = "poisson", rate_per_s = 20.0 }

[workload.lengths]
type = "sampled"
input_tokens = { type = "log_normal", median_tokens = 600.0, sigma = 1.0, max_tokens = 8000 }
output_tokens = { type = "uniform", min_tokens = 50, max_tokens = 250 }

[cluster]
model = "Qwen/Qwen3-8B"
gpu = "H100"
engine = { type = "vllm_v1" }
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut plan = Plan::new(load::from_text(SCENARIO)?);
    plan.slos = ["p99_ttft_ms<=500", "p99_tpot_ms<=40"].map(str::to_owned).to_vec();
    plan.gpus = ["H100", "L40S"].map(str::to_owned).to_vec();
    plan.tensor_parallel = vec![1, 2];
    plan.prices = vec![("L40S".to_owned(), 0.8)];
    plan.offer = Some(Offer::Low);
    plan.resamples = 3;
    let answer = plan.read()?.answer()?;

    for row in &answer.rows {
        match row.found() {
            Some(found) => println!(
                "{}: {} replicas, {}",
                answer.layout(row.place),
                found.size.name(),
                answer.usd(found.cost).map_or_else(String::new, |usd| format!("{usd:.2} USD/h"))
            ),
            None => println!("{}: dearer, or no number of it is enough", answer.layout(row.place)),
        }
    }
    // The same in words, with how sure it is.
    println!("\n{answer}");
    Ok(())
}

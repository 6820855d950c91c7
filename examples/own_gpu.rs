//! A GPU of one's own from a file: its rates, its memory, its price, and whose kernels stand in for its own.
//!
//! ```sh
//! cargo run --release --no-default-features --example own_gpu
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use servecast::load;

const SCENARIO: &str = r#"
name = "chat"

[workload]
num_requests = 500
arrivals = { type = "poisson", rate_per_s = 4.0 }
lengths = { type = "fixed", input_tokens = 900, output_tokens = 150 }

[cluster]
model = "Qwen/Qwen3-8B"
gpu = "L40S"
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chat = load::from_text(SCENARIO)?;
    // `--set cluster.gpu=examples/my-gpu.toml` of the command line, and `--gpu` of plans, take the same file.
    for gpu in ["L40S", "examples/my-gpu.toml"] {
        let run = chat.clone().with("cluster.gpu", gpu)?.run()?;
        let figures = run.figures();
        let of = |name: &str| figures.get(name).unwrap_or(f64::NAN);
        println!(
            "{}: mean TTFT {:.0} ms, mean TPOT {:.1} ms",
            run.scenario.first().gpu.name,
            of("mean_ttft_ms"),
            of("mean_tpot_ms")
        );
    }
    Ok(())
}

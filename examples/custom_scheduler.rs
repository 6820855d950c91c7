//! A scheduler of one's own beside vLLM's: everybody gets the same share of a step's token budget.
//!
//! ```sh
//! cargo run --release --no-default-features --example custom_scheduler
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::collections::VecDeque;

use servecast::cluster::Cluster;
use servecast::engine::Finish;
use servecast::engine::scheduler::{KvBlocks, NextStep, Scheduler, SchedulingPolicy};
use servecast::ids::RequestId;
use servecast::load;
use servecast::request::RequestView;
use servecast::study::Run;
use servecast::units::SimTime;

const SCENARIO: &str = r#"
name = "chat"

[workload]
num_requests = 1000
arrivals = { type = "poisson", rate_per_s = 5.0 }

[workload.lengths]
type = "sampled"
input_tokens = { type = "log_normal", median_tokens = 600.0, sigma = 1.2, max_tokens = 16000 }
output_tokens = { type = "uniform", min_tokens = 50, max_tokens = 250 }

[cluster]
model = "Qwen/Qwen3-8B"
gpu = "A100-SXM4-80GB"
"#;

/// Tokens of a step.
const BUDGET: u32 = 2048;

/// Answers go on; what is left of the budget is shared by all prompts, so that a short one does not wait for a
/// long one. Memory is not counted: this is what a server with room for everybody would do.
#[derive(Debug, Clone, Default)]
struct FairPrefill {
    requests: VecDeque<RequestId>,
}

impl SchedulingPolicy for FairPrefill {
    fn enqueue(&mut self, request: RequestView<'_>) -> Result<(), Finish> {
        self.requests.push_back(request.id);
        Ok(())
    }

    fn left(&mut self, id: RequestId) {
        self.requests.retain(|&other| other != id);
    }

    fn schedule(&mut self, _now: SimTime, step: &mut NextStep<'_>) {
        let (mut left, mut prompts) = (BUDGET, Vec::new());
        for &id in &self.requests {
            match step.uncomputed(id) {
                0 => {}
                1 if left > 0 => {
                    step.compute(id, 1);
                    left -= 1;
                }
                _ => prompts.push(id),
            }
        }
        for (place, &id) in prompts.iter().enumerate() {
            let share = left / (prompts.len() - place) as u32;
            let tokens = share.min(step.uncomputed(id));
            if tokens > 0 {
                step.compute(id, tokens);
                left -= tokens;
            }
        }
    }

    fn kv_blocks(&self) -> KvBlocks {
        KvBlocks::default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let case = load::from_text(SCENARIO)?.resolve()?.case()?;
    tell("vLLM", &case.run()?);
    let Cluster { instances, .. } = case.cluster()?;
    let instances = instances
        .into_iter()
        .map(|instance| instance.with_scheduler(|_| Scheduler::custom(FairPrefill::default())));
    let instances = instances.collect();
    tell("fair prefill", &case.run_on(Cluster { instances, ..case.cluster()? })?);
    Ok(())
}

fn tell(name: &str, run: &Run) {
    let figures = run.figures();
    let of = |name: &str| figures.get(name).unwrap_or(f64::NAN);
    println!(
        "{name}: median TTFT {:.0} ms, P99 TTFT {:.0} ms, P99 TPOT {:.1} ms",
        of("median_ttft_ms"),
        of("p99_ttft_ms"),
        of("p99_tpot_ms")
    );
}

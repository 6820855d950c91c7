//! A router of one's own beside the project's: long prompts have instances to themselves.
//!
//! ```sh
//! cargo run --release --no-default-features --example custom_router
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use servecast::cluster::{Cluster, ClusterView, Needs, Route, Router};
use servecast::ids::InstanceId;
use servecast::load;
use servecast::request::RequestView;
use servecast::rng::Seed;
use servecast::scenario::RouterConfig;
use servecast::study::Case;

const SCENARIO: &str = r#"
name = "short and long prompts"

[workload]
num_requests = 2000
arrivals = { type = "poisson", rate_per_s = 16.0 }

[workload.lengths]
type = "sampled"
input_tokens = { type = "log_normal", median_tokens = 600.0, sigma = 1.3, max_tokens = 16000 }
output_tokens = { type = "uniform", min_tokens = 50, max_tokens = 250 }

[cluster]
model = "Qwen/Qwen3-8B"
gpu = "A100-SXM4-80GB"
replicas = 4
"#;

/// Prompts from this length on are long.
const LONG_TOKENS: u32 = 4000;

/// Long prompts go to the last instance, short ones to the least busy of the others.
#[derive(Debug)]
struct LongAside;

impl Route for LongAside {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let last = InstanceId(view.instances - 1);
        if request.prompt_tokens >= LONG_TOKENS {
            return last;
        }
        view.least(|id| (id == last, view.outstanding[id.index()].requests))
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let case = load::from_text(SCENARIO)?.resolve()?.case()?;
    let least = RouterConfig::LeastOutstandingRequests {};
    run("least outstanding requests", &case, Router::new(&least, Seed(0)))?;
    run("long prompts aside", &case, Router::Custom(Box::new(LongAside)))
}

/// Simulates the scenario behind a router and prints the time to first token of short prompts.
fn run(name: &str, case: &Case, router: Router) -> Result<(), Box<dyn std::error::Error>> {
    // Gateway, faults, autoscaler and warm-up are those of the scenario: only the router is another.
    let run = case.run_on(Cluster { router, ..case.cluster()? })?;
    let short = run.recorder.requests.iter().filter(|record| record.prompt_tokens < LONG_TOKENS);
    let mut ttft_ms: Vec<f64> =
        short.map(|record| (record.first_token - record.sent).as_secs_f64() * 1e3).collect();
    ttft_ms.sort_by(f64::total_cmp);
    let at = |share: f64| ttft_ms[(share * (ttft_ms.len() - 1) as f64) as usize];
    println!("{name}: TTFT of short prompts, median {:.0} ms, P99 {:.0} ms", at(0.5), at(0.99));
    Ok(())
}

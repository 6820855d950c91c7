//! An autoscaler of one's own beside one that follows a signal: it orders replicas for the load of the moment at
//! which they will be there.
//!
//! ```sh
//! cargo run --release --no-default-features --example custom_autoscaler
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use servecast::cluster::{Cluster, Scale, ScaleView};
use servecast::load;
use servecast::study::Run;
use servecast::units::SimTime;

const SCENARIO: &str = r#"
name = "a day in ten minutes"

[workload]
duration_s = 600.0
arrivals = { type = "sine", rate_per_s = 30.0, amplitude = 0.85, period_s = 600.0 }

[workload.lengths]
type = "sampled"
input_tokens = { type = "log_normal", median_tokens = 800.0, sigma = 0.8, max_tokens = 6000 }
output_tokens = { type = "log_normal", median_tokens = 150.0, sigma = 0.6, max_tokens = 1000 }

[cluster]
model = "meta-llama/Llama-3.1-8B"
gpu = "A100-SXM4-80GB"
router = { type = "least_outstanding_requests" }

[cluster.autoscaler]
min_replicas = 2
max_replicas = 8
signal = { type = "outstanding_per_replica", target = 32.0 }
interval_s = 5.0
stabilisation_down_s = 60.0
provisioning_s = 20.0
weights_gib_per_s = 2.0
"#;

/// Requests of a replica.
const TARGET: f64 = 32.0;
/// How long a replica takes to start: its order, and 15 GiB at 2 GiB/s.
const AHEAD_S: f64 = 28.0;

/// The outstanding requests, led on by how fast they grew since the last look.
#[derive(Debug, Clone, Default)]
struct LeadOn {
    before: Option<(SimTime, f64)>,
}

impl Scale for LeadOn {
    fn decide(&mut self, view: ScaleView<'_>, now: SimTime) -> u32 {
        let outstanding: u32 = view.serving.iter().map(|report| report.outstanding).sum();
        let there = f64::from(outstanding);
        let growth_per_s =
            self.before.map_or(0.0, |(at, before)| (there - before) / (now - at).as_secs_f64());
        self.before = Some((now, there));
        ((there + growth_per_s.max(0.0) * AHEAD_S) / TARGET).ceil() as u32
    }

    fn fresh(&self) -> Box<dyn Scale> {
        Box::new(Self::default())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let case = load::from_text(SCENARIO)?.resolve()?.case()?;
    tell("by outstanding requests", &case.run()?);
    let rule: Box<dyn Scale> = Box::new(LeadOn::default());
    tell("led on", &case.run_on(Cluster { scale: Some(rule), ..case.cluster()? })?);
    Ok(())
}

fn tell(name: &str, run: &Run) {
    let figures = run.figures();
    let of = |name: &str| figures.get(name).unwrap_or(f64::NAN);
    println!("{name}: P99 TTFT {:.0} ms, {:.2} GPU-hours", of("p99_ttft_ms"), of("gpu_hours"));
}

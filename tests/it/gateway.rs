//! The waiting room of the gateway: who waits, who is sent first, who is turned away.

mod bounds;
mod refused;
mod room;

use servecast::ids::{InstanceId, RequestId};
use servecast::metrics::Recorder;
use servecast::resolved::Scenario;
use servecast::sim::{Counts, Observer, Occurrence, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use super::support::resolve;

/// Two replicas that decode a step in 10 ms and prefill 1,000 tokens in 10 ms.
pub(crate) fn scenario(workload: &str, gateway: &str) -> String {
    format!(
        "name = 'gateway'\n[workload]\n{workload}\n[cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         replicas = 2\nrouter = {{ type = 'least_outstanding_requests' }}\n[cluster.engine]\n\
         type = 'vllm_v1'\nnum_gpu_blocks = 20000\n[cluster.step_time]\ntype = 'linear'\n\
         base_us = 10000.0\nprefill_token_us = 10.0\ndecode_seq_us = 0.0\n{gateway}"
    )
}

pub(crate) fn run_with(text: &str, observer: &mut impl Observer) -> (Scenario, Counts) {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let costs = step_times(&scenario).expect("step times are known");
    let workload = Workload::open(&scenario.workload, scenario.seed, None);
    let run = simulation(&scenario, &costs, workload.expect("it opens")).expect("it can be built");
    let counts = run.run(observer).expect("no trace is read");
    (scenario, counts)
}

pub(crate) fn run(text: &str) -> (Counts, Recorder) {
    let mut recorder = Recorder::default();
    let (_, counts) = run_with(text, &mut recorder);
    (counts, recorder)
}

/// What the gateway did, in order.
#[derive(Debug, Default)]
pub(crate) struct Told(pub(crate) Vec<(SimTime, Doing)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Came(RequestId),
    Sent(RequestId, InstanceId),
    /// It left the gateway, or a replica.
    Left(RequestId),
}

impl Observer for Told {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        let doing = match what {
            Occurrence::Reached(id) => Doing::Came(id),
            Occurrence::Sent(id, instance) => Doing::Sent(id, instance),
            Occurrence::Refused(_, id) | Occurrence::GaveUp { request: id, .. } => Doing::Left(id),
            Occurrence::Left(_, life, _) => Doing::Left(life.id),
            _ => return,
        };
        self.0.push((at, doing));
    }
}

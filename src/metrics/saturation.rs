//! How near the requests of a run come to what its engines can serve.

use super::record::Status;
use super::recorder::Recorder;
use crate::cluster::{Cluster, Router};
use crate::cost::StepTime;
use crate::engine::scheduler::Load;
use crate::ids::ModelId;
use crate::request::Request;
use crate::resolved::{ReplicaGroup, Scenario};
use crate::scenario::RouterConfig;
use crate::sim::{Observer, Occurrence, Requests, Simulation, instance};
use crate::units::{SimDuration, SimTime};
use crate::workload::Client;

/// Requests in a row that are looked at.
const WINDOW: usize = 2000;
/// With fewer requests nothing can be said.
const FEWEST: usize = 16;

/// The requests of the busiest window of a run: of so many in a row, those with the most tokens in
/// the shortest time.
#[derive(Debug, Default)]
pub(super) struct Busiest {
    now: Vec<Request>,
    window: Vec<Request>,
}

/// Whether requests were ever left waiting after a step was decided, or held half of the KV memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Crowding(bool);

impl Crowding {
    /// Whether the engines were ever so full that the load may be near what they can serve: at
    /// their highest throughput they have all the requests that memory or seats allow.
    pub(super) fn is_crowded(self) -> bool {
        self.0
    }

    /// Adds what another saw.
    pub(super) fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn see(&mut self, load: Load) {
        self.0 |= load.waiting > 0 || 2 * load.kv_blocks_held() >= load.kv_blocks;
    }
}

impl Observer for Crowding {
    #[inline]
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Planned(_, _, load) => self.see(load),
            Occurrence::Quiet(_, run) => self.see(run.load),
            _ => {}
        }
    }
}

impl Busiest {
    /// The next request arrives.
    pub(super) fn add(&mut self, request: &Request) {
        self.now.push(request.clone());
        if self.now.len() == WINDOW {
            if tokens_per_s(&self.now) > tokens_per_s(&self.window) {
                std::mem::swap(&mut self.now, &mut self.window);
            }
            self.now.clear();
        }
    }

    /// The window; the whole run where that is shorter.
    fn requests(&self) -> &[Request] {
        if self.window.is_empty() { &self.now } else { &self.window }
    }

    /// Load over capacity: the time in which a replica serves the middle half of the window with
    /// all of it waiting, over the time in which that half arrived, shared by all replicas. Where there
    /// are several kinds, of that with the highest load if each replica gets as much as any other, else
    /// of all together. It is of one model and the replicas that serve it. Nothing where requests do
    /// not come by themselves (all at once, turns of conversations), or where some replicas prefill and
    /// others decode.
    pub(super) fn load(
        &self,
        scenario: &Scenario,
        costs: &[StepTime],
        model: ModelId,
    ) -> Option<f64> {
        let requests = self.requests();
        let is_open = scenario.workload.sessions.is_none() && !scenario.is_disaggregated();
        // The requests of a recording are known by their place in the run.
        if !is_open || scenario.accepted_drafts.is_some() || requests.len() < FEWEST {
            return None;
        }
        let middle = requests.len() / 4..requests.len() * 3 / 4;
        let came = requests[middle.end].arrival - requests[middle.start].arrival;
        if came == SimDuration::ZERO {
            return None;
        }
        let came = came.as_secs_f64();
        let serving = scenario.groups.iter().zip(costs).filter(|(group, _)| group.serves == model);
        let replicas: u32 = serving.clone().map(|(group, _)| group.replicas()).sum();
        let replicas = f64::from(replicas);
        let (mut rate, mut highest) = (0.0, 0.0_f64);
        for (group, cost) in serving {
            let finishes = finishes_with_all_waiting(scenario, group, cost, requests)?;
            let served = (finishes[middle.end] - finishes[middle.start]).as_secs_f64();
            rate += f64::from(group.replicas()) / served;
            highest = highest.max(served / came / replicas);
        }
        let is_even =
            matches!(scenario.router(), RouterConfig::RoundRobin {} | RouterConfig::Random {});
        Some(if is_even { highest } else { 1.0 / (came * rate) })
    }
}

fn tokens_per_s(requests: &[Request]) -> f64 {
    let (Some(first), Some(last)) = (requests.first(), requests.last()) else { return 0.0 };
    let tokens = |request: &Request| f64::from(request.prompt_tokens + request.output_tokens);
    requests.iter().map(tokens).sum::<f64>() / (last.arrival - first.arrival).as_secs_f64()
}

/// When one replica finishes its first, second, … request, all of them sent at once; nothing where
/// it does not finish all.
pub fn finishes_with_all_waiting(
    scenario: &Scenario,
    group: &ReplicaGroup,
    cost: &StepTime,
    requests: &[Request],
) -> Option<Vec<SimTime>> {
    let at_once = requests.iter().map(|request| Request {
        arrival: SimTime::ZERO,
        model: ModelId::default(),
        ..request.clone()
    });
    let client = Client::new(&scenario.workload.client);
    let alone = Router::new(&RouterConfig::default(), scenario.seed);
    let engines = Cluster::new(vec![instance(scenario, group, cost).ok()?], alone);
    let mut recorder = Recorder::default();
    Simulation::new(Requests(at_once), client, engines, SimDuration::ZERO)
        .run(&mut recorder)
        .ok()?;
    if recorder.requests.iter().any(|record| record.status != Status::Finished) {
        return None;
    }
    let mut finishes: Vec<SimTime> = recorder.requests.iter().map(|record| record.finish).collect();
    finishes.sort_unstable();
    Some(finishes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioFile;

    /// One request at a time, 100 steps of 1 ms each: ten a second.
    fn scenario(replicas: u32) -> Scenario {
        let text = format!(
            "name = 'x'\n[workload]\nnum_requests = 1\narrivals.type = 'all_at_once'\n\
             lengths = {{ type = 'fixed', input_tokens = 1, output_tokens = 1 }}\n[cluster]\n\
             model = 'Qwen/Qwen3-8B'\ngpu = 'H100'\nreplicas = {replicas}\n[cluster.engine]\n\
             type = 'vllm_v1'\nmax_num_seqs = 1\nasync_scheduling = false\n[cluster.step_time]\n\
             type = 'linear'\nbase_us = 1000.0\nprefill_token_us = 0.0\ndecode_seq_us = 0.0\n"
        );
        let file: ScenarioFile = toml::from_str(&text).unwrap();
        Scenario::resolve(file, None).unwrap()
    }

    fn load(replicas: u32, gaps_ms: impl Iterator<Item = u64>) -> Option<f64> {
        let mut busiest = Busiest::default();
        let mut at = SimTime::ZERO;
        for gap in gaps_ms {
            busiest.add(&Request::new(at, 8, 100));
            at += SimDuration::from_millis(gap);
        }
        let scenario = scenario(replicas);
        let costs = crate::sim::step_times(&scenario).unwrap();
        busiest.load(&scenario, &costs, ModelId::default())
    }

    #[test]
    fn the_load_is_the_rate_over_the_rate_of_service() {
        let near = |load: Option<f64>, expected: f64| {
            let load = load.expect("the run says it");
            assert!((load - expected).abs() < 1e-6, "{load} instead of {expected}");
        };
        // A request takes 100 ms.
        near(load(1, (0..100).map(|_| 125)), 0.8);
        near(load(1, (0..100).map(|_| 100)), 1.0);
        near(load(4, (0..100).map(|_| 20)), 1.25);
    }

    #[test]
    fn the_busiest_stretch_counts() {
        let gaps = (0..3 * WINDOW).map(|index| if index / WINDOW == 1 { 90 } else { 200 });
        let load = load(1, gaps).expect("the run says it");
        assert!((load - 100.0 / 90.0).abs() < 1e-6, "{load}");
    }

    #[test]
    fn nothing_is_said_of_requests_that_come_at_once() {
        assert_eq!(load(1, (0..100).map(|_| 0)), None);
    }
}

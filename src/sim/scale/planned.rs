//! What the loop does where one planner decides for all pools.

use super::pool::Scaling;
use crate::cluster::autoscaler::dynamo::{
    Capabilities, Counts, ForwardTimes, Mode, Pilot, Seen, capabilities, forward_pass_metrics,
};
use crate::cluster::{Role, Stage};
use crate::ids::InstanceId;
use crate::resolved::Scenario;
use crate::scenario::DynamoPlannerConfig;
use crate::sim::run::Simulation;
use crate::sim::source::Source;
use crate::units::{SimDuration, SimTime};

impl<W: Source> Simulation<W> {
    /// The same run, in which Dynamo's planner decides for the pools that there are. A rule of one's own goes before it.
    pub(in crate::sim) fn with_dynamo_planner(
        mut self,
        config: &DynamoPlannerConfig,
        scenario: &Scenario,
    ) -> Self {
        if self.cluster.scale.is_some() {
            return self;
        }
        let (mut prefill, mut decode) = (None, None);
        for (replicas, group, _) in scenario.scaled_groups() {
            let replica = &self.cluster.instances[replicas.start as usize];
            let gpus = group.cluster.gpus_per_replica();
            let of: Option<Capabilities> = capabilities(&group.settings, replica, gpus);
            match self.cluster.role(InstanceId(replicas.start)) {
                Role::Prefill => prefill = of,
                _ => decode = of,
            }
        }
        let decode = decode.expect("the planner knows the engine");
        let mode = prefill
            .map_or(Mode::Aggregated(decode), |prefill| Mode::Disaggregated { prefill, decode });
        let scaling = self.scaling.as_mut().expect("the planner has pools");
        scaling.pilot = Some(Box::new(Pilot::new(config, mode)));
        self.outcome.keeps_lives = true;
        self
    }

    /// A client sends a request with so many prompt tokens.
    pub(super) fn tell_planner(&mut self, prompt_tokens: u32) {
        if let Some(pilot) = self.scaling.as_mut().and_then(|scaling| scaling.pilot.as_mut()) {
            pilot.sent(prompt_tokens);
        }
    }

    /// The pools are told how many replicas there are to be, if this is a moment at which they look. Replicas that come up now
    /// count.
    pub(super) fn ask_planner(
        &mut self,
        now: SimTime,
        scaling: &mut Scaling,
        changed: &mut Vec<(InstanceId, Stage)>,
    ) {
        let looks = scaling.pools.iter().any(|pool| pool.autoscaler.looks(now));
        let Some(pilot) = scaling.pilot.as_mut().filter(|_| looks) else { return };
        for pool in &mut scaling.pools {
            let of_pool = changed.len();
            pool.autoscaler.advance(&mut self.cluster.wires, now, changed);
            for (place, _) in &mut changed[of_pool..] {
                place.0 += pool.replicas.start;
            }
        }
        let after = now + SimDuration::from_nanos(1);
        let (mut ready, mut is_scaling) = (Counts::default(), false);
        let (mut prefill, mut decode) = (Vec::new(), Vec::new());
        let instances = &self.cluster.instances;
        let (mut of_prefill, mut of_decode) = (None, None);
        for pool in &scaling.pools {
            let (count, metrics, first) = match pool.role {
                Role::Prefill => (&mut ready.prefill, &mut prefill, &mut of_prefill),
                _ => (&mut ready.decode, &mut decode, &mut of_decode),
            };
            *first = Some(&pool.fresh);
            for (id, stage) in pool.stages() {
                let is_ready = stage == Stage::Serving && !self.is_known_down(id);
                is_scaling |= !is_ready && stage != Stage::Off;
                if is_ready {
                    *count += 1;
                    metrics.extend(forward_pass_metrics(&instances[id.index()], after));
                }
            }
        }
        let decode_model = of_decode.expect("some replicas decode");
        let times =
            ForwardTimes { prefill: of_prefill.unwrap_or(decode_model), decode: decode_model };
        let seen = Seen { ready, is_scaling, prefill: &prefill, decode: &decode };
        let target = pilot.look(now, &seen, times);
        for pool in &mut scaling.pools {
            let replicas = target.map(|target| match pool.role {
                Role::Prefill => target.prefill,
                _ => target.decode,
            });
            pool.autoscaler.ask(replicas);
        }
    }
}

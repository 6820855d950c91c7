//! A scenario as it is written out, and what its replicas have in common.

use super::Scenario;
use crate::erased;
use crate::scenario::{
    DisaggregationConfig, GatewayConfig, KvTiersConfig, LoraConfig, RouterConfig, RouterTimeConfig,
    ScenarioFile, ServerHost,
};
use crate::units::SimDuration;

impl Scenario {
    /// The same in TOML: the content of `scenario.resolved.toml`.
    ///
    /// # Panics
    /// Never: what can be read can be written.
    pub fn text(&self) -> String {
        erased::text(&self.written()).expect("a scenario is TOML")
    }

    /// The scenario with every default filled in; reading it again gives the same run.
    pub fn written(&self) -> ScenarioFile {
        ScenarioFile {
            name: self.name.clone(),
            seed: self.seed,
            trace: self.trace.clone(),
            workload: self.workload.clone(),
            cluster: self.cluster.clone(),
            faults: self.faults.clone(),
            report: self.report.clone(),
            measured: self.measured.clone(),
        }
    }

    /// Takes other names for the files that it reads.
    pub(crate) fn rename_files(&mut self, written: ScenarioFile) {
        (self.trace, self.workload) = (written.trace, written.workload);
        self.cluster = written.cluster;
    }

    /// How many replicas there may be.
    pub fn replicas(&self) -> u32 {
        self.cluster.replicas
    }

    /// Whether it lists the kinds of its replicas.
    pub fn lists_groups(&self) -> bool {
        !self.cluster.groups.is_empty()
    }

    /// From the client to an engine's queue, and what the front end of a replica takes for each request, one after the
    /// other.
    pub fn api_delays(&self) -> [SimDuration; 2] {
        [self.cluster.api_delay_ms, self.cluster.api_per_request_ms]
            .map(|ms| SimDuration::from_secs_f64(ms / 1e3))
    }

    /// Which replica gets a request.
    pub fn router(&self) -> &RouterConfig {
        &self.cluster.router
    }

    /// What the process of the router takes, if it takes time.
    pub fn router_time(&self) -> Option<RouterTimeConfig> {
        self.cluster.router_time
    }

    /// How many requests replicas get at once, if that is limited.
    pub fn gateway(&self) -> Option<&GatewayConfig> {
        self.cluster.gateway.as_ref()
    }

    /// The client takes no time: a real one stands in its place.
    pub fn without_client(&mut self) {
        for group in &mut self.groups {
            if let Some(ServerHost::Measured(config)) = &mut group.cluster.host {
                config.client = false;
            }
        }
    }

    /// What is between replicas that prefill and replicas that decode.
    pub fn disaggregation(&self) -> Option<&DisaggregationConfig> {
        self.cluster.disaggregation.as_ref()
    }

    /// KV memory below that of the GPUs.
    pub fn kv_tiers(&self) -> Option<KvTiersConfig> {
        self.cluster.kv_tiers
    }

    /// Where adapters are, and whether requests move to them.
    pub fn lora(&self) -> Option<&LoraConfig> {
        self.cluster.lora.as_ref()
    }
}

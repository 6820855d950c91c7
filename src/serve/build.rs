//! What serves a scenario: the driver with its cluster, and what connections share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::app::{Adapters, App, Dialect, Served, unix_seconds};
use super::counters::Counters;
use super::driver::{Driver, Handle};
use super::kv_events::{Group, Telling, Told, bind};
use super::lengths::Lengths;
use super::ports::Chosen;
use super::prefixes::Prefixes;
use super::relay::Relay;
use super::remembered::{remembered, tier_tokens};
use super::trace::TraceLog;
use super::whose::Classes;
use super::words::Words;
use super::{KvEvents, KvEventsError, ServeError, Settings, sglang, vllm};
use crate::cluster::{Order, Role};
use crate::ids::{InstanceId, ModelId};
use crate::metrics::{Caution, Recorder};
use crate::resolved::Scenario;
use crate::scenario::EngineConfig;
use crate::sim::Live;
use crate::study::{Case, StudyError};

/// Tokens of a block of a trace at least: ids of single tokens would be as long as their texts.
const LEAST_BLOCK: u32 = 16;
/// Lengths of answers that are drawn from a workload.
const LENGTHS: usize = 1 << 16;

pub(super) fn driver(
    case: &Case,
    settings: &Settings,
    words: &Arc<Words>,
    runtime: &Runtime,
) -> Result<(Driver, Handle), ServeError> {
    let scenario = &case.scenario;
    let cluster = case.cluster()?;
    let (kinds, dialect) = (scenario.kinds(), dialect(scenario));
    let counters = scenario.instances().map(|id| {
        let group = &scenario.groups[kinds.of(id)];
        let buckets = match dialect {
            Dialect::Vllm => vllm::buckets(group.settings.max_model_len()),
            Dialect::Sglang => sglang::BUCKETS,
        };
        let is_part = scenario.is_disaggregated();
        Counters::new(dialect, &buckets, is_part || group.cluster.kv_tiers.is_some())
    });
    let mut relay = Relay::new(counters.collect());
    let mut recorder = if settings.keeps_records {
        Recorder::of(scenario)
    } else {
        Recorder::of_figures(scenario)
    };
    let mut caution = Caution::new(scenario, case.costs().to_vec());
    let mut live = {
        let mut heard = (&mut relay, (&mut recorder, &mut caution));
        Live::new(scenario, cluster, &mut heard).map_err(StudyError::Scenario)?
    };
    if live.order() == Some(Order::SourceFirst) {
        relay.end_with_prompts();
    }
    for id in scenario.instances().filter(|id| live.role(*id) == Role::Decode) {
        relay.receive_at(id);
    }
    let chosen =
        if settings.port_per_replica { Chosen::leading(&mut live) } else { Chosen::default() };
    if settings.port_per_replica && live.order() == Some(Order::SourceFirst) {
        relay.wait_between();
    }
    let drawn = case.workload()?.take(LENGTHS);
    let lengths = drawn.map(|request| request.map(|request| request.output_tokens));
    let lengths = lengths.collect::<Result<Vec<u32>, _>>().map_err(StudyError::Workload)?;
    let lengths = Lengths::new(lengths, settings.draws_lengths, scenario.seed);
    let kv: u64 = kv_tokens(scenario, &live).iter().sum();
    let cached = kv.saturating_add(tier_tokens(scenario));
    let (remembered, notice) = remembered(cached);
    if let Some(notice) = notice {
        (settings.hear)(&notice);
    }
    let prefixes = Prefixes::new(words.clone(), remembered);
    let names = scenario.workload.adapters.as_ref().map(|mix| mix.names().collect());
    let names: Vec<String> = names.unwrap_or_default();
    let kv_events = match &settings.kv_events {
        Some(config) => {
            let replicas = runtime.block_on(publishers(scenario, settings, config, &mut live))?;
            Some(Telling::new(words.clone(), names.clone(), replicas))
        }
        None => None,
    };
    let block = scenario.first().settings.block_size().max(LEAST_BLOCK);
    let log = |path: &PathBuf| {
        let classes = Classes::of(scenario).names();
        TraceLog::create(path, block, (names.clone(), classes), settings.hear)
    };
    let trace = settings.trace.as_ref().map(log).transpose()?;
    Ok(Driver::new(
        (scenario.clone(), live),
        (relay, recorder, caution),
        (prefixes, lengths, chosen),
        (trace, kv_events),
        settings.speed,
        settings.hear,
    ))
}

/// All replicas, told of where the settings say.
async fn publishers(
    scenario: &Scenario,
    settings: &Settings,
    config: &KvEvents,
    live: &mut Live,
) -> Result<Vec<Told>, KvEventsError> {
    if scenario.has_autoscaler() {
        let why = "cluster.autoscaler: replicas come and go, and ports stay";
        return Err(KvEventsError::NotTold(why));
    }
    if !live.tell_cache_events() {
        let why = "a replica keeps no prefixes, or cannot tell of them: caches of hybrid models, of data-parallel \
                   ranks and of drafts that read a token ahead are not told of";
        return Err(KvEventsError::NotTold(why));
    }
    let (mut at, mut again) = config.addresses(settings.address.ip())?;
    let kinds = scenario.kinds();
    let mut all = Vec::new();
    let mut addresses = Vec::new();
    for id in scenario.instances() {
        let (publisher, address) = bind(config, at, again).await?;
        addresses.push(format!("tcp://{address}"));
        let of = &scenario.groups[kinds.of(id)];
        let is_latent = of.model.is_latent();
        let group = (dialect(scenario) == Dialect::Vllm).then(|| Group::of(is_latent));
        all.push(Told { publisher, block_size: of.settings.block_size(), group });
        for address in [Some(&mut at), again.as_mut()].into_iter().flatten() {
            // Any free port is another one each time.
            if address.port() != 0 {
                address.set_port(address.port().checked_add(1).unwrap_or(0));
            }
        }
    }
    (settings.hear)(&format!("publishing KV-cache events at {}", addresses.join(", ")));
    Ok(all)
}

fn kv_tokens(scenario: &Scenario, live: &Live) -> Vec<u64> {
    let kinds = scenario.kinds();
    let each = (0..).map(InstanceId).zip(live.instances()).map(|(id, instance)| {
        let block = scenario.groups[kinds.of(id)].settings.block_size();
        u64::from(instance.scheduler().load().kv_blocks) * u64::from(block)
    });
    each.collect()
}

pub(super) fn dialect(scenario: &Scenario) -> Dialect {
    match scenario.first().cluster.engine {
        EngineConfig::Sglang(_) => Dialect::Sglang,
        _ => Dialect::Vllm,
    }
}

pub(super) fn app(
    scenario: &Scenario,
    settings: &Settings,
    (handle, words): (Handle, Arc<Words>),
    driver: &Driver,
) -> App {
    let models = (0..).map(ModelId).zip(&scenario.models).map(|(id, name)| {
        let of_model = scenario.groups.iter().filter(|group| group.serves == id);
        let longest = of_model.map(|group| group.settings.max_model_len()).min();
        Served { name: name.clone(), id, max_model_len: longest.unwrap_or(u32::MAX) }
    });
    let adapters = scenario.lora().and(scenario.workload.adapters.as_ref());
    let names: Vec<String> = adapters.map(|mix| mix.names().collect()).unwrap_or_default();
    let kinds = scenario.kinds();
    let replicas = driver.live().instances().len();
    let serves = (0..replicas as u32).map(|id| scenario.groups[kinds.of(InstanceId(id))].serves);
    let groups = scenario.instances().map(|id| &scenario.groups[kinds.of(id)]);
    let limits = settings.limits;
    // One body is never all that is being read.
    let bodies_bytes = limits.bodies_bytes.max(limits.body_bytes.saturating_mul(2));
    let bodies_bytes = bodies_bytes.min(Semaphore::MAX_PERMITS);
    App {
        handle,
        replica: None,
        template: None,
        led: None,
        lateness: Arc::default(),
        words,
        dialect: dialect(scenario),
        models: models.collect(),
        adapters: Adapters { loaded: Mutex::new((0..names.len() as u32).collect()), names },
        classes: Classes::of(scenario),
        limits: settings.limits,
        bodies: permits(bodies_bytes / 1024),
        told: permits(bodies_bytes / 1024),
        requests: permits(settings.limits.requests),
        prompts: permits(settings.limits.prompt_tokens),
        connections: permits(settings.limits.connections),
        api_key: settings.api_key.clone(),
        rids: Arc::default(),
        is_closing: Arc::default(),
        ids: Arc::default(),
        started: unix_seconds(),
        serves: serves.collect(),
        tensor_parallel: groups.map(|group| group.cluster.tensor_parallel_size).collect(),
        block_tokens: scenario.first().settings.block_size(),
        nics_bytes_per_s: scenario.nics_bytes_per_s().unwrap_or_else(|| vec![0.0; replicas]),
    }
}

/// So many at once, or all that can be counted.
fn permits(most: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}

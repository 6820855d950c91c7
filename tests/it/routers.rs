//! Routers in a whole run: laws on random scenarios, then what each is for.

use std::sync::Arc;
use std::sync::Mutex;

use proptest::prelude::*;

use servecast::cluster::{Cluster, ClusterView, Needs, Route, Router};
use servecast::cost::Linear;
use servecast::ids::{InstanceId, SessionId};
use servecast::metrics::Recorder;
use servecast::request::{Content, Request, RequestView, Segment};
use servecast::resolved::Scenario;
use servecast::rng::Seed;
use servecast::scenario::{
    AdapterAffinityConfig, AdapterKind, AdapterKnowledge, AdapterMix, AdapterPopularity,
    DloraDispatchConfig, DynamoConfig, DynamoQueueOrder, LatencyPredictingConfig,
    PrefixAwareConfig, PrefixExactConfig, RankAwareConfig, RankKernel, RouterConfig, ScenarioFile,
    VllmConfig, WeightedConfig,
};
use servecast::sim::{Observer, Occurrence, Simulation, cluster};
use servecast::units::{SimDuration, SimTime};
use servecast::workload::{Client, Workload};

use crate::laws::{laws, served};
use crate::support::{Digest, instance, law, micros, records, run_on, small_engine};

/// All routers of the project, with limits that small runs meet.
fn routers() -> Vec<RouterConfig> {
    let prefix_aware = PrefixAwareConfig {
        balance_abs_threshold: 2,
        max_tree_tokens: 200,
        ..PrefixAwareConfig::default()
    };
    let weighted = WeightedConfig { signal_interval_ms: 0.5, ..WeightedConfig::default() };
    vec![
        RouterConfig::RoundRobin {},
        RouterConfig::Random {},
        RouterConfig::LeastOutstandingRequests {},
        RouterConfig::LeastOutstandingTokens {},
        RouterConfig::PowerOfTwoChoices {},
        RouterConfig::SessionSticky {},
        RouterConfig::PrefixAware(prefix_aware),
        RouterConfig::PrefixExact(PrefixExactConfig::default()),
        RouterConfig::PrefixExact(PrefixExactConfig {
            overlap_score_weight: 2.0,
            event_interval_ms: 0.5,
        }),
        RouterConfig::LatencyPredicting(LatencyPredictingConfig {
            slo_ttft_ms: Some(5.0),
            signal_interval_ms: 0.5,
            ..LatencyPredictingConfig::default()
        }),
        RouterConfig::Weighted(weighted),
        RouterConfig::Weighted(WeightedConfig {
            running_requests_weight: 1.0,
            load_aware_weight: 1.0,
            active_request_weight: 1.0,
            token_load_weight: 2.0,
            no_hit_lru_weight: 1.0,
            lru_capacity_per_server: 20,
            ..weighted
        }),
        RouterConfig::AdapterAffinity(AdapterAffinityConfig::default()),
        RouterConfig::AdapterAffinity(AdapterAffinityConfig {
            knowledge: AdapterKnowledge::Sent { adapters: 1 },
            max_excess_requests: Some(1),
        }),
        RouterConfig::RankAware(RankAwareConfig {
            kernel: RankKernel::Triton,
            alpha_ms: Some(0.1),
            beta_ms: Some(2.0),
            signal_interval_ms: 0.5,
            ..RankAwareConfig::default()
        }),
        RouterConfig::DloraDispatch(DloraDispatchConfig { batch_size: 2, merged_cost: 0.6 }),
        RouterConfig::Dynamo(Box::default()),
        RouterConfig::Dynamo(Box::new(DynamoConfig {
            use_kv_events: false,
            router_ttl_secs: 0.2,
            router_temperature: 0.5,
            overlap_score_credit_decay: 0.5,
            ..DynamoConfig::default()
        })),
        RouterConfig::Dynamo(Box::new(DynamoConfig {
            router_predicted_ttl_secs: Some(0.1),
            router_queue_threshold: Some(0.5),
            router_queue_policy: DynamoQueueOrder::Wspt,
            session_affinity_ttl_secs: Some(1.0),
            kv_event_lag_ms: 3.0,
            kv_cache_block_size: Some(16),
            ..DynamoConfig::default()
        })),
    ]
}

fn behind(router: Router, replicas: u32, engine: &VllmConfig, law: Linear) -> Cluster {
    Cluster::new((0..replicas).map(|_| instance(engine, law)).collect(), router)
}

/// Counts what is outstanding from what observers hear, and holds every choice against it.
#[derive(Debug, Default)]
struct Outstanding {
    instance_of: Vec<InstanceId>,
    requests: Vec<u32>,
    is_never_more_than_the_fewest: bool,
}

impl Observer for Outstanding {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Sent(id, instance) => {
                assert_eq!(id.index(), self.instance_of.len(), "first come, first sent");
                self.instance_of.push(instance);
                let fewest = *self.requests.iter().min().expect("there is an instance");
                let here = &mut self.requests[instance.index()];
                self.is_never_more_than_the_fewest &= *here == fewest;
                *here += 1;
            }
            Occurrence::Left(instance, ..) | Occurrence::Refused(instance, _) => {
                self.requests[instance.index()] -= 1;
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(crate::support::random_cases(60))]

    #[test]
    fn no_router_loses_a_request_and_each_repeats_itself(
        (engine, requests) in served(), law in laws(), replicas in 1_u32..4, seed: u64,
    ) {
        for config in routers() {
            let run = || {
                let mut digest = Digest::default();
                let cluster = behind(Router::new(&config, Seed(seed)), replicas, &engine, law);
                (run_on(cluster, requests.iter().cloned(), &mut digest), digest)
            };
            let (counts, digest) = run();
            prop_assert_eq!(counts.arrived, requests.len() as u64);
            let gone = counts.finished + counts.rejected + counts.stuck;
            prop_assert_eq!(gone, counts.arrived, "{:?}", config);
            prop_assert_eq!(run(), (counts, digest), "{:?}", config);
        }
    }

    #[test]
    fn with_one_instance_all_routers_are_alike(
        (engine, requests) in served(), law in laws(), seed: u64,
    ) {
        let cluster = |config: &RouterConfig| behind(Router::new(config, Seed(seed)), 1, &engine, law);
        let digest = |config: &RouterConfig| {
            let mut digest = Digest::default();
            run_on(cluster(config), requests.iter().cloned(), &mut digest);
            digest
        };
        let record = |config: &RouterConfig| {
            let mut recorder = Recorder::default();
            run_on(cluster(config), requests.iter().cloned(), &mut recorder);
            recorder
        };
        let in_turn = RouterConfig::default();
        let (in_turn, records) = (digest(&in_turn), record(&in_turn));
        // One has requests wait while all instances are busy.
        let waits = |config: &RouterConfig| match config {
            RouterConfig::Dynamo(config) => config.holds_requests(),
            _ => false,
        };
        for config in routers().into_iter().filter(|config| !waits(config)) {
            // Who reads caches has steps that are alike told in more pieces, which a digest tells apart.
            if matches!(config, RouterConfig::Dynamo(_)) {
                let heard = record(&config);
                prop_assert_eq!(&heard.requests, &records.requests, "{:?}", config);
                prop_assert_eq!(&heard.replicas, &records.replicas, "{:?}", config);
                prop_assert_eq!(&heard.tokens_by_second, &records.tokens_by_second);
                prop_assert_eq!((heard.steps, heard.end), (records.steps, records.end));
            } else {
                prop_assert_eq!(digest(&config), in_turn, "{:?}", config);
            }
        }
    }

    /// Caches that are told of request by request, and those of engines that decode in lock step.
    #[test]
    fn dynamo_hears_the_same_of_requests_in_lock_step(
        (engine, requests) in served(), law in laws(), replicas in 2_u32..4, seed: u64,
        lag_ms in prop::sample::select(vec![0.0, 3.0]),
    ) {
        let config = DynamoConfig {
            kv_cache_block_size: Some(engine.block_size),
            kv_event_lag_ms: lag_ms,
            ..DynamoConfig::default()
        };
        let run = |is_grouped: bool| {
            let router = Router::new(&RouterConfig::Dynamo(Box::new(config.clone())), Seed(seed));
            let mut cluster = behind(router, replicas, &engine, law);
            if !is_grouped {
                cluster.instances.iter_mut().for_each(|instance| {
                    instance.tell_cache_events();
                });
            }
            let mut recorder = Recorder::default();
            run_on(cluster, requests.iter().cloned(), &mut recorder);
            recorder.requests
        };
        prop_assert_eq!(run(true), run(false));
    }

    #[test]
    fn the_fewest_outstanding_requests_are_those_that_observers_count(
        (engine, requests) in served(), law in laws(), replicas in 1_u32..5,
    ) {
        let router = Router::new(&RouterConfig::LeastOutstandingRequests {}, Seed(0));
        let mut observer = Outstanding {
            requests: vec![0; replicas as usize],
            is_never_more_than_the_fewest: true,
            ..Outstanding::default()
        };
        run_on(behind(router, replicas, &engine, law), requests, &mut observer);
        prop_assert!(observer.is_never_more_than_the_fewest);
    }
}

/// What a router was shown: how old reports were, and how many requests waited and ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    age: SimDuration,
    waiting: u32,
    running: u32,
    outstanding: u32,
}

/// Sends everything to the first instance and keeps what it was shown of it.
#[derive(Debug)]
struct Witness {
    interval: SimDuration,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Route for Witness {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        self.seen.lock().expect("nobody else holds it").push(Seen {
            age: view.signals_age,
            waiting: view.signals[0].waiting,
            running: view.signals[0].running,
            outstanding: view.outstanding[0].requests,
        });
        InstanceId(0)
    }

    fn needs(&self) -> Needs {
        Needs { signals: Some(self.interval), ..Needs::OUTSTANDING }
    }
}

fn seen(interval: SimDuration) -> Vec<Seen> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let router = Router::Custom(Box::new(Witness { interval, seen: Arc::clone(&seen) }));
    // A request every 400 µs; with 1 ms a step none finishes before the last one is sent.
    let requests = (0..8).map(|i| Request::new(SimTime::ZERO + micros(400 * i), 4, 50));
    run_on(behind(router, 2, &small_engine(), law(1000, 0, 0)), requests, &mut ());
    Arc::into_inner(seen).expect("the run is over").into_inner().expect("nobody else holds it")
}

#[test]
fn fresh_reports_are_those_of_the_moment() {
    let seen = seen(SimDuration::ZERO);
    assert!(seen.iter().all(|seen| seen.age == SimDuration::ZERO));
    // Nothing is on its way between router and engine, so engines report all that is outstanding,
    // up to the four that run at once.
    for (sent, seen) in seen.iter().enumerate() {
        assert_eq!(seen.outstanding, sent as u32);
        assert_eq!(seen.waiting + seen.running, seen.outstanding, "{seen:?}");
    }
}

#[test]
fn reports_grow_old_until_the_interval_is_over() {
    // Requests come at 0, 400, 800, … µs and reports are taken when the last are 1000 µs old or older:
    // at 0, 1200 and 2400.
    let seen = seen(micros(1000));
    let ages: Vec<u64> = seen.iter().map(|seen| seen.age.as_nanos() / 1000).collect();
    assert_eq!(ages, [0, 400, 800, 0, 400, 800, 0, 400]);
    let reported: Vec<u32> = seen.iter().map(|seen| seen.waiting + seen.running).collect();
    assert_eq!(reported, [0, 0, 0, 3, 3, 3, 6, 6]);
    let outstanding: Vec<u32> = seen.iter().map(|seen| seen.outstanding).collect();
    assert_eq!(outstanding, [0, 1, 2, 3, 4, 5, 6, 7], "the gateway's own counts are never old");
}

#[derive(Debug)]
struct Beyond;

impl Route for Beyond {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        InstanceId(view.instances)
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }
}

#[test]
#[should_panic(expected = "request 0 is sent to instance 2 of 2")]
fn an_instance_that_does_not_exist_is_a_panic() {
    let router = Router::Custom(Box::new(Beyond));
    let requests = [Request::new(SimTime::ZERO, 1, 1)];
    run_on(behind(router, 2, &small_engine(), law(1, 0, 0)), requests, &mut ());
}

/// The share of prompt tokens found in caches.
fn cached_share(router: &RouterConfig, requests: &[Request]) -> f64 {
    let engine = VllmConfig { num_gpu_blocks: Some(401), ..small_engine() };
    let cluster = behind(Router::new(router, Seed(1)), 4, &engine, law(1000, 10, 10));
    let (counts, recorder) = records(cluster, requests);
    assert_eq!(counts.finished, requests.len() as u64);
    let cached: u32 = recorder.requests.iter().map(|record| record.cached_tokens).sum();
    let prompts: u32 = requests.iter().map(|request| request.prompt_tokens).sum();
    f64::from(cached) / f64::from(prompts)
}

#[test]
fn prefixes_that_are_shared_are_found_more_often_where_they_are_looked_for() {
    // 23 beginnings of 60 tokens, each used ten times, with 12 tokens of one's own. In turn on four
    // instances a beginning is new four times, and else once: of 72 tokens 60 are then found in at
    // most 6 of 10 requests, or 9 of 10.
    let requests: Vec<Request> = (0..230_u64)
        .map(|index| {
            let runs = [(index % 23, 60), (1000 + index, 12)];
            let segments = runs.map(|(stream, len)| Segment { stream, start: 0, len });
            let content = Content { salt: 0, segments: Some(segments.into()) };
            let arrival = SimTime::ZERO + micros(3000 * index);
            Request { content, ..Request::new(arrival, 72, 4) }
        })
        .collect();
    let in_turn = cached_share(&RouterConfig::default(), &requests);
    let prefix_aware = RouterConfig::PrefixAware(PrefixAwareConfig::default());
    let weighted = RouterConfig::Weighted(WeightedConfig::default());
    let whole = 60.0 / 72.0;
    assert!(in_turn <= 0.6 * whole, "{in_turn}");
    for router in [prefix_aware, weighted] {
        let share = cached_share(&router, &requests);
        assert!(share > 0.85 * whole && share <= 0.9 * whole, "{router:?}: {share}");
    }
}

const SESSIONS: &str = "name = 'conversations'\n[cluster]\nmodel = 'Qwen/Qwen3-8B'\n\
    gpu = 'A100-SXM4-80GB'\nreplicas = 3\nrouter = { type = 'ROUTER' }\n[workload]\n\
    num_requests = 60\narrivals = { type = 'poisson', rate_per_s = 2.0 }\n\
    lengths = { type = 'fixed', input_tokens = 600, output_tokens = 60 }\n\
    [workload.sessions]\nturns_min = 2\nturns_max = 6\n\
    message_tokens = { type = 'uniform', min_tokens = 20, max_tokens = 200 }\n\
    output_tokens = { type = 'uniform', min_tokens = 20, max_tokens = 100 }\n\
    think_time = { type = 'exponential', mean_s = 5.0 }\n";

fn resolve(text: &str) -> Result<Scenario, String> {
    let file: ScenarioFile = toml::from_str(text).map_err(|error| error.to_string())?;
    Scenario::resolve(file, None).map_err(|error| error.to_string())
}

/// Which instance each turn of each session went to.
#[derive(Debug, Default)]
struct Turns {
    session_of: Vec<Option<SessionId>>,
    went: Vec<(SessionId, InstanceId)>,
}

impl Observer for Turns {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Arrived(_, request) => self.session_of.push(request.session),
            Occurrence::Sent(id, instance) => {
                let session = self.session_of[id.index()].expect("all are turns");
                self.went.push((session, instance));
            }
            _ => {}
        }
    }
}

/// Turns that went to another instance than the one before, of all that had one before; and the
/// share of prompt tokens that was cached.
fn moved(router: &str) -> (usize, usize, f64) {
    let scenario = resolve(&SESSIONS.replace("ROUTER", router)).expect("it holds together");
    let workload = Workload::open(&scenario.workload, scenario.seed, None);
    let cluster = cluster(&scenario).expect("step times are known");
    let client = Client::new(&scenario.workload.client);
    let mut observers = (Turns::default(), Recorder::default());
    Simulation::new(workload.expect("it opens"), client, cluster, SimDuration::ZERO)
        .run(&mut observers)
        .expect("it runs");
    let (Turns { mut went, .. }, recorder) = observers;
    went.sort_by_key(|&(session, _)| session);
    let turns = || went.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    let sum = |count: fn(&servecast::metrics::RequestRecord) -> u32| {
        recorder.requests.iter().map(|record| u64::from(count(record))).sum::<u64>() as f64
    };
    let cached = sum(|record| record.cached_tokens) / sum(|record| record.prompt_tokens);
    (turns().filter(|pair| pair[0].1 != pair[1].1).count(), turns().count(), cached)
}

#[test]
fn a_sticky_session_never_moves_and_finds_its_history() {
    let (sticky, turns, cached) = moved("session_sticky");
    assert!(turns > 100);
    assert_eq!(sticky, 0);
    let (in_turn, _, cached_in_turn) = moved("round_robin");
    assert!(in_turn > turns / 2);
    assert!(cached > cached_in_turn, "{cached} {cached_in_turn}");
}

#[test]
fn a_router_changes_nothing_about_the_requests() {
    let arrivals = |router: &str| {
        let scenario = resolve(&SESSIONS.replace("ROUTER", router)).expect("it holds together");
        let workload = Workload::open(&scenario.workload, scenario.seed, None);
        workload.expect("it opens").map(|request| request.expect("it is drawn")).collect::<Vec<_>>()
    };
    assert_eq!(arrivals("random"), arrivals("round_robin"));
}

#[test]
fn settings_of_routers_that_make_no_sense_are_refused() {
    let refused = |router: &str| {
        resolve(&SESSIONS.replace("{ type = 'ROUTER' }", router)).expect_err("it is refused")
    };
    for (router, message) in [
        (
            "{ type = 'prefix_aware', cache_threshold = 1.5 }",
            "cluster.router.cache_threshold: must be from 0 to 1, got 1.5",
        ),
        (
            "{ type = 'prefix_aware', cache_threshold = nan }",
            "cluster.router.cache_threshold: must be from 0 to 1, got NaN",
        ),
        (
            "{ type = 'prefix_aware', balance_rel_threshold = 0.5 }",
            "cluster.router.balance_rel_threshold: must be a finite number of at least 1, got 0.5",
        ),
        (
            "{ type = 'prefix_aware', max_tree_tokens = 0 }",
            "cluster.router.max_tree_tokens: must be from 1 to 1073741824, got 0",
        ),
        (
            "{ type = 'weighted', lru_capacity_per_server = 0 }",
            "cluster.router.lru_capacity_per_server: must be from 1 to 67108864, got 0",
        ),
        (
            "{ type = 'weighted', signal_interval_ms = -1.0 }",
            "cluster.router.signal_interval_ms: must be a time from 0 to 10⁹ seconds, got -1",
        ),
        (
            "{ type = 'weighted', prefix_weight = -3.0 }",
            "cluster.router.prefix_weight: must be a finite number of at least 0, got -3",
        ),
        (
            "{ type = 'weighted', queue_weight = 0.0, kv_utilization_weight = 0.0, prefix_weight = 0.0 }",
            "cluster.router: one weight must be above 0, all are 0",
        ),
    ] {
        assert_eq!(refused(router), message);
    }
    assert!(refused("{ type = 'fastest' }").contains("unknown variant `fastest`"));
    let ignored = refused("{ type = 'random', signal_interval_ms = 5.0 }");
    assert!(ignored.contains("unknown field `signal_interval_ms`"), "{ignored}");
    assert!(refused("{ type = 'prefix_aware', threshold = 0.5 }").contains("unknown field"));
    assert!(refused("{ type = 'prefix_aware', balance_abs_threshold = -1 }").contains("-1"));
}

#[test]
fn every_router_resolves_to_itself() {
    for router in routers() {
        let mut file: ScenarioFile =
            toml::from_str(&SESSIONS.replace("ROUTER", "random")).expect("it is TOML");
        file.cluster.router = router.clone();
        file.workload.adapters = Some(AdapterMix {
            kinds: vec![AdapterKind::of_rank(8)],
            popularity: AdapterPopularity::default(),
            drift: None,
        });
        let scenario = Scenario::resolve(file, None).expect("it holds together");
        let text = toml::to_string(&scenario.written()).expect("it is written");
        let again: ScenarioFile = toml::from_str(&text).expect("it is read");
        let mut settled = router.clone();
        if let RouterConfig::Dynamo(config) = &mut settled {
            config.kv_cache_block_size = Some(16);
        }
        assert_eq!(again.cluster.router, settled);
    }
}

/// Prompt tokens found in caches, of three runs with other arrivals: 48 beginnings of 1,536 tokens, of which four
/// replicas keep less than half beside what runs.
fn found(router: &str) -> u64 {
    let of_seed = |seed: u32| {
        let text = format!(
            "name = 'evictions'\nseed = {seed}\n[workload]\n\
             arrivals = {{ type = 'poisson', rate_per_s = 8.0 }}\n\
             lengths = {{ type = 'generated_shared_prefix', groups = 48, prompts_per_group = 12, \
             system_prompt_tokens = 1536, question_tokens = 256, output_tokens = 64 }}\n\
             [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'A100-SXM4-80GB'\nreplicas = 4\n\
             engine = {{ type = 'vllm_v1', num_gpu_blocks = 900, max_model_len = 4096 }}\n\
             router = {{ {router} }}\n"
        );
        let scenario = crate::support::resolve(&text).expect("it holds together");
        let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
        let cluster = cluster(&scenario).expect("step times are known");
        let client = Client::new(&scenario.workload.client);
        let mut recorder = Recorder::default();
        let run = Simulation::new(workload, client, cluster, SimDuration::ZERO);
        run.run(&mut recorder).expect("no trace is read");
        recorder.requests.iter().map(|record| u64::from(record.cached_tokens)).sum::<u64>()
    };
    (0..3).map(of_seed).sum()
}

#[test]
fn who_knows_what_caches_hold_finds_more_in_them_than_who_remembers_what_was_sent() {
    let exact = found("type = 'prefix_exact', overlap_score_weight = 16.0");
    let late = found("type = 'prefix_exact', overlap_score_weight = 16.0, event_interval_ms = 1e3");
    let blind = found("type = 'prefix_exact', overlap_score_weight = 0.0");
    let remembered = found("type = 'prefix_aware'");
    let dynamo = found("dynamo = {}");
    let dynamo_late = found("dynamo = { kv_event_lag_ms = 3e3 }");
    let guessed = found("dynamo = { use_kv_events = false }");
    let by_load = found("dynamo = { overlap_score_credit = 0.0 }");
    println!("dynamo {dynamo}, late {dynamo_late}, guessed {guessed}, by load {by_load}");
    assert!(dynamo > dynamo_late && dynamo_late > by_load, "{dynamo}, {dynamo_late}, {by_load}");
    assert!(guessed > by_load, "{guessed}, {by_load}");
    println!("exact {exact}, a second old {late}, remembered {remembered}, blind {blind}");
    assert!(exact > remembered, "{exact} tokens found, {remembered} by what was sent");
    assert!(exact > late && late > blind, "{exact}, a second old {late}, blind {blind}");
}

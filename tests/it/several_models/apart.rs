//! Models that share nothing but a gateway fare as if each had a cluster of its own.

use proptest::prelude::*;
use servecast::cluster::{Cluster, Router};
use servecast::ids::{ClassId, InstanceId, ModelId};
use servecast::metrics::{Recorder, RequestRecord, Status};
use servecast::request::Request;
use servecast::rng::Seed;
use servecast::scenario::{RouterConfig, VllmConfig};

use super::{CLASSES, CLUSTER, LARGE_GROUP, SMALL_GROUP, WORKLOAD, requests, run};
use crate::laws::{laws, served};
use crate::support::{self, Digest, instance, resolve, run_on};

/// Routers that draw nothing.
const ROUTERS: [&str; 7] = [
    "round_robin",
    "least_outstanding_requests",
    "least_outstanding_tokens",
    "session_sticky",
    "prefix_aware",
    "prefix_exact",
    "latency_predicting",
];

/// The records of requests for a model, as a cluster would write them that has its replicas only.
fn of_model(
    (sent, recorder): (&[Request], &Recorder),
    model: ModelId,
    numbers: impl Fn(InstanceId) -> InstanceId,
) -> Vec<RequestRecord> {
    let all = sent.iter().zip(&recorder.requests);
    let own = all.filter(|(request, _)| request.model == model).map(|(_, record)| record);
    let alone = |record: &RequestRecord| RequestRecord {
        instance: numbers(record.instance),
        class: ClassId(0),
        ..*record
    };
    own.map(alone).collect()
}

/// The requests for a model, as a workload would send them that has no others.
fn asking_for(sent: &[Request], model: ModelId) -> Vec<Request> {
    let own = sent.iter().filter(|request| request.model == model);
    let alone = |it: &Request| Request { model: ModelId(0), class: ClassId(0), ..it.clone() };
    own.map(alone).collect()
}

fn group(replicas: u32, more: &str) -> String {
    format!("[[cluster.groups]]\nreplicas = {replicas}\n{more}\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_fares_as_in_a_cluster_of_its_own(
        seed in 0_u64..1000,
        router in prop::sample::select(ROUTERS.to_vec()),
        large in 1_u32..4,
        small in 1_u32..4,
        limit in prop::option::of(1_u32..6),
        is_sglang: bool,
    ) {
        let gateway = limit.map_or_else(String::new, |limit| {
            format!("gateway = {{ max_outstanding_per_replica = {limit} }}\n")
        });
        let engine = if is_sglang { "engine = { type = 'sglang' }" } else { "" };
        let small_model = format!("model = 'meta-llama/Llama-3.1-8B'\ntensor_parallel_size = 1\n{engine}");
        let cluster = format!("{CLUSTER}router = {{ type = '{router}' }}\n{gateway}");
        let head = format!("seed = {seed}\n{WORKLOAD}");
        let groups = group(small, &small_model) + &group(large, "");
        let together = resolve(&format!("{head}{CLASSES}{cluster}{groups}")).expect("it holds");
        let sent = requests(&together);
        let (counts, recorder) = run(&together, sent.clone());
        prop_assert_eq!((counts.arrived, counts.finished), (80, 80));
        for (place, record) in recorder.requests.iter().enumerate() {
            let parts = recorder.breakdown_of(place).expect("it is answered");
            prop_assert_eq!(parts.total(), record.e2e());
        }

        let alone = resolve(&format!("{head}{cluster}{}", group(large, ""))).expect("it holds");
        let (_, of_large) = run(&alone, asking_for(&sent, ModelId(0)));
        let numbers = |id: InstanceId| InstanceId(id.0 - small);
        prop_assert_eq!(of_model((&sent, &recorder), ModelId(0), numbers), of_large.requests);

        let cluster = cluster.replace("70B", "8B");
        let alone = resolve(&format!("{head}{cluster}{}", group(small, &small_model))).expect("it holds");
        let (_, of_small) = run(&alone, asking_for(&sent, ModelId(1)));
        prop_assert_eq!(of_model((&sent, &recorder), ModelId(1), |id| id), of_small.requests);
    }

    #[test]
    fn each_fares_as_alone_where_prefill_and_decode_are_apart(
        seed in 0_u64..1000,
        router in prop::sample::select(ROUTERS[..6].to_vec()),
        prefills in 1_u32..3,
        decodes in 1_u32..3,
        small_prefills in 1_u32..3,
        small_decodes in 1_u32..3,
        is_small_mixed: bool,
    ) {
        let small_model = "model = 'meta-llama/Llama-3.1-8B'\ntensor_parallel_size = 1\n";
        let role = |role: &str, more: &str| format!("role = '{role}'\n{more}");
        let large = group(prefills, &role("prefill", "")) + &group(decodes, &role("decode", ""));
        let small = if is_small_mixed {
            group(small_prefills, small_model)
        } else {
            group(small_decodes, &role("decode", small_model))
                + &group(small_prefills, &role("prefill", small_model))
        };
        let disaggregation = "disaggregation = { transfer = { nic_gb_per_s = 50.0 } }\n";
        let cluster = format!("{CLUSTER}router = {{ type = '{router}' }}\n{disaggregation}");
        let head = format!("seed = {seed}\n{WORKLOAD}");
        let together = format!("{head}{CLASSES}{cluster}{large}{small}");
        let together = resolve(&together).expect("it holds");
        let sent = requests(&together);
        let (counts, recorder) = run(&together, sent.clone());
        prop_assert_eq!((counts.arrived, counts.finished), (80, 80));
        for (place, record) in recorder.requests.iter().enumerate() {
            let parts = recorder.breakdown_of(place).expect("it is answered");
            prop_assert_eq!(parts.total(), record.e2e());
        }

        let alone = resolve(&format!("{head}{cluster}{large}")).expect("it holds");
        let (_, of_large) = run(&alone, asking_for(&sent, ModelId(0)));
        let entrances = prefills + small_prefills;
        let mixed = if is_small_mixed { small_prefills } else { 0 };
        let numbers = |id: InstanceId| {
            InstanceId(if id.0 < entrances { id.0 - mixed } else { id.0 - small_prefills })
        };
        prop_assert_eq!(of_model((&sent, &recorder), ModelId(0), numbers), of_large.requests);

        let cluster = cluster.replace("70B", "8B");
        let cluster = if is_small_mixed { cluster.replace(disaggregation, "") } else { cluster };
        let alone = resolve(&format!("{head}{cluster}{small}")).expect("it holds");
        let (_, of_small) = run(&alone, asking_for(&sent, ModelId(1)));
        let numbers = |id: InstanceId| InstanceId(match id.0 {
            id if is_small_mixed => id,
            id if id < entrances => id - prefills,
            id => id - prefills - decodes,
        });
        prop_assert_eq!(of_model((&sent, &recorder), ModelId(1), numbers), of_small.requests);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_engines_of_two_models_fare_as_apart(
        first in served(),
        second in served(),
        first_law in laws(),
        second_law in laws(),
        replicas in (1_u32..3, 1_u32..3),
    ) {
        // Which drafts are accepted is drawn by the numbers of requests.
        let plain = |engine: &VllmConfig| VllmConfig { speculation: None, ..engine.clone() };
        let engines = [plain(&first.0), plain(&second.0)];
        let clusters = || {
            [(&engines[0], first_law, replicas.0), (&engines[1], second_law, replicas.1)]
        };
        let together = || {
            let instances = clusters().into_iter().flat_map(|(engine, law, count)| {
                (0..count).map(move |_| instance(engine, law))
            });
            let router = Router::per_model(2, Seed(0), |seed| {
                Router::new(&RouterConfig::LeastOutstandingRequests {}, seed)
            });
            let ends = [replicas.0, replicas.0 + replicas.1];
            let models = vec![0..ends[0], ends[0]..ends[1]];
            Cluster { models, ..Cluster::new(instances.collect(), router) }
        };
        let mut sent: Vec<Request> = first.1.clone();
        sent.extend(second.1.iter().map(|it| Request { model: ModelId(1), ..it.clone() }));
        sent.sort_by_key(|request| request.arrival);
        let mut observer = (Recorder::default(), Digest::default());
        let counts = run_on(together(), sent.iter().cloned(), &mut observer);
        let (recorder, digest) = observer;
        prop_assert_eq!(counts.arrived, sent.len() as u64);
        prop_assert_eq!(counts.arrived, counts.finished + counts.rejected + counts.stuck);
        let mut again = Digest::default();
        run_on(together(), sent.iter().cloned(), &mut again);
        prop_assert_eq!(again, digest);

        for (place, (engine, law, count)) in (0_u16..).zip(clusters()) {
            let model = ModelId(place);
            let engines = (0..count).map(|_| instance(engine, law)).collect();
            let router = Router::new(&RouterConfig::LeastOutstandingRequests {}, Seed(0));
            let alone = Cluster::new(engines, router);
            let (_, alone) = support::records(alone, &asking_for(&sent, model));
            let offset = if place == 0 { 0 } else { replicas.0 };
            let numbers = |id: InstanceId| InstanceId(id.0.saturating_sub(offset));
            prop_assert_eq!(of_model((&sent, &recorder), model, numbers), alone.requests);
        }
    }
}

#[test]
fn requests_go_to_replicas_of_their_model_only() {
    let routers = ["random", "power_of_two_choices", "round_robin"];
    for router in routers {
        let text = format!(
            "{WORKLOAD}{CLASSES}{CLUSTER}router = {{ type = '{router}' }}\n{LARGE_GROUP}{SMALL_GROUP}"
        );
        let scenario = resolve(&text).expect("it holds");
        let sent = requests(&scenario);
        let (_, recorder) = run(&scenario, sent.clone());
        let mut reached = [[0; 5]; 2];
        for (request, record) in sent.iter().zip(&recorder.requests) {
            reached[request.model.index()][record.instance.index()] += 1;
        }
        let [large, small] = reached;
        assert!(large[..2].iter().all(|count| *count > 0) && large[2..] == [0; 3], "{large:?}");
        assert!(small[2..].iter().all(|count| *count > 0) && small[..2] == [0; 2], "{small:?}");
    }
}

#[test]
fn a_model_whose_replica_crashes_disturbs_no_other() {
    let text = format!("{WORKLOAD}{CLASSES}{CLUSTER}{LARGE_GROUP}{SMALL_GROUP}");
    let crashes = "[[faults]]\ntype = 'crash'\nreplica = 0\nat_s = 0.4\ndown_s = 5.0\n\
                   [[faults]]\ntype = 'crash'\nreplica = 1\nat_s = 0.6\ndown_s = 5.0\n";
    let healthy = resolve(&text).expect("it holds");
    let faulty = resolve(&format!("{text}{crashes}")).expect("it holds");
    let sent = requests(&healthy);
    let (_, all_well) = run(&healthy, sent.clone());
    let (counts, crashed) = run(&faulty, sent.clone());
    assert!(counts.failed > 0, "{counts:?}");
    let of = |recorder, model| of_model((&sent, recorder), ModelId(model), |id| id);
    assert_eq!(of(&crashed, 1), of(&all_well, 1));
    assert!(of(&crashed, 0).iter().any(|record| record.status != Status::Finished));
}

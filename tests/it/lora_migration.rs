//! Requests and adapters that move between replicas, in whole runs.

use proptest::prelude::*;
use servecast::engine::Instance;
use servecast::engine::scheduler::{Admit, Doorkeeper, Held, Load};
use servecast::metrics::{AdaptersReport, Recorder, Status};
use servecast::resolved::Scenario;
use servecast::sim::{Counts, cluster, simulation, simulation_on, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use super::support::{Digest, random_cases, resolve};

/// Four adapters on three replicas; most requests ask for the first, which only replica 0 holds.
fn scenario(migration: &str, more: &str) -> String {
    format!(
        "name = 'moves'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         replicas = 3\nrouter = {{ type = 'dlora_dispatch' }}\nstep_time = {{ type = 'roofline' }}\n\
         api_delay_ms = 2.0\n\
         engine = {{ type = 'vllm_v1', max_loras = 2, max_num_seqs = 16 {more} }}\n\
         [cluster.lora]\nmax_host_adapters = 4\n\
         placement = {{ type = 'static', holders = [[0], [1], [2], [1, 2]] }}\n{migration}\n\
         [workload]\nnum_requests = 300\n\
         arrivals = {{ type = 'poisson', rate_per_s = 48.0 }}\n\
         lengths = {{ type = 'sampled', \
         input_tokens = {{ type = 'log_normal', median_tokens = 120, sigma = 0.8, max_tokens = 1500 }}, \
         output_tokens = {{ type = 'log_normal', median_tokens = 100, sigma = 0.7, max_tokens = 800 }} }}\n\
         [workload.adapters]\nkinds = [{{ count = 1, rank = 16, weight = 8.0 }}, \
         {{ count = 3, rank = 16 }}]\npopularity = {{ type = 'weights' }}\n"
    )
}

fn periodic(more: &str) -> String {
    format!(
        "migration = {{ policy = 'periodic', interval_s = 3.0, request_threshold = 4.0, {more} }}"
    )
}

fn resolved(text: &str) -> Scenario {
    resolve(text).expect("the scenario holds together")
}

fn run(scenario: &Scenario) -> (Recorder, Counts, Digest) {
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(scenario).expect("step times are known");
    let run = simulation(scenario, &costs, workload).expect("nothing is recorded");
    let mut observers = (Recorder::of(scenario), Digest::default());
    let counts = run.run(&mut observers).expect("no trace is read");
    (observers.0, counts, observers.1)
}

fn mean_e2e_s(recorder: &Recorder) -> f64 {
    let sum: f64 = recorder.requests.iter().map(|record| record.e2e().as_secs_f64()).sum();
    sum / recorder.requests.len() as f64
}

const SOLVERS: &[&str] = if cfg!(feature = "ilp") { &["ilp", "greedy"] } else { &["greedy"] };

proptest! {
    #![proptest_config(random_cases(24))]

    #[test]
    fn a_request_that_moves_is_one_request_and_its_tokens_come_out_once(
        seed: u32, solver in prop::sample::select(SOLVERS.to_vec()),
        moves in prop::sample::select(vec!["all", "waiting"]),
        is_async: bool, blocks in prop::sample::select(vec![130, 400, 4000]), solve_ms in 0_u32..700,
        interval_ms in 200_u32..3000,
    ) {
        let settings = format!(
            "migration = {{ policy = 'periodic', interval_s = {}, request_threshold = 1.0, \
             solver = '{solver}', moves = '{moves}', solve_ms = {solve_ms}.0 }}",
            f64::from(interval_ms) / 1e3
        );
        let engine =
            format!(", async_scheduling = {is_async}, num_gpu_blocks = {blocks}, max_model_len = 2048");
        // Debug runs watch L1 to L4 and L10 as they go.
        let text = format!("seed = {seed}\n{}", scenario(&settings, &engine));
        let scenario = resolved(&text);
        let (recorder, counts, digest) = run(&scenario);
        prop_assert_eq!((counts.arrived, counts.finished), (300, 300));
        for (place, record) in recorder.requests.iter().enumerate() {
            prop_assert_eq!(record.status, Status::Finished);
            prop_assert_eq!(recorder.breakdown_of(place).expect("it left").total(), record.e2e());
        }
        let tokens: u64 = recorder.requests.iter().map(|record| u64::from(record.output_tokens)).sum();
        let gaps: u64 = recorder.gaps.sample().pairs().map(|(_, count)| count).sum();
        prop_assert_eq!(tokens, gaps + 300);
        let again = run(&scenario);
        prop_assert_eq!((again.1, again.2), (counts, digest), "it repeats itself");
        let figures = recorder.migrations.figures();
        prop_assert!(moves == "all" || figures.moved_while_decoding == 0);
        prop_assert!(figures.moved_while_decoding <= figures.moved_requests);
    }
}

/// A request may still be in a step of the replica that it left when the other one admits it: the end of
/// that step says nothing of whether it has caught up.
#[test]
fn the_time_of_a_request_adds_up_where_it_leaves_a_step_in_flight() {
    let settings = "migration = { policy = 'periodic', interval_s = 1.601, request_threshold = 1.0, \
                    solver = 'greedy', solve_ms = 132.0 }";
    let engine = ", async_scheduling = true, num_gpu_blocks = 130, max_model_len = 2048";
    let scenario = resolved(&format!("seed = 875495442\n{}", scenario(settings, engine)));
    let (recorder, ..) = run(&scenario);
    assert!(recorder.migrations.figures().moved_while_decoding > 0);
    for (place, record) in recorder.requests.iter().enumerate() {
        assert_eq!(recorder.breakdown_of(place).expect("it left").total(), record.e2e());
    }
}

#[test]
fn a_replica_with_too_much_to_do_gives_some_of_it_to_others() {
    let [stays, dispatch_only] = ["", "migration = { policy = 'dispatch_only' }"]
        .map(|migration| mean_e2e_s(&run(&resolved(&scenario(migration, ""))).0));
    assert_eq!(stays.to_bits(), dispatch_only.to_bits());
    for solver in SOLVERS {
        let text = scenario(&periodic(&format!("solver = '{solver}'")), "");
        let scenario = resolved(&text);
        let (recorder, ..) = run(&scenario);
        let figures = recorder.migrations.figures();
        assert!(figures.moved_requests > 10 && figures.moved_adapters > 0, "{solver}: {figures:?}");
        assert!(figures.moved_while_decoding > 0, "{solver}: {figures:?}");
        let moves = mean_e2e_s(&recorder);
        assert!(moves < 0.8 * stays, "{solver}: {moves} s, {stays} s where nothing moves");
        let report = AdaptersReport::new(&recorder, &scenario).expect("there are adapters");
        assert_eq!(report.migration, Some(figures));
        let text = AdaptersReport::text(&recorder, &scenario).expect("there are adapters");
        assert!(text.contains("plans for two replicas; moved: "), "{text}");
    }
}

#[test]
fn an_idle_adapter_that_others_hold_gives_way_to_one_that_is_asked_for() {
    // Adapter 3 is on replicas 1 and 2, so that one of them may give it up for adapter 0, but not both.
    let swaps = "migration = { policy = 'dispatch_with_swap' }";
    let rare =
        |text: String| text.replace("'dlora_dispatch' }", "'dlora_dispatch', batch_size = 4 }");
    let scenario = resolved(&rare(scenario(swaps, "")));
    let (recorder, counts, _) = run(&scenario);
    assert_eq!(counts.finished, 300);
    let figures = recorder.migrations.figures();
    assert!(figures.swapped_adapters > 0 && figures.moved_requests == 0, "{figures:?}");
    let stays = mean_e2e_s(&run(&resolved(&rare(self::scenario("", "")))).0);
    let swaps = mean_e2e_s(&recorder);
    assert!(swaps < 0.8 * stays, "{swaps} s, {stays} s where nothing is exchanged");
}

#[test]
fn a_plan_that_takes_longer_than_the_run_changes_nothing() {
    let never = run(&resolved(&scenario(&periodic("solver = 'greedy', solve_ms = 900000.0"), "")));
    let none = run(&resolved(&scenario("", "")));
    assert_eq!(never.0.migrations.figures().moved_requests, 0);
    let ends =
        |recorder: &Recorder| recorder.requests.iter().map(|it| it.finish).collect::<Vec<_>>();
    assert_eq!(ends(&never.0), ends(&none.0));
}

#[test]
fn clients_that_stop_find_requests_on_their_way_unfinished() {
    let text = scenario(&periodic("solver = 'greedy'"), "")
        .replace("[workload.adapters]", "client = { stop_after_s = 4.0 }\n[workload.adapters]");
    let (_, counts, _) = run(&resolved(&text));
    assert!(counts.unfinished > 0 && counts.stuck == 0, "{counts:?}");
}

#[test]
fn what_is_not_modelled_with_migration_is_refused_by_name() {
    let greedy = periodic("solver = 'greedy'");
    let path = "cluster.lora.migration";
    let cases = [
        (
            scenario(&greedy, "").replace("placement = {", "# {"),
            format!("{path}: needs cluster.lora.placement"),
        ),
        (
            scenario(&greedy, "")
                + "[[faults]]\ntype = 'crash'\nreplica = 1\nat_s = 1.0\ndown_s = 2.0\n",
            format!("{path}: with faults is not modelled"),
        ),
        (
            scenario(&greedy, "").replace(
                "[workload.adapters]",
                "client = { timeout_s = 9.0 }\n[workload.adapters]",
            ),
            format!("{path}: with clients that give up is not modelled"),
        ),
        (
            scenario(&greedy, "").replace(
                "'vllm_v1', max_loras = 2, max_num_seqs = 16",
                "'sglang', max_loras_per_batch = 2",
            ),
            format!("{path}: of sglang is not modelled, that of vllm_v1 is"),
        ),
        (
            scenario(&periodic("solver = 'greedy', solve_ms = -1.0"), ""),
            format!("{path}.solve_ms: must be a time from 0 to 1000 seconds, got -1"),
        ),
        (
            scenario("migration = { policy = 'dispatch_with_swap' }", "")
                .replace("dlora_dispatch", "random"),
            format!("{path}: dispatch_with_swap needs cluster.router of type dlora_dispatch"),
        ),
        (scenario(&periodic("solver = 'magic'"), ""), "unknown variant `magic`".to_owned()),
    ];
    for (text, expected) in cases {
        let error = resolve(&text).expect_err(&expected);
        assert!(error.contains(&expected), "{error}\nis not: {expected}");
    }
}

/// Gives the engine everything at once.
#[derive(Debug, Clone)]
struct Open;

impl Admit for Open {
    fn next(&mut self, _: &[Held], _: &Load, _: SimTime) -> Option<usize> {
        Some(0)
    }
}

#[test]
fn requests_move_and_routers_see_adapters_behind_a_door_too() {
    let scenario = resolved(&scenario(&periodic("solver = 'greedy'"), ""));
    let (plain, counts, _) = run(&scenario);
    let mut cluster = cluster(&scenario).expect("step times are known");
    let behind =
        |instance: Instance| instance.with_scheduler(|engine| Doorkeeper::new(Open, engine).into());
    cluster.instances = cluster.instances.into_iter().map(behind).collect();
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let run = simulation_on(&scenario, cluster, workload).expect("nothing is recorded");
    let mut kept = Recorder::of(&scenario);
    assert_eq!(run.run(&mut kept).expect("no trace is read"), counts);
    let report = AdaptersReport::new(&kept, &scenario).expect("there are adapters");
    let moved = serde_json::to_value(&report).expect("it is data");
    assert_eq!(moved, serde_json::to_value(AdaptersReport::new(&plain, &scenario)).unwrap());
    let ends = |recorder: &Recorder| -> Vec<SimTime> {
        recorder.requests.iter().map(|record| record.finish).collect()
    };
    assert_eq!(ends(&kept), ends(&plain));
}

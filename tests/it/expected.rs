//! Servers of which a scenario says nothing.

use servecast::load::{self, Draft};
use servecast::metrics::ExpectedFigures;
use servecast::metrics::bench::{MetricKey, Tool};
use servecast::resolved::{ServerClass, Unstated};
use servecast::scenario::{HostConfig, ServerHost, ServerHostProfile};
use servecast::study::Run;

/// A scenario that says nothing of its server.
fn unstated() -> Draft {
    let text = "name = 'unstated'\nseed = 3\n\
                [workload]\nnum_requests = 120\narrivals = { type = 'poisson', rate_per_s = 4.0 }\n\
                lengths = { type = 'fixed', input_tokens = 800, output_tokens = 40 }\n\
                [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'A100'\nengine = { type = 'vllm_v1' }\n";
    load::from_text(text).expect("a scenario")
}

fn with(path: &str, value: impl Into<toml::Value>) -> Draft {
    unstated().with(path, value).expect("there is a place for it")
}

fn run(draft: &Draft) -> Run {
    draft.run().expect("it runs")
}

fn mean_ttft_ms(run: &Run) -> f64 {
    run.summary().figure("mean_ttft_ms").expect("it was measured")
}

fn mean_tpot_ms(run: &Run) -> f64 {
    run.summary().figure("mean_tpot_ms").expect("it was measured")
}

/// What is assumed of it: whether processes take time, and its class.
fn assumed(draft: &Draft) -> (bool, Option<ServerClass>) {
    let scenario = draft.resolve().expect("it holds together").scenario;
    let group = scenario.first();
    let host = group.cluster.host.as_ref().and_then(ServerHost::processes);
    (host.is_some(), group.class)
}

#[test]
fn a_server_of_which_nothing_is_said_is_like_published_ones() {
    let class = ServerClass::DenseWithoutFp8;
    assert_eq!(assumed(&unstated()), (true, Some(class)));
    assert_eq!(assumed(&with("cluster.host", "none")), (false, None));
    // Whoever says how long the way takes, or steps, is taken at the word.
    assert_eq!(assumed(&with("cluster.api_delay_ms", 7.0)), (false, Some(class)));
    assert_eq!(assumed(&with("cluster.step_time.calibration.head", 1.1)), (false, None));
    let table = toml::Table::from_iter([("type".to_owned(), "roofline".into())]);
    assert_eq!(assumed(&with("cluster.step_time", table)), (false, None));
    // Nobody measured the processes of engines from papers.
    let orca = toml::Table::from_iter([("type".to_owned(), "orca".into())]);
    assert!(!assumed(&with("cluster.engine", orca)).0);
}

#[test]
fn vllm_v0_hands_over_beside_the_device_only_with_graphs() {
    let host = |enforce_eager: bool| {
        let mut engine = toml::Table::from_iter([("type".to_owned(), "vllm_v0".into())]);
        engine.insert("enforce_eager".to_owned(), enforce_eager.into());
        let scenario =
            with("cluster.engine", engine).resolve().expect("it holds together").scenario;
        let cluster = &scenario.first().cluster;
        let profile =
            cluster.host.as_ref().and_then(ServerHost::processes).and_then(|it| it.profile);
        assert_eq!(profile, Some(ServerHostProfile::VllmV0));
        *cluster.engine.host()
    };
    let [graphs, eager] = [false, true].map(host);
    assert!(graphs.hand_over_us > 0.0 && graphs.hand_over_per_sequence_us > 0.0);
    assert!(eager.hand_over_us <= 0.0 && eager.hand_over_per_sequence_us <= 0.0);
    let sum = |host: &HostConfig| host.hand_over_us + host.post_process_us;
    assert!((sum(&graphs) - sum(&eager)).abs() < 1e-9);
    // Processes of another engine are none of its own.
    let engine = toml::Table::from_iter([("type".to_owned(), "vllm_v0".into())]);
    let other = toml::Table::from_iter([("profile".to_owned(), "vllm".into())]);
    let refused =
        with("cluster.engine", engine).with("cluster.host", other).expect("a place").resolve();
    let refused = refused.expect_err("it is another engine's").to_string();
    assert!(refused.contains("cluster.host.profile: must be vllm_v0"), "{refused}");
}

#[test]
fn what_is_assumed_takes_time_and_none_turns_it_off() {
    let (assumed, bare) = (run(&unstated()), run(&with("cluster.host", "none")));
    assert!(mean_ttft_ms(&assumed) > 1.1 * mean_ttft_ms(&bare));
    assert!(mean_tpot_ms(&assumed) > mean_tpot_ms(&bare));
    assert!(bare.summary().parts.get("expected").is_none());
}

#[test]
fn a_resolved_scenario_assumes_what_the_first_one_did() {
    let scenario = unstated().resolve().expect("it holds together").scenario;
    let text = toml::to_string(&scenario.written()).expect("it can be written");
    let again = load::from_text(&text).expect("a scenario");
    assert_eq!(run(&again).summary().benchmark, run(&unstated()).summary().benchmark);
    for bare in [with("cluster.host", "none"), with("cluster.step_time.calibration.head", 1.1)] {
        let scenario = bare.resolve().expect("it holds together").scenario;
        let text = toml::to_string(&scenario.written()).expect("it can be written");
        let again = load::from_text(&text).expect("a scenario");
        assert_eq!(run(&again).summary().benchmark, run(&bare).summary().benchmark);
    }
}

#[test]
fn intervals_are_around_what_is_expected() {
    let summary = run(&unstated()).summary();
    let expected = &summary.parts["expected"];
    assert_eq!(expected["class"], "dense_without_fp8");
    // Who sends the requests decides how many there are in a second.
    assert!(expected["interval_90"].get("output_throughput").is_none());
    let closed = with("workload.client.max_concurrency", 8);
    let closed = run(&closed).summary();
    for figure in ["output_throughput", "mean_ttft_ms", "mean_tpot_ms"] {
        let (summary, expected) = if figure == "output_throughput" {
            (&closed, &closed.parts["expected"])
        } else {
            (&summary, expected)
        };
        let [low, high] = [0, 1].map(|end| expected["interval_90"][figure][end].as_f64());
        let value = summary.figure(figure).expect("it was measured");
        assert!(low.expect("an end") < value && value < high.expect("an end"), "{figure}");
    }
}

#[test]
fn where_queues_grow_intervals_reach_as_far_as_slow_and_fast_servers() {
    // Near what the typical server can: a slow one cannot keep up.
    let busy = with("workload.arrivals.rate_per_s", 16.0);
    let [fast, slow] = [Unstated::FAST, Unstated::SLOW].map(|it| run(&busy.clone().of_server(it)));
    let found = run(&busy);
    assert_eq!(found.tails.len(), 2);
    let summary = found.summary();
    let interval = |figure: &str| {
        [0, 1].map(|end| summary.parts["expected"]["interval_90"][figure][end].as_f64())
    };
    let class = ServerClass::DenseWithoutFp8;
    for figure in ["mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms"] {
        let [low, high] = interval(figure).map(|end| end.expect("an end"));
        let [fast, typical, slow] = [&fast, &found, &slow]
            .map(|run| run.summary().figure(figure).expect("it was measured"));
        let key = MetricKey::parse(figure).expect("a figure");
        let [least, most] = class.prior().interval(key, typical).expect("it is known");
        let expected = [least.min(fast), most.max(slow)];
        assert_eq!([low, high].map(f64::to_bits), expected.map(f64::to_bits), "{figure}");
        assert!(slow > most, "{figure}: {slow} and {most}");
    }
    // Whoever waits for answers is slowed down alike: nothing grows.
    let closed = run(&with("workload.client.max_concurrency", 8));
    assert!(closed.tails.is_empty());
    assert!(run(&busy.of_server(Unstated::SLOW)).tails.is_empty());
}

#[test]
fn servers_that_answer_nobody_leave_no_range() {
    // Clients wait longer than the typical server takes for one request, and not as long as a slow one does.
    let quiet = with("workload.arrivals.rate_per_s", 0.1);
    let [typical, slow] = [Unstated::TYPICAL, Unstated::SLOW].map(|server| {
        let e2el = run(&quiet.clone().of_server(server)).summary().figure("median_e2el_ms");
        e2el.expect("it was measured")
    });
    let impatient = with("workload.client.timeout_s", (typical * slow).sqrt() / 1e3);
    let found = run(&impatient);
    let completed = [&found.report, &found.tails[1]].map(|it| it.summary.completed);
    assert!(completed[0] > 0 && completed[1] == 0, "{completed:?}");
    let summary = found.summary();
    assert_eq!(summary.parts["expected"]["interval_90"], serde_json::json!({}));
    // Nor does a run without them.
    let alone = unstated().resolve().and_then(|loaded| Ok(loaded.case()?.run()?)).expect("it runs");
    assert_eq!(alone.summary().parts["expected"]["interval_90"], serde_json::json!({}));
    let line = ExpectedFigures::line(&found.scenario, &found.report, &found.tails);
    assert!(line.expect("it is told").contains("leave requests unanswered here"));
}

#[test]
fn slow_servers_are_slower_than_typical_and_fast_ones() {
    let of = |server| run(&unstated().of_server(server));
    let servers = [Unstated::FAST, Unstated::TYPICAL, Unstated::SLOW].map(of);
    let tpots = servers.each_ref().map(mean_tpot_ms);
    assert!(tpots.is_sorted_by(|fast, slow| fast < slow), "{tpots:?}");
    let ttfts = servers.each_ref().map(mean_ttft_ms);
    assert!(ttfts.is_sorted_by(|fast, slow| fast < slow), "{ttfts:?}");
}

#[test]
fn seeds_draw_servers_where_nothing_is_said_of_them() {
    let listener = load::Listener::default();
    let spread = |draft: Draft| draft.spread(12, &listener).expect("it runs");
    let (drawn, known) = (spread(unstated()), spread(with("cluster.host", "none")));
    assert!(drawn.draws_servers && !known.draws_servers);
    let tpot = |spread: &load::Spread| {
        let is_tpot = |row: &&load::SpreadRow| row.key.name(Tool::Vllm) == "mean_tpot_ms";
        spread.rows.iter().find(is_tpot).expect("it has TPOT").clone()
    };
    let (drawn, known) = (tpot(&drawn), tpot(&known));
    assert!(known.interval.is_none() && drawn.within > 3.0 * known.within);
    let [low, high] = drawn.interval.expect("servers differ by factors");
    assert!(0.0 < low && low < drawn.mean && drawn.mean < high, "{low} to {high}");
    // Servers are drawn from those of which nine of ten are told.
    let expected =
        run(&unstated()).summary().parts["expected"]["interval_90"]["mean_tpot_ms"].clone();
    let [least, most] = [0, 1].map(|end| expected[end].as_f64().expect("an end"));
    assert!(low < most && high > least, "{low} to {high}, {least} to {most}");
}

#[test]
fn groups_have_classes_of_their_own() {
    let groups = "[[cluster.groups]]\nreplicas = 1\ngpu = 'H100'\n[[cluster.groups]]\nreplicas = 1\n\
                  [[cluster.groups]]\nreplicas = 1\nhost = 'none'\n";
    let text = "name = 'groups'\n[workload]\nnum_requests = 30\narrivals = { type = 'poisson', rate_per_s = 4.0 }\n\
                lengths = { type = 'fixed', input_tokens = 800, output_tokens = 40 }\n\
                [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'A100'\nengine = { type = 'vllm_v1' }\n";
    let draft = load::from_text(&format!("{text}{groups}")).expect("a scenario");
    let scenario = draft.resolve().expect("it holds together").scenario;
    let classes: Vec<_> = scenario.groups.iter().map(|group| group.class).collect();
    assert_eq!(classes, [Some(ServerClass::Dense), Some(ServerClass::DenseWithoutFp8), None]);
    // What differs has no interval for all.
    assert!(run(&draft).summary().parts.get("expected").is_none());
}

#[test]
fn kernels_that_somebody_chose_are_faster_in_mixtures_of_experts() {
    let draft = |model: &str, gpus: u32, tuned: bool| {
        let text = format!(
            "name = 'tuned'\n[workload]\nnum_requests = 20\narrivals = {{ type = 'poisson', rate_per_s = 2.0 }}\n\
             lengths = {{ type = 'fixed', input_tokens = 800, output_tokens = 40 }}\n[cluster]\nmodel = '{model}'\n\
             gpu = 'H200'\ntensor_parallel_size = {gpus}\nstep_time = {{ type = 'auto', tuned = {tuned} }}\n"
        );
        load::from_text(&text).expect("a scenario")
    };
    let of_experts = |tuned| draft("deepseek-ai/DeepSeek-R1", 8, tuned);
    assert_eq!(assumed(&of_experts(false)).1, Some(ServerClass::Experts));
    assert_eq!(assumed(&of_experts(true)).1, Some(ServerClass::TunedExperts));
    let [chosen, found] = [true, false].map(|tuned| mean_tpot_ms(&run(&of_experts(tuned))));
    assert!(chosen < found, "{chosen} and {found}");
    let mxfp4 = draft("openai/gpt-oss-120b", 1, true);
    assert_eq!(assumed(&mxfp4).1, Some(ServerClass::UnpackedExperts));
    let scenario = of_experts(true).resolve().expect("it holds together").scenario;
    let text = toml::to_string(&scenario.written()).expect("it can be written");
    let again = load::from_text(&text).expect("a scenario");
    assert_eq!(run(&again).summary().benchmark, run(&of_experts(true)).summary().benchmark);
}

//! Figures of runs with much, little and no data.

use super::*;
use crate::cluster::Role;
use crate::ids::{ClassId, InstanceId};
use crate::resolved::Scenario;
use crate::rng::mix;
use crate::scenario::ScenarioFile;
use crate::sim::{simulation, step_times};
use crate::units::SimDuration;
use crate::units::SimTime;
use crate::workload::Workload;

const MILLI: u64 = 1_000_000;

fn at(millis: u64) -> SimTime {
    SimTime::from_nanos(millis * MILLI)
}

/// A recorder that heard of `count` requests one millisecond apart, each with the latencies (first
/// token, rest of the answer) and the output tokens that `lives` gives.
pub(super) fn run_of(
    count: u64,
    lives: impl Fn(u64) -> (SimDuration, SimDuration, u32),
) -> Recorder {
    let mut run = Recorder::default();
    for index in 0..count {
        let (ttft, decode, output_tokens) = lives(index);
        let sent = at(index);
        let record = RequestRecord {
            arrival: sent,
            sent,
            queued: sent,
            preempted: SimDuration::ZERO,
            preempted_in_prefill: SimDuration::ZERO,
            stalled: SimDuration::ZERO,
            transfer: SimDuration::ZERO,
            handoff: SimDuration::ZERO,
            first_scheduled: sent,
            first_token: sent + ttft,
            finish: sent + ttft + decode,
            class: ClassId::default(),
            prompt_tokens: 100,
            output_tokens,
            cached_tokens: 0,
            preemptions: 0,
            instance: InstanceId(0),
            status: Status::Finished,
            loads_first: false,
        };
        run.timeline.running.set(sent, index);
        run.timeline.kv_blocks.set(sent, 1);
        run.timeline.kv_capacity = 1;
        run.timeline.prefill_tokens.add(sent, 100);
        run.timeline.output_tokens.add(sent, 1);
        run.end = run.end.max(record.finish);
        if let Some(gap) = record.tpot() {
            run.gaps.add(gap, 7);
        }
        run.requests.push(record);
    }
    run
}

/// The figures of a run on one replica.
fn figures_of(scenario: &str, run: &Recorder) -> Vec<Figure> {
    let groups = [group(Role::Whole, 1)];
    run_figures(scenario, run, &groups)
}

pub(super) fn group(role: Role, replicas: u32) -> ReplicaKind {
    ReplicaKind {
        name: None,
        role,
        replicas,
        gpu: "H100-SXM5-80GB".to_owned(),
        gpus: 1,
        nic_bytes_per_s: None,
        has_tiers: false,
    }
}

fn spread(index: u64) -> (SimDuration, SimDuration, u32) {
    let (ttft, decode) = (mix(index) % (3_000 * MILLI), mix(index + 7) % (60_000 * MILLI));
    (SimDuration::from_nanos(ttft), SimDuration::from_nanos(decode), 2 + (index % 99) as u32)
}

/// Every tag is closed in order, every attribute is quoted, and no number is missing.
pub(super) fn assert_well_formed(svg: &str, what: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(from) = rest.find('<') {
        let until = from + rest[from..].find('>').expect("a tag ends");
        let tag = &rest[from + 1..until];
        let name = tag.trim_matches('/').split_whitespace().next().unwrap_or_default();
        assert!(tag.matches('"').count().is_multiple_of(2), "{what}: {tag}");
        match tag {
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "{what}"),
            _ if tag.ends_with('/') => {}
            _ => open.push(name),
        }
        rest = &rest[until + 1..];
    }
    assert!(open.is_empty(), "{what}: {open:?} stay open");
    for missing in ["NaN", "inf\"", "inf ", "-2147483648", "2147483647"] {
        assert!(!svg.contains(missing), "{what} contains {missing}");
    }
    assert!(svg.chars().all(|c| c == '\n' || !c.is_control()), "{what}: control characters");
}

/// Every position lies on the sheet.
pub(super) fn assert_inside(svg: &str, what: &str) {
    let view = svg.split("viewBox=\"0 0 ").nth(1).expect("a view box");
    let mut sides = view.split(['"', ' ']).map(|side| side.parse::<i32>().expect("a side"));
    let (width, height) = (sides.next().expect("a width"), sides.next().expect("a height"));
    for points in svg.split("points=\"").skip(1) {
        for point in points.split('"').next().expect("points").split_whitespace() {
            let (x, y) = point.split_once(',').expect("a point");
            let (x, y): (i32, i32) = (x.parse().expect("x"), y.parse().expect("y"));
            assert!((0..=width).contains(&x) && (0..=height).contains(&y), "{what}: {point}");
        }
    }
}

fn assert_sound(figures: &[Figure]) {
    assert!(figures.len() >= 6);
    for figure in figures {
        let svg = &figure.svg;
        assert_well_formed(svg, figure.file_name);
        assert_inside(svg, figure.file_name);
        assert!(svg.starts_with("<svg width=\"960\" height=\""), "{}", &svg[..60]);
        assert!(svg.contains(figure.title));
        assert!(svg.len() < 200_000, "{} has {} bytes", figure.file_name, svg.len());
    }
}

fn svg_of<'a>(figures: &'a [Figure], file_name: &str) -> &'a str {
    &figures.iter().find(|figure| figure.file_name == file_name).expect("the figure is there").svg
}

#[test]
fn figures_say_what_they_show() {
    let figures = figures_of("burst on one GPU", &run_of(2_000, spread));
    assert_sound(&figures);
    let labels = [
        ("latency_ttft_e2e.svg", ["TTFT in s", "E2E in s", "p50", "p90", "p99", "2,000 requests"]),
        ("latency_tpot_itl.svg", ["TPOT in ms", "ITL in ms", "p50", "p99", "14,000 gaps", "max"]),
        (
            "latency_over_time.svg",
            ["(TTFT)", "(TPOT)", "P50", "P90", "when requests were sent, in s", "over 1 s"],
        ),
        ("queue_memory.svg", ["running", "waiting", "KV cache", "(%)", "time in s", "mean over"]),
        ("throughput.svg", ["prefill", "output", "finished", "sent", "tokens/s", "time in s"]),
    ];
    for (file_name, labels) in labels {
        let svg = svg_of(&figures, file_name);
        for label in labels.into_iter().chain(["burst on one GPU", "2,000 finished"]) {
            assert!(svg.contains(label), "{file_name} does not say {label}");
        }
    }
}

/// A run of Poisson arrivals on a cluster.
pub(super) fn simulated(cluster: &str, rate_per_s: f64) -> (Recorder, Scenario) {
    let text = format!(
        "name = 'x'\n[workload]\nnum_requests = 1500\narrivals = {{ type = 'poisson', rate_per_s = \
         {rate_per_s} }}\nlengths = {{ type = 'fixed', input_tokens = 900, output_tokens = 60 }}\n\
         [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100'\n{cluster}\n[cluster.step_time]\n\
         type = 'linear'\nbase_us = 5000.0\nprefill_token_us = 20.0\ndecode_seq_us = 50.0\n"
    );
    let file: ScenarioFile = toml::from_str(&text).expect("the scenario is TOML");
    let scenario = Scenario::resolve(file, None).expect("the scenario holds together");
    let workload = Workload::open(&scenario.workload, scenario.seed, None);
    let costs = step_times(&scenario).expect("step times are given");
    let run = simulation(&scenario, &costs, workload.expect("it opens")).expect("it can be built");
    let mut recorder = Recorder::default();
    run.run(&mut recorder).expect("no trace is read");
    (recorder, scenario)
}

#[test]
fn figures_of_replicas_stay_small_and_sound_however_many_there_are() {
    for (replicas, shown) in [(1, "1 replica"), (3, "3 replicas"), (64, "64 replicas")] {
        let rate = 9.0 * f64::from(replicas);
        let (run, scenario) = simulated(&format!("replicas = {replicas}"), rate);
        let groups = ReplicaKind::of(&scenario);
        let figures = run_figures("a cluster", &run, &groups);
        assert_sound(&figures);
        let activity = svg_of(&figures, "replica_activity.svg");
        for label in [shown, "prefill", "mixed", "decode", "time in s", "mean over"] {
            assert!(activity.contains(label), "{replicas} replicas: no {label}");
        }
        assert!(svg_of(&figures, "replica_load.svg").contains("Requests inside"));
        let band = svg_of(&figures, "replica_load.svg").contains("least to most");
        assert_eq!(band, replicas > 1);
    }
}

#[test]
fn latencies_over_time_show_what_a_crash_took() {
    let crash = "replicas = 4\n[[faults]]\ntype = 'crash'\nreplica = 2\nat_s = 10.0\ndown_s = 15.0";
    for (cluster, shows) in [("replicas = 4", false), (crash, true)] {
        let (run, scenario) = simulated(cluster, 40.0);
        let figures = run_figures("a crash", &run, &ReplicaKind::of(&scenario));
        assert_sound(&figures);
        let svg = svg_of(&figures, "latency_over_time.svg");
        for label in ["down", "Requests without an answer"] {
            assert_eq!(svg.contains(&format!("\n{label}\n")), shows, "{label}: {svg}");
        }
    }
}

#[test]
fn legends_say_where_they_are() {
    let figures = figures_of("r", &run_of(300, spread));
    let keys = |file_name: &str| {
        let root = svg_of(&figures, file_name).split('>').next().expect("a root");
        let keys = root.split("data-keys=\"").nth(1).and_then(|rest| rest.split('"').next());
        keys.unwrap_or_default()
            .split(';')
            .map(|panel| panel.split(' ').count())
            .collect::<Vec<_>>()
    };
    // A heading and its entries: prompts and answers have one line, requests two.
    assert_eq!(keys("throughput.svg"), [2, 2, 3]);
    assert_eq!(keys("latency_over_time.svg"), [3], "P50 and P90 stand above the first panel alone");
}

#[test]
fn more_replicas_than_rows_share_rows() {
    let run = run_of(20, spread);
    let groups = [group(Role::Whole, 1000)];
    let figures = run_figures("many", &run, &groups);
    assert_sound(&figures);
    // 1000 replicas in 63 rows of 16, the last of 8
    let svg = svg_of(&figures, "replica_activity.svg");
    assert!(svg.contains("0–15") && !svg.contains("992–1007"), "{svg}");
}

#[test]
fn a_divided_cluster_shows_both_kinds_and_their_links() {
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 2, transfer = { \
                 nic_gb_per_s = 1.0 } }";
    let (run, scenario) = simulated(parts, 12.0);
    let groups = ReplicaKind::of(&scenario);
    let figures = run_figures("divided", &run, &groups);
    assert_sound(&figures);
    for figure in ["replica_activity.svg", "replica_load.svg"] {
        let svg = svg_of(&figures, figure);
        assert!(svg.contains("1 prefill replica") && svg.contains("2 decode replicas"));
    }
    let links = svg_of(&figures, "link_use.svg");
    assert!(links.contains("NICs out of") && links.contains("NICs into") && links.contains('%'));
}

#[test]
fn equal_runs_give_equal_bytes() {
    let [one, other] = [0, 0].map(|_| figures_of("twice", &run_of(500, spread)));
    assert_eq!(one, other);
}

#[test]
fn a_million_requests_fit_into_small_files() {
    assert_sound(&figures_of("a million", &run_of(1_000_000, spread)));
}

#[test]
fn one_request_is_a_run() {
    let life = (SimDuration::from_millis(40), SimDuration::from_millis(200), 11);
    let figures = figures_of("one", &run_of(1, |_| life));
    assert_sound(&figures);
    // 200 ms over 10 gaps
    assert!(svg_of(&figures, "latency_tpot_itl.svg").contains("p99  20.0 ms"));
    assert!(svg_of(&figures, "latency_ttft_e2e.svg").contains("1 request: 1 finished"));
}

#[test]
fn equal_values_have_an_axis() {
    let life = (SimDuration::from_millis(40), SimDuration::from_millis(200), 11);
    assert_sound(&figures_of("all equal", &run_of(1_000, |_| life)));
    let instant = (SimDuration::ZERO, SimDuration::ZERO, 5);
    assert_sound(&figures_of("no time", &run_of(9, |_| instant)));
}

#[test]
fn answers_of_one_token_have_no_gaps() {
    let life = (SimDuration::from_millis(40), SimDuration::ZERO, 1);
    let figures = figures_of("one token each", &run_of(50, |_| life));
    assert_sound(&figures);
    assert!(svg_of(&figures, "latency_tpot_itl.svg").contains("No answer has two tokens"));
    assert!(svg_of(&figures, "latency_over_time.svg").contains("No request that was answered"));
}

#[test]
fn a_run_without_finished_requests_says_so() {
    let mut run = run_of(3, spread);
    let unfinished =
        |request: &RequestRecord| RequestRecord { status: Status::Unfinished, ..*request };
    run.requests = run.requests.iter().map(unfinished).collect::<Vec<_>>().into();
    let figures = figures_of("stuck", &run);
    assert_sound(&figures);
    assert!(svg_of(&figures, "latency_ttft_e2e.svg").contains("No request finished."));
    assert!(svg_of(&figures, "throughput.svg").contains("3 requests: 0 finished, 3 unfinished"));
}

#[test]
fn a_run_without_anything_says_so() {
    let figures = figures_of("", &Recorder::default());
    assert_sound(&figures);
    for file_name in ["queue_memory.svg", "throughput.svg"] {
        assert!(svg_of(&figures, file_name).contains("Nothing happened"));
    }
}

#[test]
fn a_scenario_name_cannot_break_a_figure() {
    let scenario = format!("a <b> & \"c\"\u{0}\n{}", "ü".repeat(500));
    let figures = figures_of(&scenario, &run_of(2, spread));
    assert_sound(&figures);
    assert!(svg_of(&figures, "throughput.svg").contains("a &lt;b&gt; &amp;"));
    assert!(svg_of(&figures, "throughput.svg").contains('…'));
}

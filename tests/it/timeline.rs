//! Timelines as their viewer reads them: spans nest, steps follow one another, nothing is missing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;
use servecast::cost::{Linear, StepTime};
use servecast::engine::Instance;
use servecast::engine::scheduler::{Acceptance, Scheduler};
use servecast::io::timeline::{TimelineWriter, Window};
use servecast::metrics::{Breakdown, Recorder, Status, StepLog};
use servecast::request::Request;
use servecast::scenario::VllmConfig;
use servecast::units::{SimDuration, SimTime};

use super::breakdown::{sglang, simulate};
use super::fast_forward::{Case, vllm_case, workload};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    StepByStep,
    Runs,
}

type Observed = (Recorder, StepLog, String);

fn observe(
    requests: Vec<Request>,
    scheduler: impl Fn() -> Scheduler,
    instances: u32,
    way: Way,
    window: Window,
) -> Observed {
    let law = StepTime::Linear(Linear {
        base: SimDuration::from_micros(1000),
        prefill_token: SimDuration::from_micros(10),
        decode_seq: SimDuration::ZERO,
        ..Linear::default()
    });
    let instance = |_| {
        let instance = Instance::new(scheduler(), law.clone());
        if way == Way::Runs { instance } else { instance.step_by_step() }
    };
    let writer = TimelineWriter::new(Vec::new(), window, instances, "a \"model\" on a GPU");
    let recorders = (Recorder::default(), StepLog::default());
    let mut observers = (recorders, writer);
    simulate(requests, (0..instances).map(instance).collect(), &mut observers);
    let (written, bytes) = observers.1.finish().expect("memory takes everything");
    assert_eq!(bytes, written.len() as u64);
    let text = String::from_utf8(written).expect("JSON is UTF-8");
    let (recorder, log) = observers.0;
    (recorder, log, text)
}

fn vllm(config: &VllmConfig) -> Scheduler {
    Scheduler::VllmV1(Box::new(crate::support::vllm(config, Acceptance::NONE)))
}

fn events(text: &str) -> Vec<Value> {
    let mut json: Value = serde_json::from_str(text).expect("a timeline is JSON");
    assert_eq!(json["displayTimeUnit"], "ms");
    match json["traceEvents"].take() {
        Value::Array(events) => events,
        other => panic!("traceEvents: {other}"),
    }
}

/// A time or duration in nanoseconds.
fn nanos(event: &Value, key: &str) -> u64 {
    (event[key].as_f64().expect("a number") * 1000.0).round() as u64
}

fn word<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_default()
}

/// The row of an instance's steps; those of its requests have higher numbers.
const STEPS: u64 = 1;

fn tid(event: &Value) -> u64 {
    event["tid"].as_u64().expect("a span has a row")
}

/// For each row of an instance, the spans in it.
type Rows = BTreeMap<(u64, u64), Vec<(u64, u64, String)>>;

/// Checks what a viewer needs; for each request, how long it was in each kind of span.
fn check(events: &[Value]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut free: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut counted: BTreeMap<(u64, String), u64> = BTreeMap::new();
    let mut named: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut rows = Rows::new();
    for event in events {
        let pid = event["pid"].as_u64().expect("every event has a process");
        let name = word(event, "name").to_owned();
        match word(event, "ph") {
            "M" if name == "thread_name" => assert!(named.insert((pid, tid(event))), "{event}"),
            "M" => {}
            "X" => {
                let (row, start) = ((pid, tid(event)), nanos(event, "ts"));
                let end = start + nanos(event, "dur");
                assert!(named.contains(&row), "a row has a name before what is in it: {event}");
                if row.1 == STEPS {
                    let free = free.entry(row).or_default();
                    assert!(*free <= start, "steps of a device follow one another: {event}");
                    *free = end;
                } else {
                    rows.entry(row).or_default().push((start, end, name));
                }
            }
            "C" => {
                let before = counted.entry((pid, name)).or_default();
                assert!(*before <= nanos(event, "ts"), "counters go on: {event}");
                *before = nanos(event, "ts");
            }
            other => panic!("an event of kind `{other}`"),
        }
    }
    let mut spent = BTreeMap::new();
    for spans in rows.into_values() {
        nest(spans, &mut spent);
    }
    spent
}

/// Checks that the spans of a row nest: requests, in them phases, in those chunks.
fn nest(mut spans: Vec<(u64, u64, String)>, spent: &mut BTreeMap<String, BTreeMap<String, u64>>) {
    let depth = |name: &str| match name {
        request if request.starts_with("request ") => 0,
        "chunk" => 2,
        _ => 1,
    };
    // As a viewer does: what is around something comes before it.
    spans.sort_by_key(|(start, end, name)| (*start, Reverse(*end), depth(name)));
    let mut stack: Vec<(u64, String)> = Vec::new();
    for (start, end, name) in spans {
        while stack.last().is_some_and(|(until, _)| *until <= start) {
            stack.pop();
        }
        assert_eq!(stack.len(), depth(&name), "{name} in {stack:?}");
        if let Some((until, parent)) = stack.last() {
            assert!(end <= *until, "{name} ends after {parent}");
            let may_hold_chunks = ["prefill", "preempted"].contains(&parent.as_str());
            assert!(name != "chunk" || may_hold_chunks, "a chunk in {parent}");
        }
        stack.push((end, name.clone()));
        let request = stack[0].1["request ".len()..].to_owned();
        *spent.entry(request).or_default().entry(name).or_default() += end - start;
    }
}

/// Checks a timeline and that requests spend in each phase what their records say.
pub(super) fn shows(recorder: &Recorder, text: &str) -> Result<(), TestCaseError> {
    let spent = check(&events(text));
    for (id, record) in recorder.requests.iter().enumerate() {
        if record.status == Status::Unfinished {
            continue;
        }
        let Breakdown { gateway, api, queued, prefill, decode, preempted, stalled, transfer } =
            recorder.breakdown_of(id).expect("it left");
        let spans = &spent[&id.to_string()];
        let of = |name: &str| SimDuration::from_nanos(spans.get(name).copied().unwrap_or(0));
        prop_assert_eq!(of(&format!("request {id}")), record.e2e());
        prop_assert_eq!(of("gateway"), gateway);
        prop_assert_eq!(of("api"), api);
        prop_assert_eq!(of("queued"), queued);
        prop_assert_eq!(of("prefill"), prefill);
        prop_assert_eq!(of("preempted"), preempted);
        prop_assert_eq!(of("transfer"), transfer);
        prop_assert_eq!(of("decode"), decode + stalled);
    }
    Ok(())
}

fn obeys_the_laws(case: &Case, scheduler: impl Fn() -> Scheduler) -> Result<(), TestCaseError> {
    let all = Window::ALL;
    let (recorder, log, text) = observe(workload(case), scheduler, case.instances, Way::Runs, all);
    shows(&recorder, &text)?;
    let events = events(&text);
    let is_step = |event: &&Value| event["ph"] == "X" && tid(event) == STEPS;
    let steps: Vec<&Value> = events.iter().filter(is_step).collect();
    prop_assert_eq!(steps.len(), log.steps.len());
    let tokens = |key: &str| -> u64 {
        steps.iter().map(|step| step["args"][key].as_u64().expect("a number")).sum()
    };
    let logged: u64 = log.steps.iter().map(|step| u64::from(step.shape.prefill_tokens)).sum();
    prop_assert_eq!(tokens("prefill_tokens"), logged);
    Ok(())
}

proptest! {
    #![proptest_config(crate::support::random_cases(120))]

    #[test]
    fn a_timeline_of_vllm_shows_every_request_and_step(case in vllm_case()) {
        obeys_the_laws(&case, || vllm(case.vllm()))?;
    }

    #[test]
    fn a_timeline_of_sglang_shows_every_request_and_step(case in vllm_case()) {
        obeys_the_laws(&case, || Scheduler::Sglang(Box::new(crate::support::sglang(&sglang(&case)))))?;
    }

    #[test]
    fn a_timeline_of_runs_equals_that_of_their_steps(case in vllm_case()) {
        let lines = |way| {
            let all = Window::ALL;
            let text = observe(workload(&case), || vllm(case.vllm()), case.instances, way, all).2;
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        prop_assert_eq!(lines(Way::Runs), lines(Way::StepByStep));
    }

    #[test]
    fn a_window_cuts_spans_and_leaves_them_whole(case in vllm_case(), start in 0_u64..400) {
        let at = |millis| SimTime::ZERO + SimDuration::from_millis(millis);
        let window = Window { from: at(start), until: at(start + 100) };
        let scheduler = || vllm(case.vllm());
        let text = observe(workload(&case), scheduler, case.instances, Way::Runs, window).2;
        let events = events(&text);
        check(&events);
        for event in events.iter().filter(|event| word(event, "ph") != "M") {
            let inside = start * 1_000_000..=(start + 100) * 1_000_000;
            let is_step = word(event, "ph") == "X" && tid(event) == STEPS;
            prop_assert!(is_step || inside.contains(&nanos(event, "ts")), "{}", event);
        }
    }
}

#[test]
fn a_small_timeline_reads_as_worked_by_hand() {
    // The run of `breakdown`: A (100 tokens, 4 answers) at 0, B (200 tokens, 1 answer) at 2.6 ms.
    let config = VllmConfig {
        num_gpu_blocks: Some(1000),
        max_num_batched_tokens: Some(2048),
        max_num_seqs: Some(8),
        max_model_len: Some(4096),
        async_scheduling: false,
        ..VllmConfig::default()
    };
    let later = SimTime::ZERO + SimDuration::from_micros(2600);
    let requests = vec![Request::new(SimTime::ZERO, 100, 4), Request::new(later, 200, 1)];
    let text = observe(requests, || vllm(&config), 1, Way::Runs, Window::ALL).2;
    check(&events(&text));
    insta::assert_snapshot!(text);
}

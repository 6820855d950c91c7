//! The processes around the scheduler of a server: laws of their queues, and what comes of them by hand.

use proptest::prelude::*;
use servecast::frontend::{FrontEnd, FrontEndTimes, Output, Progress};
use servecast::host::HostProfile;
use servecast::ids::RequestId;
use servecast::profiles;
use servecast::scenario::{Endpoint, ServerHostConfig};
use servecast::units::{SimDuration, SimTime};

fn profile(engine: &str) -> &'static HostProfile {
    profiles::host(engine).expect("a built-in profile")
}

/// On the CPU of the profiles.
fn as_measured() -> ServerHostConfig {
    ServerHostConfig { cpu: 1.0, wakes: 1.0, ..ServerHostConfig::default() }
}

fn front_end(engine: &str, config: &ServerHostConfig) -> FrontEnd {
    FrontEnd::new(FrontEndTimes::new(profile(engine), config), true)
}

/// A profile in which only the event loop takes time, and none to wake.
fn loop_only(engine: &str) -> HostProfile {
    let mut profile = profile(engine).clone();
    profile.api.wake_us = 0.0;
    (profile.tokenizer.wake_us, profile.intake.wake_us) = (0.0, 0.0);
    (profile.intake.delay_us, profile.intake.request_us) = (0.0, 0.0);
    (profile.intake.per_token_us, profile.outlet.delay_us) = (0.0, 0.0);
    (profile.outlet.output_us, profile.detokenizer) = (0.0, None);
    (profile.client.network_us, profile.client.wake_us, profile.client.chunk_us) = (0.0, 0.0, 0.0);
    profile
}

fn at(us: u64) -> SimTime {
    SimTime::from_nanos(us * 1000)
}

fn us(us: f64) -> SimDuration {
    SimDuration::from_secs_f64(us / 1e6)
}

/// Lets requests, by when they come and how long they are, go all the way, each next turn in order of time:
/// when they are submitted.
fn submit_all(front: &mut FrontEnd, requests: &[(SimTime, u32)]) -> Vec<SimTime> {
    let mut due: Vec<(SimTime, usize)> =
        requests.iter().enumerate().map(|(index, (at, _))| (*at, index)).collect();
    let mut accepted = vec![false; requests.len()];
    let mut submitted = vec![SimTime::ZERO; requests.len()];
    while let Some(next) = (0..due.len()).min_by_key(|place| (due[*place].0, *place)) {
        let (now, index) = due.remove(next);
        let id = RequestId(index as u32);
        let progress = if std::mem::replace(&mut accepted[index], true) {
            front.go_on(now, id).expect("it was accepted")
        } else {
            front.accept(now, id, requests[index].1)
        };
        match progress {
            Progress::Waits(until) => {
                assert!(until >= now, "a turn ends after it began");
                due.push((until, index));
            }
            Progress::Submitted(at) => submitted[index] = at,
        }
    }
    submitted
}

/// What a request takes of the event loop and the tokeniser together.
fn own_work(profile: &HostProfile, config: &ServerHostConfig, tokens: u32) -> f64 {
    let api = &profile.api;
    let text = profile.tokenizer.byte_us * config.bytes_per_token * f64::from(tokens);
    api.accept_us.iter().sum::<f64>()
        + profile.tokenizer.request_us
        + text
        + api.submit_us.iter().sum::<f64>()
        + api.submit_per_token_us * f64::from(tokens)
}

proptest! {
    /// Nothing leaves before it entered and was worked on, and one loop that does everything is busy until all
    /// is done: it does one thing at a time and does not rest while there is something to do.
    #[test]
    fn an_event_loop_conserves_work(
        gaps in prop::collection::vec((0_u64..3_000, 1_u32..2_000), 1..40),
        engine in prop::sample::select(vec!["vllm", "vllm_v0", "sglang"]),
    ) {
        let profile = loop_only(engine);
        let config = ServerHostConfig { tokenizer_shares_core: true, ..as_measured() };
        let mut front = FrontEnd::new(FrontEndTimes::new(&profile, &config), true);
        let mut now = 0;
        let requests: Vec<(SimTime, u32)> = gaps.iter().map(|(gap, tokens)| {
            now += gap;
            (at(now), *tokens)
        }).collect();
        let submitted = submit_all(&mut front, &requests);
        let work: Vec<SimDuration> =
            requests.iter().map(|(_, tokens)| us(own_work(&profile, &config, *tokens))).collect();
        // Every turn is rounded to a nanosecond.
        let rounding = SimDuration::from_nanos(2_100 * requests.len() as u64);
        for ((entered, _), (left, work)) in requests.iter().zip(submitted.iter().zip(&work)) {
            prop_assert!(*left + rounding >= *entered + *work, "{left} is too early");
        }
        // The slow oracle: a server that takes up work as it comes ends when all is done.
        let mut free = SimTime::ZERO;
        for ((entered, _), work) in requests.iter().zip(&work) {
            free = free.max(*entered) + *work;
        }
        let last = submitted.iter().max().expect("there is one");
        prop_assert!(*last <= free + rounding, "{last} is later than {free}");
        prop_assert!(*last + rounding >= free, "{last} is earlier than {free}");
    }

    /// Outputs come to clients after their step, in the order of their steps, and no faster than the loop can send
    /// chunks.
    #[test]
    fn outputs_come_after_their_steps_and_no_faster_than_chunks_are_sent(
        steps in prop::collection::vec((100_u64..20_000, 1_u32..400), 1..40),
        engine in prop::sample::select(vec!["vllm", "vllm_v0", "sglang"]),
    ) {
        let mut front = front_end(engine, &as_measured());
        let id = RequestId(0);
        front.pass(SimTime::ZERO, id, 100);
        let (mut now, mut before) = (1_000_000, SimTime::ZERO);
        let chunk = us(profile(engine).api.output_us);
        let mut work = SimDuration::ZERO;
        let mut first_step = None;
        for (gap, rows) in &steps {
            now += gap;
            first_step.get_or_insert(at(now));
            let mut outputs = [Output { request: id, is_last: false, at: SimTime::ZERO }];
            front.answer(at(now), *rows, &mut outputs);
            work += chunk * u64::from(*rows);
            prop_assert!(outputs[0].at > at(now), "an output is seen after its step");
            prop_assert!(outputs[0].at >= before, "outputs of a stream come in order");
            before = outputs[0].at;
        }
        // The last stream of the last message has waited for the handling of all outputs.
        let mut outputs = [Output { request: RequestId(1), is_last: false, at: SimTime::ZERO }];
        front.pass(at(now), RequestId(1), 1);
        front.answer(at(now + 1), 1, &mut outputs);
        let begun = first_step.expect("there is a step");
        prop_assert!(outputs[0].at >= begun + work, "{} is faster than its loop", outputs[0].at);
    }
}

#[test]
fn a_lone_request_takes_what_its_stages_take() {
    let config = ServerHostConfig { bytes_per_token: 4.0, ..as_measured() };
    let mut front = front_end("vllm", &config);
    let submitted = submit_all(&mut front, &[(at(1_000), 1_000)])[0];
    // Woken 650, accepted 350 + 400, tokenised 300 + 250 + 4 × 360, woken 650, sent 250 + 150 + 400 + 50, taken in
    // 300 + 250 + 120 + 200.
    assert_eq!(submitted, at(1_000 + 650 + 750 + 1_990 + 650 + 850 + 870));

    // On threads that wake four times as fast it is the waking alone that is shorter, and what passes between threads.
    let mut front = front_end("vllm", &ServerHostConfig { wakes: 0.25, ..config });
    let sooner = submit_all(&mut front, &[(at(1_000), 1_000)])[0];
    let waiting = 650 + 300 + 650 + 300 + 250;
    assert_eq!(submitted - sooner, us(0.75 * f64::from(waiting)));
}

#[test]
fn token_ids_are_not_tokenised_and_chats_take_longer() {
    let submitted = |endpoint| {
        let config = ServerHostConfig { endpoint, ..as_measured() };
        submit_all(&mut front_end("vllm", &config), &[(at(1_000), 1_000)])[0]
    };
    let (ids, text) = (submitted(Endpoint::TokenIds), submitted(Endpoint::Completions));
    assert!(ids < text && text < submitted(Endpoint::Chat));
}

#[test]
fn a_chat_that_looks_for_a_processor_holds_up_all_others() {
    for engine in ["vllm", "vllm_v0", "sglang"] {
        let last = |chat_lookup_ms| {
            let endpoint = Endpoint::Chat;
            let config = ServerHostConfig { endpoint, chat_lookup_ms, ..as_measured() };
            let submitted =
                submit_all(&mut front_end(engine, &config), &[(SimTime::ZERO, 10); 100]);
            submitted.into_iter().max().expect("there are 100").as_secs_f64()
        };
        // What was done beside it before, the tokeniser's work, may hide behind it.
        let (without, with) = (last(0.0), last(12.0));
        assert!((1.2..=without + 1.2 + 1e-9).contains(&with), "{engine}: {without} and {with} s");
        assert!(with - without > 1.0, "{engine}: {without} and {with} s");
    }
}

#[test]
fn kernels_of_all_layers_are_launched_one_by_one() {
    let launches = profile("sglang").launches;
    let of = |name: &str| launches.of(&profiles::model(name).expect("in the catalogue"));
    assert!((of("Qwen/Qwen3-8B") - 36.0 * launches.layer_us).abs() < 1e-6);
    let each = launches.layer_us + launches.latent_us + launches.quantised_us;
    // Three of its 61 layers have no experts.
    let expected = 61.0 * each + 58.0 * launches.experts_us;
    assert!((of("deepseek-ai/DeepSeek-V3") - expected).abs() < 1e-6);
    // 4-bit weights that are multiplied in 16 bits quantise no inputs.
    let expected = 36.0 * (launches.layer_us + launches.experts_us);
    assert!((of("openai/gpt-oss-120b") - expected).abs() < 1e-6);
}

#[test]
fn prompts_that_come_at_once_are_tokenised_one_after_the_other() {
    for engine in ["vllm", "vllm_v0", "sglang"] {
        let config = ServerHostConfig { bytes_per_token: 4.4, ..as_measured() };
        let mut front = front_end(engine, &config);
        let submitted = submit_all(&mut front, &[(SimTime::ZERO, 1_000); 500]);
        let last = submitted.iter().max().expect("there are 500").as_secs_f64();
        // Measured with prompts of 1,024 tokens: 1.35 s of vLLM, 2.2 to 2.45 s of SGLang, on other cores than
        // those that were busy with the clients then.
        let least = if engine == "sglang" { 2.0 } else { 0.8 };
        assert!((least..4.0).contains(&last), "{engine}: {last} s");
    }
}

#[test]
fn a_second_process_shares_the_outputs() {
    let answered = |api_servers| {
        let config = ServerHostConfig { api_servers, client: false, ..as_measured() };
        let mut front = front_end("vllm", &config);
        for id in 0..200 {
            front.pass(SimTime::ZERO, RequestId(id), 10);
        }
        let output = |id| Output { request: RequestId(id), is_last: false, at: SimTime::ZERO };
        let mut outputs: Vec<Output> = (0..200).map(output).collect();
        front.answer(at(10_000_000), 200, &mut outputs);
        outputs.iter().map(|output| output.at).max().expect("there are 200")
    };
    let begun = at(10_000_000);
    let (one, two) = (answered(1) - begun, answered(2) - begun);
    let ratio = two.as_secs_f64() / one.as_secs_f64();
    assert!((0.5..0.7).contains(&ratio), "{two} of {one}");
}

/// What a run of a real server has to be close to, in percent of what was measured.
#[derive(Clone, Copy)]
struct Close {
    duration: f64,
    ttft: f64,
    tpot: f64,
}

/// An open loop, a closed one, and those whose client and server fight for two cores.
const OPEN: Close = Close { duration: 1.0, ttft: 6.0, tpot: 1.0 };
const CLOSED: Close = Close { duration: 3.0, ttft: 15.0, tpot: f64::INFINITY };
const CONTENDED: Close = Close { duration: 10.0, ttft: f64::INFINITY, tpot: f64::INFINITY };
/// Mean TTFT may also be off by so many ms in an open loop.
const TTFT_MS: f64 = 3.0;

/// Needs more than two cores, which is not simulated: 24 of 28 core-seconds were busy.
const NOT_REACHED: [&str; 1] = ["r18_conc256_h"];

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn servers_on_a_gpu_of_known_step_time_fare_as_they_did() {
    use servecast::load::Listener;
    use servecast::validate::{host_runs, judge};

    let data = std::env::var_os("SERVECAST_DATA").expect("the folder of the data");
    let folder = std::path::Path::new(&data).join("host-runs");
    let mut missed = Vec::new();
    let mut seen = 0;
    for engine in ["sglang", "vllm"] {
        let cases = host_runs(&folder.join(engine), &[], &Listener::default()).expect("runs");
        for run in judge(&cases).validation.runs {
            let is_closed = cases.iter().any(|case| {
                case.id == run.id && case.scenario.workload.client.max_concurrency.is_some()
            });
            let is_contended =
                ["c256", "burst", "r8_inf"].iter().any(|name| run.id.starts_with(name));
            let close = match (is_contended, is_closed) {
                (true, _) => CONTENDED,
                (false, true) => CLOSED,
                (false, false) => OPEN,
            };
            let row = |name: &str| {
                let key = servecast::metrics::bench::MetricKey::parse(name);
                run.rows.iter().find(|row| Some(row.key) == key).expect("it was measured")
            };
            let off = |name: &str| row(name).error_pct().expect("it is not 0").abs();
            let (duration, tpot) = (off("duration"), off("mean_tpot_ms"));
            let ttft = off("mean_ttft_ms");
            let ttft_ms = (row("mean_ttft_ms").simulated - row("mean_ttft_ms").measured).abs();
            println!("{}: duration {duration:.1} %, TTFT {ttft:.1} %, TPOT {tpot:.1} %", run.id);
            let has_ttft = ttft <= close.ttft || !is_closed && ttft_ms <= TTFT_MS;
            let holds = duration <= close.duration && has_ttft && tpot <= close.tpot;
            seen += 1;
            if holds == NOT_REACHED.contains(&run.id.as_str()) {
                missed.push(run.id.clone());
            }
        }
    }
    assert!(seen >= 29, "all runs that are given are simulated");
    assert!(missed.is_empty(), "not as expected: {missed:?}");
}

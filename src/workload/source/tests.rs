//! Laws of workloads, and small ones worked by hand.

use super::*;
use crate::request::Segment;
use crate::scenario::ClientConfig;
use crate::scenario::ContentConfig;
use crate::scenario::CopyContent;
use crate::scenario::Popularity;
use crate::scenario::RowOrder;
use crate::scenario::RowSort;
use crate::scenario::SessionConfig;
use crate::scenario::SharedPrefixConfig;
use crate::scenario::ThinkTime;
use crate::scenario::TokenDistribution;
use crate::scenario::TraceArrivalConfig;
use crate::workload::trace::TraceRow;

fn fixed(arrivals: ArrivalConfig) -> WorkloadConfig {
    WorkloadConfig {
        num_requests: Some(1000),
        duration_s: None,
        tool_seed: None,
        arrivals,
        lengths: LengthConfig::Fixed { input_tokens: 100, output_tokens: 10 },
        content: ContentConfig::default(),
        adapters: None,
        early_stop: Vec::new(),
        classes: Vec::new(),
        sessions: None,
        warm_up: None,
        client: ClientConfig::default(),
    }
}

fn replayed(arrivals: TraceArrivalConfig) -> WorkloadConfig {
    WorkloadConfig {
        num_requests: None,
        lengths: LengthConfig::Trace { order: RowOrder::Recorded },
        ..fixed(ArrivalConfig::Trace(arrivals))
    }
}

fn requests(config: &WorkloadConfig, seed: u64) -> Vec<Request> {
    Workload::open(config, Seed(seed), None).unwrap().map(Result::unwrap).collect()
}

fn row(arrival_ms: u64, prompt_tokens: u32) -> TraceRow {
    TraceRow {
        arrival: Some(SimTime::from_nanos(arrival_ms * 1_000_000)),
        prompt_tokens,
        output_tokens: 5,
        ..TraceRow::default()
    }
}

fn open(config: &WorkloadConfig, rows: Vec<TraceRow>) -> Result<Workload, WorkloadError> {
    Workload::open(config, Seed(1), Some(Box::new(rows.into_iter().map(Ok))))
}

fn play(config: &WorkloadConfig, rows: Vec<TraceRow>) -> Vec<Request> {
    open(config, rows).unwrap().map(Result::unwrap).collect()
}

fn arrivals_ms(requests: &[Request]) -> Vec<u64> {
    requests.iter().map(|request| request.arrival.as_nanos() / 1_000_000).collect()
}

#[test]
fn every_workload_is_sorted_and_repeats_itself() {
    let poisson = ArrivalConfig::Poisson { rate_per_s: 5.0 };
    let weibull = ArrivalConfig::Weibull { rate_per_s: 5.0, shape: 0.4 };
    let vllm = ArrivalConfig::Vllm { rate_per_s: Some(5.0), burstiness: 0.2, ramp_up: None };
    for arrivals in [poisson, weibull, vllm, ArrivalConfig::Sglang { rate_per_s: 5.0 }] {
        let config = fixed(arrivals);
        let first = requests(&config, 7);
        assert_eq!(first.len(), 1000);
        assert!(first.is_sorted_by_key(|request| request.arrival), "{config:?}");
        assert_eq!(first, requests(&config, 7));
        assert_ne!(first, requests(&config, 8));
    }
}

#[test]
fn other_lengths_or_content_leave_the_arrivals_alone() {
    let plain = fixed(ArrivalConfig::Poisson { rate_per_s: 5.0 });
    let tokens = TokenDistribution::Uniform { min_tokens: 1, max_tokens: 500 };
    let other = WorkloadConfig {
        lengths: LengthConfig::Sampled { input_tokens: tokens, output_tokens: tokens },
        content: ContentConfig::SystemPrompt {
            groups: 3,
            prefix_tokens: 50,
            share: 1.0,
            popularity: Popularity::Uniform {},
        },
        ..plain.clone()
    };
    assert_eq!(arrivals_ms(&requests(&plain, 3)), arrivals_ms(&requests(&other, 3)));
}

#[test]
fn the_content_of_every_request_adds_up_to_its_prompt() {
    let base = fixed(ArrivalConfig::Poisson { rate_per_s: 5.0 });
    let system = ContentConfig::SystemPrompt {
        groups: 4,
        prefix_tokens: 64,
        share: 0.5,
        popularity: Popularity::Zipf { exponent: 1.0 },
    };
    let shared = SharedPrefixConfig { range_ratio: 0.2, ..SharedPrefixConfig::default() };
    let lengths = LengthConfig::GeneratedSharedPrefix(shared);
    for config in [
        WorkloadConfig { content: system, ..base.clone() },
        WorkloadConfig { num_requests: None, lengths, ..base },
    ] {
        let requests = requests(&config, 2);
        assert!(requests.len() >= 1000);
        for request in requests {
            let segments = request.content.segments.expect("it may share something");
            let total: u32 = segments.iter().map(|segment| segment.len).sum();
            assert_eq!(total, request.prompt_tokens);
        }
    }
}

#[test]
fn a_duration_ends_the_workload() {
    let config = WorkloadConfig {
        num_requests: None,
        duration_s: Some(2.0),
        ..fixed(ArrivalConfig::Constant { rate_per_s: 4.0 })
    };
    // Every 250 ms up to and including 2 s.
    assert_eq!(requests(&config, 0).len(), 8);
}

#[test]
fn a_trace_played_twice_as_fast_has_half_its_times() {
    let rows = vec![row(0, 3), row(10, 4), row(30, 5)];
    let config = replayed(TraceArrivalConfig { rate_scale: 2.0, ..TraceArrivalConfig::default() });
    assert_eq!(arrivals_ms(&play(&config, rows)), [0, 5, 15]);
}

#[test]
fn a_target_rate_scales_the_whole_trace() {
    // Two gaps over 30 ms are 66.7 a second; 100 a second leaves 20 ms.
    let rows = vec![row(0, 3), row(10, 4), row(30, 5)];
    let trace = TraceArrivalConfig { rate_per_s: Some(100.0), ..TraceArrivalConfig::default() };
    let played = play(&replayed(trace), rows);
    let nanos: Vec<u64> = played.iter().map(|request| request.arrival.as_nanos()).collect();
    assert_eq!(nanos, [0, 6_666_667, 20_000_000]);
}

#[test]
fn a_window_becomes_time_zero_and_what_is_left_out_is_counted() {
    let rows = vec![row(0, 3), row(1000, 4), row(1500, 0), row(1900, 6), row(2000, 7)];
    let trace = TraceArrivalConfig {
        window_start_s: Some(1.0),
        window_end_s: Some(2.0),
        ..TraceArrivalConfig::default()
    };
    let mut workload = open(&replayed(trace), rows).unwrap();
    let played: Vec<Request> = workload.by_ref().map(Result::unwrap).collect();
    assert_eq!(arrivals_ms(&played), [0, 900]);
    assert_eq!(workload.notices(), [Notice::RowsOutsideWindow(2), Notice::RowsEmpty(1)]);
}

#[test]
fn rows_out_of_order_are_put_in_order_and_counted() {
    let rows = vec![row(20, 1), row(10, 2), row(30, 3), row(5, 4)];
    let mut workload = open(&replayed(TraceArrivalConfig::default()), rows).unwrap();
    let played: Vec<Request> = workload.by_ref().map(Result::unwrap).collect();
    assert_eq!(arrivals_ms(&played), [5, 10, 20, 30]);
    assert_eq!(workload.notices(), [Notice::RowsOutOfOrder(2)]);
}

#[test]
fn a_row_far_out_of_order_is_an_error_unless_the_whole_trace_is_sorted() {
    let rows = || (1..10_000).map(|ms| row(ms, 1)).chain([row(0, 2)]).collect::<Vec<_>>();
    let late: Result<Vec<Request>, _> =
        open(&replayed(TraceArrivalConfig::default()), rows()).unwrap().collect();
    assert!(late.unwrap_err().to_string().contains("set workload.arrivals.sort to whole_trace"));
    let sort = TraceArrivalConfig { sort: RowSort::WholeTrace, ..TraceArrivalConfig::default() };
    assert_eq!(play(&replayed(sort), rows())[0].prompt_tokens, 2);
}

#[test]
fn jitter_stays_within_its_step_and_in_order() {
    let rows: Vec<TraceRow> = (0..200).map(|k| row(k / 10 * 3000, k as u32 + 1)).collect();
    let config = replayed(TraceArrivalConfig { jitter_s: 3.0, ..TraceArrivalConfig::default() });
    let played = play(&config, rows);
    assert_eq!(played.len(), 200);
    assert!(played.is_sorted_by_key(|request| request.arrival));
    for request in &played {
        let step = u64::from(request.prompt_tokens - 1) / 10;
        assert_eq!(request.arrival.as_nanos() / 3_000_000_000, step);
    }
}

#[test]
fn copies_share_tokens_only_where_asked() {
    let hashed = || TraceRow { hash_ids: vec![7, 8], hash_block_tokens: 4, ..row(0, 6) };
    let copied = |copy_content| {
        let trace = TraceArrivalConfig { copies: 2, copy_content, ..Default::default() };
        play(&replayed(trace), vec![hashed()])
    };
    let shared = copied(CopyContent::Shared);
    // Six tokens in blocks of four: the last block covers the two that are left.
    let blocks = [Segment { stream: 7, start: 0, len: 4 }, Segment { stream: 8, start: 0, len: 2 }];
    assert_eq!(shared[0].content.segments.as_deref(), Some(&blocks[..]));
    assert_eq!(shared[0].content, shared[1].content);
    let fresh = copied(CopyContent::Fresh);
    assert_eq!(fresh[0].content, shared[0].content);
    let first_stream = |request: &Request| request.content.segments.as_ref().map(|s| s[0].stream);
    assert_ne!(first_stream(&fresh[0]), first_stream(&fresh[1]));
}

#[test]
fn a_later_turn_quotes_the_whole_history() {
    let turns = |tokens| TokenDistribution::Fixed { tokens };
    let config = WorkloadConfig {
        num_requests: Some(1),
        sessions: Some(SessionConfig {
            turns_min: 3,
            turns_max: 3,
            message_tokens: turns(20),
            output_tokens: turns(30),
            think_time: ThinkTime::Constant { time_s: 2.0 },
            context_tokens_max: None,
        }),
        ..fixed(ArrivalConfig::AllAtOnce {})
    };
    let mut workload = Workload::open(&config, Seed(1), None).unwrap();
    let first = workload.next().unwrap().unwrap();
    let at = |secs| SimTime::from_secs_f64(secs);
    let second = workload.follow_up(RequestId(0), &first, at(5.0)).expect("a second turn");
    // 100 prompt + 10 answer + 20 message, two seconds after the answer.
    assert_eq!((second.prompt_tokens, second.output_tokens), (130, 30));
    assert_eq!(second.arrival, at(7.0));
    let segments = second.content.segments.as_deref().expect("history");
    let lens: Vec<u32> = segments.iter().map(|segment| segment.len).collect();
    assert_eq!(lens, [100, 10, 20]);
    assert_eq!(segments[0], first.content.segments.as_deref().expect("explicit")[0]);
    assert_eq!(segments[1].stream, Segment::answer_stream(RequestId(0)));
    let third = workload.follow_up(RequestId(9), &second, at(9.0)).expect("a third turn");
    assert_eq!(third.prompt_tokens, 180);
    assert_eq!(third.content.segments.as_deref().map(<[Segment]>::len), Some(5));
    assert_eq!(third.session, first.session);
    assert_eq!(workload.follow_up(RequestId(10), &third, at(20.0)), None);
}

#[test]
fn asking_for_more_than_there_is_says_so() {
    let config = WorkloadConfig {
        lengths: LengthConfig::List { pairs: vec![(3, 4), (5, 6)], order: RowOrder::Recorded },
        ..fixed(ArrivalConfig::Poisson { rate_per_s: 1.0 })
    };
    let played: Vec<_> = Workload::open(&config, Seed(0), None).unwrap().collect();
    assert_eq!(played.len(), 3);
    let message = played[2].as_ref().unwrap_err().to_string();
    let told = "workload.lengths: has 2 requests to give, workload.num_requests asks for 1000; ask for fewer, ";
    assert!(message.starts_with(told), "{message}");
    let config =
        WorkloadConfig { num_requests: Some(7), ..replayed(TraceArrivalConfig::default()) };
    assert_eq!(
        refusal(&config, vec![row(0, 5), row(1000, 6)]),
        "a.csv: has 2 requests to give, workload.num_requests asks for 7; ask for fewer, or leave it out"
    );
}

/// What the first error of a replayed trace in `a.csv` says.
fn refusal(config: &WorkloadConfig, rows: Vec<TraceRow>) -> String {
    let mut workload = open(config, rows).expect("it opens").of_trace(Some("a.csv".to_owned()));
    workload.find_map(Result::err).expect("it is refused").to_string()
}

#[test]
fn a_trace_of_which_nothing_is_played_says_where_its_rows_are() {
    let window = |start: Option<f64>, end: Option<f64>| {
        replayed(TraceArrivalConfig {
            window_start_s: start,
            window_end_s: end,
            ..TraceArrivalConfig::default()
        })
    };
    let rows = || vec![row(9250, 5), row(1500, 6), row(3000, 7)];
    assert_eq!(
        refusal(&window(Some(20.0), Some(30.0)), rows()),
        "a.csv: none of its rows lies in the window from 20 s to 30 s: they come from 1.5 s to 9.25 s; \
         move workload.arrivals.window_start_s or window_end_s"
    );
    let told = refusal(&window(Some(20.0), None), rows());
    assert!(
        told.contains(" in the window from 20 s on: they come from 1.5 s to 9.25 s; "),
        "{told}"
    );
    let asked = WorkloadConfig { num_requests: Some(9), ..window(Some(2.0), Some(5.0)) };
    let told = refusal(&asked, rows());
    assert!(
        told.starts_with("a.csv: has 1 request to give in the window from 2 s to 5 s, "),
        "{told}"
    );
    let empty = vec![TraceRow { output_tokens: 0, ..row(1, 5) }];
    assert_eq!(
        refusal(&window(None, None), empty),
        "a.csv: none of its rows has prompt tokens and output tokens"
    );
}

#[test]
fn a_missing_or_empty_trace_is_refused() {
    let config = replayed(TraceArrivalConfig::default());
    assert!(Workload::open(&config, Seed(0), None).is_err());
    assert!(open(&config, vec![]).unwrap_err().to_string().contains("empty"));
}

#[test]
fn rules_name_the_field_and_the_value() {
    let messages = |config: &WorkloadConfig| -> Vec<String> {
        config.validate().iter().map(ToString::to_string).collect()
    };
    for rate_per_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let config = fixed(ArrivalConfig::Poisson { rate_per_s });
        let expected = format!(
            "arrivals.rate_per_s: must be finite and at least 10⁻⁶ per second (for all at once: type \
             all_at_once), got {rate_per_s}"
        );
        assert_eq!(messages(&config), [expected]);
    }
    let config = WorkloadConfig {
        lengths: LengthConfig::Fixed { input_tokens: 0, output_tokens: 1 },
        num_requests: None,
        ..fixed(ArrivalConfig::AllAtOnce {})
    };
    assert_eq!(
        messages(&config),
        [
            "num_requests: must be given for these arrivals and lengths",
            "lengths.input_tokens: must be between 1 and 2^31 - 1 tokens, got 0",
        ]
    );
}

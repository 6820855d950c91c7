//! Random engines, requests and aborts: small numbers, so that limits are met often.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use servecast::cost::Linear;
use servecast::ids::RequestId;
use servecast::request::{Content, Request, Segment};
use servecast::scenario::{
    AcceptanceConfig, HostConfig, Policy, SpeculationConfig, SpeculationMethod, VllmConfig,
};
use servecast::units::{SimDuration, SimTime};

use crate::support::{Abort, law, micros};

/// What one engine is given to do.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) engine: VllmConfig,
    pub(crate) law: Linear,
    pub(crate) requests: Vec<Request>,
    pub(crate) aborts: Vec<Abort>,
}

/// Any engine with any requests, clients that go away among them.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    (served(), laws(), vec((0_u32..24, 0_u64..40_000), 0..4)).prop_map(
        |((engine, requests), law, aborts)| {
            let aborts = aborts.into_iter().map(|(request, after)| {
                let request = RequestId(request % requests.len() as u32);
                Abort { at: requests[request.index()].arrival + micros(after), request }
            });
            Case { aborts: aborts.collect(), engine, law, requests }
        },
    )
}

/// Any engine with any requests.
///
/// Of requests that come at one instant with one priority, each takes the memory of the other in
/// turn (`vllm_v1`, `victim`), and none may ever get on. Real clocks are finer than that.
pub(crate) fn served() -> impl Strategy<Value = (VllmConfig, Vec<Request>)> {
    (engines(), requests()).prop_map(|(engine, mut requests)| {
        for (request, nanos) in requests.iter_mut().zip(0..) {
            if engine.policy == Policy::Priority {
                request.arrival += SimDuration::from_nanos(nanos);
            }
        }
        (engine, requests)
    })
}

pub(crate) fn laws() -> impl Strategy<Value = Linear> {
    (1_u64..2000, 0_u64..50, 0_u64..100).prop_map(|(step, token, seq)| law(step, token, seq))
}

/// Any flags, tiny budgets and tiny pools; only what vLLM itself refuses to start with is left out.
fn engines() -> impl Strategy<Value = VllmConfig> {
    let sizes = (prop::sample::select(vec![1_u32, 2, 4, 16]), 2_u32..120, 1_u32..6);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let limits = (1_u32..64, 0_u32..20, any::<bool>(), 1_u32..4, 0.0..0.3);
    (sizes, flags, limits, option::of(speculations()), hosts()).prop_map(
        |((block_size, model_len, seqs), flags, limits, speculation, host)| {
            let (chunked, caching, is_async, by_priority, reserve) = flags;
            let (budget, threshold, adaptive, interval, watermark) = limits;
            let drafts = speculation.as_ref().map_or(0, |s| s.num_speculative_tokens);
            // vLLM refuses a budget without a token for every sequence and its drafts, and
            // without chunks one that a longest prompt does not fit.
            let least = if chunked { 0 } else { model_len };
            let budget = budget.max(seqs * (1 + drafts)).max(least);
            // It wants memory for one longest sequence and takes the null block out of that. A
            // sequence that outgrows the rest waits forever, or starts over forever, which
            // scenarios refuse.
            let starts_over = !reserve || speculation.is_some();
            let blocks = model_len.div_ceil(block_size).max(2) + u32::from(starts_over);
            VllmConfig {
                block_size,
                num_gpu_blocks: Some(blocks + threshold % 5),
                max_num_batched_tokens: Some(budget),
                max_num_seqs: Some(seqs),
                max_num_active_seqs: None,
                max_model_len: Some(model_len),
                enable_chunked_prefill: chunked,
                enable_prefix_caching: caching,
                async_scheduling: is_async,
                policy: if by_priority { Policy::Priority } else { Policy::Fcfs },
                long_prefill_token_threshold: if chunked { threshold } else { 0 },
                adaptive_long_prefill_threshold: chunked && adaptive,
                prefill_schedule_interval: interval,
                watermark: if threshold % 2 == 0 { watermark } else { 0.0 },
                scheduler_reserve_full_isl: reserve,
                max_loras: None,
                speculation,
                host,
                ..VllmConfig::default()
            }
        },
    )
}

/// Hosts that take no time, a little, or more than the device.
pub(crate) fn hosts() -> impl Strategy<Value = HostConfig> {
    let times = (0_u32..900, 0_u32..40, 0_u32..300, 0_u32..900, 0_u32..40, 0_u32..4000);
    let warmth = prop::option::of((1_u32..100, 1_u32..3000));
    let prefills = (0_u32..900, 0_u32..3, 0_u32..900, 0_u32..90, warmth);
    let outcome = (0_u32..900, 0_u32..40, 0_u32..900, 0_u32..40);
    let some = (times, outcome, (0_u32..9000, 0_u32..9), prefills);
    let some = some.prop_map(|(before, outcome, (warm_up, warm_up_after), prefills)| {
        let (prefill, token, prefilled, each_prefilled, warmth) = prefills;
        let (schedule, each, new, launch, launch_each, eager) = before;
        let (after, after_each, hand_over, hand_over_each) = outcome;
        HostConfig {
            schedule_us: f64::from(schedule),
            schedule_per_sequence_us: f64::from(each),
            schedule_per_new_request_us: f64::from(new),
            launch_us: f64::from(launch),
            launch_per_sequence_us: f64::from(launch_each),
            eager_launch_us: f64::from(eager),
            pieces_launch_us: f64::from(eager / 2),
            hand_over_us: f64::from(hand_over),
            hand_over_per_sequence_us: f64::from(hand_over_each),
            schedule_prefill_us: f64::from(prefill),
            schedule_per_prefill_token_us: f64::from(token),
            post_process_prefill_us: f64::from(prefilled),
            post_process_per_prefill_us: f64::from(each_prefilled),
            post_process_us: f64::from(after),
            post_process_per_sequence_us: f64::from(after_each),
            warm_share: warmth.map(|(percent, _)| f64::from(percent) / 100.0),
            cools_us: warmth.map_or(0.0, |(_, cools)| f64::from(cools)),
            warm_up_us: f64::from(warm_up),
            warm_up_after_prefill_steps: warm_up_after,
        }
    });
    prop_oneof![Just(HostConfig::default()), some]
}

fn speculations() -> impl Strategy<Value = SpeculationConfig> {
    let methods = prop::sample::select(vec![SpeculationMethod::Ngram, SpeculationMethod::Eagle]);
    (methods, 1_u32..5, 0.0..=1.0).prop_map(|(method, num_speculative_tokens, probability)| {
        let acceptance = AcceptanceConfig::PerPosition { probability };
        SpeculationConfig::new(method, num_speculative_tokens, acceptance)
    })
}

/// Requests sorted by arrival: bursts and pauses, prompts beyond what an engine takes, answers that
/// stop before their limit, priorities, and beginnings that several share.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let gap = prop_oneof![Just(0_u64), 0_u64..3000, 0_u64..200_000];
    let tokens = prop_oneof![1_u32..10, 1_u32..140];
    let answer = (prop_oneof![Just(1_u32), 1_u32..60], prop_oneof![Just(0_u32), 0_u32..40]);
    let shared = option::of((0_u64..3, 1_u32..64));
    let one = (gap, tokens, answer, 0_i32..3, shared).prop_map(
        |(gap, prompt, (output, spare), priority, shared)| {
            let request = Request { priority, ..Request::new(SimTime::ZERO, prompt, output) };
            (micros(gap), Request { max_tokens: output + spare, ..request }, shared)
        },
    );
    vec(one, 1..24).prop_map(|drawn| {
        let mut arrival = SimTime::ZERO;
        let mut requests = Vec::new();
        for (gap, mut request, shared) in drawn {
            arrival += gap;
            request.arrival = arrival;
            if let Some((stream, len)) = shared {
                let own = requests.len() as u64;
                let prompt = request.prompt_tokens;
                request.content = beginning(stream, len.min(prompt), prompt, own);
            }
            requests.push(request);
        }
        requests
    })
}

/// A prompt whose first `shared` tokens are those of a common stream.
fn beginning(stream: u64, shared: u32, prompt: u32, own: u64) -> Content {
    let common = Segment { stream, start: 0, len: shared };
    let rest = Segment { stream: 1000 + own, start: 0, len: prompt - shared };
    let segments: Arc<[Segment]> = [common, rest].into_iter().filter(|s| s.len > 0).collect();
    Content { segments: Some(segments), ..Content::default() }
}

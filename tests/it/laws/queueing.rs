//! L12, L13: with one seat the simulator is the textbook's queue, and Little's law holds to the
//! nanosecond.

use rand::distr::Distribution;
use rand_distr::Exp1;

use proptest::prelude::*;

use servecast::metrics::Series;
use servecast::request::Request;
use servecast::rng::Seed;
use servecast::units::{SimDuration, SimTime};

use super::random::{laws, served};
use super::student_t;
use crate::support::{cluster, law, one_seat, poisson, records, run_on};

/// Mean service time of the queues: a prompt of a million tokens at 1 ns each.
const SERVICE_TOKENS: f64 = 1e6;
const SERVICE_SECS: f64 = 1e-3;
const REQUESTS: usize = 200_000;
/// Batches of the confidence interval, each about a hundred times longer than waiting times are
/// correlated.
const BATCHES: usize = 40;
/// Student's t for 39 degrees of freedom and 99 %.
const T: f64 = 2.708;

fn seconds(span: SimDuration) -> f64 {
    span.as_secs_f64()
}

/// Mean waiting time in seconds of a queue with one-token answers, and the half-width of its
/// confidence interval from batch means. Arrivals are Poisson at `load` per server; a prompt has
/// as many tokens as `service` says, in units of the mean.
fn waiting(servers: u32, load: f64, seed: Seed, mut service: impl FnMut() -> f64) -> (f64, f64) {
    let law = servecast::cost::Linear {
        base: SimDuration::ZERO,
        prefill_token: SimDuration::from_nanos(1),
        decode_seq: SimDuration::ZERO,
        ..servecast::cost::Linear::default()
    };
    let rate_per_s = load * f64::from(servers) / SERVICE_SECS;
    let requests: Vec<Request> = poisson(seed, rate_per_s)
        .take(REQUESTS)
        .map(|arrival| {
            let tokens = (service() * SERVICE_TOKENS).round().max(1.0) as u32;
            Request::new(arrival, tokens, 1)
        })
        .collect();
    let (counts, recorder) = records(cluster(servers, &one_seat(), law), &requests);
    assert_eq!(counts.finished, REQUESTS as u64);
    // The run starts empty: the first tenth is left out.
    let waits: Vec<f64> = recorder.requests[REQUESTS / 10..]
        .iter()
        .map(|record| seconds(record.queueing()))
        .collect();
    let means: Vec<f64> = waits
        .chunks_exact(waits.len() / BATCHES)
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    student_t(&means, T)
}

/// Asserts that the theory lies in the interval, and that the interval is narrow enough to tell.
fn agrees(name: &str, (mean, half_width): (f64, f64), theory: f64) {
    println!("{name}: {:.4} ± {:.4} ms, theory {:.4}", mean * 1e3, half_width * 1e3, theory * 1e3);
    assert!((mean - theory).abs() <= half_width, "{name}: {mean} ± {half_width}, not {theory}");
    assert!(half_width < 0.08 * theory, "{name}: the run is too short to tell");
}

#[test]
fn one_seat_and_exponential_prompts_are_m_m_1() {
    for load in [0.5, 0.7] {
        let seed = Seed(11);
        let mut stream = seed.stream("service", 0);
        let waits = waiting(1, load, seed, || Exp1.sample(&mut stream));
        // ρ / (μ − λ)
        agrees("M/M/1", waits, load / (1.0 - load) * SERVICE_SECS);
    }
}

#[test]
fn one_seat_and_equal_prompts_are_m_d_1() {
    for load in [0.5, 0.7, 0.8] {
        let waits = waiting(1, load, Seed(12), || 1.0);
        // ρ / 2(μ − λ)
        agrees("M/D/1", waits, load / (2.0 * (1.0 - load)) * SERVICE_SECS);
    }
}

/// Mean wait in an M/D/c queue, in service times (Crommelin 1932): with α = cρ,
/// Σᵢ [ P(X ≥ ic) − P(X ≥ ic + 1) / ρ ] for X Poisson with mean iα.
fn crommelin(servers: u32, load: f64) -> f64 {
    let alpha = f64::from(servers) * load;
    let term = |i: u32| {
        let mean = f64::from(i) * alpha;
        let first = i * servers;
        // P(X = first) by logarithms, then upwards until nothing more comes.
        let log: f64 = (1..=first).map(|j| (mean / f64::from(j)).ln()).sum::<f64>() - mean;
        let exact = log.exp();
        let (mut tail, mut p, mut j) = (0.0, exact, first);
        while p > 1e-18 {
            j += 1;
            p *= mean / f64::from(j);
            tail += p;
        }
        exact + tail - tail / load
    };
    (1..2000).map(term).sum()
}

#[test]
fn replicas_in_turn_with_equal_prompts_are_m_d_c() {
    // With equal service times requests leave in the order they came, so that the c-th before is
    // always the one whose server is free next: in turn is the same as one queue for all.
    for load in [0.5, 0.8] {
        let one = crommelin(1, load);
        assert!((one - load / (2.0 * (1.0 - load))).abs() < 1e-9, "M/D/1 as a check: {one}");
    }
    let waits = waiting(3, 0.8, Seed(13), || 1.0);
    agrees("M/D/3", waits, crommelin(3, 0.8) * SERVICE_SECS);
}

/// ∫ level dt in request-seconds. A run that starts and ends empty has nothing beyond its ends.
fn integral(series: &Series, end: SimTime) -> f64 {
    let points = series.points(end);
    let width = points.first().map_or(0.0, |(middle, _)| 2.0 * middle);
    points.iter().map(|(_, level)| level * width).sum()
}

/// Equal but for the rounding of sums of integers below 2⁵³ that were divided by a bin's width.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.max(b)
}

proptest! {
    #![proptest_config(crate::support::random_cases(150))]

    #[test]
    fn the_number_inside_over_time_is_the_time_inside_of_all(
        (engine, requests) in served(), law in laws(), replicas in 1_u32..4,
    ) {
        // N(t) = Σ 1[entered ≤ t < left] over requests; integrated over a run that ends empty,
        // Σ (left − entered). Divided by the length T of the run: L = λ·W with λ = n / T.
        let (counts, recorder) = records(cluster(replicas, &engine, law), &requests);
        prop_assume!(counts.stuck == 0);
        let timeline = &recorder.timeline;
        let inside = integral(&timeline.waiting, recorder.end)
            + integral(&timeline.running, recorder.end);
        let times: f64 = recorder.requests.iter().map(|record| seconds(record.e2e())).sum();
        prop_assert!(same(inside, times), "{inside} request-seconds inside, {times} in records");
        let waits: f64 = recorder.requests.iter().map(|record| seconds(record.queueing())).sum();
        let waiting = integral(&timeline.waiting, recorder.end);
        let preempted = recorder.requests.iter().any(|record| record.preemptions > 0);
        prop_assert!(preempted || same(waiting, waits), "{waiting} waiting, {waits} in records");
    }
}

#[test]
fn an_idle_engine_has_nobody_inside() {
    // Two requests a minute apart, a step of 1 ms each: 2 request-milliseconds in a minute.
    let requests = [0, 60_000]
        .map(|millis| Request::new(SimTime::ZERO + SimDuration::from_millis(millis), 4, 1));
    let mut recorder = servecast::metrics::Recorder::default();
    run_on(cluster(1, &crate::support::small_engine(), law(1000, 0, 0)), requests, &mut recorder);
    let running = integral(&recorder.timeline.running, recorder.end);
    assert!(same(running, 0.002), "{running} request-seconds");
}

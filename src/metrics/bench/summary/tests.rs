//! Laws of the summary, and small runs worked by hand.

use proptest::prelude::*;

use super::*;
use crate::metrics::bench::input::BenchRecord;
use crate::metrics::bench::input::Outcome;

/// Requests with gaps, some of them failed; every latency is the sum of its parts.
pub(in crate::metrics::bench) fn records() -> impl Strategy<Value = Vec<BenchRecord>> {
    let gaps = prop::collection::vec(0.0..0.2_f64, 0..20);
    let record = (0.0..50.0_f64, 0.001..5.0_f64, gaps, 1..5000_u32, prop::bool::weighted(0.9));
    let record =
        record.prop_map(|(start_s, ttft_s, itl_s, prompt_tokens, succeeded)| BenchRecord {
            request: BenchRequest {
                start_s,
                ttft_s,
                latency_s: ttft_s + itl_s.iter().sum::<f64>(),
                prompt_tokens,
                output_tokens: itl_s.len() as u32 + 1,
                cached_tokens: prompt_tokens / 2,
                outcome: if succeeded { Outcome::Succeeded } else { Outcome::Failed },
            },
            itl_s,
            error: String::new(),
        });
    prop::collection::vec(record, 0..40)
}

proptest! {
    #[test]
    fn percentiles_rise_and_the_mean_lies_between_the_ends(records in records()) {
        let summary = BenchSummary::new(BenchInput::from_records(60.0, &records), None);
        for latency in Latency::ALL {
            let latency = summary.latency(latency);
            let ps = [0.0, 1.0, 25.0, 50.0, 90.0, 95.0, 99.0, 100.0].map(|p| latency.percentile_ms(p));
            prop_assert!(ps.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{ps:?}");
            prop_assert!(ps[0] <= latency.mean_ms() + 1e-6 && latency.mean_ms() <= ps[7] + 1e-6);
            prop_assert!((latency.median_ms() - ps[3]).abs() < 1e-9);
            prop_assert!((latency.max_ms() - ps[7]).abs() < 1e-9);
        }
    }

    #[test]
    fn the_first_token_comes_before_the_last(records in records()) {
        let summary = BenchSummary::new(BenchInput::from_records(60.0, &records), None);
        for p in [0.0, 50.0, 99.0, 100.0] {
            prop_assert!(summary.ttft.percentile_ms(p) <= summary.e2e.percentile_ms(p) + 1e-9);
        }
        prop_assert!(summary.ttft.mean_ms() <= summary.e2e.mean_ms() + 1e-9);
    }

    #[test]
    fn throughput_times_duration_is_tokens(records in records(), duration_s in 1.0..100.0_f64) {
        let summary = BenchSummary::new(BenchInput::from_records(duration_s, &records), None);
        let near = |rate: f64, count: u64| (rate * duration_s - count as f64).abs() < 1e-6;
        prop_assert!(near(summary.request_throughput(), summary.completed));
        prop_assert!(near(summary.input_throughput(), summary.input_tokens));
        prop_assert!(near(summary.output_throughput(), summary.output_tokens));
        prop_assert!(near(summary.total_throughput(), summary.input_tokens + summary.output_tokens));
        let gaps_and_first_tokens = summary.itl.count() + summary.completed;
        prop_assert_eq!(gaps_and_first_tokens, summary.output_tokens);
        prop_assert_eq!(summary.completed + summary.failed, records.len() as u64);
        prop_assert!(summary.peak_output_tokens_per_s <= summary.output_tokens as f64);
        prop_assert!(summary.peak_concurrent_requests <= summary.completed);
    }

    #[test]
    fn weighted_gaps_give_what_single_gaps_give(records in records()) {
        let single = BenchInput::from_records(60.0, &records);
        let mut weighted = single.clone();
        let TokenGaps::Each(gaps) = &single.gaps else { unreachable!() };
        weighted.gaps = TokenGaps::Weighted(Weighted::new(gaps.iter().map(|g| (*g, 1)).collect()));
        let single = BenchSummary::new(single, None).itl;
        let weighted = BenchSummary::new(weighted, None).itl;
        prop_assert_eq!(single.count(), weighted.count());
        let statistics = [Statistic::Mean, Statistic::Median, Statistic::StdDev, Statistic::Max];
        for statistic in statistics.into_iter().chain([90.0, 99.0].map(Statistic::Percentile)) {
            let (a, b) = (single.statistic_ms(statistic), weighted.statistic_ms(statistic));
            prop_assert!((a - b).abs() < 1e-9, "{statistic:?}: {a} and {b}");
        }
    }

    #[test]
    fn tighter_slos_are_never_met_more_often(records in records(), ms in 1.0..3000.0_f64) {
        let attainment = |ms: f64| {
            let slos = Slos::parse([format!("ttft:{ms} e2el:{}", 2.0 * ms)]).unwrap();
            let input = BenchInput::from_records(60.0, &records);
            BenchSummary::new(input, Some(slos)).goodput.unwrap().attainment
        };
        prop_assert!(attainment(ms) <= attainment(ms * 1.5));
    }
}

#[test]
fn three_requests_by_hand() {
    let record = |start_s: f64, ttft_s: f64, itl_s: &[f64]| BenchRecord {
        request: BenchRequest {
            start_s,
            ttft_s,
            latency_s: ttft_s + itl_s.iter().sum::<f64>(),
            prompt_tokens: 100,
            output_tokens: itl_s.len() as u32 + 1,
            ..BenchRequest::default()
        },
        itl_s: itl_s.to_vec(),
        error: String::new(),
    };
    let records = [record(0.0, 0.5, &[0.1, 0.3]), record(1.0, 1.5, &[0.2]), record(2.0, 0.25, &[])];
    let summary = BenchSummary::new(BenchInput::from_records(4.0, &records), None);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    // latencies 0.9, 1.7, 0.25: sum 2.85 over 4 s
    near(summary.concurrency, 0.7125);
    near(summary.e2e.mean_ms(), 950.0);
    near(summary.e2e.median_ms(), 900.0);
    // one value a request of two tokens or more: 0.4/2 and 0.2/1
    near(summary.tpot.mean_ms(), 200.0);
    near(summary.tpot.count() as f64, 2.0);
    // one value a gap: 0.1, 0.3, 0.2; the 90th percentile is 0.2 + 0.8·0.1
    near(summary.itl.percentile_ms(90.0), 280.0);
    // tokens at 0.5 0.6 0.9 | | 2.5 2.7 2.25
    near(summary.peak_output_tokens_per_s, 3.0);
    // [0, 0.9] touches second 0, [1, 2.7] 1 and 2, [2, 2.25] 2
    assert_eq!(summary.peak_concurrent_requests, 2);
    near(summary.total_throughput(), 306.0 / 4.0);
}

#[test]
fn a_run_without_successes_is_all_zeros() {
    let failed = BenchRequest { outcome: Outcome::Failed, latency_s: 3.0, ..Default::default() };
    let input = BenchInput::new(5.0, vec![failed; 2], TokenGaps::Each(Vec::new()), 0.0);
    let summary = BenchSummary::new(input, None);
    assert_eq!((summary.completed, summary.failed), (0, 2));
    for latency in Latency::ALL {
        for statistic in [Statistic::Mean, Statistic::Median, Statistic::Max, Statistic::StdDev] {
            assert!(summary.latency(latency).statistic_ms(statistic).abs() < 1e-12);
        }
    }
}

#[test]
fn a_client_that_does_not_stream_sees_no_gaps() {
    let request =
        BenchRequest { ttft_s: 0.5, latency_s: 2.0, output_tokens: 10, ..Default::default() };
    let mut input = BenchInput::new(5.0, vec![request; 3], TokenGaps::Each(vec![0.1; 27]), 10.0);
    input.client = ClientMode::NonStreaming;
    let summary = BenchSummary::new(input, None);
    assert!((summary.ttft.mean_ms() - 2000.0).abs() < 1e-9);
    assert!(summary.tpot.max_ms().abs() < 1e-12);
    assert_eq!(summary.itl.count(), 0);
    // the three answers arrive within one second
    assert!((summary.peak_output_tokens_per_s - 3.0).abs() < 1e-12);
}

#[test]
#[ignore = "holds a million requests, to be timed in release mode"]
fn a_million_requests_are_summarised() {
    let request = |i: u64| BenchRequest {
        start_s: i as f64 * 1e-3,
        ttft_s: 0.05 + (i * 7919 % 1000) as f64 * 1e-3,
        latency_s: 2.0 + (i * 104_729 % 5000) as f64 * 1e-3,
        prompt_tokens: 1000,
        output_tokens: 100,
        ..BenchRequest::default()
    };
    let gaps = Weighted::new((0..100_000).map(|i| (0.01 + f64::from(i) * 1e-7, 1000)).collect());
    let requests: Vec<BenchRequest> = (0..1_000_000).map(request).collect();
    let input = BenchInput::new(1000.0, requests, TokenGaps::Weighted(gaps), 100_000.0);
    let slos = Slos::parse(["ttft:500 tpot:50"]).unwrap();
    let summary = BenchSummary::new(input, Some(slos));
    assert_eq!(summary.completed, 1_000_000);
    let text = crate::metrics::bench::SglangRun::default().text(&summary);
    assert!(text.contains("Successful requests:                     1000000"));
}

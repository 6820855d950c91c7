//! Predicted latencies.

use super::*;

/// Three instances: the first prefills 100 tokens before anything that comes, on the second four requests
/// decode, the third is idle.
fn in_need_of_a_prediction() -> Instances {
    let mut instances = Instances::with_requests(&[1, 4, 0]);
    instances.outstanding[0].prompt_tokens = 100;
    instances.outstanding[1].prompt_tokens = 400;
    instances.signals[1].running = 4;
    instances
}

#[test]
fn the_least_predicted_latency_is_that_of_an_idle_instance() {
    let mut instances = in_need_of_a_prediction();
    let mut router = LatencyPredicting::new(LatencyPredictingConfig::default());
    // 20 tokens: three steps of 6 ms, 6 ms and 3 ms and then 3 ms a token; 7 ms and 6 ms; 3 ms and 2 ms.
    assert_eq!(instances.send(&mut router, &request(20)), 2);
}

#[test]
fn a_request_goes_where_its_limits_hold_with_the_least_headroom() {
    let within = |slo_ttft_ms, slo_tpot_ms| {
        let config = LatencyPredictingConfig {
            slo_ttft_ms: Some(slo_ttft_ms),
            slo_tpot_ms: Some(slo_tpot_ms),
            ..LatencyPredictingConfig::default()
        };
        in_need_of_a_prediction().send(&mut LatencyPredicting::new(config), &request(20))
    };
    // Times to the first token are 15, 7 and 3 ms, those of each further one 3, 6 and 2 ms.
    assert_eq!(within(20.0, 10.0), 0, "all hold both");
    assert_eq!(within(14.9, 10.0), 1, "the first takes too long to its first token");
    assert_eq!(within(14.9, 5.9), 2, "the second takes too long for the others");
    assert_eq!(within(2.9, 10.0), 2, "none holds: the least latency");
}

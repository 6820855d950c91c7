//! Laws of arrival processes.

use super::*;

const COUNT: usize = 200_000;

fn gaps(config: &ArrivalConfig, seed: u64) -> Vec<f64> {
    let mut arrivals =
        Arrivals::open(config, COUNT, Seed(seed), Tools::new(0)).unwrap().expect("no trace");
    let mut last = SimTime::ZERO;
    (0..COUNT)
        .map(|_| {
            let now = arrivals.next().expect("it goes on");
            let gap = now.since(last); // panics if arrivals are out of order
            last = now;
            gap.as_secs_f64()
        })
        .collect()
}

#[test]
fn rates_and_variation_are_as_asked() {
    let cases = [
        (ArrivalConfig::Poisson { rate_per_s: 8.0 }, 1.0),
        (ArrivalConfig::Gamma { rate_per_s: 8.0, cv: 2.0 }, 2.0),
        (ArrivalConfig::Gamma { rate_per_s: 8.0, cv: 0.5 }, 0.5),
        // cv² = Γ(1 + 2/k) / Γ(1 + 1/k)² − 1; k = 2: 4/π − 1 = 0.27324.
        (ArrivalConfig::Weibull { rate_per_s: 8.0, shape: 2.0 }, 0.522_723),
        // k = 1/2: Γ(5) / Γ(3)² − 1 = 24/4 − 1 = 5.
        (ArrivalConfig::Weibull { rate_per_s: 8.0, shape: 0.5 }, 5.0_f64.sqrt()),
        (ArrivalConfig::Constant { rate_per_s: 8.0 }, 0.0),
    ];
    for (config, cv) in cases {
        let gaps = gaps(&config, 11);
        let mean = gaps.iter().sum::<f64>() / COUNT as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / COUNT as f64;
        // Four standard errors of the mean, cv / √n of it: a chance of 6 in 100 000.
        let tolerance = 4.0 * cv / (COUNT as f64).sqrt() + 1e-8;
        assert!((mean * 8.0 - 1.0).abs() < tolerance, "{config:?}: mean gap {mean} s");
        // The heaviest tail here, k = 1/2, has a standard error of its cv near 1.5 %.
        let measured = variance.sqrt() / mean;
        assert!((measured - cv).abs() < 0.05 * cv + 1e-6, "{config:?}: cv {measured}");
    }
}

#[test]
fn a_rate_like_a_sine_has_its_mean_and_its_highs_and_lows() {
    let sine = ArrivalConfig::Sine { rate_per_s: 8.0, amplitude: 0.75, period_s: 100.0 };
    let gaps = gaps(&sine, 3);
    let (mut now, mut by_tenth) = (0.0, [0.0_f64; 10]);
    for gap in &gaps {
        now += gap;
        by_tenth[(now % 100.0 / 10.0) as usize] += 1.0;
    }
    let periods = now / 100.0;
    for (tenth, count) in (0_u32..).zip(by_tenth) {
        // The mean of 8 (1 − 0.75 cos 2πt/T) over a tenth of T.
        let end = |tenth: u32| (std::f64::consts::TAU * f64::from(tenth) / 10.0).sin();
        let wave = (end(tenth + 1) - end(tenth)) * 10.0 / std::f64::consts::TAU;
        let expected = periods * 10.0 * 8.0 * (1.0 - 0.75 * wave);
        // Five standard deviations of a Poisson number, and the last period that is not whole.
        let tolerance = 5.0 * expected.sqrt() + 140.0;
        assert!((count - expected).abs() < tolerance, "tenth {tenth}: {count} for {expected}");
    }
}

#[test]
fn the_same_seed_gives_the_same_arrivals() {
    let poisson = ArrivalConfig::Poisson { rate_per_s: 3.0 };
    assert_eq!(gaps(&poisson, 5), gaps(&poisson, 5));
    assert_ne!(gaps(&poisson, 5), gaps(&poisson, 6));
}

#[test]
fn vllms_last_request_comes_at_count_over_rate() {
    for burstiness in [0.3, 1.0, 4.0, f64::INFINITY] {
        let mut numpy = LegacyRandom::new(3);
        let times = vllm_arrivals_s(VllmRate::Steady(2.5), burstiness, 50, &mut numpy);
        assert!((times[49] - 20.0).abs() < 1e-12, "burstiness {burstiness}");
        assert!(times.is_sorted());
    }
}

#[test]
fn sglang_and_old_vllm_send_the_first_request_at_once() {
    // Seed 0: 199 exponential gaps at 2 requests a second sum to 98.22 s, just below the
    // 98.72 s that a measured run of 200 requests took.
    let mut tool =
        Arrivals::open(&ArrivalConfig::Vllm2024 { rate_per_s: 2.0 }, 200, Seed(9), Tools::new(0))
            .unwrap()
            .expect("no trace");
    assert_eq!(tool.next(), Some(SimTime::ZERO));
    let last = (1..200).filter_map(|_| tool.next()).last().expect("200 arrivals");
    assert!((last.as_secs_f64() - 98.22).abs() < 0.005, "{last}");
}

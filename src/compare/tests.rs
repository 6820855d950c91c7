//! Laws of comparisons: intervals hold the truth as often as they say.

use rand::Rng as _;
use rand_distr::{Distribution, LogNormal, Normal};

use super::*;
use crate::rng::{Seed, Stream};
use crate::study::Sense;

const CONFIDENCE: f64 = 0.95;

fn basis(pairing: Pairing, first: usize) -> Basis {
    Basis { pairing, draws: Draws::Requests, confidence: CONFIDENCE, first }
}

/// Draws the pair of a seed.
type Draw<'a> = &'a dyn Fn(&mut Stream) -> (f64, f64);

/// Compares figures as the command does: a first round, then as many seeds as it asks for.
fn compared(draw: Draw<'_>, pairing: Pairing, rounds: Rounds, stream: &mut Stream) -> Difference {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let difference = |pairs: &[(f64, f64)]| {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        Difference::new(&a, &b, basis(pairing, rounds.first))
    };
    let mut seeds = rounds.first;
    loop {
        pairs.extend((pairs.len()..seeds).map(|_| draw(stream)));
        let found = difference(&pairs);
        seeds = rounds.seeds(pairs.len(), [&found]);
        if seeds == pairs.len() {
            return found;
        }
    }
}

/// The share of comparisons whose intervals (of the difference, of the ratio) hold the truth.
fn coverage(draw: Draw<'_>, truth: (f64, f64), pairing: Pairing, rounds: Rounds) -> (f64, f64) {
    const COMPARISONS: u32 = 2000;
    let mut stream = Seed(7).stream("coverage", 0);
    let (mut absolute, mut relative) = (0, 0);
    for _ in 0..COMPARISONS {
        let found = compared(draw, pairing, rounds, &mut stream);
        let ratio = found.relative.expect("the baseline is not 0");
        absolute += u32::from((found.difference() - truth.0).abs() <= found.half_width);
        relative += u32::from((ratio.change - truth.1).abs() <= ratio.half_width);
    }
    (f64::from(absolute) / f64::from(COMPARISONS), f64::from(relative) / f64::from(COMPARISONS))
}

/// Draws of one trace tell no more than the trace does, however many there are.
#[test]
fn intervals_of_resampled_traces_hold_the_truth_whatever_the_number_of_draws() {
    const BLOCKS: usize = 24;
    let mut stream = Seed(11).stream("resampled", 0);
    let normal = Normal::new(0.0, 1.0).unwrap();
    for draws in [10, 50] {
        let basis = Basis { draws: Draws::Stretches, ..basis(Pairing::Paired, draws) };
        let mut held = 0;
        for _ in 0..1000 {
            let blocks: Vec<f64> = (0..BLOCKS).map(|_| normal.sample(&mut stream)).collect();
            let mut stretch = || {
                let picked =
                    (0..BLOCKS).map(|_| blocks[(stream.next_u64() % BLOCKS as u64) as usize]);
                picked.sum::<f64>() / BLOCKS as f64
            };
            let b: Vec<f64> = (0..draws).map(|_| 100.0 + stretch()).collect();
            let found = Difference::new(&vec![100.0; draws], &b, basis);
            held += u32::from(found.difference().abs() <= found.half_width);
        }
        assert!(held >= 920, "{held} of 1000 intervals of {draws} draws");
    }
}

const ROUNDS: [Rounds; 3] = [
    Rounds { first: 5, most: 5, within: 0.02 },
    Rounds { first: 10, most: 1000, within: 0.02 },
    Rounds { first: 10, most: 30, within: 0.02 },
];

#[test]
fn intervals_of_normal_figures_hold_the_truth_as_often_as_they_say() {
    // Requests that both share, and what each adds.
    let (shared, own) = (Normal::new(100.0, 15.0).unwrap(), Normal::new(0.0, 7.0).unwrap());
    let paired = |stream: &mut Stream| {
        let requests = shared.sample(stream);
        (requests + own.sample(stream), requests - 10.0 + own.sample(stream))
    };
    let apart = |stream: &mut Stream| {
        (shared.sample(stream), shared.sample(stream) + own.sample(stream) - 10.0)
    };
    for rounds in ROUNDS {
        let draws: [(Draw<'_>, Pairing); 2] =
            [(&paired, Pairing::Paired), (&apart, Pairing::Independent)];
        for (draw, pairing) in draws {
            let (absolute, relative) = coverage(draw, (-10.0, -0.1), pairing, rounds);
            // 2,000 comparisons: a deviation of half a percent.
            assert!((0.935..0.975).contains(&absolute), "{rounds:?} {pairing:?}: {absolute}");
            assert!((0.93..0.975).contains(&relative), "{rounds:?} {pairing:?}: {relative}");
        }
    }
}

#[test]
fn intervals_of_skewed_figures_hold_the_truth_nearly_as_often() {
    // As tail latencies are: a few seeds with twice the others.
    let (shared, own) = (LogNormal::new(0.0, 0.4).unwrap(), LogNormal::new(0.0, 0.2).unwrap());
    let mean = (0.4_f64 * 0.4 / 2.0).exp() * (0.2_f64 * 0.2 / 2.0).exp();
    let draw = |stream: &mut Stream| {
        let requests = shared.sample(stream);
        (requests * own.sample(stream), 0.8 * requests * own.sample(stream))
    };
    for rounds in ROUNDS {
        let (absolute, relative) = coverage(&draw, (-0.2 * mean, -0.2), Pairing::Paired, rounds);
        assert!(absolute > 0.91, "{rounds:?}: {absolute}");
        assert!(relative > 0.91, "{rounds:?}: {relative}");
    }
}

#[test]
fn a_scenario_against_itself_under_other_seeds_is_no_different() {
    let skewed = LogNormal::new(0.0, 0.5).unwrap();
    let draw = |stream: &mut Stream| (skewed.sample(stream), skewed.sample(stream));
    for rounds in ROUNDS {
        let mut stream = Seed(11).stream("itself", 0);
        let finds = |_| {
            let found = compared(&draw, Pairing::Independent, rounds, &mut stream);
            found.p_value >= 1.0 - CONFIDENCE
        };
        let right = (0..1000).map(finds).filter(|is_right| *is_right).count();
        assert!(right >= 930, "{rounds:?}: {right} of 1000");
    }
}

#[test]
fn a_known_difference_is_found_and_measured() {
    // Differences 1, 2, 3: mean 2, deviation 1, t of two degrees of freedom 4.3027.
    let found =
        Difference::new(&[10.0, 20.0, 30.0], &[11.0, 22.0, 33.0], basis(Pairing::Paired, 3));
    assert!((found.difference() - 2.0).abs() < 1e-12);
    assert!((found.half_width - 4.302_653 / 3.0_f64.sqrt()).abs() < 1e-5, "{found:?}");
    // b is 1.1·a in every pair: the ratio is known exactly.
    let relative = found.relative.expect("the baseline is not 0");
    assert!((relative.change - 0.1).abs() < 1e-12 && relative.half_width < 1e-12, "{relative:?}");
    let apart = basis(Pairing::Independent, 3);
    let apart = Difference::new(&[10.0, 20.0, 30.0], &[11.0, 22.0, 33.0], apart);
    // Variances 100 and 121 over three values; Welch: 221² / (100² + 121²) · 2 = 3.964 degrees.
    let expected = 2.784_9 * (221.0_f64 / 3.0).sqrt();
    assert!((apart.half_width / expected - 1.0).abs() < 1e-3, "{apart:?} {expected}");
}

#[test]
fn the_wider_interval_counts_of_the_first_seeds_and_of_all() {
    let a = [1.0; 6];
    let first_is_wider =
        Difference::new(&a, &[2.0, 4.0, 9.0, 9.0, 9.0, 9.0], basis(Pairing::Paired, 2));
    // Deviation of 1 and 3: √2; one degree of freedom: 12.7062.
    assert!((first_is_wider.difference() - 6.0).abs() < 1e-12);
    let expected = 12.706_205 * (2.0_f64 / 6.0).sqrt();
    assert!((first_is_wider.half_width - expected).abs() < 1e-4, "{first_is_wider:?}");
    // Differences 1, 1, 4, 4, 4, 4: deviation √2.4; five degrees of freedom: 2.5706.
    let b = [2.0, 2.0, 5.0, 5.0, 5.0, 5.0];
    let all_is_wider = Difference::new(&a, &b, basis(Pairing::Paired, 2));
    let expected = 2.570_582 * (2.4_f64 / 6.0).sqrt();
    assert!((all_is_wider.half_width - expected).abs() < 1e-4, "{all_is_wider:?}");
    assert!(all_is_wider.p_value > 0.001, "{all_is_wider:?}");
}

#[test]
fn a_round_is_as_long_as_the_widest_figure_asks() {
    let rounds = Rounds { first: 10, most: 100, within: 0.02 };
    let of = |half_width: f64| Difference {
        mean_a: 1.0,
        mean_b: 1.0,
        half_width,
        relative: Some(Relative { change: 0.0, half_width }),
        p_value: 1.0,
        count: 10,
    };
    assert_eq!(rounds.seeds(10, [&of(0.01), &of(0.02)]), 10);
    // Twice as wide as wanted: four times the seeds.
    assert_eq!(rounds.seeds(10, [&of(0.01), &of(0.04)]), 40);
    // A little too wide: one more at least.
    assert_eq!(rounds.seeds(40, [&of(0.020_000_1)]), 41);
    assert_eq!(rounds.seeds(10, [&of(9.0)]), 100);
    assert_eq!(rounds.seeds(100, [&of(9.0)]), 100);
    let nothing = Difference { relative: None, ..of(9.0) };
    assert_eq!(rounds.seeds(10, [&nothing]), 10);
}

#[test]
fn equal_values_are_identical_and_equal_differences_are_certain() {
    let same = Difference::new(&[1.0, 5.0], &[1.0, 5.0], basis(Pairing::Paired, 2));
    assert_eq!(Verdict::new(&same, Sense::LowerIsBetter, false), Verdict::Identical);
    assert!((same.p_value - 1.0).abs() < 1e-12);
    let shifted = Difference::new(&[1.0, 1.0], &[3.0, 3.0], basis(Pairing::Paired, 2));
    assert!(shifted.p_value < 1e-12 && shifted.half_width < 1e-12, "{shifted:?}");
    let none = Difference::new(&[0.0, 0.0], &[0.0, 4.0], basis(Pairing::Paired, 2));
    assert_eq!(none.relative, None);
}

#[test]
fn the_order_in_which_numbers_are_added_up_makes_no_difference() {
    let (one, other) = (0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1);
    assert!(one > other);
    let found = Difference::new(&[one, 2.0], &[other, 2.0], basis(Pairing::Paired, 2));
    assert_eq!(Verdict::new(&found, Sense::LowerIsBetter, true), Verdict::Identical);
    let tiny = Difference::new(&[1.0, 2.0], &[1.0 + 1e-9, 2.0], basis(Pairing::Paired, 2));
    assert!(tiny.difference() > 0.0);
}

#[test]
fn a_difference_that_is_written_as_0_has_no_sign() {
    assert_eq!(Interval::new(-0.3, 13.0).to_string(), "0 ± 13");
    assert_eq!(Interval::new(-0.6, 13.0).to_string(), "-1 ± 13");
}

#[test]
fn several_differences_stand_only_against_their_number() {
    // 0.05/4 = 0.0125, then 0.05/3 = 0.0167, then 0.025: the third does not stand, nor what follows.
    let p_values = [0.03, 0.01, 0.04, 0.015];
    assert_eq!(holm(&p_values, 0.95), [false, true, false, true]);
    assert_eq!(holm(&[0.02, 0.03, 0.04], 0.95), [false, false, false]);
    assert!(holm(&[], 0.95).is_empty());
}

#[test]
fn verdicts_know_which_way_is_better() {
    let found = |a: f64, b: f64| Difference {
        mean_a: a,
        mean_b: b,
        half_width: 3.0,
        relative: Some(Relative { change: b / a - 1.0, half_width: 0.03 }),
        p_value: 0.001,
        count: 12,
    };
    let (lower, higher) = (found(100.0, 82.0), found(100.0, 118.0));
    for (difference, sense, stands, verdict) in [
        (lower, Sense::LowerIsBetter, true, Verdict::Better),
        (higher, Sense::LowerIsBetter, true, Verdict::Worse),
        (higher, Sense::HigherIsBetter, true, Verdict::Better),
        (lower, Sense::Neither, true, Verdict::Lower),
        (lower, Sense::LowerIsBetter, false, Verdict::NoDifference),
    ] {
        assert_eq!(Verdict::new(&difference, sense, stands), verdict);
    }
    let says =
        |verdict: Verdict, difference| verdict.sentence("B", "P99 TTFT", difference, "(95 %)");
    assert_eq!(says(Verdict::Better, &lower), "B lowers P99 TTFT by 18.0 % ± 3.0 % (95 %): better");
    let unsure = "B shows no difference in P99 TTFT: it is within ± 21.0 % (95 %)";
    assert_eq!(says(Verdict::NoDifference, &higher), unsure);
}

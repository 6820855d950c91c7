//! Laws of lengths, and the draws of `rand_distr` that a seed promises.

use rand_distr::Exp1;
use rand_distr::Gamma;
use rand_distr::Weibull;

use super::*;

const COUNT: usize = 100_000;

fn drawn(distribution: &TokenDistribution) -> Vec<u32> {
    let sampler = TokenSampler::new(distribution).unwrap();
    let mut stream = Seed(3).stream("lengths", 0);
    (0..COUNT).map(|_| sampler.sample(&mut stream)).collect()
}

#[test]
fn every_draw_is_within_its_bounds() {
    let (min_tokens, max_tokens) = (7, 90);
    for distribution in [
        TokenDistribution::Uniform { min_tokens, max_tokens },
        TokenDistribution::LogNormal { median_tokens: 30.0, sigma: 1.5, min_tokens, max_tokens },
        TokenDistribution::Zipf { exponent: 1.1, min_tokens, max_tokens },
        TokenDistribution::Zipf { exponent: 0.0, min_tokens, max_tokens },
    ] {
        let drawn = drawn(&distribution);
        assert_eq!(drawn.iter().min(), Some(&7), "{distribution:?}");
        assert_eq!(drawn.iter().max(), Some(&90), "{distribution:?}");
    }
}

#[test]
fn a_log_normal_has_the_median_asked_for() {
    let mut drawn = drawn(&TokenDistribution::LogNormal {
        median_tokens: 800.0,
        sigma: 1.0,
        min_tokens: 1,
        max_tokens: 1 << 20,
    });
    drawn.sort_unstable();
    // The share of draws below the median has a standard error of 1/(2√n) = 0.16 %; the density
    // there is 1/(800·√2π), so four of them are 0.63 % · 800 · 2.51 = 12.7 tokens.
    assert!(drawn[COUNT / 2].abs_diff(800) <= 13, "{}", drawn[COUNT / 2]);
}

#[test]
fn the_smallest_of_a_zipf_is_as_frequent_as_the_law_says() {
    let drawn = drawn(&TokenDistribution::Zipf { exponent: 1.0, min_tokens: 5, max_tokens: 8 });
    // 1 / (1 + 1/2 + 1/3 + 1/4) = 0.48; four standard errors are 0.0063.
    let share = drawn.iter().filter(|&&tokens| tokens == 5).count() as f64 / COUNT as f64;
    assert!((share - 0.48).abs() < 0.0063, "{share}");
}

#[test]
fn sonnets_add_up_to_about_the_tokens_of_the_measured_run() {
    // 200 prompts of a run with Qwen2.5's tokeniser: 202 314 tokens for 1024, 49 054 for 256.
    for (input_tokens, measured) in [(1024, 202_314.0), (256, 49_054.0)] {
        let config = SonnetConfig { input_tokens, prefix_tokens: 50, ..SonnetConfig::default() };
        let lines = Lines::of(&config);
        let mut stream = Seed(0).stream("lengths", 0);
        let total: u32 = (0..200).map(|_| lines.sample(&mut stream)).sum();
        assert!((f64::from(total) / measured - 1.0).abs() < 0.005, "{input_tokens}: {total}");
    }
}

/// A digest of the bits of 10 000 draws.
fn digest<D: Distribution<f64>>(distribution: D) -> u64 {
    let mut stream = Seed(1).stream("digest", 0);
    (0..10_000).fold(0xcbf2_9ce4_8422_2325, |hash: u64, _| {
        (hash ^ distribution.sample(&mut stream).to_bits()).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn one_seed_draws_the_same_numbers_in_every_build() {
    let digests = [
        ("Exp1", digest(Exp1), 0xec82_5552_5e62_de78),
        ("StandardNormal", digest(StandardNormal), 0xf543_fa00_22ec_4b34),
        ("LogNormal", digest(LogNormal::new(6.0, 1.2).unwrap()), 0x5838_c1ed_6848_5e90),
        ("Gamma 0.25", digest(Gamma::new(0.25, 1.0).unwrap()), 0x047d_e5a4_1c1e_e89e),
        ("Gamma 2.5", digest(Gamma::new(2.5, 1.0).unwrap()), 0x1dca_7ba8_6f0a_17fb),
        ("Weibull", digest(Weibull::new(1.0, 0.7).unwrap()), 0x6702_a648_6820_a8f5),
        ("Zipf", digest(Zipf::new(1000.0, 1.1).unwrap()), 0xd7ad_a072_3147_f065),
    ];
    for (name, drawn, promised) in digests {
        assert_eq!(drawn, promised, "{name}: {drawn:#018x}");
    }
}

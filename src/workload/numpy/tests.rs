//! Vectors drawn with numpy 2.4.6 and Python 3.

use super::*;

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_FACTOR: u64 = 0x0100_0000_01b3;

/// A digest of the bits of `count` draws.
fn digest(count: usize, mut draw: impl FnMut() -> f64) -> u64 {
    (0..count).fold(FNV_START, |hash, _| (hash ^ draw().to_bits()).wrapping_mul(FNV_FACTOR))
}

#[track_caller]
fn near(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-14 * theirs.abs(), "{ours:e} is not {theirs:e}");
}

#[test]
fn the_legacy_stream_of_seed_0_is_numpys() {
    let mut np = LegacyRandom::new(0);
    let drawn: Vec<u32> = (0..6).map(|_| np.randint(3, 1025)).collect();
    assert_eq!(drawn, [687, 562, 632, 195, 838, 766]);
    assert_eq!(np.random_sample().to_bits(), 0.544_883_182_996_896_9_f64.to_bits());
    for theirs in [0.275_524_245_547_749_6, 0.519_079_647_471_804_7, 0.287_759_599_584_319_9] {
        near(np.exponential(0.5), theirs);
    }
    for theirs in [1.266_118_529_857_778_4, -0.505_876_539_760_512_1, 2.545_200_778_471_053_7] {
        near(np.standard_normal(), theirs);
    }
    let gammas = [
        (0.25, [2.458_820_908_405_739_7, 0.000_115_262_195_936_001_09, 1.045_478_965_256_940_3]),
        (1.0, [1.020_157_140_472_775_4, 1.922_610_919_083_422_4, 0.802_619_779_475_072_9]),
        (2.0, [0.871_898_698_319_911_2, 0.307_115_577_305_836_83, 0.511_947_199_266_673_4]),
        (7.5, [0.483_770_535_008_454, 0.609_822_649_312_985_7, 0.435_851_077_892_975_34]),
    ];
    for (shape, theirs) in gammas {
        for each in theirs {
            near(np.gamma(shape, 1.0 / (2.0 * shape)), each);
        }
    }
}

#[test]
fn twenty_thousand_draws_of_each_kind_are_numpys() {
    let mut np = LegacyRandom::new(7);
    assert_eq!(digest(20_000, || np.exponential(1.0)), 0x6dfd_51f9_c950_4e51, "exponential");
    assert_eq!(digest(20_000, || np.standard_normal()), 0x7ad0_70ea_f36c_3033, "normal");
    assert_eq!(digest(20_000, || np.gamma(0.3, 1.0)), 0x000a_6f29_ccbb_6940, "gamma 0.3");
    assert_eq!(digest(20_000, || np.gamma(2.5, 1.0)), 0x692b_d875_fece_2d14, "gamma 2.5");
    assert_eq!(digest(20_000, || f64::from(np.randint(0, 151_643))), 0x610d_230e_21f2_0da5);
}

#[test]
fn python_draws_and_shuffles_are_its_own() {
    let vectors: [(u64, [u32; 5], [u8; 10], f64); 3] = [
        (0, [864, 394, 776, 911, 430], [1, 9, 8, 5, 6, 2, 3, 7, 4, 0], 0.504_686_855_817_390_3),
        (12_345, [426, 750, 10, 839, 845], [6, 0, 8, 1, 7, 9, 2, 3, 5, 4], 0.874_174_337_334_456),
        (
            (1 << 40) + 7,
            [628, 765, 834, 960, 967],
            [0, 5, 2, 3, 6, 1, 8, 4, 7, 9],
            0.393_179_591_320_302_56,
        ),
    ];
    for (seed, numbers, order, last) in vectors {
        let mut python = PythonRandom::new(seed);
        assert_eq!(numbers.map(|_| python.below(1000)), numbers, "seed {seed}");
        let mut items = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        python.shuffle(&mut items);
        assert_eq!(items, order, "seed {seed}");
        assert_eq!(python.random().to_bits(), last.to_bits(), "seed {seed}");
    }
}

/// A seed and what follows it: two runs of integers, a uniform number, ids, weighted choices.
type Vector = (u64, [u32; 5], [u32; 4], f64, [u32; 3], [usize; 12]);

#[test]
fn the_default_generator_keeps_the_second_half_of_a_word() {
    let vectors: [Vector; 2] = [
        (
            0,
            [1383, 1164, 1035, 788, 827],
            [6, 10, 3, 23],
            0.912_755_577_277_721_7,
            [123_326, 76_371, 91_992],
            [2, 1, 6, 4, 0, 4, 0, 2, 0, 4, 1, 0],
        ),
        (
            (1 << 40) + 7,
            [723, 1362, 1136, 773, 529],
            [20, 65, 87, 114],
            0.489_995_416_508_636_76,
            [112_040, 102_202, 2_335],
            [0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0],
        ),
    ];
    let weights: Vec<f64> = (1..9).map(|rank| f64::from(rank).powf(-1.2)).collect();
    for (seed, wide, narrow, uniform, ids, chosen) in vectors {
        let mut generator = Generator::new(seed);
        assert_eq!(wide.map(|_| generator.integers(512, 1537)), wide, "seed {seed}");
        assert_eq!(narrow.map(|_| generator.integers(1, 129)), narrow, "seed {seed}");
        assert_eq!(generator.random().to_bits(), uniform.to_bits(), "seed {seed}");
        assert_eq!(ids.map(|_| generator.integers(0, 151_643)), ids, "seed {seed}");
        assert_eq!(chosen.map(|_| choose(&weights, generator.random())), chosen, "seed {seed}");
    }
}

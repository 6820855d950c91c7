//! `np.random.default_rng(seed)`: PCG64 (128-bit linear congruential state, XSL-RR output) behind
//! a seed sequence, with numpy's bounded integers: Lemire's multiplication on 32-bit halves, the
//! second half of a word kept for the next draw.

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// numpy's default generator.
#[derive(Debug, Clone)]
pub struct Generator {
    state: u128,
    increment: u128,
    spare_half: Option<u32>,
}

impl Generator {
    /// `np.random.default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let words = seed_words(seed);
        let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let increment = wide(words[2], words[3]) << 1 | 1;
        let mut generator = Self { state: 0, increment, spare_half: None };
        generator.advance();
        generator.state = generator.state.wrapping_add(wide(words[0], words[1]));
        generator.advance();
        generator
    }

    /// `random()`: uniform in [0, 1).
    pub fn random(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// `integers(low, high)`: uniform in `low .. high`.
    ///
    /// # Panics
    /// When the range is empty.
    pub fn integers(&mut self, low: u32, high: u32) -> u32 {
        assert!(low < high, "integers({low}, {high}) has nothing to draw from");
        let count = high - low;
        if count == 1 {
            return low;
        }
        let mut product = u64::from(self.next_u32()) * u64::from(count);
        if (product as u32) < count {
            let unfair = count.wrapping_neg() % count;
            while (product as u32) < unfair {
                product = u64::from(self.next_u32()) * u64::from(count);
            }
        }
        low + (product >> 32) as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.advance();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn next_u32(&mut self) -> u32 {
        if let Some(kept) = self.spare_half.take() {
            return kept;
        }
        let word = self.next_u64();
        self.spare_half = Some((word >> 32) as u32);
        word as u32
    }

    fn advance(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }
}

/// A hash whose constant moves on with every word it takes.
struct Hash {
    constant: u32,
    factor: u32,
}

impl Hash {
    fn take(&mut self, word: u32) -> u32 {
        let word = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.factor);
        let word = word.wrapping_mul(self.constant);
        word ^ (word >> 16)
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`: the pool of four words is filled from the
/// entropy, every word stirred into every other, and then read out through a second hash.
fn seed_words(seed: u64) -> [u64; 4] {
    let mut hash = Hash { constant: 0x43b0_d7e5, factor: 0x931e_8875 };
    let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut pool = entropy.map(|word| hash.take(word));
    for from in 0..4 {
        for to in 0..4 {
            if from != to {
                let taken = hash.take(pool[from]);
                let mixed = pool[to]
                    .wrapping_mul(0xca01_f9dd)
                    .wrapping_sub(taken.wrapping_mul(0x4973_f715));
                pool[to] = mixed ^ (mixed >> 16);
            }
        }
    }
    let mut out = Hash { constant: 0x8b51_f9dd, factor: 0x58f3_8ded };
    let halves: [u32; 8] = std::array::from_fn(|i| out.take(pool[i % 4]));
    std::array::from_fn(|i| u64::from(halves[2 * i]) | u64::from(halves[2 * i + 1]) << 32)
}

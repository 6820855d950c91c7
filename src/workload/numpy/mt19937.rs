//! The Mersenne twister MT19937 in its 32-bit form (Matsumoto and Nishimura, ACM TOMACS 8(1),
//! 1998), with the two seedings of their 2002 reference: from one word and from several.

const WORDS: usize = 624;
const SHIFT: usize = 397;
const MATRIX: u32 = 0x9908_b0df;
const UPPER: u32 = 1 << 31;

/// The generator behind `np.random.seed` and Python's `random`.
#[derive(Debug, Clone)]
pub struct Mt19937 {
    state: Box<[u32; WORDS]>,
    position: usize,
}

impl Mt19937 {
    /// The generator that `np.random.seed(seed)` starts.
    pub fn from_word(seed: u32) -> Self {
        let mut state = Box::new([0; WORDS]);
        state[0] = seed;
        for i in 1..WORDS {
            let last = state[i - 1];
            state[i] = 1_812_433_253_u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        Self { state, position: WORDS }
    }

    /// The generator that Python's `random.seed` starts, from the words of the seed, lowest first.
    ///
    /// # Panics
    /// When `key` is empty.
    pub fn from_words(key: &[u32]) -> Self {
        assert!(!key.is_empty(), "a seed has at least one word");
        let mut twister = Self::from_word(19_650_218);
        let state = &mut twister.state;
        let stir = |last: u32, factor: u32| (last ^ (last >> 30)).wrapping_mul(factor);
        let mut i = 1;
        for word in 0..WORDS.max(key.len()) {
            let j = word % key.len();
            state[i] = (state[i] ^ stir(state[i - 1], 1_664_525))
                .wrapping_add(key[j])
                .wrapping_add(j as u32);
            i = following(i, state);
        }
        for _ in 1..WORDS {
            state[i] = (state[i] ^ stir(state[i - 1], 1_566_083_941)).wrapping_sub(i as u32);
            i = following(i, state);
        }
        state[0] = UPPER;
        twister
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.position == WORDS {
            self.twist();
        }
        let mut y = self.state[self.position];
        self.position += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A uniform number in [0, 1) with 53 bits, made of two words.
    pub fn next_f64(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// Passes over this many calls of [`next_u32`](Self::next_u32).
    pub fn skip(&mut self, mut words: u64) {
        while words > 0 {
            if self.position == WORDS {
                self.twist();
            }
            let passed = words.min((WORDS - self.position) as u64);
            self.position += passed as usize;
            words -= passed;
        }
    }

    fn twist(&mut self) {
        let twisted = |word: u32, next: u32, far: u32| {
            let y = (word & UPPER) | (next & !UPPER);
            far ^ (y >> 1) ^ ((y & 1) * MATRIX)
        };
        // What the last words are made of has been twisted already. Loops without a wrap are done in vectors.
        let state = &mut self.state;
        for k in 0..WORDS - SHIFT {
            state[k] = twisted(state[k], state[k + 1], state[k + SHIFT]);
        }
        for k in WORDS - SHIFT..WORDS - 1 {
            state[k] = twisted(state[k], state[k + 1], state[k + SHIFT - WORDS]);
        }
        state[WORDS - 1] = twisted(state[WORDS - 1], state[0], state[SHIFT - 1]);
        self.position = 0;
    }
}

/// The index after `i` while a key is stirred in; past the end the last word is carried to the
/// front.
fn following(i: usize, state: &mut [u32; WORDS]) -> usize {
    if i + 1 < WORDS {
        return i + 1;
    }
    state[0] = state[WORDS - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_seed_of_the_standard_gives_its_ten_thousandth_number() {
        // ISO C++ [rand.predef]: the 10 000th number of mt19937 seeded with 5489.
        let mut twister = Mt19937::from_word(5489);
        let last = (0..10_000).map(|_| twister.next_u32()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn what_is_skipped_is_what_would_have_been_drawn() {
        let mut skips = Mt19937::from_word(5489);
        let mut draws = skips.clone();
        for words in [0, 1, 5, 623, 624, 625, 10_000, 3] {
            skips.skip(words);
            for _ in 0..words {
                draws.next_u32();
            }
            assert_eq!(skips.next_u32(), draws.next_u32(), "after {words}");
        }
    }
}

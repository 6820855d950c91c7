//! The hashes of vLLM's router: `MurmurHash64A` (Austin Appleby, public domain), the bits of `furc_hash` that are drawn
//! from it (Meta's fast uniform consistent hash), and the place on a ring that both make.

const SEED: u64 = 4_193_360_111;
const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// Numbers of `furc_hash` are below this.
const NUMBERS: u32 = (1 << 23) - 1;

/// How far apart the bits of one number are.
const STRIDE: u32 = 23;

/// Numbers that are drawn until one is small enough.
const TRIES: u32 = 32;

/// `MurmurHash64A` under the seed of `furc_hash`.
fn murmur(bytes: &[u8]) -> u64 {
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        hash ^= (mixed ^ (mixed >> SHIFT)).wrapping_mul(FACTOR);
        hash = hash.wrapping_mul(FACTOR);
    }
    if !tail.is_empty() {
        let word = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(FACTOR);
    hash ^ (hash >> SHIFT)
}

/// An endless row of bits: the hash of a key, the hash of that, and so on.
struct Bits(Vec<u64>);

impl Bits {
    fn of(key: &[u8]) -> Self {
        Self(vec![murmur(key)])
    }

    fn at(&mut self, index: u32) -> bool {
        let word = (index / 64) as usize;
        while self.0.len() <= word {
            let last = self.0[self.0.len() - 1];
            self.0.push(murmur(&last.to_le_bytes()));
        }
        self.0[word] >> (index % 64) & 1 == 1
    }
}

/// `furc_hash`: how many bits the number has is drawn first, one bit for each length from the longest down; then its
/// other bits, a stride apart. A number that is too great is drawn again from there.
fn furc(key: &[u8]) -> u32 {
    let mut bits = Bits::of(key);
    let mut length = u32::BITS - (NUMBERS - 1).leading_zeros();
    let mut at = length;
    for _ in 0..TRIES {
        while !bits.at(at) {
            length -= 1;
            if length == 0 {
                return 0;
            }
            at = length;
        }
        at += STRIDE;
        let mut number = 1;
        for _ in 1..length {
            number = number << 1 | u32::from(bits.at(at));
            at += STRIDE;
        }
        if number < NUMBERS {
            return number;
        }
    }
    0
}

/// Where a key is on a ring.
pub(super) fn ring_hash(key: &[u8]) -> u64 {
    murmur(&furc(key).to_le_bytes())
}

//! `numpy.random.RandomState`, the draws of `np.random.seed(..)` and what follows it. numpy has
//! frozen this stream since 1.16 (NEP 19).

use super::Mt19937;

/// The global generator of numpy after `np.random.seed(seed)`.
#[derive(Debug, Clone)]
pub struct LegacyRandom {
    bits: Mt19937,
    /// The second of a pair of normal deviates, kept for the next call.
    spare_normal: Option<f64>,
}

impl LegacyRandom {
    /// `np.random.seed(seed)`.
    pub fn new(seed: u32) -> Self {
        Self { bits: Mt19937::from_word(seed), spare_normal: None }
    }

    /// `random_sample()`: uniform in [0, 1).
    pub fn random_sample(&mut self) -> f64 {
        self.bits.next_f64()
    }

    /// `randint(low, high)`: uniform in `low .. high`, by masked rejection of 32-bit words.
    ///
    /// # Panics
    /// When the range is empty.
    pub fn randint(&mut self, low: u32, high: u32) -> u32 {
        assert!(low < high, "randint({low}, {high}) has nothing to draw from");
        let span = high - 1 - low;
        if span == 0 {
            return low;
        }
        let mask = u32::MAX >> span.leading_zeros();
        loop {
            let value = self.bits.next_u32() & mask;
            if value <= span {
                return low + value;
            }
        }
    }

    /// `exponential(scale)`.
    pub fn exponential(&mut self, scale: f64) -> f64 {
        scale * self.standard_exponential()
    }

    /// `standard_exponential()`.
    pub fn standard_exponential(&mut self) -> f64 {
        -(1.0 - self.random_sample()).ln()
    }

    /// `standard_normal()`, by the polar method: two deviates at a time, the second first.
    pub fn standard_normal(&mut self) -> f64 {
        if let Some(kept) = self.spare_normal.take() {
            return kept;
        }
        loop {
            let x = 2.0 * self.random_sample() - 1.0;
            let y = 2.0 * self.random_sample() - 1.0;
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare_normal = Some(factor * x);
                return factor * y;
            }
        }
    }

    /// `gamma(shape, scale)`.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        scale * self.standard_gamma(shape)
    }

    fn standard_gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 { self.flat_gamma(shape) } else { self.peaked_gamma(shape) }
    }

    /// Shapes below 1, where the density has a pole at zero.
    fn flat_gamma(&mut self, shape: f64) -> f64 {
        if shape <= 0.0 {
            return 0.0;
        }
        loop {
            let u = self.random_sample();
            let v = self.standard_exponential();
            if u <= 1.0 - shape {
                let x = u.powf(1.0 / shape);
                if x <= v {
                    return x;
                }
            } else {
                let y = -((1.0 - u) / shape).ln();
                let x = (1.0 - shape + shape * y).powf(1.0 / shape);
                if x <= v + y {
                    return x;
                }
            }
        }
    }

    /// Shapes from 1: the exponential itself, or the cube of a shifted normal deviate.
    #[expect(clippy::float_cmp, reason = "numpy branches on exactly 1")]
    fn peaked_gamma(&mut self, shape: f64) -> f64 {
        if shape == 1.0 {
            return self.standard_exponential();
        }
        let mode = shape - 1.0 / 3.0;
        let slope = 1.0 / (9.0 * mode).sqrt();
        loop {
            let x = self.standard_normal();
            let root = 1.0 + slope * x;
            if root <= 0.0 {
                continue;
            }
            let cube = root * root * root;
            let u = self.random_sample();
            let surely = u < 1.0 - 0.0331 * (x * x) * (x * x);
            if surely || u.ln() < 0.5 * x * x + mode * (1.0 - cube + cube.ln()) {
                return mode * cube;
            }
        }
    }
}

//! The mean difference of a figure between two scenarios, and how well it is known.
//!
//! Of pairs (a, b), one for each seed, the difference of the means is d̄ = b̄ − ā, and its interval
//! d̄ ± t·s/√n with the deviation s of the differences. Relative to ā it is r = b̄/ā − 1, with the interval
//! of a ratio by the delta method: the deviation of b − (1 + r)·a takes the place of s, and ā that of 1.
//! Where nothing changes (r = 0) the two agree. Without pairs the variances of both add up, and the degrees
//! of freedom are those of Welch and Satterthwaite.
//!
//! Seeds that resample one trace are draws of a bootstrap (B. Efron, Bootstrap methods: another look at the jackknife, Annals
//! of Statistics, 1979): how far their figures spread is how far those of other traces do, however many draws
//! there are. So the deviation of one draw takes the place of that of their mean, and what the number of draws
//! leaves open of the mean is added: s·√(1 + 1/n) for s/√n.
//!
//! Where seeds were added because of what the first showed ([`super::Rounds`]), there are two intervals: by the
//! deviation of the first seeds, and by that of all. The wider one counts.

use crate::stats::{mean, student_t, student_t_outside};

/// How the values of both scenarios belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Value by value of one seed.
    Paired,
    /// Not at all: the seeds of both differ.
    Independent,
}

/// What seeds draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// Requests of their own: the more seeds, the better is the mean known.
    Requests,
    /// Stretches of one trace, beyond which it tells nothing.
    Stretches,
}

/// What an interval rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Basis {
    /// How the values belong together.
    pub pairing: Pairing,
    /// What seeds draw.
    pub draws: Draws,
    /// The share of intervals that hold the truth, 0 to 1.
    pub confidence: f64,
    /// How many values, from the first on, were there before others were added.
    pub first: usize,
}

/// A difference relative to the mean of the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relative {
    /// The difference as a share of the baseline's mean.
    pub change: f64,
    /// Half the width of its interval.
    pub half_width: f64,
}

/// The difference of a figure, the second scenario minus the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The mean of the baseline.
    pub mean_a: f64,
    /// The mean of the other.
    pub mean_b: f64,
    /// Half the width of the interval of the difference of the means.
    pub half_width: f64,
    /// The same relative to the baseline; `None` where that is 0.
    pub relative: Option<Relative>,
    /// How often chance alone gives a difference as large as this.
    pub p_value: f64,
    /// Values of each.
    pub count: usize,
}

impl Difference {
    /// Of the values of the baseline and of the other.
    ///
    /// # Panics
    /// When they are not equally many, or fewer than two are a deviation's.
    pub fn new(a: &[f64], b: &[f64], basis: Basis) -> Self {
        assert_eq!(a.len(), b.len(), "as many values of both");
        let first = basis.first.min(a.len());
        assert!(first >= 2, "a deviation takes two values, got {first}");
        let but_rounding: Vec<f64> = a.iter().zip(b).map(|(a, b)| unrounded(*a, *b)).collect();
        let b = match basis.pairing {
            Pairing::Paired => &but_rounding[..],
            Pairing::Independent => b,
        };
        let (mean_a, mean_b) = (mean(a), mean(b));
        let errors = |ratio| {
            let error = |of: usize| StandardError::new(&a[..of], &b[..of], ratio, a.len(), basis);
            [error(first), error(a.len())]
        };
        let half_width = |errors: &[StandardError]| {
            errors.iter().map(|error| error.half_width(basis)).fold(0.0, f64::max)
        };
        let relative = (mean_a != 0.0).then(|| {
            let ratio = mean_b / mean_a;
            let half_width = half_width(&errors(ratio)) / mean_a.abs();
            Relative { change: ratio - 1.0, half_width }
        });
        let errors = errors(1.0);
        let p_values = errors.iter().map(|error| error.p_value(mean_b - mean_a));
        let p_value = p_values.fold(0.0, f64::max);
        let half_width = half_width(&errors);
        Self { mean_a, mean_b, half_width, relative, p_value, count: a.len() }
    }

    /// The mean of the other minus that of the baseline.
    pub fn difference(&self) -> f64 {
        self.mean_b - self.mean_a
    }
}

/// `b`, or `a` where they differ as the same numbers do that are added up in another order.
fn unrounded(a: f64, b: f64) -> f64 {
    const ROUNDING: f64 = 1e-12;
    if (b - a).abs() <= ROUNDING * a.abs() { a } else { b }
}

/// The deviation of a mean, and what it is known by.
struct StandardError {
    of_mean: f64,
    freedom: f64,
}

impl StandardError {
    /// Of the mean of b − `ratio`·a over `count` values.
    fn new(a: &[f64], b: &[f64], ratio: f64, count: usize, basis: Basis) -> Self {
        let known_by = a.len() as f64 - 1.0;
        let (variance, freedom) = match basis.pairing {
            Pairing::Paired => {
                let rests: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - ratio * a).collect();
                (variance(&rests), known_by)
            }
            Pairing::Independent => {
                let (of_a, of_b) = (variance(a) * ratio * ratio, variance(b));
                let squares = of_a * of_a + of_b * of_b;
                let sum = of_a + of_b;
                let freedom = if squares > 0.0 { sum * sum / squares * known_by } else { known_by };
                (sum, freedom)
            }
        };
        let share = 1.0 / count as f64;
        let share = match basis.draws {
            Draws::Requests => share,
            Draws::Stretches => 1.0 + share,
        };
        Self { of_mean: (variance * share).sqrt(), freedom }
    }

    fn half_width(&self, basis: Basis) -> f64 {
        student_t(basis.confidence, self.freedom) * self.of_mean
    }

    /// How often chance alone gives such a difference.
    fn p_value(&self, difference: f64) -> f64 {
        match (difference == 0.0, self.of_mean == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            _ => student_t_outside(difference / self.of_mean, self.freedom),
        }
    }
}

/// The variance of a sample: one degree of freedom is spent on the mean.
fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|x| (x - centre) * (x - centre)).sum();
    squares / (values.len() as f64 - 1.0)
}

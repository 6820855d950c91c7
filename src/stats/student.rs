//! Student's t distribution: tails by the incomplete beta function, quantiles by bisection.
//!
//! For T with ν degrees of freedom, P(|T| > t) = `I_x(ν/2, 1/2)` with x = ν/(ν + t²) (Abramowitz and Stegun
//! 26.7.1, 26.5.27). The incomplete beta function is its continued fraction (26.5.8) by the modified
//! Lentz method.

use super::gamma::ln_gamma;

/// Beyond so many degrees of freedom the quantiles are those of this many: they differ from the normal
/// ones by less than 1e-6.
const FREEDOM_MAX: f64 = 1e7;

/// The distance from 0 that holds this share of the distribution: the two-sided quantile.
///
/// # Panics
/// When `confidence` is not within 0 and 1, or `freedom` not positive.
pub fn student_t(confidence: f64, freedom: f64) -> f64 {
    assert!((0.0..1.0).contains(&confidence), "a confidence of {confidence}");
    let outside = 1.0 - confidence;
    let mut high = 1.0;
    while student_t_outside(high, freedom) > outside {
        high *= 2.0;
    }
    let mut low = 0.0;
    // A double has 53 bits; what is left after as many halvings is rounding.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if student_t_outside(middle, freedom) > outside {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The share of the distribution that lies farther from 0 than `distance`: the two-sided p-value.
///
/// # Panics
/// When `freedom` is not positive.
pub fn student_t_outside(distance: f64, freedom: f64) -> f64 {
    assert!(freedom > 0.0, "{freedom} degrees of freedom");
    let freedom = freedom.min(FREEDOM_MAX);
    let squared = distance * distance;
    if squared.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + squared), squared / (freedom + squared), freedom / 2.0)
}

/// `I_x(a, 1/2)`, where `y` = 1 − x.
fn incomplete_beta(x: f64, y: f64, a: f64) -> f64 {
    const B: f64 = 0.5;
    if y <= 0.0 {
        return 1.0;
    }
    let scale = ln_gamma(a + B) - ln_gamma(a) - ln_gamma(B) + a * x.ln() + B * y.ln();
    // The fraction converges fast on this side of the mean.
    if x < (a + 1.0) / (a + B + 2.0) {
        scale.exp() * fraction(x, a, B) / a
    } else {
        1.0 - scale.exp() * fraction(y, B, a) / B
    }
}

/// The continued fraction of the incomplete beta function.
#[expect(clippy::many_single_char_names, reason = "the names of the formulas")]
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    const TERMS_MAX: u32 = 100_000;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    for term in 1..=TERMS_MAX {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / nonzero(1.0 + even * d);
        c = nonzero(1.0 + even / c);
        product *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / nonzero(1.0 + odd * d);
        c = nonzero(1.0 + odd / c);
        product *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (confidence, freedom, quantile) in [
            (0.95, 3.0, 3.182_446_305_3),
            (0.95, 4.0, 2.776_445_105_2),
            (0.90, 4.0, 2.131_846_786_3),
            (0.95, 9.0, 2.262_157_162_8),
            (0.99, 9.0, 3.249_835_541_6),
            (0.95, 30.0, 2.042_272_456_3),
            (0.99, 30.0, 2.749_995_653_6),
            (0.90, 120.0, 1.657_650_899_4),
            (0.95, 1e12, 1.959_963_984_5),
        ] {
            let found = student_t(confidence, freedom);
            assert!((found - quantile).abs() < 1e-6, "{confidence} {freedom}: {found}");
        }
    }

    #[test]
    fn one_and_two_degrees_of_freedom_have_closed_forms() {
        for confidence in [0.1, 0.5, 0.9, 0.95, 0.99, 0.999] {
            // Cauchy's distribution: P(|T| ≤ t) = 2/π · atan t; with two degrees t/√(2 + t²).
            let one = (std::f64::consts::FRAC_PI_2 * confidence).tan();
            let two = confidence * (2.0 / (1.0 - confidence * confidence)).sqrt();
            for (freedom, quantile) in [(1.0, one), (2.0, two)] {
                let found = student_t(confidence, freedom);
                assert!((found / quantile - 1.0).abs() < 1e-9, "{freedom} {confidence}: {found}");
            }
        }
    }

    #[test]
    fn tails_undo_quantiles() {
        for freedom in [1.0, 2.5, 7.0, 49.0, 1e3, 1e6] {
            for confidence in [0.2, 0.8, 0.95, 0.999] {
                let outside = student_t_outside(student_t(confidence, freedom), freedom);
                assert!((outside - (1.0 - confidence)).abs() < 1e-9, "{freedom} {confidence}");
            }
        }
        assert!((student_t_outside(0.0, 5.0) - 1.0).abs() < 1e-12);
        assert!(student_t_outside(f64::INFINITY, 5.0).abs() < 1e-12);
    }
}

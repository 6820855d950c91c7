//! Coefficients of models that stay bounded, and free numbers in their place: J. Monahan, A note on enforcing stationarity
//! in autoregressive-moving average models (1984).

use super::Order;

/// The parameters of a model from numbers without bounds.
pub(super) fn confined(order: Order, free: &[f64]) -> Vec<f64> {
    let (constant, ar, ma, spread) = split(order, free);
    let ar = stable(ar);
    let ma = stable(ma).into_iter().map(|x| -x);
    constant.iter().copied().chain(ar).chain(ma).chain([spread * spread]).collect()
}

/// The numbers that [`confined`] makes these parameters of.
pub(super) fn freed(order: Order, parameters: &[f64]) -> Vec<f64> {
    let (constant, ar, ma, variance) = split(order, parameters);
    let ma: Vec<f64> = ma.iter().map(|x| -x).collect();
    let (ar, ma) = (unbounded(ar), unbounded(&ma));
    constant.iter().copied().chain(ar).chain(ma).chain([variance.sqrt()]).collect()
}

/// Constant, autoregressive and moving-average coefficients and variance.
pub(super) fn split(order: Order, parameters: &[f64]) -> (&[f64], &[f64], &[f64], f64) {
    let (constant, rest) = parameters.split_at(usize::from(order.has_constant));
    let (ar, rest) = rest.split_at(order.ar);
    let (ma, variance) = rest.split_at(order.ma);
    (constant, ar, ma, variance[0])
}

/// Coefficients whose partial correlations are x/√(1 + x²).
fn stable(free: &[f64]) -> Vec<f64> {
    let mut coefficients: Vec<f64> = Vec::with_capacity(free.len());
    for x in free {
        let partial = x / (1.0 + x * x).sqrt();
        let before = coefficients.clone();
        for (coefficient, mirrored) in coefficients.iter_mut().zip(before.iter().rev()) {
            *coefficient += partial * mirrored;
        }
        coefficients.push(partial);
    }
    coefficients.iter().map(|x| -x).collect()
}

/// The other way.
fn unbounded(coefficients: &[f64]) -> Vec<f64> {
    partial_correlations(coefficients).map(|r| r / (1.0 - r * r).sqrt()).collect()
}

/// Partial correlations of a process with these coefficients, the first lag first, with their signs turned.
fn partial_correlations(coefficients: &[f64]) -> impl Iterator<Item = f64> {
    let mut left: Vec<f64> = coefficients.iter().map(|x| -x).collect();
    let mut partials = Vec::with_capacity(left.len());
    while let Some(last) = left.pop() {
        partials.push(last);
        let mirrored: Vec<f64> = left.iter().rev().copied().collect();
        for (x, mirrored) in left.iter_mut().zip(mirrored) {
            *x = (*x - last * mirrored) / (1.0 - last * last);
        }
    }
    partials.into_iter().rev()
}

/// Whether all roots of z^n − c₁ z^(n−1) − … − cₙ are nearer to 0 than `radius`.
pub(super) fn has_roots_within(coefficients: &[f64], radius: f64) -> bool {
    let scaled: Vec<f64> = coefficients
        .iter()
        .scan(1.0, |scale, c| {
            *scale *= radius;
            Some(c / *scale)
        })
        .collect();
    partial_correlations(&scaled).all(|partial| partial.abs() < 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{confined, freed, has_roots_within};
    use crate::stats::arima::Order;

    proptest! {
        #[test]
        fn what_is_freed_is_confined_to_the_same(free in prop::collection::vec(-3.0..3.0_f64, 8)) {
            let order = Order { ar: 3, differences: 1, ma: 3, has_constant: true };
            let parameters = confined(order, &free);
            let again = confined(order, &freed(order, &parameters));
            for (a, b) in parameters.iter().zip(&again) {
                prop_assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()), "{parameters:?} {again:?}");
            }
            prop_assert!(has_roots_within(&parameters[1..4], 1.0));
        }

        #[test]
        fn roots_are_within_their_circle(a in -0.999..0.999_f64, b in -0.999..0.999_f64, radius in 0.1..1.0_f64) {
            // (z − a)(z − b)
            let is_within = a.abs().max(b.abs()) < radius;
            prop_assert_eq!(has_roots_within(&[a + b, -a * b], radius), is_within);
        }
    }
}

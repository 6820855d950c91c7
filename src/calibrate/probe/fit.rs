//! Linear least squares with bounds below.

use nalgebra::{DMatrix, DVector};

use super::law::{Law, OutsideOfLaw, Term};
use super::point::Point;
use crate::calibrate::{Estimate, Pair};
use crate::calibration::Expected;

/// What a measured time is known to, as a share of it.
const NOISE: f64 = 0.01;
/// 95 % quantile of the normal distribution: 90 % lie within it on both sides.
const NORMAL_90: f64 = 1.644_854;
/// Correlation above which two parameters count as not separable.
const INSEPARABLE: f64 = 0.9;
/// Share of the expected spread above which the points have told nothing of a parameter.
const UNDETERMINED: f64 = 0.8;

/// Standard deviations above zero from which a term counts as shown.
const SHOWN: f64 = 3.0;
/// The least that a factor becomes, as a share of what was expected.
const FACTOR_MIN: f64 = 0.1;

/// Why nothing was fitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No point at all.
    #[error("no round shows the time of a step")]
    NoPoints,
}

/// What the points say of the law.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeFit {
    /// The parameters of a scenario.
    pub estimates: Vec<Estimate>,
    /// Terms that the measurements show and no setting takes, in µs.
    pub outside: Vec<(OutsideOfLaw, f64)>,
    /// Parameters that the points cannot tell apart.
    pub inseparable: Vec<Pair>,
    /// Covariance of the estimates, each counted in spreads of what was expected.
    pub covariance: Vec<Vec<f64>>,
    /// Root mean square of the errors, in shares of the noise.
    pub misfit: f64,
    /// The fitted time of each point, in ms.
    pub fitted_ms: Vec<f64>,
}

/// The parameters of a law that fit the points best.
///
/// # Errors
/// When there is no point.
pub fn fit_points(law: Law<'_>, points: &[Point]) -> Result<ProbeFit, ProbeError> {
    if points.is_empty() {
        return Err(ProbeError::NoPoints);
    }
    let mut terms = law.terms(points);
    let mut solved = solve(law, points, &terms);
    // A term outside of the law that the points do not clearly show would only blur the others.
    while let Some(index) = (0..terms.len()).find(|index| is_noise(&terms[*index], &solved, *index))
    {
        terms.remove(index);
        solved = solve(law, points, &terms);
    }
    let covariance = &solved.covariance;
    let fitted_ms: Vec<f64> = points
        .iter()
        .map(|point| {
            let shares = terms.iter().zip(solved.values.iter());
            law.fixed_ms(point) + shares.map(|(t, v)| law.share(t, point) * v).sum::<f64>()
        })
        .collect();
    let inside: Vec<usize> =
        (0..terms.len()).filter(|index| terms[*index].outside.is_none()).collect();
    let estimates = inside.iter().map(|index| estimate(&terms[*index], &solved, *index)).collect();
    let outside = terms.iter().zip(solved.values.iter());
    let scale = |i: usize| spreads_per_share(&terms[i], solved.values[i]);
    let rows =
        |i: &usize| inside.iter().map(|j| covariance[(*i, *j)] * scale(*i) * scale(*j)).collect();
    Ok(ProbeFit {
        estimates,
        outside: outside.filter_map(|(term, value)| Some((term.outside?, *value))).collect(),
        inseparable: inseparable(&terms, covariance),
        covariance: inside.iter().map(rows).collect(),
        misfit: solved.misfit,
        fitted_ms,
    })
}

struct Solved {
    values: DVector<f64>,
    /// In spreads of what was expected.
    covariance: DMatrix<f64>,
    misfit: f64,
}

/// What is expected of a parameter, as centre and spread of its value.
fn prior(term: &Term) -> (f64, f64) {
    match term.parameter.expected {
        Expected::Factor { centre, spread } => (centre, centre * spread),
        Expected::Amount { centre, spread } => (centre, spread),
    }
}

/// The least value of a parameter.
fn lowest(term: &Term) -> f64 {
    match term.parameter.expected {
        Expected::Factor { centre, .. } => FACTOR_MIN * centre,
        Expected::Amount { .. } => 0.0,
    }
}

/// What a small change of the value, in spreads, is in the scale of what was expected: factors are
/// counted in logarithms there.
fn spreads_per_share(term: &Term, value: f64) -> f64 {
    match term.parameter.expected {
        Expected::Factor { centre, .. } => centre / value,
        Expected::Amount { .. } => 1.0,
    }
}

/// Counts every parameter in spreads from its centre; those that would be below the least value
/// stay there.
fn solve(law: Law<'_>, points: &[Point], terms: &[Term]) -> Solved {
    let weight = |point: &Point| 1.0 / (NOISE * point.measured_ms);
    let slopes = DMatrix::from_fn(points.len(), terms.len(), |row, column| {
        let share = law.share(&terms[column], &points[row]);
        share * prior(&terms[column]).1 * weight(&points[row])
    });
    let misses = DVector::from_fn(points.len(), |row, _| {
        let point = &points[row];
        let centre = terms.iter().map(|term| law.share(term, point) * prior(term).0).sum::<f64>();
        (point.measured_ms - law.fixed_ms(point) - centre) * weight(point)
    });
    let lowest_of = |term: &Term| (lowest(term) - prior(term).0) / prior(term).1;
    let lowest: Vec<f64> = terms.iter().map(lowest_of).collect();
    let mut held: Vec<bool> = vec![false; terms.len()];
    let normal = slopes.transpose() * &slopes + DMatrix::identity(terms.len(), terms.len());
    let position = loop {
        let position = free_minimum(&slopes, &misses, &lowest, &held);
        let below = (0..terms.len()).filter(|i| !held[*i] && position[*i] < lowest[*i]);
        let worst = below
            .min_by(|a, b| (position[*a] - lowest[*a]).total_cmp(&(position[*b] - lowest[*b])));
        match worst {
            Some(index) => held[index] = true,
            None => break position,
        }
    };
    let square = (&slopes * &position - &misses).norm_squared();
    let freedom = points.len().saturating_sub(terms.len()).max(1) as f64;
    let identity = DMatrix::identity(terms.len(), terms.len());
    let covariance = normal.try_inverse().unwrap_or(identity) * (square / freedom).max(1.0);
    let value = |index: usize, position: f64| {
        let (centre, spread) = prior(&terms[index]);
        centre + position * spread
    };
    Solved {
        values: DVector::from_fn(terms.len(), |index, _| value(index, position[index])),
        covariance,
        misfit: (square / points.len() as f64).sqrt(),
    }
}

/// The least sum of squares with some parameters held at their lowest.
fn free_minimum(
    slopes: &DMatrix<f64>,
    misses: &DVector<f64>,
    lowest: &[f64],
    held: &[bool],
) -> DVector<f64> {
    let count = lowest.len();
    let mut rest = misses.clone();
    let mut free = slopes.clone();
    for index in (0..count).filter(|index| held[*index]) {
        rest -= slopes.column(index) * lowest[index];
        free.column_mut(index).fill(0.0);
    }
    let normal = free.transpose() * &free + DMatrix::identity(count, count);
    // The identity makes it positive definite.
    let solved = normal.cholesky().map(|root| root.solve(&(free.transpose() * rest)));
    let mut position = solved.unwrap_or_else(|| DVector::zeros(count));
    for index in (0..count).filter(|index| held[*index]) {
        position[index] = lowest[index];
    }
    position
}

fn is_noise(term: &Term, solved: &Solved, index: usize) -> bool {
    let deviation = solved.covariance[(index, index)].sqrt() * prior(term).1;
    term.outside.is_some() && solved.values[index] < SHOWN * deviation
}

fn estimate(term: &Term, solved: &Solved, index: usize) -> Estimate {
    let value = solved.values[index];
    let share = solved.covariance[(index, index)].sqrt();
    let reach = NORMAL_90 * share * prior(term).1;
    Estimate {
        parameter: term.parameter.clone(),
        value,
        interval: ((value - reach).max(lowest(term)), value + reach),
        is_determined: share <= UNDETERMINED,
    }
}

fn inseparable(terms: &[Term], covariance: &DMatrix<f64>) -> Vec<Pair> {
    let pairs = (0..terms.len()).flat_map(|i| (i + 1..terms.len()).map(move |j| (i, j)));
    let pair = |(i, j): (usize, usize)| {
        let scale = (covariance[(i, i)] * covariance[(j, j)]).sqrt();
        let correlation = covariance[(i, j)] / scale;
        (correlation.abs() > INSEPARABLE).then(|| Pair {
            first: terms[i].parameter.path.clone(),
            second: terms[j].parameter.path.clone(),
            correlation,
        })
    };
    pairs.filter_map(pair).collect()
}

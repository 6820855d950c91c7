//! How the figures of a run change with its parameters, from simulations at a few values of each.
//!
//! Fits to published runs ask the same runs at thousands of values. What each parameter does to the logarithm of a figure
//! is taken from simulations with the others as expected, on straight lines between and beyond them; what several do is
//! added up.

use rayon::prelude::*;

use crate::calibration::{Expected, Parameter};

/// Where a run is simulated, in standard deviations of what is expected of a factor, and of an amount.
const FACTORS: [f64; 5] = [-1.5, -0.7, 0.7, 1.5, 3.0];
const AMOUNTS: [f64; 3] = [0.2, 0.7, 1.5];

/// Figures of a run at any values of the parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Response {
    parameters: Vec<Parameter>,
    /// Logarithms of the figures where every parameter is as expected.
    centre: Vec<f64>,
    /// Of each parameter positions in ascending order, with how much larger the logarithms are there.
    moved: Vec<Vec<(f64, Vec<f64>)>>,
}

impl Response {
    /// Of the figures that `simulate` tells at values of the parameters; nothing where it tells none with what is
    /// expected of them. Values at which one is missing are left out.
    pub(super) fn new(
        parameters: Vec<Parameter>,
        simulate: &(dyn Fn(&[f64]) -> Option<Vec<f64>> + Sync),
    ) -> Option<Self> {
        let expected: Vec<f64> = parameters.iter().map(|one| one.expected.centre()).collect();
        let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
            let told = simulate(values)?;
            let is_told = |figure: &f64| figure.is_finite() && *figure > 0.0;
            told.iter().all(is_told).then(|| told.iter().map(|figure| figure.ln()).collect())
        };
        let centre = logarithms(&expected)?;
        let of_parameter = |index: usize| {
            let positions: &[f64] = match parameters[index].expected {
                Expected::Factor { .. } => &FACTORS,
                Expected::Amount { .. } => &AMOUNTS,
            };
            let at = |position: &f64| {
                let mut values = expected.clone();
                values[index] = parameters[index].expected.value(*position);
                let there = logarithms(&values)?;
                let larger = there.iter().zip(&centre).map(|(there, here)| there - here);
                Some((*position, larger.collect::<Vec<f64>>()))
            };
            let mut known: Vec<(f64, Vec<f64>)> = positions.par_iter().filter_map(at).collect();
            known.push((0.0, vec![0.0; centre.len()]));
            known.sort_by(|a, b| a.0.total_cmp(&b.0));
            known
        };
        let moved = (0..parameters.len()).into_par_iter().map(of_parameter).collect();
        Some(Self { parameters, centre, moved })
    }

    /// How many figures it tells.
    pub(super) fn figures(&self) -> usize {
        self.centre.len()
    }

    /// Whether its figures hang on a parameter.
    pub(super) fn has(&self, path: &str) -> bool {
        self.parameters.iter().any(|one| one.path == path)
    }

    /// The figures where these parameters have these values, and others are as expected.
    pub(super) fn at(&self, values: &dyn Fn(&str) -> Option<f64>) -> Vec<f64> {
        let mut logarithms = self.centre.clone();
        for (parameter, known) in self.parameters.iter().zip(&self.moved) {
            let Some(value) = values(&parameter.path) else { continue };
            let position = parameter.expected.position(value);
            let Some(last) = known.len().checked_sub(2) else { continue };
            let below =
                known.partition_point(|(at, _)| *at <= position).saturating_sub(1).min(last);
            let [(from, low), (to, high)] = [&known[below], &known[below + 1]];
            let along = (position - from) / (to - from);
            for ((sum, low), high) in logarithms.iter_mut().zip(low).zip(high) {
                *sum += low + along * (high - low);
            }
        }
        logarithms.into_iter().map(f64::exp).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Vec<Parameter> {
        vec![Parameter::factor("work".to_owned(), 0.3), Parameter::amount("delay", 20.0)]
    }

    fn asked(work: f64, delay: f64) -> impl Fn(&str) -> Option<f64> {
        move |path| Some(if path == "work" { work } else { delay })
    }

    #[test]
    fn what_is_a_product_of_powers_is_told_exactly_at_any_values() {
        let simulate = |values: &[f64]| {
            let [work, delay] = [values[0], (values[1] / 50.0).exp()];
            Some(vec![3.0 * work * delay, 7.0 * work.sqrt(), delay])
        };
        let response = Response::new(parameters(), &simulate).expect("it is told");
        for (work, delay) in [(1.0, 0.0), (0.4, 5.0), (1.2, 25.0), (3.0, 90.0)] {
            let told = response.at(&asked(work, delay));
            let exact = simulate(&[work, delay]).expect("it is told");
            for (told, exact) in told.iter().zip(exact) {
                assert!((told / exact - 1.0).abs() < 1e-9, "{told} {exact} at {work} {delay}");
            }
        }
    }

    #[test]
    fn values_at_which_nothing_can_be_told_are_left_out() {
        let only_slow = |values: &[f64]| (values[0] >= 1.0).then(|| vec![values[0]]);
        let response = Response::new(parameters(), &only_slow).expect("it is told");
        assert!((response.at(&asked(0.5, 0.0))[0] - 0.5).abs() < 1e-9, "on the line from above");
        assert!(Response::new(parameters(), &|_| None).is_none());
        assert!(Response::new(parameters(), &|_| Some(vec![0.0])).is_none(), "no logarithm");
    }
}

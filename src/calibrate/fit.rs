//! The fit itself, and what it says of its parameters.

use std::sync::atomic::{AtomicU64, Ordering};

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::observation::Observation;
use super::profile::Bottom;
use super::strangers;
use super::surface::Surface;
use crate::calibration::{CalibrationFile, Found, MadeOn, Parameter};
use crate::metrics::bench::{BenchSummary, Comparison, MetricKey, Tool};

/// Half the distance over which slopes are taken, in standard deviations of what was expected.
const REACH: f64 = 0.1;
/// Steps of the search after the descent.
const POLISH: [f64; 3] = [0.1, 0.05, 0.02];
/// Evaluations per parameter of the descent.
const PATIENCE: usize = 12;
/// Correlation above which two parameters count as not separable.
const INSEPARABLE: f64 = 0.9;
/// Share of the expected spread above which the runs have told nothing of a parameter.
const UNDETERMINED: f64 = 0.8;

/// The simulated figures at values of the parameters; nothing where that cannot be simulated.
pub type Simulate<'a> = dyn Fn(&[f64]) -> Option<BenchSummary> + Sync + 'a;

/// A measured run that can be simulated with other parameters.
pub struct Run<'a> {
    /// Its name in reports.
    pub name: String,
    /// Whose figures they are.
    pub tool: Tool,
    /// What was measured.
    pub measured: Vec<(MetricKey, f64)>,
    /// Its simulation.
    pub simulate: Box<Simulate<'a>>,
}

impl Run<'_> {
    pub(super) fn observed(&self) -> Observed<'_> {
        let observations = Observation::all(&self.measured, 0.0);
        let keys: Vec<MetricKey> = observations.iter().map(|one| one.key).collect();
        let figures = move |values: &[f64]| {
            let summary = (self.simulate)(values)?;
            Some(keys.iter().map(|key| summary.metric(*key)).collect())
        };
        let name = self.name.clone();
        Observed { name, observations, stranger: None, figures: Box::new(figures) }
    }
}

/// Figures at values of the parameters, those that there are; nothing where nothing can be told.
pub(super) type Figures<'a> = dyn Fn(&[f64]) -> Option<Vec<Option<f64>>> + Sync + 'a;

/// A measured run as a fit sees it.
pub(super) struct Observed<'a> {
    pub(super) name: String,
    pub(super) observations: Vec<Observation>,
    /// The server that it is of, if that is not the one whose parameters are fitted: it counts for less where it is
    /// far off.
    pub(super) stranger: Option<String>,
    /// The same figures as they would be.
    pub(super) figures: Box<Figures<'a>>,
}

/// Why nothing was fitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// Nothing to fit to.
    #[error("no run to calibrate on tells a latency or a duration")]
    NoFigures,
    /// Every run is scored only.
    #[error("every run is held out: none is left to calibrate on")]
    AllHeldOut,
    /// Nothing to fit.
    #[error("there is no parameter to fit")]
    NoParameters,
    /// A run cannot be simulated where the search begins.
    #[error("{run}: cannot be simulated with the expected values of the parameters")]
    Unsimulable {
        /// The run.
        run: String,
    },
}

/// A parameter after the fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Which.
    pub parameter: Parameter,
    /// The value that fits best.
    pub value: f64,
    /// 90 % interval of the profile likelihood.
    pub interval: (f64, f64),
    /// Whether the runs narrowed what was expected of it.
    pub is_determined: bool,
}

impl Estimate {
    /// The estimate as it is kept in a file.
    pub fn found(&self) -> Found {
        let (low, high) = self.interval;
        Found {
            parameter: self.parameter.clone(),
            value: self.value,
            low,
            high,
            determined: self.is_determined,
        }
    }
}

/// Two parameters that the runs cannot tell apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The path of the first.
    pub first: String,
    /// The path of the second.
    pub second: String,
    /// Correlation of their estimates.
    pub correlation: f64,
}

/// The figures of a run at the values found.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFigures {
    /// The run.
    pub name: String,
    /// Measured beside simulated; empty if it cannot be simulated.
    pub comparison: Option<Comparison>,
    /// What they hang on, of a run that a [`Calibration`](super::Calibration) read.
    pub warnings: Vec<String>,
}

/// A finished fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The parameters.
    pub estimates: Vec<Estimate>,
    /// Those that cannot be told apart.
    pub inseparable: Vec<Pair>,
    /// Covariance of the positions (standard deviations of what was expected).
    pub covariance: Vec<Vec<f64>>,
    /// Root mean square of the residuals, in standard deviations of the noise.
    pub misfit: f64,
    /// The runs fitted to.
    pub fitted: Vec<RunFigures>,
    /// Simulations that were run.
    pub simulations: u64,
}

impl Fit {
    /// The values found, in the order of the parameters.
    pub fn values(&self) -> Vec<f64> {
        self.estimates.iter().map(|estimate| estimate.value).collect()
    }

    /// The parameters as a file that scenarios can take; with the runs fitted to and held out, and what the former
    /// were of.
    pub(super) fn file(
        &self,
        [fitted_to, held_out]: [Vec<String>; 2],
        made_on: MadeOn,
    ) -> CalibrationFile {
        CalibrationFile {
            servecast: env!("CARGO_PKG_VERSION").to_owned(),
            fitted_to,
            held_out,
            misfit: self.misfit,
            covariance: self.covariance.clone(),
            made_on: Some(made_on),
            parameters: self.estimates.iter().map(Estimate::found).collect(),
        }
    }

    /// The figures of a run that took no part.
    pub fn hold_out(&self, run: &Run<'_>) -> RunFigures {
        figures(run, &self.values())
    }
}

/// Fits parameters to runs.
///
/// # Errors
/// When there is nothing to fit, nothing to fit to, or a run that cannot be simulated.
pub fn fit(parameters: &[Parameter], runs: &[Run<'_>]) -> Result<Fit, CalibrationError> {
    let observed: Vec<Observed<'_>> = runs.iter().map(Run::observed).collect();
    searched(parameters, &observed, |bottom, figure_count, simulations| {
        let estimates = estimates(parameters, &bottom);
        let values: Vec<f64> = estimates.iter().map(|estimate| estimate.value).collect();
        let fitted = runs.par_iter().map(|run| figures(run, &values)).collect();
        let misses = bottom.sum - bottom.at.norm_squared();
        Fit {
            inseparable: inseparable(parameters, &bottom.covariance),
            covariance: rows(&(&bottom.covariance * bottom.variance)),
            misfit: (misses / figure_count as f64).sqrt(),
            estimates,
            fitted,
            simulations: simulations.load(Ordering::Relaxed),
        }
    })
}

/// The values of parameters that fit runs best, without how sure they are, which takes many more simulations.
///
/// # Errors
/// As of [`fit`].
pub(super) fn best(
    parameters: &[Parameter],
    runs: &[Observed<'_>],
) -> Result<Vec<f64>, CalibrationError> {
    searched(parameters, runs, |bottom, _, _| values(parameters, bottom.at.as_slice()))
}

/// Searches for the bottom of the squares, and tells of it, of the number of figures and of that of simulations.
fn searched<T>(
    parameters: &[Parameter],
    runs: &[Observed<'_>],
    tell: impl FnOnce(Bottom<'_>, usize, &AtomicU64) -> T,
) -> Result<T, CalibrationError> {
    if parameters.is_empty() {
        return Err(CalibrationError::NoParameters);
    }
    let figure_count: usize = runs.iter().map(|run| run.observations.len()).sum();
    if figure_count == 0 {
        return Err(CalibrationError::NoFigures);
    }
    let servers: Vec<Option<&str>> = runs.iter().map(|run| run.stranger.as_deref()).collect();
    let simulations = AtomicU64::new(0);
    let residuals = |at: &[f64]| -> Option<Vec<f64>> {
        let values = values(parameters, at);
        simulations.fetch_add(runs.len() as u64, Ordering::Relaxed);
        let each: Vec<Option<Vec<f64>>> = runs
            .par_iter()
            .map(|run| {
                let figures = (run.figures)(&values)?;
                let both = run.observations.iter().zip(figures);
                Some(both.map(|(one, figure)| one.residual(figure)).collect())
            })
            .collect();
        let mut measured: Vec<Vec<f64>> = each.into_iter().collect::<Option<_>>()?;
        strangers::doubt(&servers, &mut measured);
        Some(measured.into_iter().flatten().chain(at.iter().copied()).collect())
    };
    let start = vec![0.0; parameters.len()];
    if residuals(&start).is_none() {
        let centre = values(parameters, &start);
        let failed = runs.iter().find(|run| (run.figures)(&centre).is_none());
        let run = failed.map_or_else(String::new, |run| run.name.clone());
        return Err(CalibrationError::Unsimulable { run });
    }
    Ok(tell(descend(&residuals, &start, figure_count), figure_count, &simulations))
}

fn descend<'a>(
    residuals: super::surface::Residuals<'a>,
    start: &[f64],
    figure_count: usize,
) -> Bottom<'a> {
    let surface = Surface::new(residuals, start, REACH);
    let solver = LevenbergMarquardt::new().with_patience(PATIENCE).with_tol(1e-4);
    let (mut surface, _) = solver.minimize(surface);
    surface.polish(&POLISH);
    let at = DVector::from_column_slice(surface.position());
    let slopes = surface.jacobian().expect("the bottom was simulated");
    // The rows of what was expected are ones, so this has an inverse.
    let covariance = (slopes.transpose() * &slopes).try_inverse();
    let covariance = covariance.unwrap_or_else(|| DMatrix::identity(at.len(), at.len()));
    let sum = surface.sum();
    let freedom = figure_count.saturating_sub(at.len()).max(1);
    let variance = ((sum - at.norm_squared()) / freedom as f64).max(1.0);
    Bottom { residuals, at, sum, slopes, covariance, variance }
}

fn values(parameters: &[Parameter], at: &[f64]) -> Vec<f64> {
    parameters.iter().zip(at).map(|(parameter, at)| parameter.expected.value(*at)).collect()
}

fn estimates(parameters: &[Parameter], bottom: &Bottom<'_>) -> Vec<Estimate> {
    (0..parameters.len())
        .into_par_iter()
        .map(|index| {
            let parameter = &parameters[index];
            let value = |position| parameter.expected.value(position);
            let (low, high) = bottom.interval(index);
            let spread = bottom.covariance[(index, index)].sqrt();
            Estimate {
                value: value(bottom.at[index]),
                interval: (value(low), value(high)),
                is_determined: spread <= UNDETERMINED,
                parameter: parameter.clone(),
            }
        })
        .collect()
}

fn inseparable(parameters: &[Parameter], covariance: &DMatrix<f64>) -> Vec<Pair> {
    let count = parameters.len();
    let pairs = (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j)));
    pairs
        .filter_map(|(i, j)| {
            let scale = (covariance[(i, i)] * covariance[(j, j)]).sqrt();
            let correlation = covariance[(i, j)] / scale;
            (correlation.abs() > INSEPARABLE).then(|| Pair {
                first: parameters[i].title(),
                second: parameters[j].title(),
                correlation,
            })
        })
        .collect()
}

fn figures(run: &Run<'_>, values: &[f64]) -> RunFigures {
    let simulated = (run.simulate)(values);
    let comparison =
        simulated.map(|summary| Comparison::of_figures(run.tool, &run.measured, &summary));
    RunFigures { name: run.name.clone(), comparison, warnings: Vec::new() }
}

fn rows(matrix: &DMatrix<f64>) -> Vec<Vec<f64>> {
    matrix.row_iter().map(|row| row.iter().copied().collect()).collect()
}

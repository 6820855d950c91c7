//! What a fit found, as it is kept in a file.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::parameter::Parameter;
use crate::resolved::{Caveat, Demand, Scenario};
use crate::rng::Stream;
use crate::scenario::StepTimeConfig;

/// The parameters of a fit with how well they are known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationFile {
    /// The version that made the fit.
    pub servecast: String,
    /// The runs fitted to, and where they were measured.
    pub fitted_to: Vec<String>,
    /// The runs that were scored only.
    pub held_out: Vec<String>,
    /// Root mean square of the residuals, in standard deviations of the noise.
    pub misfit: f64,
    /// Covariance of the parameters, each counted in spreads of what was expected of it.
    pub covariance: Vec<Vec<f64>>,
    /// What the fitted runs were of; files of earlier versions do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_on: Option<MadeOn>,
    /// The parameters.
    pub parameters: Vec<Found>,
}

/// What runs were of: what their parameters say something about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeOn {
    /// Names of models.
    pub models: Vec<String>,
    /// Names of GPUs.
    pub gpus: Vec<String>,
    /// Types of engines.
    pub engines: Vec<String>,
    /// Tensor-parallel sizes.
    pub tensor_parallel_sizes: Vec<u32>,
    /// Names of the tables that their step times were read from; files of earlier versions do not say it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// What the runs asked of their replicas; files of earlier versions, and those of single steps, do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
}

impl MadeOn {
    /// What these scenarios are of.
    pub fn of<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> Self {
        let mut all = Self::default();
        for group in scenarios.into_iter().flat_map(|scenario| &scenario.groups) {
            add(&mut all.models, group.model.name.clone());
            add(&mut all.gpus, group.gpu.name.clone());
            add(&mut all.engines, group.cluster.engine.name().to_owned());
            add(&mut all.tensor_parallel_sizes, group.cluster.tensor_parallel_size);
            // Of a file the name says nothing: it may be another one elsewhere.
            let table = group.cluster.step_time.table();
            if let Some(table) = table.filter(|name| !StepTimeConfig::is_file(name)) {
                add(&mut all.tables, table.to_owned());
            }
        }
        all
    }

    /// What a scenario has that these runs had not.
    fn differences(&self, scenario: &Scenario) -> Vec<Caveat> {
        let own = Self::of([scenario]);
        let sizes = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>();
        let (calibrated, simulated) =
            (sizes(&self.tensor_parallel_sizes), sizes(&own.tensor_parallel_sizes));
        let hardware = [("GPU", &self.gpus, &own.gpus), ("engine", &self.engines, &own.engines)];
        let others = [
            ("model", &self.models, &own.models),
            ("tensor-parallel size", &calibrated, &simulated),
        ];
        let table = ("table of step times", &self.tables, &own.tables);
        let mut differs: Vec<Caveat> = hardware.into_iter().filter_map(difference).collect();
        if differs.is_empty() {
            // Of other GPUs and engines it is another one anyway.
            differs.extend(difference(table));
        }
        differs.extend(others.into_iter().filter_map(difference));
        differs
    }
}

/// The first of those that are simulated on which nothing was calibrated. What is not told is no difference.
fn difference(
    (what, calibrated, simulated): (&'static str, &Vec<String>, &Vec<String>),
) -> Option<Caveat> {
    let other = simulated.iter().find(|one| !calibrated.contains(one))?;
    let told = || Caveat::OtherCalibration {
        what,
        calibrated: calibrated.join(", "),
        simulated: other.clone(),
    };
    (!calibrated.is_empty()).then(told)
}

fn add<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if !list.contains(&one) {
        list.push(one);
    }
}

/// From how many times the noise between repetitions on a fit has missed its own runs.
const MISFIT_MAX: f64 = 3.0;

/// From how many spreads on a value is not what was expected of a parameter.
const SPREADS_MAX: f64 = 4.0;

/// A parameter with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The setting and what was expected of it.
    #[serde(flatten)]
    pub parameter: Parameter,
    /// The value that fits best.
    pub value: f64,
    /// Lower end of the 90 % interval.
    pub low: f64,
    /// Upper end of the 90 % interval.
    pub high: f64,
    /// Whether the runs narrowed what was expected.
    pub determined: bool,
}

impl Found {
    /// The rule that it breaks, if it breaks one.
    fn check(&self) -> Result<(), String> {
        let Self { parameter, value, low, high, .. } = self;
        if !value.is_finite() {
            return Err(format!("value must be finite, got {value}"));
        }
        if *value < 0.0 {
            return Err(format!("value must be at least 0, got {value}"));
        }
        if low <= high {
            parameter.expected.check()
        } else {
            Err(format!("low must be at most high, which is {high}, got {low}"))
        }
    }

    /// Whether the runs took it where nobody expected it.
    fn is_far(&self) -> bool {
        self.parameter.expected.position(self.value).abs() > SPREADS_MAX
    }
}

impl CalibrationFile {
    /// The rule that the file breaks, if it breaks one.
    ///
    /// # Errors
    /// Place, rule and value.
    pub fn check(&self) -> Result<(), String> {
        let count = self.parameters.len();
        for found in &self.parameters {
            found.check().map_err(|rule| format!("{}: {rule}", found.parameter.title()))?;
        }
        let is_square =
            self.covariance.len() == count && self.covariance.iter().all(|row| row.len() == count);
        if !is_square {
            return Err(format!("covariance: must have {count} rows of {count} numbers"));
        }
        let demand = self.made_on.as_ref().and_then(|made_on| made_on.demand);
        if let Some(rule) = demand.and_then(|demand| demand.broken_rule()) {
            return Err(format!("made_on.demand.{rule}"));
        }
        if cholesky(&self.covariance).is_none() {
            return Err("covariance: must be positive definite".to_owned());
        }
        Ok(())
    }

    /// The text of the file.
    ///
    /// # Panics
    /// Never: numbers and text are TOML.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("numbers and text are TOML")
    }

    /// Why its parameters may be wrong for a scenario: it missed its own runs, it takes what nobody expected, or its
    /// runs were of something else.
    pub fn doubts(&self, scenario: &Scenario) -> Vec<Caveat> {
        let poor = (self.misfit > MISFIT_MAX).then_some(Caveat::PoorFit { misfit: self.misfit });
        let concerned = self.parameters.iter().filter(|found| found.is_far());
        let far = concerned.map(|found| Caveat::FarParameter {
            path: found.parameter.title(),
            value: found.value,
            centre: found.parameter.expected.centre(),
            spreads: found.parameter.expected.position(found.value).abs(),
        });
        let other = match &self.made_on {
            Some(made_on) => made_on.differences(scenario),
            None => vec![Caveat::UnknownCalibration],
        };
        poor.into_iter().chain(far).chain(other).collect()
    }

    /// Whether kernels were fitted to runs on single GPUs alone, which say nothing of all-reduces.
    pub fn is_silent_on_all_reduces(&self) -> bool {
        let paths = self.parameters.iter().map(|found| found.parameter.path.as_str());
        let mut kernels =
            paths.filter_map(|path| path.strip_prefix("cluster.step_time.calibration.")).peekable();
        let are_single = |made_on: &MadeOn| made_on.tensor_parallel_sizes == [1];
        self.made_on.as_ref().is_some_and(are_single)
            && kernels.peek().is_some()
            && kernels.all(|name| name != "all_reduce")
    }

    /// The values found.
    pub fn values(&self) -> Vec<f64> {
        self.parameters.iter().map(|found| found.value).collect()
    }

    /// Values drawn from what the fit knows of them: normal in the scale of what was expected.
    ///
    /// # Panics
    /// When the file breaks a rule ([`check`](Self::check)).
    pub fn draw(&self, stream: &mut Stream) -> Vec<f64> {
        let root = cholesky(&self.covariance).expect("the file was checked");
        let normal: Vec<f64> =
            self.parameters.iter().map(|_| StandardNormal.sample(stream)).collect();
        let moves = root.iter().map(|row| row.iter().zip(&normal).map(|(a, b)| a * b).sum::<f64>());
        let drawn = self.parameters.iter().zip(moves).map(|(found, by)| {
            let expected = found.parameter.expected;
            expected.value(expected.position(found.value) + by)
        });
        drawn.collect()
    }
}

/// The lower triangle L with L·Lᵀ = the matrix; nothing if it is not positive definite.
fn cholesky(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let mut root: Vec<Vec<f64>> = Vec::with_capacity(matrix.len());
    for (i, row) in matrix.iter().enumerate() {
        let mut line = vec![0.0; matrix.len()];
        for j in 0..=i {
            let other = if j == i { line.clone() } else { root[j].clone() };
            let rest = row[j] - line[..j].iter().zip(&other).map(|(a, b)| a * b).sum::<f64>();
            line[j] = if j == i { rest.sqrt() } else { rest / other[j] };
            if !line[j].is_finite() || (j == i && line[j] <= 0.0) {
                return None;
            }
        }
        root.push(line);
    }
    Some(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Expected;
    use crate::rng::Seed;

    fn file(covariance: [[f64; 2]; 2]) -> CalibrationFile {
        let found = |path: &str, expected, value| Found {
            parameter: Parameter { path: path.to_owned(), runs: None, expected },
            value,
            low: value,
            high: value,
            determined: true,
        };
        CalibrationFile {
            servecast: "0".to_owned(),
            fitted_to: Vec::new(),
            held_out: Vec::new(),
            misfit: 1.0,
            covariance: covariance.map(|row| row.to_vec()).to_vec(),
            made_on: None,
            parameters: vec![
                found("a", Expected::Amount { centre: 10.0, spread: 2.0 }, 20.0),
                found("b", Expected::Factor { centre: 1.0, spread: 0.1 }, 1.2),
            ],
        }
    }

    #[test]
    fn draws_have_the_mean_and_the_covariance_of_the_fit() {
        let file = file([[0.25, 0.1], [0.1, 0.16]]);
        let mut stream = Seed(7).stream("parameters", 0);
        let draws: Vec<Vec<f64>> = (0..20_000).map(|_| file.draw(&mut stream)).collect();
        let positions = |index: usize| -> Vec<f64> {
            let expected = file.parameters[index].parameter.expected;
            draws.iter().map(|values| expected.position(values[index])).collect()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (a, b) = (positions(0), positions(1));
        let (mean_a, mean_b) = (mean(&a), mean(&b));
        // 20,000 draws: standard errors are below 0.004.
        assert!((mean_a - 5.0).abs() < 0.015, "{mean_a}");
        assert!((mean_b - 1.2f64.ln() / 0.1).abs() < 0.015, "{mean_b}");
        let product = |x: &[f64], y: &[f64], mx: f64, my: f64| {
            mean(&x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).collect::<Vec<_>>())
        };
        assert!((product(&a, &a, mean_a, mean_a) - 0.25).abs() < 0.01);
        assert!((product(&b, &b, mean_b, mean_b) - 0.16).abs() < 0.01);
        assert!((product(&a, &b, mean_a, mean_b) - 0.1).abs() < 0.01);
    }

    #[test]
    fn a_covariance_that_is_none_is_refused() {
        assert!(file([[1.0, 0.0], [0.0, 1.0]]).check().is_ok());
        let error = file([[1.0, 2.0], [2.0, 1.0]]).check().unwrap_err();
        assert_eq!(error, "covariance: must be positive definite");
    }

    #[test]
    fn parameters_that_are_none_are_refused_by_name() {
        let told = |change: fn(&mut Found)| {
            let mut file = file([[1.0, 0.0], [0.0, 1.0]]);
            change(&mut file.parameters[0]);
            file.check().unwrap_err()
        };
        assert_eq!(told(|found| found.value = f64::NAN), "a: value must be finite, got NaN");
        assert_eq!(told(|found| found.value = -4.0), "a: value must be at least 0, got -4");
        assert_eq!(
            told(|found| found.low = 30.0),
            "a: low must be at most high, which is 20, got 30"
        );
        let narrow = Expected::Amount { centre: 10.0, spread: -1.0 };
        let told = {
            let mut file = file([[1.0, 0.0], [0.0, 1.0]]);
            file.parameters[0].parameter.expected = narrow;
            file.check().unwrap_err()
        };
        assert_eq!(told, "a: the spread must be positive, got -1");
    }
}

//! The arguments, and the parameters they name.

use std::path::PathBuf;

use clap::Args;

use super::super::Failure;
use super::super::args::{DataArguments, Format};
use super::runs::MeasuredRun;
use crate::calibration::{Expected, Parameter};

/// `servecast calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast calibrate measured.toml --output my-gpu.toml\n  \
    servecast calibrate low.toml high.toml --hold-out middle.toml\n  \
    servecast calibrate --server server.toml run1.jsonl run2.txt --hold-out run3.txt\n  \
    servecast calibrate measured.toml --fit cluster.api_delay_ms=5+-5 \
--fit cluster.engine.host.schedule_us=0+-500\n\n\
    A run is a scenario with a table [measured] (its variants are runs too; those with\n\
    `hold_out = true` are scored only), an experiment as `servecast validate` takes it, or,\n\
    with --server, what a benchmark tool printed or wrote. A parameter is any number of the\n\
    scenario that may be a fraction: PATH=CENTRE*/SPREAD is a factor known within a share (1*/0.2),\n\
    PATH=CENTRE+-SPREAD an amount (5+-10), at least 0.\n\n\
    Exit codes: 0 every duration, mean and median of the held-out runs (of the fitted, if none\n\
    is held out) is within the limit, 1 one is not, 2 bad arguments or input.")]
pub(in crate::cli) struct CalibrateArguments {
    /// Measured runs to calibrate on
    #[arg(required = true, value_name = "RUN")]
    pub(super) runs: Vec<PathBuf>,
    /// Measured runs that are scored and not fitted to
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(super) hold_out: Vec<PathBuf>,
    /// The scenario that benchmark outputs were measured on
    #[arg(long, value_name = "SCENARIO")]
    pub(super) server: Option<PathBuf>,
    #[command(flatten)]
    pub(super) data: DataArguments,
    /// A number to fit, and what is expected of it; may be repeated
    #[arg(long = "fit", value_name = "PATH=EXPECTED")]
    pub(super) parameters: Vec<String>,
    /// Override a value of every scenario, as in `cluster.gpu=A10`; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(super) overrides: Vec<String>,
    /// Error that the verdict accepts, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(super) within: f64,
    /// Write the parameters to this file, for `servecast run --calibration`
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// The parameters: of the command line, else of the scenario files, else the usual ones.
pub(super) fn parameters(
    told: &[String],
    fit: Option<toml::Value>,
    runs: &[MeasuredRun],
) -> Result<Vec<Parameter>, Failure> {
    if !told.is_empty() {
        return told.iter().map(|text| parse(text)).collect();
    }
    if let Some(table) = fit {
        return table
            .try_into()
            .map_err(|error: toml::de::Error| Failure::input(format!("fit: {}", error.message())));
    }
    Ok(usual(runs.iter().any(|run| run.tensor_parallel_size > 1)))
}

/// What differs between servers of one kind: the host and, by a little, the kernels.
fn usual(has_all_reduce: bool) -> Vec<Parameter> {
    let factor = |part: &str, spread| {
        Parameter::factor(format!("cluster.step_time.calibration.{part}"), spread)
    };
    let mut parameters = vec![
        Parameter::amount("cluster.api_delay_ms", 20.0),
        Parameter::amount("cluster.step_time.calibration.per_step_us", 1000.0),
        Parameter::amount("cluster.step_time.calibration.per_prefill_step_us", 5000.0),
        factor("products", 0.2),
        factor("decode_attention", 0.3),
        factor("prefill_attention", 0.3),
    ];
    if has_all_reduce {
        parameters.push(factor("all_reduce", 0.7));
    }
    parameters
}

/// `PATH=CENTRE*/SPREAD` or `PATH=CENTRE+-SPREAD`.
fn parse(text: &str) -> Result<Parameter, Failure> {
    let wrong = |rule: &str| Failure::input(format!("--fit {text}: {rule}"));
    let Some((path, expected)) = text.split_once('=') else {
        return Err(wrong("write PATH=CENTRE*/SPREAD or PATH=CENTRE+-SPREAD"));
    };
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| wrong(&format!("`{}` is no number", text.trim())))
    };
    let expected = if let Some((centre, spread)) = expected.split_once("*/") {
        Expected::Factor { centre: number(centre)?, spread: number(spread)? }
    } else if let Some((centre, spread)) = expected.split_once("+-") {
        Expected::Amount { centre: number(centre)?, spread: number(spread)? }
    } else {
        return Err(wrong("write the expectation as CENTRE*/SPREAD or CENTRE+-SPREAD"));
    };
    check(&expected).map_err(|rule| wrong(&rule))?;
    Ok(Parameter { path: path.trim().to_owned(), runs: None, expected })
}

fn check(expected: &Expected) -> Result<(), String> {
    let (centre, spread, is_centre_ok) = match *expected {
        Expected::Factor { centre, spread } => (centre, spread, centre > 0.0),
        Expected::Amount { centre, spread } => (centre, spread, centre >= 0.0),
    };
    if !is_centre_ok {
        return Err(format!("the centre must be positive, got {centre}"));
    }
    if spread > 0.0 { Ok(()) } else { Err(format!("the spread must be positive, got {spread}")) }
}

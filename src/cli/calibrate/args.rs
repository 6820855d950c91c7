//! The arguments, and the parameters they name.

use std::path::PathBuf;

use clap::Args;

use crate::calibrate::Question;
use crate::calibration::Parameter;
use crate::cli::args::{DataArguments, Format};
use crate::cli::failure::{Failure, overrides};

/// `servecast calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast calibrate measured.toml --output my-gpu.toml\n  \
    servecast calibrate low.toml high.toml --hold-out middle.toml\n  \
    servecast calibrate --server server.toml run1.jsonl run2.txt --hold-out run3.txt\n  \
    servecast calibrate measured.toml --fit cluster.api_delay_ms=5+-5 \
--fit cluster.engine.host.schedule_us=0+-500\n\n\
    A run is one of:\n\
    * a scenario with a table [measured]; its variants are runs too, and `hold_out = true` in one\n\
    \x20 makes it scored only;\n\
    * an experiment, as `servecast validate` takes it;\n\
    * with --server, what a benchmark tool printed or wrote.\n\n\
    --fit takes any number of the scenario that may be a fraction. PATH=CENTRE*/SPREAD is a factor\n\
    known within a share, as in 1*/0.2. PATH=CENTRE+-SPREAD is an amount of at least 0, as in 5+-10.\n\n\
    Exit codes: 0 every duration, mean and median of the held-out runs (of the fitted, if none\n\
    is held out) is within the limit, 1 one is not, 2 bad arguments or input.")]
pub(in crate::cli) struct CalibrateArguments {
    /// Measured runs to calibrate on
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Measured runs that are scored and not fitted to
    #[arg(long, value_name = "RUN", num_args = 1..)]
    hold_out: Vec<PathBuf>,
    /// The scenario that benchmark outputs were measured on
    #[arg(long, value_name = "SCENARIO")]
    server: Option<PathBuf>,
    #[command(flatten)]
    data: DataArguments,
    /// A number to fit, and what is expected of it; may be repeated
    #[arg(long = "fit", value_name = "PATH=EXPECTED")]
    parameters: Vec<String>,
    /// Override a value of every scenario, as in `cluster.gpu=A10`; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
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

impl CalibrateArguments {
    /// What is asked.
    pub(super) fn question(&self) -> Result<Question, Failure> {
        let parameter = |text: &String| {
            let parsed = text.parse::<Parameter>();
            parsed.map_err(|problem| Failure::input(format!("--fit {text}: {problem}")))
        };
        Ok(Question {
            runs: self.runs.clone(),
            hold_out: self.hold_out.clone(),
            server: self.server.clone(),
            data: self.data.folder(),
            overrides: overrides(&self.overrides)?,
            parameters: self.parameters.iter().map(parameter).collect::<Result<_, _>>()?,
        })
    }
}

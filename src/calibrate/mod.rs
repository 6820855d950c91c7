//! Parameters of the simulator from measured runs.
//!
//! A fit runs whole simulations: every evaluation sets the parameters in the scenario of each run,
//! simulates it and compares the figures that a benchmark tool printed of the real one. The sum of
//! squares of ln(simulated / measured) / noise, and of the distance of each parameter from what was
//! expected of it, is made least by Levenberg–Marquardt (MINPACK's form). What the runs cannot tell
//! therefore stays where it was expected, and is reported as such.
//!
//! Intervals are those of the profile likelihood: how far a parameter can be moved, the others
//! following, until the fit is worse by the 90 % quantile of χ² with one degree of freedom. Where
//! the runs are fitted worse than their noise, all intervals widen accordingly.
//!
//! Fits of many servers to published runs ask the same runs again and again. They go by what a few simulations of each run
//! tell of every parameter ([`Servers`]).
//!
//! ```no_run
//! use servecast::calibrate::{Calibration, Question};
//! use servecast::load::Listener;
//!
//! let question = Question {
//!     runs: vec!["low.toml".into(), "high.toml".into()],
//!     hold_out: vec!["middle.toml".into()],
//!     ..Question::default()
//! };
//! let answer = Calibration::of(&question, &Listener::default())?.fit()?;
//! if answer.verdict(5.0).misses == 0 {
//!     std::fs::write("my-gpu.toml", answer.file.text())?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Left out: parameters that are not numbers, and noise that differs between tools.

mod alike;
mod answer;
mod fit;
mod measured;
mod observation;
pub mod probe;
mod profile;
mod question;
mod response;
mod servers;
mod strangers;
mod surface;
mod transfer;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Verdict};
pub use fit::{CalibrationError, Estimate, Fit, Pair, Run, RunFigures, Simulate, fit};
pub use observation::{Observation, noise};
pub use question::{Calibration, Question};
pub use servers::Servers;

/// Four significant digits.
pub(crate) fn short(value: f64) -> String {
    if value.abs() < 1e-9 {
        return "0".to_owned();
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", usize::try_from(digits.clamp(0, 9)).unwrap_or(0))
}

//! Fitted parameters of the simulator: what was expected of each, what was found, how well it is known.
//!
//! A parameter is a setting of the scenario that is a number. A file of them is what a fit leaves and
//! what scenarios take ([`crate::load::Changes`]); values drawn from its covariance say how far figures vary
//! within what the fit knows.

mod file;
mod parameter;

pub use file::{CalibrationFile, Found, MadeOn};
pub use parameter::{Expected, Parameter};

//! Measured step times of other projects, reduced to profiles.

pub mod aiconfigurator;
mod raw;

pub use raw::ImportError;

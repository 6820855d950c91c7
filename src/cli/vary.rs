//! Axes as `--vary` takes them.

use super::failure::Failure;
use crate::sweep::{Axis, BrokenRule};

/// Reads `path=values`.
pub(super) fn axis(text: &str) -> Result<Axis, Failure> {
    text.parse().map_err(|error: BrokenRule| Failure::input(format!("--vary {error}")))
}

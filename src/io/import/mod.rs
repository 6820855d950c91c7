//! Measured step times of other projects, reduced to profiles.

pub mod aiconfigurator;
#[cfg(feature = "cli")]
mod error;
#[cfg(feature = "cli")]
mod llmservingsim;
mod raw;
#[cfg(feature = "cli")]
mod reduce;
mod splitwise;
#[cfg(feature = "cli")]
mod vidur;

#[cfg(feature = "cli")]
pub use error::LayerImportError;
#[cfg(feature = "cli")]
pub use llmservingsim::{LayerImport, import_layers};
pub use raw::ImportError;
#[cfg(feature = "cli")]
pub use reduce::Reduction;
pub use splitwise::{SplitwiseRuns, SplitwiseSelection, import_steps};
#[cfg(feature = "cli")]
pub use vidur::{VidurImport, VidurProfile, import_vidur};

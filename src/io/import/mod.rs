//! Measured step times of other projects, reduced to profiles.

pub mod aiconfigurator;
#[cfg(feature = "cli")]
mod error;
#[cfg(feature = "cli")]
mod llmservingsim;
mod raw;
#[cfg(feature = "cli")]
mod reduce;

#[cfg(feature = "cli")]
pub use error::LayerImportError;
#[cfg(feature = "cli")]
pub use llmservingsim::{LayerImport, import_layers};
pub use raw::ImportError;
#[cfg(feature = "cli")]
pub use reduce::Reduction;

//! Measured step times of other projects, reduced to profiles.

pub mod aiconfigurator;
mod error;
#[cfg(feature = "cli")]
mod llmservingsim;
mod raw;
mod reduce;

pub use error::LayerImportError;
#[cfg(feature = "cli")]
pub use llmservingsim::{LayerImport, import_layers};
pub use raw::ImportError;
pub use reduce::Reduction;

//! Measured operator times of other projects, reduced to profiles of this one.

mod error;
mod llmservingsim;
mod reduce;

pub use error::LayerImportError;
pub use llmservingsim::{LayerImport, import_layers};
pub use reduce::Reduction;

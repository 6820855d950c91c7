//! The edges: the only modules below the command line that touch files.

pub mod acceptance;
pub mod columns;
pub mod import;
#[cfg(feature = "probe")]
pub mod openai;
pub mod output;
#[cfg(feature = "tables")]
pub mod parquet;
pub mod results;
pub mod rundir;
pub mod tables;
pub(crate) mod text;
pub mod timeline;
pub mod traces;
pub mod unfinished;

//! The edges: the only modules below the command line that touch files.

#[cfg(feature = "cli")]
pub mod import;
pub mod rundir;
#[cfg(feature = "tables")]
pub mod tables;
pub mod timeline;
pub mod traces;

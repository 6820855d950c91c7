//! The edges: traces, tables, run directories.

pub mod traces;

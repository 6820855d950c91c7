//! The edges: traces, tables, run directories.

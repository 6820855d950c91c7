//! What happened: records and reports.

pub mod bench;

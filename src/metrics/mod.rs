//! What happened: records and reports.

//! A timeline of a run as a Chrome trace, for ui.perfetto.dev
//! (Trace Event Format: `X` complete slices, `C` counters, `M` metadata; times
//! in microseconds, here with the nanoseconds as decimals).
//!
//! Each instance is a process: its steps on the device, its counters, and its requests in rows, each with
//! the phases of its life inside. Requests are written when they leave, so that only those inside
//! are kept in memory.

mod events;
mod file;
mod lanes;
mod window;
mod writer;

pub use file::{TimelineError, TimelineFile};
pub use window::Window;
pub use writer::TimelineWriter;

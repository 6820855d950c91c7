//! What happened: records of requests, gaps between tokens, and the reports made of them.

pub mod bench;
mod gaps;
mod record;
mod recorder;
mod series;

pub use gaps::GapCounter;
pub use record::{RequestRecord, Status};
pub use recorder::{Recorder, Timeline};
pub use series::{Quantity, Series};

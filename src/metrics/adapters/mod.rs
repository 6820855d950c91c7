//! What requests of each adapter got, and what adapters did.

mod log;
mod report;

pub use log::{AdapterLog, AdapterMoves, AdapterSteps, AdapterWait};
pub use report::{AdapterFigures, AdaptersReport};

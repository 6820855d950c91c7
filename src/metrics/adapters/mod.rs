//! What requests of each adapter got, and what adapters did.

mod log;
mod migrations;
mod report;
mod slots;

pub use log::{AdapterLog, AdapterMoves, AdapterSteps, AdapterWait, MergingLog};
pub use migrations::{MigrationFigures, MigrationLog};
pub use report::{AdapterFigures, AdaptersReport, Merging};

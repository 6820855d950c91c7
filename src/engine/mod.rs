//! One engine replica: a scheduler that decides each step, and a pipeline that times them.
//!
//! An [`Instance`] is passive: it never sees the event queue. Its driver hands it requests and the
//! clock, and it answers with the moment it wants to be woken next.

mod adapters;
mod copies;
mod drafts;
mod flight;
mod host;
mod instance;
mod life;
mod pipeline;
mod quiet;
pub mod scheduler;
mod step;
pub mod tiers;

pub use adapters::{AdapterLoads, AdapterMove, AdapterPlace, Adapters};
pub use copies::CopyStart;
pub use drafts::DraftCounts;
pub use host::HostTimes;
pub use instance::{Batch, EngineEvent, Instance};
pub use life::{Finish, Life};
pub use quiet::{QuietRun, QuietStep};
pub use step::{Entry, EntryKind, Execution, StepPlan, StepResult, TokenGap};
pub use tiers::Tiers;

//! Why a request was slow: where its time went, beside the median request, and which setting would change
//! that most.
//!
//! A question ([`Explain`]) picks one request of a run: by its number, or the one at a percentile of a latency (nearest
//! rank). The answer ([`Explained`]) has three parts:
//!
//! * [`Account`]: its end-to-end time in parts that add up to it exactly. They are those of
//!   [`Breakdown`](crate::metrics::Breakdown), of which waits for adapters and the way of tokens to the client are split
//!   off.
//! * [`Sight`]: what was going on around it. The run is simulated once more, with an observer that follows two requests.
//! * [`Ranking`]: one setting at a time is changed ([`Change`]), and simulated with the same requests under several seeds.
//!   Changes that break a rule of the scenario are left out, and those of which the model says nothing are not judged. All
//!   others are judged together ([`holm`](crate::compare::holm)).
//!
//! Left out: what two changes do together.

mod account;
mod changes;
mod error;
mod fewer;
mod host;
mod paths;
mod pick;
mod question;
mod ranking;
mod sight;
mod slo;
mod text;
mod trials;

pub use account::{Account, Part, PartKind};
pub use changes::Change;
pub use error::ExplainError;
pub use pick::{Metric, Picked};
pub use question::{Explain, Explained, Subject};
pub use ranking::{GivenUp, LeftOut, Ranked, Ranking};
pub use sight::{Came, Choice, Found, Sight};
pub use slo::Missed;
pub use text::Shown;

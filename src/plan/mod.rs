//! How many replicas, of which layout, meet latency SLOs under given traffic.
//!
//! A question ([`Plan`]) is read into a [`Study`], which gives an [`Answer`].
//!
//! The requests are drawn once ([`Traffic`]); every trial of a layout is sent the same ones, at the same
//! moments or at moments that are all scaled by one factor. So trials differ by their layout and their rate
//! alone, and a search is not led astray by draws. A trial that cannot meet an SLO any more is broken off
//! ([`Watch`]); what it would have shown is not guessed.
//!
//! A search begins where the throughput of the engines alone says ([`Capacity`]), and ends at a size that
//! was simulated and meets all SLOs beside sizes that were simulated and do not.

mod answer;
mod assumptions;
mod capacity;
mod checks;
mod error;
mod front;
mod hunt;
mod layouts;
mod limits;
mod merit;
mod nic;
mod outcome;
mod price_list;
mod prices;
mod question;
mod rates;
mod search;
mod sizes;
mod slo;
mod study;
mod told;
mod traffic;
mod trial;
mod warm_up;
mod watch;

pub use answer::{Answer, Front};
pub use assumptions::{Assumed, Assumption, Copies};
pub use capacity::Capacity;
pub use error::PlanError;
pub use front::pareto;
pub use hunt::Tried;
pub use layouts::Size;
pub use limits::{Limits, Stretch, Windows};
pub use merit::Merit;
pub use nic::{Nic, NicSource};
pub use outcome::{LimitedBy, Obstacle, Outcome, Row};
pub use price_list::PriceList;
pub use prices::GpuCost;
pub use question::{LayoutKind, Plan, Seeks};
pub use search::{Kept, Pair, fewest, fewest_pair, highest_factor};
pub use slo::{Objective, Slo, SloProblem};
pub use study::Study;
pub use traffic::Traffic;
pub use trial::{End, GoesOn, Setup, Trial, Value};
pub use warm_up::{WarmUp, mser5};
pub use watch::{Until, Watch};

//! A regression gate for scheduling ideas: small scenarios whose figures are recorded, simulated again with
//! the project's policies or with one's own, and compared.
//!
//! Runs are deterministic, so that a figure that differs at all is a change of behaviour and is listed. What
//! fails is a figure that is worse than recorded by more than its tolerance, where it is known which way is
//! worse ([`crate::study::sense`]).
//!
//! ```
//! use servecast::check::{Policies, Suite};
//! use servecast::cluster::Router;
//! use servecast::scenario::RouterConfig;
//!
//! // The policy under test: here, one of the project's own in place of each scenario's.
//! let policies = Policies::shipped().with_router(|scenario, _shipped| {
//!     let config = RouterConfig::PowerOfTwoChoices {};
//!     Ok(Router::new(&config, scenario.seed))
//! });
//! let suite = Suite::built_in().only(|name| name.starts_with("router-"));
//! let outcomes = suite.check(&policies)?;
//! let prefixes = outcomes.iter().find(|outcome| outcome.scenario == "router-prefixes");
//! // It does not know where prompts were sent before.
//! assert!(prefixes.is_some_and(|outcome| !outcome.passes()));
//! # Ok::<(), servecast::study::StudyError>(())
//! ```
//!
//! [`folder`] reads a suite of one's own.
//!
//! Left out: chance. A scenario is simulated once, with its seed; whether a small difference holds for other
//! seeds says [`crate::compare`].

mod folder;
mod golden;
mod outcome;
mod suite;

#[cfg(test)]
mod tests;

pub use crate::study::Policies;
pub use folder::{GOLDEN_FILE, Purpose, folder};
pub use golden::{Golden, GoldenError};
pub use outcome::{Deviation, Outcome, Standing, json};
pub use suite::{Member, Suite};

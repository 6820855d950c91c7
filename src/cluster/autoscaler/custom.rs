//! A rule of one's own in place of a signal and its target.

use std::fmt;

use super::Report;
use crate::units::SimTime;

/// What a rule may know when the controller looks.
#[derive(Debug, Clone, Copy)]
pub struct ScaleView<'a> {
    /// Replicas that serve or start.
    pub replicas: u32,
    /// Those of them that start.
    pub starting: u32,
    /// Requests that wait at the gateway.
    pub at_gateway: u32,
    /// What is known of each replica that serves.
    pub serving: &'a [Report],
    /// The share of time in which each of these worked since the controller looked last.
    pub busy: &'a [f64],
}

/// Decides how many replicas there should be. Bounds, windows and steps of the scenario's autoscaler hold as for
/// its own signals, and so do the times that replicas take to start.
pub trait Scale: fmt::Debug + Send {
    /// The replicas that should serve.
    fn decide(&mut self, view: ScaleView<'_>, now: SimTime) -> u32;

    /// The rule at the start of a run, for replicas that it knows nothing of yet.
    fn fresh(&self) -> Box<dyn Scale>;
}

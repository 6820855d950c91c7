//! Recommendations over time, so that replicas do not come and go with every wave.
//!
//! As Kubernetes does (`stabilizeRecommendationWithBehaviors` of `horizontal.go`, 1.33): up to the least
//! that was recommended in a window, down to the most in another; the number at the start of the run
//! counts as recommended then.

use std::collections::VecDeque;

use crate::scenario::AutoscalerConfig;
use crate::units::{SimDuration, SimTime};

/// The recommendations that a window may still hold.
#[derive(Debug)]
pub(super) struct Stabilisation {
    up: SimDuration,
    down: SimDuration,
    recommended: VecDeque<(SimTime, u32)>,
}

impl Stabilisation {
    pub(super) fn new(config: &AutoscalerConfig) -> Self {
        Self {
            up: SimDuration::from_secs_f64(config.stabilisation_up_s),
            down: SimDuration::from_secs_f64(config.stabilisation_down_s),
            recommended: VecDeque::from([(SimTime::ZERO, config.initial())]),
        }
    }

    /// What a recommendation comes to where there are so many replicas.
    pub(super) fn hold(&mut self, now: SimTime, replicas: u32, recommended: u32) -> u32 {
        let longest = self.up.max(self.down);
        while self.recommended.front().is_some_and(|(at, _)| now - *at >= longest) {
            self.recommended.pop_front();
        }
        self.recommended.push_back((now, recommended));
        let within = |window: SimDuration| {
            let held = self.recommended.iter().rev();
            // The one of this moment counts however short the window is.
            held.take_while(move |(at, _)| *at == now || now - *at < window)
                .map(|(_, count)| *count)
        };
        let up = within(self.up).min().unwrap_or(recommended);
        let down = within(self.down).max().unwrap_or(recommended);
        if replicas < up {
            up
        } else if replicas > down {
            down
        } else {
            replicas
        }
    }
}

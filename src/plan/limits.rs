//! How sure an answer is, and what less than it would do.

use serde_json::{Value, json};

use super::layouts::Size;
use super::{Traffic, Trial};
use crate::units::SimDuration;

/// What is known of the best layout beside that it meets the SLOs.
#[derive(Debug, Default)]
pub struct Limits {
    /// What other requests need.
    pub stretches: Vec<Stretch>,
    /// How many times as fast the requests may come.
    pub carries: Option<f64>,
    /// What a perfect autoscaler would do with.
    pub windows: Option<Windows>,
    /// The highest rates for other requests, in requests per second.
    pub rates: Vec<f64>,
    /// What faster servers need, where it is planned for slow ones.
    pub sizes_of_faster: Option<Faster<Option<Need>>>,
    /// The cheapest layout if all servers were typical, by its place, with what it needs; nothing where none is planned for
    /// slow ones.
    pub cheapest_typical: Option<(usize, Need)>,
    /// The best layout as it is, on typical servers, where it is planned for slow ones.
    pub on_typical: Option<Trial>,
    /// The highest rates of faster servers, in requests per second, where it is planned for slow ones.
    pub rates_of_faster: Option<Faster<f64>>,
}

/// What comes of servers that are faster than those that are planned for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faster<T> {
    /// Of the typical ones of their class.
    pub typical: T,
    /// Of those that are faster than 19 of 20.
    pub fast: T,
}

/// What meets the SLOs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// The fewest replicas.
    pub size: Size,
    /// Their GPUs.
    pub gpus: u32,
    /// What they cost, in US dollars per hour, or GPUs where no price is known.
    pub cost: f64,
}

/// What other requests need.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// The fewest replicas; nothing where none are enough.
    pub size: Option<Size>,
    /// What they cost, in US dollars per hour, or GPUs where no price is known.
    pub cost: f64,
    /// Whether the answer is enough for them.
    pub is_enough: bool,
}

/// What an autoscaler that knows the future and changes the replicas at once would do with: in each window as
/// many as its rate needs, at the rate per replica that the plan carries in its busiest window.
#[derive(Debug, Clone)]
pub struct Windows {
    /// The width of a window, in seconds.
    pub width_s: f64,
    /// Replicas over time on average, of all kinds together.
    pub mean_replicas: f64,
    /// Those of the plan.
    pub replicas: u32,
    /// In the busiest window.
    pub most: u32,
    /// In the quietest.
    pub least: u32,
}

impl Windows {
    /// Of a size that carries `factor` times the traffic: its busiest window too. Nothing where there is one window only.
    pub(super) fn new(traffic: &Traffic, width_s: f64, size: Size, factor: f64) -> Option<Self> {
        let windows = traffic.windows(SimDuration::from_secs_f64(width_s));
        if windows.len() < 2 {
            return None;
        }
        let busiest = windows.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
        let parts = size.replicas();
        let needed = |rate: f64| {
            let share = rate / (factor * busiest);
            parts.iter().map(|part| (f64::from(*part) * share).ceil() as u32).sum::<u32>()
        };
        let each = windows.iter().map(|(rate, lasts_s)| (needed(*rate), *lasts_s));
        let whole: f64 = each.clone().map(|(_, lasts_s)| lasts_s).sum();
        let served = each.clone().map(|(replicas, lasts_s)| f64::from(replicas) * lasts_s);
        Some(Self {
            width_s,
            mean_replicas: served.sum::<f64>() / whole,
            replicas: parts.iter().sum(),
            most: each.clone().map(|(replicas, _)| replicas).max().unwrap_or_default(),
            least: each.map(|(replicas, _)| replicas).min().unwrap_or_default(),
        })
    }

    pub(super) fn text(&self) -> String {
        let saved = 100.0 * (1.0 - self.mean_replicas / f64::from(self.replicas));
        let saved = if saved < 0.5 { "no".to_owned() } else { format!("{saved:.0} %") };
        format!(
            "A perfect autoscaler, with windows of {} s, would run {:.1} replicas on average ({} to {}), {saved} \
             fewer than the plan\n",
            self.width_s, self.mean_replicas, self.least, self.most,
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "window_s": self.width_s,
            "mean_replicas": self.mean_replicas,
            "replicas_min": self.least,
            "replicas_max": self.most,
        })
    }
}

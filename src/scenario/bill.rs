//! What a run costs: prices and power of GPUs.

use serde::{Deserialize, Serialize};

use crate::hardware::RentalPrice;

/// What an hour of one GPU costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "give US dollars per hour, or `low` or `high` of the catalogue")]
pub enum GpuPrice {
    /// US dollars.
    UsdPerHour(f64),
    /// An offer that the catalogue lists.
    Offer(Offer),
}

/// One of the rental offers of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// A low one.
    Low,
    /// A high one.
    High,
}

impl GpuPrice {
    /// US dollars per hour of a GPU for which the catalogue lists these offers; nothing if it lists
    /// none and one is asked for.
    pub fn usd_per_hour(self, offers: Option<&RentalPrice>) -> Option<f64> {
        Some(match self {
            Self::UsdPerHour(usd) => usd,
            Self::Offer(Offer::Low) => offers?.usd_per_hour_low,
            Self::Offer(Offer::High) => offers?.usd_per_hour_high,
        })
    }
}

/// What one GPU draws, in W.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GpuPower {
    /// While its device computes nothing.
    pub idle_w: f64,
    /// In steps that prefill, whether they decode beside that or not.
    pub prefill_w: f64,
    /// In steps that only decode.
    pub decode_w: f64,
}

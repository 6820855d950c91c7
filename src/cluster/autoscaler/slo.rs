//! Replicas by the latencies that requests had: one more where too few kept their limits, one less where
//! enough would have kept them with room to spare.
//!
//! One at a time, and none while others start, because a latency says nothing of how many are lacking.

use crate::engine::Life;
use crate::ids::RequestId;
use crate::scenario::SignalConfig;
use crate::units::{SimDuration, SimTime};

/// The requests that ended since the controller looked last.
#[derive(Debug, Clone)]
pub struct SloMeter {
    ttft: SimDuration,
    tpot: SimDuration,
    target: f64,
    spare: f64,
    /// By request, when it was sent.
    sent: Vec<SimTime>,
    /// Those that kept their limits, that part of them, and all.
    kept: u32,
    spared: u32,
    ended: u32,
}

impl SloMeter {
    /// With the limits of a signal, if it has some.
    pub(super) fn of(signal: &SignalConfig) -> Option<Self> {
        // Longer than any run.
        let limit =
            |ms: Option<f64>| SimDuration::from_secs_f64(ms.unwrap_or(1e12).min(1e12) / 1e3);
        let SignalConfig::SloHeadroom { ttft_ms, tpot_ms, target, spare } = *signal else {
            return None;
        };
        let (ttft, tpot) = (limit(ttft_ms), limit(tpot_ms));
        Some(Self { ttft, tpot, target, spare, sent: Vec::new(), kept: 0, spared: 0, ended: 0 })
    }

    /// A request is sent, ids in any order.
    pub fn sent(&mut self, id: RequestId, now: SimTime) {
        if self.sent.len() <= id.index() {
            self.sent.resize(id.index() + 1, SimTime::ZERO);
        }
        self.sent[id.index()] = now;
    }

    /// A request was answered.
    pub fn answered(&mut self, life: &Life) {
        let Some(first) = life.first_token else { return };
        let ttft = first - self.sent[life.id.index()];
        let gaps = u64::from(life.generated.saturating_sub(1));
        let decoding = (life.last_token - first).as_nanos();
        let keeps = |part: f64| {
            let within =
                |spent: u64, limit: SimDuration| spent as f64 <= part * limit.as_nanos() as f64;
            within(ttft.as_nanos(), self.ttft) && (gaps == 0 || within(decoding / gaps, self.tpot))
        };
        let (kept, spared) = (keeps(1.0), keeps(self.spare));
        self.kept += u32::from(kept);
        self.spared += u32::from(spared);
        self.ended += 1;
    }

    /// A request failed, or its client waited no longer.
    pub fn failed(&mut self) {
        self.ended += 1;
    }

    /// The share that kept the limits, and the replicas that asks for.
    pub(super) fn recommend(
        &mut self,
        replicas: u32,
        is_idle: bool,
        is_growing: bool,
    ) -> (Option<f64>, u32) {
        let [kept, spared, ended] = [self.kept, self.spared, self.ended].map(f64::from);
        (self.kept, self.spared, self.ended) = (0, 0, 0);
        if ended == 0.0 {
            return (None, if is_idle { replicas.saturating_sub(1) } else { replicas });
        }
        let recommended = if kept < self.target * ended {
            replicas + u32::from(!is_growing)
        } else if spared >= self.target * ended {
            replicas.saturating_sub(1)
        } else {
            replicas
        };
        (Some(kept / ended), recommended)
    }
}

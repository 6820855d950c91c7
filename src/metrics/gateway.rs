//! What happened at the gateway: who waited, who was turned away.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::breakdown::{Breakdown, minus};
use super::recorder::Recorder;
use crate::cluster::Refusal;
use crate::ids::{ClassId, InstanceId, RequestId};
use crate::units::{SimDuration, SimTime};

/// Follows the requests at the gateway; empty where nothing makes requests wait there.
#[derive(Debug, Clone, Default)]
pub struct GatewayLog {
    /// Requests that are there, and since when.
    here: FxHashMap<RequestId, SimTime>,
    /// By request, how long it was there, up to the last one that had to wait.
    waits: Vec<SimDuration>,
    /// By class, how many were turned away, in the order of [`Refusal::ALL`].
    refused: Vec<[u64; Refusal::ALL.len()]>,
    length: Length,
    reached: u64,
}

/// How many wait, over time.
#[derive(Debug, Clone, Copy, Default)]
struct Length {
    /// Since the last change.
    now: u64,
    changed: SimTime,
    /// The most, of those that were left at the end of an instant.
    peak: u64,
    /// Requests times nanoseconds.
    area: u128,
}

impl Length {
    fn set(&mut self, at: SimTime, now: u64) {
        if at > self.changed {
            self.area += u128::from(self.now) * u128::from((at - self.changed).as_nanos());
            self.peak = self.peak.max(self.now);
            self.changed = at;
        }
        self.now = now;
    }
}

impl GatewayLog {
    pub(super) fn reached(&mut self, at: SimTime, id: RequestId) {
        self.reached += 1;
        self.here.insert(id, at);
        self.length.set(at, self.here.len() as u64);
    }

    /// A request is here again that was sent at a time.
    fn came_back(&mut self, at: SimTime, id: RequestId, sent: SimTime) {
        self.here.insert(id, sent);
        self.length.set(at, self.here.len() as u64);
    }

    /// A request is here no longer; since when it was, if it was.
    #[inline]
    pub(super) fn gone(&mut self, at: SimTime, id: RequestId) -> Option<SimTime> {
        if self.here.is_empty() {
            return None;
        }
        let since = self.here.remove(&id)?;
        if at > since {
            if self.waits.len() <= id.index() {
                self.waits.resize(id.index() + 1, SimDuration::ZERO);
            }
            self.waits[id.index()] = at - since;
        }
        self.length.set(at, self.here.len() as u64);
        Some(since)
    }

    pub(super) fn refused(&mut self, class: ClassId, why: Refusal) {
        let place = Refusal::ALL.iter().position(|known| *known == why).unwrap_or(0);
        let class = usize::from(class.0);
        if self.refused.len() <= class {
            self.refused.resize(class + 1, Default::default());
        }
        self.refused[class][place] += 1;
    }

    /// Whether a request is still there.
    pub(super) fn is_here(&self, id: RequestId) -> bool {
        self.here.contains_key(&id)
    }

    /// By reason, how many of a class were turned away.
    pub(super) fn refused_of(&self, class: ClassId) -> [u64; Refusal::ALL.len()] {
        self.refused.get(usize::from(class.0)).copied().unwrap_or_default()
    }
}

/// What happened at the gateway.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewayReport {
    /// Requests that came to it, retries among them.
    pub requests: u64,
    /// Requests waiting at a time, on average.
    pub waiting_mean: f64,
    /// The most that waited at a time.
    pub waiting_peak: u64,
    /// Mean time that requests spent there, those that did not wait and those that were turned away among
    /// them, in ms.
    pub wait_mean_ms: f64,
    /// Turned away, by reason.
    pub turned_away: TurnedAway,
}

/// Requests that the gateway turned away, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TurnedAway {
    /// No replica was up, and nothing may wait.
    pub no_replica: u64,
    /// As many waited as may.
    pub full: u64,
    /// They came faster than they may.
    pub rate_limit: u64,
    /// They had waited too long.
    pub deadline: u64,
}

impl TurnedAway {
    pub(super) fn new([no_replica, full, rate_limit, deadline]: [u64; 4]) -> Self {
        Self { no_replica, full, rate_limit, deadline }
    }

    /// For whatever reason.
    pub fn total(&self) -> u64 {
        self.no_replica + self.full + self.rate_limit + self.deadline
    }
}

impl Recorder {
    pub(super) fn reach(&mut self, at: SimTime, id: RequestId) {
        let record = self.requests.at(self.lane.place(id));
        record.sent_to(record.instance, at);
        self.gateway.reached(at, id);
    }

    /// A request is back at its router from an instance, or held back there.
    pub(super) fn come_back(&mut self, at: SimTime, id: RequestId, from: Option<InstanceId>) {
        self.first_sent.get_or_insert(at);
        let record = self.requests.at(self.lane.place(id));
        if self.gateway.is_here(id) {
            return;
        }
        if from.is_none() {
            record.sent_to(record.instance, at);
        }
        self.gateway.came_back(at, id, record.sent);
    }

    #[inline]
    pub(super) fn send(&mut self, at: SimTime, id: RequestId, instance: InstanceId) {
        self.tiers.left(id, false);
        let record = self.requests.at(self.lane.place(id));
        record.sent_to(instance, at);
        if let Some(since) = self.gateway.gone(at, id) {
            record.sent = since;
        }
    }

    /// How long a request waited at the gateway, by the place of its record.
    pub fn gateway_wait_of(&self, place: usize) -> SimDuration {
        self.gateway.waits.get(place).copied().unwrap_or_default()
    }

    /// Where the end-to-end time of a request went, by the place of its record; `None` for one that was
    /// neither answered nor rejected.
    pub fn breakdown_of(&self, place: usize) -> Option<Breakdown> {
        let parts = self.requests[place].breakdown()?;
        let gateway = self.gateway_wait_of(place);
        Some(Breakdown { gateway, api: minus(parts.api, gateway), ..parts })
    }

    pub(super) fn turn_away(&mut self, at: SimTime, id: RequestId, why: Refusal) {
        let record = self.requests.at(self.lane.place(id));
        record.sent = at;
        self.gateway.refused(record.class, why);
    }

    /// What happened at the gateway; nothing where nothing makes requests wait there.
    pub fn gateway_report(&self) -> Option<GatewayReport> {
        let log = &self.gateway;
        if log.reached == 0 {
            return None;
        }
        let end = self.observed().max(log.length.changed);
        let mut length = log.length;
        length.set(end, 0);
        let mut refused = [0; Refusal::ALL.len()];
        for of_class in &log.refused {
            for (sum, count) in refused.iter_mut().zip(of_class) {
                *sum += count;
            }
        }
        let turned_away = TurnedAway::new(refused);
        Some(GatewayReport {
            requests: log.reached,
            waiting_mean: length.area as f64 / end.as_nanos().max(1) as f64,
            waiting_peak: length.peak,
            // The area under the queue is the sum of all waits, also of those who wait at the end.
            wait_mean_ms: length.area as f64 / log.reached as f64 / 1e6,
            turned_away,
        })
    }
}

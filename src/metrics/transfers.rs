//! KV caches that travelled between instances.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::record::RequestRecord;
use super::recorder::Recorder;
use super::replica::ReplicaLog;
use super::series::{Quantity, Series};
use crate::ids::{InstanceId, RequestId};
use crate::resolved::Scenario;
use crate::stats::{Sample, Values};
use crate::units::{SimDuration, SimTime};

/// Counts the KV caches that travelled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// How many arrived.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that left or reached each instance, over time.
    by_instance: Vec<Series>,
    /// When KV caches began to be sent whose prompts were being computed, while they are under way.
    began_early: FxHashMap<RequestId, SimTime>,
    /// For how long such KV caches were sent before their prompts were computed.
    early: FxHashMap<RequestId, SimDuration>,
}

/// What a run's transfers took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TransferReport {
    /// How many arrived.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Mean time of a transfer, from the request for a KV cache, or its first byte, to its arrival, in ms.
    pub mean_ms: f64,
    /// The 99th percentile of that time, in ms.
    pub p99_ms: f64,
    /// Where KV caches are sent while they are computed: the mean of the part of that time after the end of
    /// the prefill, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_mean_ms: Option<f64>,
    /// The 99th percentile of that part, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_p99_ms: Option<f64>,
    /// Payload over what the NICs could carry in the run, on average over instances.
    pub nic_use: f64,
    /// The same of the busiest NIC.
    pub busiest_nic_use: f64,
}

impl Carried {
    /// A KV cache of so many bytes arrived, on its way between these instances since a moment. Its
    /// bytes are taken as spread evenly over that time.
    pub(super) fn add(
        &mut self,
        between: [InstanceId; 2],
        began: SimTime,
        arrived: SimTime,
        bytes: u64,
    ) {
        self.transfers += 1;
        self.bytes += bytes;
        for instance in between.map(InstanceId::index) {
            self.reach(instance + 1);
            self.by_instance[instance].spread(began, arrived, bytes);
        }
    }

    /// A KV cache begins to be sent before its prompt is computed.
    pub(super) fn begin_early(&mut self, id: RequestId, at: SimTime) {
        self.began_early.insert(id, at);
    }

    /// A KV cache has arrived whose prompt was computed at `computed`: when it began to be sent.
    pub(super) fn end_early(&mut self, id: RequestId, computed: SimTime) -> SimTime {
        let Some(began) = self.began_early.remove(&id) else { return computed };
        self.early.insert(id, computed - began);
        began
    }

    /// For how long the KV of a request was sent before its prompt was computed; nothing where no KV is.
    pub fn early_of(&self, id: RequestId) -> Option<SimDuration> {
        if self.early.is_empty() {
            return None;
        }
        Some(self.early.get(&id).copied().unwrap_or_default())
    }

    fn reach(&mut self, instances: usize) {
        if self.by_instance.len() < instances {
            let none = Series::with_bins(Quantity::Flow, ReplicaLog::BINS_MAX);
            self.by_instance.resize(instances, none);
        }
    }

    /// Bytes that left or reached an instance over time; nothing where none ever did.
    pub fn over_time(&self, instance: usize) -> Option<&Series> {
        self.by_instance.get(instance)
    }

    /// Adds what others carried.
    pub(super) fn join(&mut self, other: &Self) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.reach(other.by_instance.len());
        for (bytes, more) in self.by_instance.iter_mut().zip(&other.by_instance) {
            bytes.join(more.clone());
        }
    }
}

impl TransferReport {
    /// Of a recorded run; nothing where no KV cache travelled.
    pub fn of(recorder: &Recorder, scenario: &Scenario) -> Option<Self> {
        Self::new(recorder, &scenario.nics_bytes_per_s()?)
    }

    /// Of a recorded run on instances whose NICs carry so many bytes per second each, nothing those that
    /// do all of a request; nothing where no KV cache travelled.
    pub fn new(recorder: &Recorder, nics: &[f64]) -> Option<Self> {
        let carried = &recorder.carried;
        if carried.transfers == 0 {
            return None;
        }
        let travelled = |time: &SimDuration| time.as_nanos() > 0;
        let exposed = recorder.requests.iter().map(|record| record.transfer);
        let exposed: Vec<f64> = exposed.filter(travelled).map(SimDuration::as_millis_f64).collect();
        let exposed = Values::new(exposed);
        let in_all = if carried.early.is_empty() {
            None
        } else {
            let records = recorder.requests.iter().enumerate();
            let records = records.filter(|(_, record)| travelled(&record.transfer));
            let early = |place| carried.early.get(&RequestId::from_index(place)).copied();
            let time = |(place, record): (usize, &RequestRecord)| {
                (record.transfer + early(place).unwrap_or_default()).as_millis_f64()
            };
            Some(Values::new(records.map(time).collect()))
        };
        let is_early = in_all.is_some();
        let times = in_all.as_ref().unwrap_or(&exposed);
        let run_s = recorder.end.as_secs_f64();
        let used = |(rate, bytes): (&f64, &Series)| bytes.total() as f64 / (rate * run_s);
        let uses = nics.iter().zip(&carried.by_instance).filter(|(rate, _)| **rate > 0.0);
        let uses: Vec<f64> = uses.map(used).collect();
        let ends = nics.iter().filter(|rate| **rate > 0.0).count();
        Some(Self {
            transfers: carried.transfers,
            bytes: carried.bytes,
            mean_ms: times.mean(),
            p99_ms: times.percentile(99.0),
            exposed_mean_ms: is_early.then(|| exposed.mean()),
            exposed_p99_ms: is_early.then(|| exposed.percentile(99.0)),
            nic_use: uses.iter().sum::<f64>() / ends as f64,
            busiest_nic_use: uses.iter().copied().fold(0.0, f64::max),
        })
    }

    /// In words, on one line.
    pub fn text(&self) -> String {
        let exposed = match (self.exposed_mean_ms, self.exposed_p99_ms) {
            (Some(mean), Some(p99)) => {
                format!(", of that after the prefill mean {mean:.1} ms, P99 {p99:.1} ms")
            }
            _ => String::new(),
        };
        format!(
            "{} KV transfers, {:.1} GB: mean {:.1} ms, P99 {:.1} ms{exposed}; NICs {:.0} % in use, the \
             busiest {:.0} %",
            self.transfers,
            self.bytes as f64 / 1e9,
            self.mean_ms,
            self.p99_ms,
            100.0 * self.nic_use,
            100.0 * self.busiest_nic_use
        )
    }
}

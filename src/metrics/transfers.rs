//! KV caches that travelled between instances.

use serde::Serialize;

use super::recorder::Recorder;
use super::replica::ReplicaLog;
use super::series::{Quantity, Series};
use crate::ids::InstanceId;
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
}

/// What a run's transfers took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TransferReport {
    /// How many arrived.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Mean time, from the request for a KV cache to its arrival, in ms.
    pub mean_ms: f64,
    /// The 99th percentile of that time, in ms.
    pub p99_ms: f64,
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
    /// Of a recorded run on instances whose NICs carry so many bytes per second each, nothing those that
    /// do all of a request; nothing where no KV cache travelled.
    pub fn new(recorder: &Recorder, nics: &[f64]) -> Option<Self> {
        let carried = &recorder.carried;
        if carried.transfers == 0 {
            return None;
        }
        let times = recorder.requests.iter().map(|record| record.transfer);
        let times = times.filter(|time| time.as_nanos() > 0).map(SimDuration::as_millis_f64);
        let times = Values::new(times.collect());
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
            nic_use: uses.iter().sum::<f64>() / ends as f64,
            busiest_nic_use: uses.iter().copied().fold(0.0, f64::max),
        })
    }

    /// In words, on one line.
    pub fn text(&self) -> String {
        format!(
            "{} KV transfers, {:.1} GB: mean {:.1} ms, P99 {:.1} ms; NICs {:.0} % in use, the \
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

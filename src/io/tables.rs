//! Tables of requests and steps as Parquet. Times are integer nanoseconds since the start of the
//! run; latencies are also given in milliseconds.

use std::fs::File;
use std::path::Path;

use polars::prelude::{Column, DataFrame, IntoColumn, NamedFrom, ParquetWriter, Series};

use super::results::{Cells, NamedCells};
use crate::engine::Execution;
use crate::ids::RequestId;
use crate::metrics::{Breakdown, Recorder, RequestDrafts, RequestRecord, Status, StepRecord};
use crate::resolved::Scenario;
use crate::scenario::models;
use crate::units::{SimDuration, SimTime};

/// Why a table cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be made.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The table cannot be written.
    #[error("{path}: {problem}")]
    Table {
        /// The file.
        path: String,
        /// Why.
        problem: String,
    },
}

/// Writes one row per request, by id; of which class and tenant it is where there are classes, which model it
/// asked for where there are several, and how long it waited at the gateway where requests may.
///
/// # Errors
/// When the file cannot be written.
pub fn write_requests(
    path: &Path,
    recorder: &Recorder,
    scenario: &Scenario,
) -> Result<(), TableError> {
    let (records, classes) = (&recorder.requests, &scenario.workload.classes);
    let drafts = |of: fn(RequestDrafts) -> u32| -> Vec<u32> {
        (0..records.len()).map(|place| of(recorder.drafts_of(place))).collect()
    };
    let times = |of: fn(&RequestRecord) -> SimTime| -> Vec<u64> {
        records.iter().map(|record| of(record).as_nanos()).collect()
    };
    let counts = |of: fn(&RequestRecord) -> u32| -> Vec<u32> { records.iter().map(of).collect() };
    let latencies = |of: fn(&RequestRecord) -> Option<SimDuration>| -> Vec<Option<f64>> {
        let is_finished = |record: &RequestRecord| record.status == Status::Finished;
        let value = |r: &RequestRecord| of(r).filter(|_| is_finished(r));
        records.iter().map(|r| value(r).map(SimDuration::as_millis_f64)).collect()
    };
    let parts = |of: fn(&Breakdown) -> SimDuration| -> Vec<Option<f64>> {
        let is_finished = |place: usize| records[place].status == Status::Finished;
        let value = |place: usize| recorder.breakdown_of(place).filter(|_| is_finished(place));
        let places = 0..records.len();
        places.map(|place| value(place).map(|parts| of(&parts).as_millis_f64())).collect()
    };
    let status: Vec<&str> = records.iter().map(|record| record.status.name()).collect();
    let ids: Vec<u32> = (0..records.len() as u32).collect();
    let mut columns = vec![
        column("request", ids),
        column("status", status),
        column("instance", counts(|r| r.instance.0)),
        column("prompt_tokens", counts(|r| r.prompt_tokens)),
        column("output_tokens", counts(|r| r.output_tokens)),
        column("cached_tokens", counts(|r| r.cached_tokens)),
        column("preemptions", counts(|r| r.preemptions)),
        column("draft_tokens", drafts(|d| d.draft_tokens)),
        column("accepted_tokens", drafts(|d| d.accepted_tokens)),
        column("arrival_ns", times(|r| r.arrival)),
        column("sent_ns", times(|r| r.sent)),
        column("enqueued_ns", times(|r| r.queued)),
        column("first_scheduled_ns", times(|r| r.first_scheduled)),
        column("first_token_ns", times(|r| r.first_token)),
        column("finish_ns", times(|r| r.finish)),
        column("queueing_ms", latencies(|r| Some(r.queueing()))),
        column("ttft_ms", latencies(|r| Some(r.ttft()))),
        column("tpot_ms", latencies(RequestRecord::tpot)),
        column("e2e_ms", latencies(|r| Some(r.e2e()))),
        column("api_ms", parts(|b| b.api)),
        column("queued_ms", parts(|b| b.queued)),
        column("prefill_ms", parts(|b| b.prefill)),
        column("decode_ms", parts(|b| b.decode)),
        column("preempted_ms", parts(|b| b.preempted)),
        column("stalled_ms", parts(|b| b.stalled)),
        column("transfer_ms", parts(|b| b.transfer)),
    ];
    let early = |place| recorder.carried.early_of(RequestId::from_index(place));
    let early: Vec<Option<f64>> =
        (0..records.len()).map(|place| early(place).map(SimDuration::as_millis_f64)).collect();
    if early.iter().any(Option::is_some) {
        columns.push(column("transfer_early_ms", early));
    }
    if !classes.is_empty() {
        let class = |r: &RequestRecord| &classes[usize::from(r.class.0)];
        let names: Vec<&str> = records.iter().map(|r| class(r).name.as_str()).collect();
        let tenants: Vec<&str> = records.iter().map(|r| class(r).tenant()).collect();
        columns.extend([column("class", names), column("tenant", tenants)]);
    }
    if scenario.models.len() > 1 {
        let (_, model_of) = models(classes);
        let model = |r: &RequestRecord| {
            let place = model_of[usize::from(r.class.0)].index();
            scenario.models[place].as_str()
        };
        columns.push(column("model", records.iter().map(model).collect::<Vec<&str>>()));
    }
    if recorder.adapters.is_on() {
        let waits = || (0..records.len()).map(|place| recorder.adapters.wait_of(place));
        let ids: Vec<Option<u32>> =
            waits().map(|wait| wait.adapter.map(|adapter| adapter.0)).collect();
        let slot: Vec<f64> = waits().map(|wait| wait.slot.as_millis_f64()).collect();
        let load: Vec<f64> = waits().map(|wait| wait.load.as_millis_f64()).collect();
        columns.push(column("adapter", ids));
        columns.push(column("adapter_slot_wait_ms", slot));
        columns.push(column("adapter_load_wait_ms", load));
        if recorder.adapters.merges() {
            let paused: Vec<f64> = waits().map(|wait| wait.paused.as_millis_f64()).collect();
            columns.push(column("adapter_paused_ms", paused));
        }
    }
    if recorder.gateway_report().is_some() {
        columns.push(column("gateway_ms", parts(|b| b.gateway)));
    }
    write(path, records.len(), columns)
}

/// Writes one row per step, in the order of decision.
///
/// # Errors
/// When the file cannot be written.
pub fn write_steps(path: &Path, steps: &[StepRecord]) -> Result<(), TableError> {
    let counts = |of: fn(&StepRecord) -> u32| -> Vec<u32> { steps.iter().map(of).collect() };
    let longs = |of: fn(&StepRecord) -> u64| -> Vec<u64> { steps.iter().map(of).collect() };
    let mut columns = vec![
        column("instance", counts(|s| s.instance.0)),
        column("step", longs(|s| s.step)),
        column("scheduled_ns", longs(|s| s.scheduled.as_nanos())),
        column("start_ns", longs(|s| s.start.as_nanos())),
        column("duration_ns", longs(|s| s.duration.as_nanos())),
        column("prefill_seqs", counts(|s| s.shape.prefill_seqs)),
        column("prefill_tokens", counts(|s| s.shape.prefill_tokens)),
        column("prefill_context_tokens", longs(|s| s.shape.prefill_context_tokens)),
        column("decode_seqs", counts(|s| s.shape.decode_seqs)),
        column("decode_context_tokens", longs(|s| s.shape.decode_context_tokens)),
        column("draft_tokens", counts(|s| s.shape.draft_tokens)),
        column("preempted", counts(|s| s.preempted)),
        column("running", counts(|s| s.load.running)),
        column("waiting", counts(|s| s.load.waiting)),
        column("kv_blocks", counts(|s| s.load.kv_blocks)),
        column("kv_blocks_free", counts(|s| s.load.kv_blocks_free)),
    ];
    let merged = |step: &StepRecord| step.execution != Execution::Unmerged;
    if steps.iter().any(merged) {
        let adapter = |step: &StepRecord| step.execution.merged().map(|adapter| adapter.0);
        columns.push(column("merged", steps.iter().map(merged).collect::<Vec<bool>>()));
        let adapters: Vec<Option<u32>> = steps.iter().map(adapter).collect();
        columns.push(column("merged_adapter", adapters));
    }
    write(path, steps.len(), columns)
}

/// Writes one row per run of a sweep.
///
/// # Errors
/// When the file cannot be written.
pub fn write_results(path: &Path, columns: &[NamedCells]) -> Result<(), TableError> {
    let rows = columns.first().map_or(0, |(_, cells)| cells.rows());
    let columns = columns.iter().map(|(name, cells)| match cells {
        Cells::Integers(cells) => column(name, cells),
        Cells::Numbers(cells) => column(name, cells),
        Cells::Booleans(cells) => column(name, cells),
        Cells::Texts(cells) => column(name, cells),
    });
    write(path, rows, columns.collect())
}

fn column<T: AsRef<[U]>, U>(name: &str, values: T) -> Column
where
    Series: NamedFrom<T, [U]>,
{
    Series::new(name.into(), values).into_column()
}

fn write(path: &Path, rows: usize, columns: Vec<Column>) -> Result<(), TableError> {
    let name = || path.display().to_string();
    let file = File::create(path).map_err(|source| TableError::Io { path: name(), source })?;
    let written = DataFrame::new(rows, columns)
        .and_then(|mut table| ParquetWriter::new(file).set_parallel(false).finish(&mut table));
    written
        .map(|_| ())
        .map_err(|error| TableError::Table { path: name(), problem: error.to_string() })
}

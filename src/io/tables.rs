//! Tables of the requests, the steps and the course of a run. Times are integer nanoseconds since the start of the
//! run; latencies are also given in milliseconds.

use std::ops::Range;

use super::results::{Cells, NamedCells};
use crate::engine::Execution;
use crate::ids::RequestId;
use crate::metrics::{Breakdown, Recorder, RequestDrafts, RequestRecord, Status, StepRecord};
use crate::resolved::Scenario;
use crate::scenario::{ClassConfig, models};
use crate::units::{SimDuration, SimTime};

/// A row per request, by id; of which class and tenant it is where there are classes, which model it
/// asked for where there are several, and how long it waited at the gateway where requests may.
pub fn requests(recorder: &Recorder, scenario: &Scenario) -> Vec<NamedCells> {
    requests_within(recorder, scenario, 0..recorder.requests.len())
}

/// The same of some of the requests, with the same columns.
pub fn requests_within(
    recorder: &Recorder,
    scenario: &Scenario,
    places: Range<usize>,
) -> Vec<NamedCells> {
    let (records, classes) = (&recorder.requests[places.clone()], &scenario.workload.classes);
    let places = || places.clone();
    let drafts = |of: fn(RequestDrafts) -> u32| -> Cells {
        Cells::AllCounts(places().map(|place| of(recorder.drafts_of(place))).collect())
    };
    let times = |of: fn(&RequestRecord) -> SimTime| -> Cells {
        Cells::AllLongs(records.iter().map(|record| of(record).as_nanos()).collect())
    };
    let counts = |of: fn(&RequestRecord) -> u32| -> Cells {
        Cells::AllCounts(records.iter().map(of).collect())
    };
    let latencies = |of: fn(&RequestRecord) -> Option<SimDuration>| -> Cells {
        let is_finished = |record: &RequestRecord| record.status == Status::Finished;
        let value = |r: &RequestRecord| of(r).filter(|_| is_finished(r));
        Cells::Numbers(records.iter().map(|r| value(r).map(SimDuration::as_millis_f64)).collect())
    };
    let parts = |of: fn(&Breakdown) -> SimDuration| -> Cells {
        let is_finished = |place: usize| recorder.requests[place].status == Status::Finished;
        let value = |place: usize| recorder.breakdown_of(place).filter(|_| is_finished(place));
        let cells = places().map(|place| value(place).map(|parts| of(&parts).as_millis_f64()));
        Cells::Numbers(cells.collect())
    };
    let status = Cells::words(
        Status::ALL.map(Status::name),
        records.iter().map(|record| record.status as u32),
    );
    let ids = Cells::AllCounts(places().map(|place| place as u32).collect());
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
        places().map(|place| early(place).map(SimDuration::as_millis_f64)).collect();
    // All of a run have it or none, so that parts of them have the same columns.
    if early.iter().any(Option::is_some) {
        columns.push(column("transfer_early_ms", Cells::Numbers(early)));
    }
    if !classes.is_empty() {
        let class = || records.iter().map(|r| u32::from(r.class.0));
        let names = Cells::words(classes.iter().map(|one| one.name.as_str()), class());
        let tenants = Cells::words(classes.iter().map(ClassConfig::tenant), class());
        columns.extend([column("class", names), column("tenant", tenants)]);
    }
    if scenario.models.len() > 1 {
        let (_, model_of) = models(classes);
        let model = |r: &RequestRecord| model_of[usize::from(r.class.0)].index() as u32;
        let models = Cells::words(scenario.models.iter().cloned(), records.iter().map(model));
        columns.push(column("model", models));
    }
    if recorder.adapters.is_on() {
        let waits = || places().map(|place| recorder.adapters.wait_of(place));
        let ids: Vec<Option<u32>> =
            waits().map(|wait| wait.adapter.map(|adapter| adapter.0)).collect();
        let slot = waits().map(|wait| wait.slot.as_millis_f64()).collect();
        let load = waits().map(|wait| wait.load.as_millis_f64()).collect();
        columns.push(column("adapter", Cells::Counts(ids)));
        columns.push(column("adapter_slot_wait_ms", Cells::AllNumbers(slot)));
        columns.push(column("adapter_load_wait_ms", Cells::AllNumbers(load)));
        if recorder.adapters.merges() {
            let paused = waits().map(|wait| wait.paused.as_millis_f64()).collect();
            columns.push(column("adapter_paused_ms", Cells::AllNumbers(paused)));
        }
    }
    if recorder.gateway_report().is_some() {
        columns.push(column("gateway_ms", parts(|b| b.gateway)));
    }
    columns
}

/// A row per step, in the order of decision.
pub fn steps(steps: &[StepRecord]) -> Vec<NamedCells> {
    steps_by_part(steps)(0..steps.len())
}

/// The same of some of the steps at a time, with the same columns.
pub fn steps_by_part(all: &[StepRecord]) -> impl Fn(Range<usize>) -> Vec<NamedCells> {
    let are_merged = all.iter().any(is_merged);
    move |places| steps_within(&all[places], are_merged)
}

fn is_merged(step: &StepRecord) -> bool {
    step.execution != Execution::Unmerged
}

fn steps_within(steps: &[StepRecord], are_merged: bool) -> Vec<NamedCells> {
    let counts = |of: fn(&StepRecord) -> u32| Cells::AllCounts(steps.iter().map(of).collect());
    let longs = |of: fn(&StepRecord) -> u64| Cells::AllLongs(steps.iter().map(of).collect());
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
    if are_merged {
        let adapter = |step: &StepRecord| step.execution.merged().map(|adapter| adapter.0);
        columns.push(column("merged", Cells::AllBooleans(steps.iter().map(is_merged).collect())));
        columns.push(column("merged_adapter", Cells::Counts(steps.iter().map(adapter).collect())));
    }
    columns
}

/// How queues, memory and throughput of all replicas together, and the requests inside of each, went over time: a row
/// for each bin of each series, with the middle of the bin in seconds and the mean over it. `replica` is empty where it
/// is of all together.
pub fn series(recorder: &Recorder) -> Vec<NamedCells> {
    let (all, end) = (&recorder.timeline, recorder.observed());
    let together = [
        ("running", &all.running),
        ("waiting", &all.waiting),
        ("kv_blocks", &all.kv_blocks),
        ("prefill_tokens_per_s", &all.prefill_tokens),
        ("output_tokens_per_s", &all.output_tokens),
    ];
    let of_all = (0..).zip(&together).map(|(place, (_, series))| (place, None, (*series).clone()));
    let inside = together.len() as u32;
    let of_each = recorder.replicas.iter().zip(0..);
    let of_each = of_each.map(|(log, replica)| (inside, Some(replica), log.inside(end)));
    let (mut words, mut replicas) = (Vec::new(), Vec::new());
    let (mut times, mut values) = (Vec::new(), Vec::new());
    for (word, replica, series) in of_all.chain(of_each) {
        for (time_s, value) in series.points(end) {
            words.push(word);
            replicas.push(replica);
            times.push(time_s);
            values.push(value);
        }
    }
    let names = together.iter().map(|(name, _)| *name).chain(["inside"]);
    vec![
        column("series", Cells::words(names, words)),
        column("replica", Cells::Counts(replicas)),
        column("time_s", Cells::AllNumbers(times)),
        column("value", Cells::AllNumbers(values)),
    ]
}

fn column(name: &str, cells: Cells) -> NamedCells {
    (name.to_owned(), cells)
}

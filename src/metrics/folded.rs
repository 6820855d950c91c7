//! What is left of requests whose records are not kept: sums, counts and bins.
//!
//! A run of which only figures are wanted keeps the records of its first requests as any other run does. When
//! more come than the limit, requests that have left are folded, those before among them, and forgotten: memory
//! then grows with the requests inside and with the seconds of the run, not with the requests. Counts, means and
//! deviations, goodput and peaks remain what they are of records (sums are of whole numbers, so that no order shows in
//! them, and differ from those of floats in the last digits); order statistics of latencies of requests, and so
//! medians and percentiles, are off by less than 2^-12 of themselves ([`LogBins`]). Those of gaps between tokens are
//! exact until there are more than 2^20 distinct ones.
//!
//! Only runs whose every figure can be folded are ([`Folding::of`]); others keep their records.

use super::bench::{
    BenchSummary, CacheReport, ClientMode, Distribution, Goodput, Kept, Outcome, Slos, TokenGaps,
};
use super::breakdown::Breakdown;
use super::record::{RequestRecord, Status};
use super::recorder::Recorder;
use super::records::Records;
use super::report::{bench_request, slos};
use super::seconds::CountsBySecond;
use crate::engine::DraftCounts;
use crate::ids::RequestId;
use crate::request::Request;
use crate::resolved::Scenario;
use crate::stats::{LogBins, Sample};
use crate::units::SimTime;

/// When requests are folded, and what their reports ask for.
#[derive(Debug, Clone)]
pub struct Folding {
    /// The most requests of a run whose records are all kept.
    pub limit: u32,
    slos: Option<Slos>,
    client: ClientMode,
}

impl Folding {
    /// The most requests of a run whose records are kept though only figures are wanted: 160 MB of them.
    pub const LIMIT: u32 = 1 << 20;

    /// Of a run of a scenario; nothing where its report looks at single records: of classes, models, tenants,
    /// adapters, KV that travels or comes from tiers, requests that are sent again or wait at a gateway.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let workload = &scenario.workload;
        let has_tiers = scenario.groups.iter().any(|group| group.cluster.kv_tiers.is_some());
        let needs_records = !workload.classes.is_empty()
            || scenario.models.len() > 1
            || workload.adapters.is_some()
            || scenario.is_disaggregated()
            || has_tiers
            || scenario.kv_tiers().is_some()
            || scenario.gateway().is_some()
            || scenario.router().limits_requests()
            || scenario.router_time().is_some()
            || scenario.scaled_groups().next().is_some()
            || !scenario.faults.is_empty()
            || workload.client.may_give_up();
        let client = ClientMode::of(scenario.report.streaming);
        let folding = Self { limit: Self::LIMIT, slos: slos(&scenario.report), client };
        (!needs_records).then_some(folding)
    }
}

/// Parts of a TPOT in a nanosecond: it is a quotient, and steps may be short.
const TPOT_PARTS: u64 = 1024;
const NANOS: f64 = 1e9;

/// The TPOT of an answer with so many gaps after its first token, in parts of a nanosecond.
#[inline]
fn tpot_parts(decode: u64, gaps: u32) -> u64 {
    // A division of 128 bits takes several times as long as one of 64, which does for five months.
    if let Some(parts) = decode.checked_mul(TPOT_PARTS) {
        return parts / u64::from(gaps);
    }
    let parts = u128::from(decode) * u128::from(TPOT_PARTS) / u128::from(gaps);
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// What is left of requests.
#[derive(Debug, Clone)]
pub struct Folded {
    folding: Folding,
    /// The first request of the run was sent then: seconds count from it.
    origin: SimTime,
    /// The first request that was answered was sent then.
    first_answered: Option<SimTime>,
    requests: u64,
    /// Of all requests.
    pub preemptions: u64,
    /// Of those that were answered in full.
    pub output_tokens: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    /// In nanoseconds.
    e2e: LogBins,
    ttft: LogBins,
    /// In parts of a nanosecond.
    tpot: LogBins,
    /// Sums over those that were answered.
    parts: [u128; Breakdown::PARTS],
    kept: Option<Kept>,
    /// Requests that were answered, by the second in which they were sent, and by the one after that in which
    /// they left.
    began: CountsBySecond,
    ended: CountsBySecond,
}

impl Folded {
    fn new(folding: &Folding, origin: SimTime) -> Self {
        Self {
            kept: folding.slos.clone().map(Kept::new),
            folding: folding.clone(),
            origin,
            first_answered: None,
            requests: 0,
            preemptions: 0,
            output_tokens: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            e2e: LogBins::default(),
            ttft: LogBins::default(),
            tpot: LogBins::default(),
            parts: [0; Breakdown::PARTS],
            began: CountsBySecond::default(),
            ended: CountsBySecond::default(),
        }
    }

    /// More requests, which have left or never will.
    pub(super) fn add_all(&mut self, records: &[RequestRecord]) {
        for record in records {
            self.add(record);
        }
    }

    fn add(&mut self, record: &RequestRecord) {
        self.requests += 1;
        self.preemptions += u64::from(record.preemptions);
        let streams = self.folding.client == ClientMode::Streaming;
        let mut seen = bench_request(record);
        if !streams {
            seen.ttft_s = seen.latency_s;
        }
        if let Some(kept) = &mut self.kept {
            kept.add(&seen);
        }
        if seen.outcome != Outcome::Succeeded {
            return;
        }
        self.prompt_tokens += u64::from(record.prompt_tokens);
        self.output_tokens += u64::from(record.output_tokens);
        self.cached_tokens += u64::from(record.cached_tokens);
        let (ttft, e2e) = (record.ttft().as_nanos(), record.e2e().as_nanos());
        self.e2e.add(e2e);
        self.ttft.add(if streams { ttft } else { e2e });
        if let Some(gaps) = record.output_tokens.checked_sub(1).filter(|&gaps| gaps > 0) {
            let decode = if streams { e2e - ttft } else { 0 };
            self.tpot.add(tpot_parts(decode, gaps));
        }
        if let Some(breakdown) = record.breakdown() {
            for (sum, part) in self.parts.iter_mut().zip(breakdown.parts()) {
                *sum += u128::from(part.as_nanos());
            }
        }
        self.count_seconds(record, (seen.start_s, seen.latency_s));
    }

    /// As `peak_concurrency` of the benchmark counts them, in floats.
    fn count_seconds(&mut self, record: &RequestRecord, (start_s, latency_s): (f64, f64)) {
        let first = self.first_answered.map_or(record.sent, |first| first.min(record.sent));
        self.first_answered = Some(first);
        let origin_s = self.origin.as_secs_f64();
        let first = (start_s - origin_s) as usize;
        let last = ((start_s + latency_s) - origin_s) as usize;
        self.began.add(first, 1);
        self.ended.add(last.max(first) + 1, 1);
    }

    pub(super) fn join(&mut self, other: &Self) {
        let firsts = [self.first_answered, other.first_answered];
        self.first_answered = firsts.into_iter().flatten().min();
        self.requests += other.requests;
        self.preemptions += other.preemptions;
        self.prompt_tokens += other.prompt_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.e2e.join(&other.e2e);
        self.ttft.join(&other.ttft);
        self.tpot.join(&other.tpot);
        for (sum, part) in self.parts.iter_mut().zip(other.parts) {
            *sum += part;
        }
        if let (Some(kept), Some(other)) = (&mut self.kept, &other.kept) {
            kept.join(other);
        }
        self.began.join(&other.began);
        self.ended.join(&other.ended);
    }

    /// Requests that were answered in full.
    pub fn finished(&self) -> u64 {
        self.e2e.count()
    }

    /// The parts of the end-to-end time of all that were answered in full, in the order of
    /// [`Breakdown::parts`], in nanoseconds.
    pub fn parts(&self) -> [u128; Breakdown::PARTS] {
        self.parts
    }

    /// Whether the peak of concurrent requests, and without streaming that of tokens, is counted by seconds from the first request that was sent
    /// instead of the first one that was answered, which it was not.
    pub fn shifts_seconds(&self) -> bool {
        self.first_answered.is_some_and(|first| first != self.origin)
    }

    pub(super) fn summary(
        self,
        (duration_s, gaps): (f64, TokenGaps),
        peak_output_tokens_per_s: f64,
        drafts: DraftCounts,
    ) -> BenchSummary {
        let streams = self.folding.client == ClientMode::Streaming;
        let completed = self.finished();
        let goodput = self.kept.map(|kept| Goodput::of(kept, duration_s));
        BenchSummary {
            duration_s,
            completed,
            failed: self.requests - completed,
            input_tokens: self.prompt_tokens,
            input_vision_tokens: 0,
            output_tokens: self.output_tokens,
            retokenized_output_tokens: self.output_tokens,
            concurrency: self.e2e.sum() as f64 / NANOS / duration_s,
            // A client that does not stream takes answers for tokens.
            peak_output_tokens_per_s: if streams {
                peak_output_tokens_per_s
            } else {
                self.ended.peak() as f64
            },
            peak_concurrent_requests: CountsBySecond::peak_inside(&self.began, &self.ended),
            drafts,
            e2e: Distribution::of_bins(self.e2e, NANOS),
            ttft: Distribution::of_bins(self.ttft, NANOS),
            tpot: Distribution::of_bins(self.tpot, NANOS * TPOT_PARTS as f64),
            itl: Distribution::of_gaps(if streams { gaps } else { TokenGaps::Each(Vec::new()) }),
            cache: CacheReport {
                prompt_tokens: self.prompt_tokens,
                cached_tokens: self.cached_tokens,
                tiers: None,
            },
            goodput,
        }
    }
}

impl Recorder {
    /// Of all requests, where their records were not kept.
    pub fn folded(&self) -> Option<Folded> {
        let mut folded = self.folded.as_deref()?.clone();
        for record in self.requests.left_over() {
            folded.add(record);
        }
        Some(folded)
    }

    /// Times that requests lost their memory and started over.
    pub fn preemptions(&self) -> u64 {
        match &self.folded {
            Some(folded) => {
                let inside = self.requests.left_over().iter();
                folded.preemptions + inside.map(|record| u64::from(record.preemptions)).sum::<u64>()
            }
            None => self.requests.iter().map(|record| u64::from(record.preemptions)).sum(),
        }
    }

    /// Requests that were answered in full, and the tokens of their answers.
    pub fn answered(&self) -> (u64, u64) {
        if let Some(folded) = self.folded() {
            return (folded.finished(), folded.output_tokens);
        }
        let finished = self.requests.iter().filter(|record| record.status == Status::Finished);
        finished.fold((0, 0), |(requests, tokens), record| {
            (requests + 1, tokens + u64::from(record.output_tokens))
        })
    }

    /// The parts of the end-to-end times of all requests that were answered in full, in the order of
    /// [`Breakdown::parts`], in nanoseconds.
    pub fn parts(&self) -> [u128; Breakdown::PARTS] {
        if let Some(folded) = self.folded() {
            return folded.parts();
        }
        let mut sums = [0; Breakdown::PARTS];
        let places = 0..self.requests.len();
        let finished = places.filter(|place| self.requests[*place].status == Status::Finished);
        for parts in finished.filter_map(|place| self.breakdown_of(place)) {
            for (sum, part) in sums.iter_mut().zip(parts.parts()) {
                *sum += u128::from(part.as_nanos());
            }
        }
        sums
    }

    /// More requests come than are remembered. Where none was sent, the first is one that arrives at `at`.
    #[cold]
    fn begin_folding(&mut self, at: SimTime) {
        if let Some(folding) = &self.folding {
            let origin = self.first_sent.unwrap_or(at);
            self.folded = Some(Box::new(Folded::new(folding, origin)));
            self.gaps.bound();
        }
    }

    /// Requests are forgotten from now on.
    #[inline]
    fn begin_to_forget(&mut self, at: SimTime) {
        if self.folded.is_none() {
            self.begin_folding(at);
        }
    }

    /// A request arrives.
    #[inline]
    pub(super) fn arrive(&mut self, at: SimTime, id: RequestId, request: &Request) {
        debug_assert_eq!(self.lane.place(id), self.requests.next_place());
        if self.folding.as_ref().is_some_and(|folding| id.0 >= folding.limit) {
            self.begin_to_forget(at);
            if self.requests.is_full() && !self.sets_aside {
                self.forget();
            }
        }
        self.requests.push(RequestRecord::arrived(at, request));
    }

    /// Forgets the earliest requests as far as they have left, where more came than are remembered.
    #[cold]
    fn forget(&mut self) {
        let mut gone = Vec::new();
        self.requests.give_up(&mut gone);
        if let Some(folded) = &mut self.folded {
            folded.add_all(&gone);
        }
    }

    /// What is left of requests in lanes, where they are too many to be remembered together; whether that is so.
    pub(super) fn join_folded(&mut self, lanes: &mut [Self]) -> bool {
        let requests: usize = lanes.iter().map(|lane| lane.requests.next_place()).sum();
        if self.folding.as_ref().is_none_or(|folding| requests <= folding.limit as usize) {
            return false;
        }
        for lane in lanes {
            // One that was sent none of those beyond the limit remembers all.
            lane.begin_to_forget(lane.lane.first_sent);
            let mut folded = lane.folded.take().expect("it has begun to forget");
            for record in lane.requests.left_over() {
                folded.add(record);
            }
            lane.requests.forget_all();
            match &mut self.folded {
                Some(all) => all.join(&folded),
                None => self.folded = Some(folded),
            }
        }
        self.requests = Records::forgotten(requests);
        true
    }
}

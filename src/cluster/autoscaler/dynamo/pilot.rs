//! The planner at its times: what it has seen of requests and replicas, and when it looks.
//!
//! Requests and their prompt tokens count when they are sent, their output tokens and what caches held when they are answered, all
//! of one interval. Where none was answered in it, the lengths of the last answers stand. Dynamo reads both from counters of its
//! frontend. The averages of a replica's work are of the passes under way when it looks, over as many samples as Dynamo keeps by
//! default: prompt tokens of a request in a pass, and passes without prompts count as none once there was one with.

use std::collections::VecDeque;

use super::forward::ForwardPassMetrics;
use super::planner::{Counts, Demand, ForwardTimes, LoadTick, Mode, Planner};
use super::predictor::Predictor;
use crate::engine::Life;
use crate::scenario::DynamoPlannerConfig;
use crate::units::{SimDuration, SimTime};

/// Samples of an average (`max_num_fpm_samples`).
const SAMPLES: usize = 64;

/// A planner of a run.
#[derive(Debug)]
pub struct Pilot {
    config: DynamoPlannerConfig,
    planner: Planner,
    next_throughput: SimTime,
    traffic: Traffic,
    requests: Predictor,
    isl: Predictor,
    osl: Predictor,
    /// Of the last interval that had answers.
    last: Answers,
    /// Prompt tokens in a pass of one request, and of all.
    prompts: Average,
    prefills: Average,
    decode_lengths: Average,
}

/// What came since it looked last, and what was answered.
#[derive(Debug, Default)]
struct Traffic {
    requests: u64,
    prompt_tokens: u64,
    answers: u64,
    output_tokens: u64,
    answered_tokens: u64,
    cached_tokens: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    osl: f64,
    hit_rate: Option<f64>,
}

/// An average of the last samples.
#[derive(Debug, Default)]
struct Average {
    samples: VecDeque<f64>,
}

impl Average {
    /// From the first one on that is not 0.
    fn see_from_first(&mut self, sample: f64) {
        if sample > 0.0 || !self.samples.is_empty() {
            self.see(sample);
        }
    }

    fn see(&mut self, sample: f64) {
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    fn value(&self) -> f64 {
        self.samples.iter().sum::<f64>() / self.samples.len().max(1) as f64
    }
}

/// What is known of the replicas when it looks.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Replicas that serve.
    pub ready: Counts,
    /// Whether others start, leave or are down.
    pub is_scaling: bool,
    /// Of each that prefills.
    pub prefill: &'a [ForwardPassMetrics],
    /// Of each that decodes, or does both.
    pub decode: &'a [ForwardPassMetrics],
}

impl Pilot {
    /// At the start of a run.
    pub fn new(config: &DynamoPlannerConfig, mode: Mode) -> Self {
        Self {
            config: *config,
            planner: Planner::new(config, mode),
            next_throughput: SimTime::ZERO + interval(config),
            traffic: Traffic::default(),
            requests: Predictor::new(config),
            isl: Predictor::new(config),
            osl: Predictor::new(config),
            last: Answers::default(),
            prompts: Average::default(),
            prefills: Average::default(),
            decode_lengths: Average::default(),
        }
    }

    /// A request with so many prompt tokens is sent.
    pub fn sent(&mut self, prompt_tokens: u32) {
        self.traffic.requests += 1;
        self.traffic.prompt_tokens += u64::from(prompt_tokens);
    }

    /// A request was answered.
    pub fn answered(&mut self, life: &Life) {
        self.traffic.answers += 1;
        self.traffic.output_tokens += u64::from(life.generated);
        self.traffic.answered_tokens += u64::from(life.prompt_tokens);
        self.traffic.cached_tokens += u64::from(life.cached_tokens);
    }

    /// The replicas that there are to be, if it says so now.
    pub fn look(
        &mut self,
        now: SimTime,
        seen: &Seen<'_>,
        times: ForwardTimes<'_>,
    ) -> Option<Counts> {
        self.observe(seen);
        let mut target = None;
        if self.config.scales_by_throughput() && now >= self.next_throughput {
            self.next_throughput = now + interval(&self.config);
            let demand = self.predict();
            let decision = self.planner.look_at_demand(seen.ready, &demand, times);
            target = decision.target.filter(|_| !seen.is_scaling);
        }
        let tick = LoadTick {
            ready: seen.ready,
            is_scaling: seen.is_scaling,
            prefill: seen.prefill,
            decode: seen.decode,
            isl: self.prompts.value(),
            decode_length: self.decode_lengths.value(),
            prefill_beside: self.prefills.value().ceil() as u64,
        };
        self.planner.look_at_load(&tick, times).target.or(target)
    }

    /// The passes under way.
    fn observe(&mut self, seen: &Seen<'_>) {
        let prefilling = if seen.prefill.is_empty() { seen.decode } else { seen.prefill };
        for worker in prefilling {
            let tokens = worker.scheduled_prefill_tokens as f64;
            let requests = f64::from(worker.scheduled_prefill_requests.max(1));
            self.prompts.see_from_first(tokens / requests);
            self.prefills.see_from_first(tokens);
        }
        for worker in seen.decode.iter().filter(|worker| worker.decode_seqs > 0) {
            let length = worker.scheduled_kv_tokens as f64 / f64::from(worker.decode_seqs);
            self.decode_lengths.see(length);
        }
    }

    /// The next interval, after the one that ends now.
    fn predict(&mut self) -> Demand {
        let traffic = std::mem::take(&mut self.traffic);
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        if traffic.answers > 0 {
            let hit_rate = mean(traffic.cached_tokens, traffic.answered_tokens);
            let osl = mean(traffic.output_tokens, traffic.answers);
            self.last = Answers { osl, hit_rate: Some(hit_rate) };
        }
        self.requests.see(traffic.requests as f64);
        self.isl.see(mean(traffic.prompt_tokens, traffic.requests));
        self.osl.see(self.last.osl);
        let seconds = f64::from(self.config.throughput_adjustment_interval_seconds);
        Demand {
            per_s: self.requests.forecast() / seconds,
            isl: self.isl.forecast(),
            osl: self.osl.forecast(),
            hit_rate: self.last.hit_rate,
        }
    }
}

fn interval(config: &DynamoPlannerConfig) -> SimDuration {
    SimDuration::from_secs_f64(config.throughput_adjustment_interval_seconds.into())
}

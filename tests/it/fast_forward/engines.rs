//! Every engine with any flags, and the schedulers that serve them.

use proptest::prelude::*;
use servecast::engine::scheduler::{Acceptance, Scheduler, VllmV1};
use servecast::model::KvGroups;
use servecast::request::Request;
use servecast::scenario::{
    AcceptanceConfig, EngineConfig, FasterTransformerConfig, OrcaConfig, Policy, Reservation,
    SarathiConfig, SglangConfig, SglangPolicy, SglangSpeculationConfig, SpeculationConfig,
    SpeculationMethod, SpeculativeAlgorithm, StaticBatchingConfig, VllmConfig, VllmV0Config,
};

use super::Way;
use crate::support;

#[derive(Debug, Clone)]
pub(super) enum Engine {
    Vllm(VllmConfig),
    /// With layers that have a window.
    Windowed(VllmConfig, KvGroups),
    Sglang(SglangConfig),
    /// An engine without groups of requests.
    Plain(EngineConfig),
}

impl Engine {
    pub(super) fn scheduler(&self, way: Way) -> Scheduler {
        let is_plain = way == Way::RequestByRequest;
        match self {
            Self::Vllm(config) => {
                let vllm = support::vllm(config, acceptance(config));
                // Recorded blocks have numbers; the others are counted.
                let by_request = |vllm: VllmV1| vllm.request_by_request().recording_blocks();
                Scheduler::VllmV1(Box::new(if is_plain { by_request(vllm) } else { vllm }))
            }
            Self::Windowed(config, groups) => {
                let vllm = support::vllm(config, acceptance(config));
                let vllm = vllm.with_windows(Some(groups.clone()));
                Scheduler::VllmV1(Box::new(if is_plain { vllm.request_by_request() } else { vllm }))
            }
            Self::Sglang(config) => {
                let sglang = support::sglang(config).accepting(accepted_by_sglang(config));
                let sglang = if is_plain { sglang.request_by_request() } else { sglang };
                Scheduler::Sglang(Box::new(sglang))
            }
            Self::Plain(config) => support::scheduler(config),
        }
    }

    /// The tokens of SGLang's answer to a request; 0 if it refuses it (SGLang 0.5.23,
    /// `schedule_batch.py`, `tokenizer_manager.py`).
    pub(super) fn sglang_answer(&self, request: &Request) -> u32 {
        let (by_length, by_pool) = self.sglang_limits(request);
        // The prefill samples a token before anybody counts, however small the limit.
        request.output_tokens.min(by_length).min(by_pool.max(1))
    }

    /// Whether SGLang accepts a request and never admits it: without its tree it wants a token
    /// more than there are for an answer that fills the pool to its end.
    pub(super) fn sglang_never_admits(&self, request: &Request) -> bool {
        let Self::Sglang(config) = self else { panic!("{self:?} is not SGLang's") };
        let (by_length, by_pool) = self.sglang_limits(request);
        let is_sure_to_run_on = config.disable_radix_cache && request.ignore_eos;
        let answer = request.max_tokens.min(by_length).min(by_pool);
        is_sure_to_run_on && answer > 0 && answer == by_pool
    }

    /// The longest answer by the limits of a sequence and by the memory.
    fn sglang_limits(&self, request: &Request) -> (u32, u32) {
        let Self::Sglang(config) = self else { panic!("{self:?} is not SGLang's") };
        let page = config.page_tokens();
        let pool = config.max_total_tokens.expect("resolved") / page * page;
        let longest = (config.context_length.expect("resolved") - 1).min(pool - 1);
        let prompt = request.prompt_tokens;
        if prompt + 5 >= longest {
            return (0, 0);
        }
        (longest - prompt - 1, pool.saturating_sub(prompt.next_multiple_of(page) + page + 1))
    }
}

fn acceptance(config: &VllmConfig) -> Acceptance {
    let Some(speculation) = &config.speculation else { return Acceptance::NONE };
    let AcceptanceConfig::MeanLength { tokens } = speculation.acceptance else { panic!() };
    Acceptance::with_mean_length(tokens, speculation.num_speculative_tokens, 5)
}

fn accepted_by_sglang(config: &SglangConfig) -> Acceptance {
    let Some(speculation) = &config.speculation else { return Acceptance::NONE };
    let AcceptanceConfig::MeanLength { tokens } = speculation.acceptance else { panic!() };
    Acceptance::with_mean_length(tokens, speculation.drafts(), 5)
}

pub(super) fn vllm() -> impl Strategy<Value = Engine> {
    let numbers = (8_u32..200, 16_u32..600, 1_u32..40, prop::sample::select(vec![1_u32, 4, 16]));
    let switches = any::<[bool; 5]>();
    let rest = (0_u32..3, 1_u32..4, 300_u32..1200);
    (numbers, switches, rest).prop_map(
        |((blocks, budget, seqs, block_size), switches, (threshold, interval, model_len))| {
            let [is_async, caches, chunks, reserves, is_priority] = switches;
            let budget = if chunks { budget } else { budget.max(model_len) };
            Engine::Vllm(VllmConfig {
                block_size,
                // A pool that holds the longest sequence: a request that outgrows it starts over forever.
                num_gpu_blocks: Some(1 + (blocks * 64).max(model_len + block_size) / block_size),
                max_num_batched_tokens: Some(budget),
                max_num_seqs: Some(seqs),
                max_model_len: Some(model_len),
                enable_chunked_prefill: chunks,
                enable_prefix_caching: caches,
                async_scheduling: is_async,
                policy: if is_priority { Policy::Priority } else { Policy::Fcfs },
                long_prefill_token_threshold: threshold * 100,
                prefill_schedule_interval: interval,
                scheduler_reserve_full_isl: reserves,
                ..VllmConfig::default()
            })
        },
    )
}

/// The same engines with a model some of whose layers have a window, in a pool that holds the longest
/// sequence.
pub(super) fn windowed() -> impl Strategy<Value = Engine> {
    (vllm(), 1_u32..4, 1_u32..300).prop_map(|(engine, windowed, window)| {
        let Engine::Vllm(mut config) = engine else { panic!("vLLM's engine") };
        let groups = KvGroups::with_window(1, windowed, window);
        let [longest, budget] = [config.max_model_len, config.max_num_batched_tokens]
            .map(|tokens| tokens.expect("resolved"));
        let more = groups.most(longest, budget.min(longest), config.block_size);
        config.num_gpu_blocks = config.num_gpu_blocks.map(|blocks| blocks + more);
        Engine::Windowed(config, groups)
    })
}

pub(super) fn sglang() -> impl Strategy<Value = Engine> {
    let numbers =
        (400_u32..6000, 1_u32..40, prop::sample::select(vec![1_u32, 4, 16]), 300_u32..1200);
    let switches = any::<[bool; 5]>();
    let rest = (0_i32..500, 1_u32..800, 0_u32..6, 0_u32..4, 0.1_f64..1.5, 0_i32..2);
    (numbers, switches, rest).prop_map(|((tokens, running, page_size, context), switches, rest)| {
        let [overlaps, caches, chunks, mixes, is_lpm] = switches;
        let (chunk, prefill, requests, adapters, conservativeness, threshold) = rest;
        Engine::Sglang(SglangConfig {
            max_total_tokens: Some(tokens),
            max_running_requests: Some(running),
            context_length: Some(context),
            chunked_prefill_size: Some(if chunks {
                chunk.max(page_size.cast_signed())
            } else {
                -1
            }),
            max_prefill_tokens: prefill,
            prefill_max_requests: (requests > 0).then_some(requests),
            page_size: Some(page_size),
            schedule_policy: if is_lpm { SglangPolicy::Lpm } else { SglangPolicy::Fcfs },
            schedule_conservativeness: conservativeness,
            disable_radix_cache: !caches,
            enable_mixed_chunk: mixes && chunks,
            disable_overlap_schedule: !overlaps,
            enable_priority_scheduling: !is_lpm && requests % 2 == 1,
            priority_scheduling_preemption_threshold: threshold,
            max_loras_per_batch: (adapters > 0).then_some(adapters),
            ..SglangConfig::default()
        })
    })
}

/// The same engines with drafts.
pub(super) fn speculating(engines: impl Strategy<Value = Engine>) -> impl Strategy<Value = Engine> {
    let methods = prop::sample::select(vec![SpeculationMethod::Ngram, SpeculationMethod::Eagle]);
    (engines, methods, 1_u32..5, 0.0_f64..=1.0).prop_map(|(engine, method, drafts, share)| {
        let Engine::Vllm(mut config) = engine else { panic!("only vLLM's engine speculates") };
        let seqs = config.max_num_seqs.expect("resolved");
        // vLLM refuses a budget without a token for every sequence and its drafts.
        config.max_num_batched_tokens =
            config.max_num_batched_tokens.map(|budget| budget.max(seqs * (1 + drafts)));
        let tokens = 1.0 + share * f64::from(drafts);
        let acceptance = AcceptanceConfig::MeanLength { tokens };
        config.speculation = Some(SpeculationConfig::new(method, drafts, acceptance));
        Engine::Vllm(config)
    })
}

/// SGLang with drafts, of every kind that its scheduler tells apart.
pub(super) fn speculating_sglang() -> impl Strategy<Value = Engine> {
    let algorithms =
        prop::sample::select(vec![SpeculativeAlgorithm::Eagle, SpeculativeAlgorithm::Standalone]);
    (sglang(), algorithms, 1_u32..5, 0.0_f64..=1.0).prop_map(|(engine, algorithm, steps, share)| {
        let Engine::Sglang(mut config) = engine else { panic!("SGLang's engine") };
        let acceptance = AcceptanceConfig::MeanLength { tokens: 1.0 + share * f64::from(steps) };
        let speculation = SglangSpeculationConfig::new(algorithm, acceptance);
        let speculative_num_steps = Some(steps);
        config.speculation = Some(SglangSpeculationConfig { speculative_num_steps, ..speculation });
        config.enable_mixed_chunk = false;
        config.max_loras_per_batch = None;
        Engine::Sglang(config)
    })
}

/// Any of the engines that serve as baselines.
pub(super) fn baseline() -> impl Strategy<Value = Engine> {
    let sizes = (1_u32..24, 12_u32..600, 410_u32..1200, 0_u32..1200);
    let timeouts = prop::sample::select(vec![0.0, 3.0, 80.0]);
    (sizes, 0_u32..6, any::<bool>(), timeouts).prop_map(
        |((seqs, budget, model_len, spare), which, flag, batch_timeout_ms)| {
            let max_model_len = Some(model_len);
            let kv_tokens = Some(model_len + spare);
            let num_gpu_blocks = Some((model_len + spare) / 8 + 2);
            let reservation = if flag { Reservation::Model } else { Reservation::Request };
            let max_batch_size = seqs;
            Engine::Plain(match which {
                0 | 1 => EngineConfig::VllmV0(VllmV0Config {
                    block_size: 8,
                    num_gpu_blocks,
                    max_num_batched_tokens: Some(if flag { budget } else { budget + model_len }),
                    max_num_seqs: seqs,
                    max_model_len,
                    enable_chunked_prefill: flag,
                    ..VllmV0Config::default()
                }),
                2 => EngineConfig::Sarathi(SarathiConfig {
                    chunk_size: budget,
                    max_num_seqs: seqs,
                    block_size: 8,
                    num_gpu_blocks,
                    max_model_len,
                    ..SarathiConfig::default()
                }),
                3 => EngineConfig::Orca(OrcaConfig {
                    max_batch_size,
                    kv_tokens,
                    max_model_len,
                    reservation,
                    ..OrcaConfig::default()
                }),
                4 => EngineConfig::FasterTransformer(FasterTransformerConfig {
                    max_batch_size,
                    kv_tokens,
                    max_model_len,
                    reservation,
                    ..FasterTransformerConfig::default()
                }),
                _ => EngineConfig::StaticBatching(StaticBatchingConfig {
                    batch_size: seqs,
                    batch_timeout_ms,
                    kv_tokens,
                    max_model_len,
                    ..StaticBatchingConfig::default()
                }),
            })
        },
    )
}

//! SGLang's pools of windows and of states, in real runs.

use servecast::engine::scheduler::{EngineSettings, SglangHybrid, StateStrategy};
use servecast::load::{self, Draft};
use servecast::metrics::RequestRecord;
use servecast::model::layout::{Machine, SglangLayout, SglangPoolFlags};
use servecast::model::{Generation, KvDtype};
use servecast::profiles;
use servecast::resolved::{KvSource, Scenario};
use servecast::scenario::{EngineConfig, SglangConfig};
use servecast::units::Bytes;

fn served(model: &str, gpu: &str, tp: u32) -> Draft {
    let text = format!(
        "name = 'pools'\nseed = 3\n[workload]\nnum_requests = 60\n\
         arrivals = {{ type = 'poisson', rate_per_s = 4.0 }}\n\
         lengths = {{ type = 'fixed', input_tokens = 3000, output_tokens = 60 }}\n\
         [cluster]\nmodel = '{model}'\ngpu = '{gpu}'\ntensor_parallel_size = {tp}\n\
         [cluster.engine]\ntype = 'sglang'\n"
    );
    load::from_text(&text).expect("a scenario")
}

fn with(draft: Draft, path: &str, value: impl Into<toml::Value>) -> Draft {
    draft.with(path, value).expect("there is a place for it")
}

fn sharing(draft: Draft, prefix: u32) -> Draft {
    let content = format!("type = 'system_prompt'\ngroups = 2\nprefix_tokens = {prefix}");
    let content: toml::Table = toml::from_str(&content).expect("TOML");
    with(draft, "workload.content", content)
}

fn resolved(draft: &Draft) -> Scenario {
    draft.clone().resolve().expect("it is served").scenario
}

fn config(scenario: &Scenario) -> &SglangConfig {
    let EngineConfig::Sglang(sglang) = &scenario.first().cluster.engine else {
        panic!("SGLang's engine")
    };
    sglang
}

fn hybrid(scenario: &Scenario) -> Option<SglangHybrid> {
    let EngineSettings::Sglang(settings) = &scenario.first().settings else {
        panic!("SGLang's engine")
    };
    settings.hybrid
}

/// Tokens found again, as a share of those of prompts.
fn found_again(draft: &Draft) -> f64 {
    let run = draft.clone().run().expect("it runs");
    assert_eq!(run.counts.finished, 60);
    let requests = run.recorder.seen();
    let sum =
        |tokens: fn(&RequestRecord) -> u32| f64::from(requests.iter().map(tokens).sum::<u32>());
    sum(|request| request.cached_tokens) / sum(|request| request.prompt_tokens)
}

const STATES: &str = "Qwen/Qwen3-Next-80B-A3B-Instruct";

#[test]
fn pools_hold_what_the_engine_says() {
    // SGLang 0.5.23 with 40 GiB for its pools: slots of states, tokens, requests at once.
    let model = profiles::model(STATES).expect("in the catalogue");
    let machine = Machine::new(Generation::Hopper, 1, KvDtype::Auto);
    let plain = SglangPoolFlags::default();
    let no_tree = SglangPoolFlags { disable_radix_cache: true, ..plain };
    let no_overlap = SglangPoolFlags { disable_overlap_schedule: true, ..plain };
    for (flags, slots, tokens, running) in [
        (plain, 262, 920_754, 52),
        (no_overlap, 262, 920_754, 87),
        (SglangPoolFlags { page_size: Some(64), ..no_overlap }, 262, 920_704, 65),
        (no_tree, 262, 920_754, 262),
        (SglangPoolFlags { max_running_requests: Some(256), ..no_tree }, 256, 939_618, 256),
        (SglangPoolFlags { max_mamba_cache_size: Some(200), ..plain }, 200, 1_115_682, 40),
    ] {
        let pools = SglangLayout::told(&model, machine, &flags).pools(Bytes(40 << 30));
        assert_eq!(pools.max_mamba_cache_size, Some(slots), "{flags:?}");
        assert_eq!(pools.max_total_num_tokens, tokens, "{flags:?}");
        assert_eq!(pools.max_running_requests, running, "{flags:?}");
    }
    // NEXTN: a config without `num_nextn_predict_layers` gets no room for the tokens of what drafts.
    let drafting = Machine { draft_tokens: 3, ..machine };
    let pools = SglangLayout::told(&model, drafting, &plain).pools(Bytes(40 << 30));
    assert_eq!(pools.max_mamba_cache_size, Some(143));
    assert_eq!(pools.max_total_num_tokens, 930_186);
    assert_eq!(pools.max_running_requests, 28);
}

#[test]
fn a_server_has_the_pools_of_its_layout() {
    for (model, gpu, tp, page) in [
        (STATES, "H200", 4, 1),
        ("openai/gpt-oss-120b", "H200", 2, 1),
        ("openai/gpt-oss-120b", "B200", 2, 64),
        ("google/gemma-4-26B-A4B", "H100-SXM", 2, 1),
        ("deepseek-ai/DeepSeek-V4-Flash", "B200", 4, 256),
        ("deepseek-ai/DeepSeek-V3.2", "B200", 8, 64),
        ("Qwen/Qwen3-8B", "H100-SXM", 1, 1),
    ] {
        let scenario = resolved(&served(model, gpu, tp));
        let (group, sglang) = (scenario.first(), config(&scenario));
        let KvSource::Derived(kv) = group.kv else { panic!("it is derived") };
        let dtype = group.cluster.kv_cache_dtype;
        let machine = Machine::new(group.gpu.card().generation, tp, dtype);
        let flags =
            SglangPoolFlags { context_length: sglang.context_length, ..SglangPoolFlags::default() };
        let layout = SglangLayout::told(&group.model, machine, &flags);
        let pools = layout.pools(kv.left);
        assert_eq!(sglang.page_size, Some(page), "{model} on {gpu}");
        assert_eq!(sglang.max_total_tokens.map(u64::from), Some(pools.max_total_num_tokens));
        let slots = sglang.max_mamba_cache_size.map(u64::from);
        assert_eq!(slots, pools.max_mamba_cache_size, "{model} on {gpu}");
        let running = sglang.max_running_requests.map(u64::from);
        assert_eq!(running, Some(pools.max_running_requests), "{model} on {gpu}");
        let window = pools.swa_max_total_num_tokens;
        if let Some(SglangHybrid::Window(pool)) = hybrid(&scenario) {
            assert_eq!(Some(u64::from(pool.tokens)), window, "{model} on {gpu}");
        } else {
            // Pools of windows that are never short decide nothing.
            let each = u64::from(layout.window.map_or(0, |tokens| tokens + 128));
            let needed = pools.max_running_requests * each;
            assert!(window.is_none_or(|tokens| tokens > needed), "{model} on {gpu}");
        }
        // What is derived is derived again.
        let written = toml::to_string(&scenario.written()).expect("it is written");
        let again = load::from_text(&written).expect("a scenario");
        assert_eq!(config(&resolved(&again)), sglang, "{model} on {gpu}");
    }
}

#[test]
fn states_are_found_again_on_their_grid() {
    let draft = with(served(STATES, "H200", 4), "workload.arrivals.rate_per_s", 1.0);
    let strategy = |draft: &Draft| match hybrid(&resolved(draft)) {
        Some(SglangHybrid::State(pool)) => Some(pool.strategy),
        _ => None,
    };
    // Where prompts share nothing there is nothing to find.
    assert_eq!(strategy(&draft), None);
    let draft = sharing(draft, 2000);
    let on_grid = StateStrategy::ExtraBuffer { chunk: 64, track_interval: 256 };
    assert_eq!(strategy(&draft), Some(on_grid));
    // 1984 of 5000 tokens, from the third request of a group on.
    let share = found_again(&draft);
    assert!((0.36..0.3968).contains(&share), "{share}");
    // States at the ends of prompts alone serve nobody whose prompt ends otherwise.
    let plain = with(draft.clone(), "cluster.engine.disable_overlap_schedule", true);
    assert_eq!(strategy(&plain), Some(StateStrategy::NoBuffer));
    assert!(found_again(&plain).abs() < f64::EPSILON);
    let off = with(draft, "cluster.engine.disable_radix_cache", true);
    assert_eq!(strategy(&off), None);
    assert_eq!(
        config(&resolved(&off)).max_running_requests,
        config(&resolved(&off)).max_mamba_cache_size
    );
}

#[test]
fn what_nobody_shares_takes_as_long_with_states_kept() {
    let requests = |draft: Draft| {
        let run = draft.run().expect("it runs");
        let seen = run.recorder.seen();
        seen.iter().map(|request| (request.first_token, request.finish)).collect::<Vec<_>>()
    };
    let draft = with(served(STATES, "H200", 4), "cluster.engine.max_mamba_cache_size", 60);
    let lengths: toml::Table =
        toml::from_str("type = 'fixed'\ninput_tokens = 2999\noutput_tokens = 60").expect("TOML");
    // A token in common is less than the grid.
    let kept = sharing(with(draft.clone(), "workload.lengths", lengths), 1);
    assert!(hybrid(&resolved(&kept)).is_some());
    assert_eq!(requests(kept), requests(draft));
}

#[test]
fn windows_that_are_never_short_decide_nothing() {
    let requests = |draft: &Draft| {
        let run = draft.clone().run().expect("it runs");
        let seen = run.recorder.seen();
        seen.iter().map(|request| (request.first_token, request.finish)).collect::<Vec<_>>()
    };
    let of = |input: u32, rate: f64| {
        let lengths = format!("type = 'fixed'\ninput_tokens = {input}\noutput_tokens = 300");
        let lengths: toml::Table = toml::from_str(&lengths).expect("TOML");
        let draft = with(served("openai/gpt-oss-120b", "H200", 2), "workload.lengths", lengths);
        let draft = with(draft, "cluster.engine.page_size", 16);
        with(draft, "workload.arrivals.rate_per_s", rate)
    };
    for rate in [1.0, 10.0, 1000.0] {
        // A token in common is less than a page.
        let (idle, kept) = (of(3000, rate), sharing(of(2999, rate), 1));
        assert!(hybrid(&resolved(&kept)).is_some() && hybrid(&resolved(&idle)).is_none());
        assert_eq!(requests(&kept), requests(&idle), "{rate} requests/s");
    }
}

#[test]
fn windows_hold_as_many_requests_as_fit() {
    // Prompts shorter than the window take as many slots of windows as of the others.
    let draft = served("google/gemma-4-26B-A4B", "H100-SXM", 2);
    let lengths: toml::Table =
        toml::from_str("type = 'fixed'\ninput_tokens = 800\noutput_tokens = 100").expect("TOML");
    let draft = with(draft, "workload.lengths", lengths);
    let draft = with(draft, "workload.arrivals.rate_per_s", 1000.0);
    let draft = with(draft, "cluster.engine.max_total_tokens", 20_000);
    let most = |ratio: f64| {
        let run = with(draft.clone(), "cluster.engine.swa_full_tokens_ratio", ratio).run();
        let run = run.expect("it runs");
        assert_eq!(run.counts.finished, 60);
        run.summary().figure("duration").expect("it was measured")
    };
    let (whole, half) = (most(1.0), most(0.5));
    assert!(half > 1.3 * whole, "{half} and {whole} s");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refused = |draft: Draft, what: &str| {
        let problem = draft.resolve().expect_err("it is refused").to_string();
        assert!(problem.contains(what), "{problem}");
    };
    let states = || sharing(served(STATES, "H200", 4), 2000);
    refused(with(states(), "cluster.engine.enable_mixed_chunk", true), "enable_mixed_chunk");
    let no_buffer = with(states(), "cluster.engine.mamba_radix_cache_strategy", "no_buffer");
    refused(no_buffer, "cluster.engine.mamba_radix_cache_strategy");
    let alone = with(served(STATES, "H200", 4), "cluster.engine.max_mamba_cache_size", 1);
    refused(alone, "cluster.engine.max_mamba_cache_size");
    let gone = with(states(), "cluster.engine.disable_radix_cache", true);
    refused(with(gone, "cluster.engine.mamba_track_interval", 512), "mamba_track_interval");
    let uneven = with(states(), "cluster.engine.page_size", 96);
    refused(uneven, "cluster.engine.mamba_track_interval: must be a multiple of the page of 96");
    refused(with(states(), "cluster.engine.mamba_track_interval", 0), "at least 1");
    refused(with(states(), "cluster.engine.mamba_full_memory_ratio", 0.0), "above 0");
    let dense = served("Qwen/Qwen3-8B", "H100-SXM", 1);
    refused(with(dense, "cluster.engine.max_mamba_cache_size", 10), "no layers with states");
    let sparse = served("deepseek-ai/DeepSeek-V3.2", "B200", 8);
    refused(with(sparse, "cluster.engine.chunked_prefill_size", 32), "one page, of 64 tokens");
}

#[test]
fn prompts_that_no_window_has_room_for_are_left_over_or_served() {
    let lengths = |input: u32, output: u32| -> toml::Table {
        let text = format!("type = 'fixed'\ninput_tokens = {input}\noutput_tokens = {output}");
        toml::from_str(&text).expect("TOML")
    };
    let of = |input: u32, output: u32, tokens: i64, ratio: f64| {
        let draft = served("openai/gpt-oss-120b", "H200", 2);
        let draft = with(draft, "workload.lengths", lengths(input, output));
        let draft = with(draft, "workload.arrivals.rate_per_s", 2000.0);
        let draft = with(draft, "cluster.engine.max_total_tokens", tokens);
        with(draft, "cluster.engine.swa_full_tokens_ratio", ratio).run().expect("it runs").counts
    };
    // One prompt is parked for ever, as in the engine, and those behind it wait.
    let parked = of(300, 1, 4000, 0.03);
    assert_eq!((parked.finished, parked.stuck), (0, 60));
    // While one is parked no other is begun that would be cut too.
    let small = of(1000, 300, 8000, 0.1);
    assert_eq!(small.finished + small.stuck, 60);
    assert!(small.finished > 0, "{small:?}");
}

#[test]
fn tokens_that_are_given_leave_slots_as_they_are() {
    let draft = with(served(STATES, "H200", 4), "cluster.engine.mem_fraction_static", 0.8);
    let (all, few) =
        (resolved(&draft), resolved(&with(draft, "cluster.engine.max_total_tokens", 100_000)));
    let slots = config(&few).max_mamba_cache_size.expect("it has states");
    assert_eq!(config(&all).max_mamba_cache_size, Some(slots));
    assert_eq!(config(&few).max_running_requests, Some(slots / 5));
}

//! Requests of which only a part begins with a system prompt.

use proptest::prelude::*;

use servecast::metrics::Recorder;
use servecast::request::{Request, Segment};
use servecast::rng::Seed;
use servecast::scenario::WorkloadConfig;
use servecast::sim::simulation;
use servecast::workload::Workload;

use crate::support::{Digest, random_cases, resolve};

const PREFIX_TOKENS: u32 = 512;

fn system_prompts(share: &str, popularity: &str) -> String {
    format!(
        "num_requests = 2000\narrivals = {{ type = 'poisson', rate_per_s = 20.0 }}\n\
         lengths.type = 'sampled'\n\
         lengths.input_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 300 }}\n\
         lengths.output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 30 }}\n\
         content = {{ type = 'system_prompt', groups = 7, prefix_tokens = {PREFIX_TOKENS}, \
         {share} popularity.type = '{popularity}' }}\n"
    )
}

fn drawn(seed: u64, share: f64, popularity: &str) -> Vec<Request> {
    let text = system_prompts(&format!("share = {share},"), popularity);
    let config: WorkloadConfig = toml::from_str(&text).expect("a workload");
    let workload = Workload::open(&config, Seed(seed), None).expect("the workload opens");
    workload.map(|request| request.expect("requests are drawn")).collect()
}

/// What each request begins with, and whether another begins with the same.
fn beginnings(requests: &[Request]) -> Vec<Segment> {
    let begins = |request: &Request| request.content.segments.as_ref().expect("it is given")[0];
    requests.iter().map(begins).collect()
}

/// Which requests begin as they do where all have a system prompt.
fn sharing(all: &[Request], some: &[Request]) -> Vec<bool> {
    let pairs = beginnings(all).into_iter().zip(beginnings(some));
    pairs.map(|(with, maybe)| with == maybe).collect()
}

proptest! {
    #![proptest_config(random_cases(60))]

    // A case that fails is printed with its seed.
    #[test]
    fn a_share_of_the_requests_has_a_system_prompt_and_all_else_stays(
        seed: u64, share in 0.0..=1.0, popularity in prop::sample::select(vec!["uniform", "round_robin"]),
    ) {
        let all = drawn(seed, 1.0, popularity);
        let some = drawn(seed, share, popularity);
        for (with, maybe) in all.iter().zip(&some) {
            prop_assert_eq!(with.arrival, maybe.arrival);
            prop_assert_eq!(with.prompt_tokens, maybe.prompt_tokens);
            prop_assert_eq!(with.output_tokens, maybe.output_tokens);
            let own = |request: &Request| request.content.segments.clone().expect("it is given")[1..].to_vec();
            prop_assert_eq!(own(with), own(maybe), "what a user says is the same");
        }
        prop_assert!(beginnings(&some).iter().all(|first| (first.start, first.len) == (0, PREFIX_TOKENS)));

        let has = sharing(&all, &some);
        let (count, expected) = (all.len() as f64, share * all.len() as f64);
        let having = has.iter().filter(|has| **has).count() as f64;
        // Eight deviations of the binomial law; near 0 and 1 its tail is Poisson's, below e^-20 beyond 20.
        let within = 8.0 * (expected * (1.0 - share)).sqrt() + 20.0;
        prop_assert!((having - expected).abs() <= within, "{having} of {count}, expected {expected}");

        // Nobody else begins as a request without system prompt does.
        let mut own: Vec<u64> = beginnings(&some).iter().zip(&has).filter(|(_, has)| !**has)
            .map(|(first, _)| first.stream).collect();
        let total = own.len();
        own.sort_unstable();
        own.dedup();
        prop_assert_eq!(own.len(), total);
        let shared: Vec<u64> = beginnings(&all).iter().map(|first| first.stream).collect();
        prop_assert!(own.iter().all(|stream| !shared.contains(stream)));
    }

    #[test]
    fn who_has_a_system_prompt_keeps_it_when_more_have(seed: u64, low in 0.0..=1.0, high in 0.0..=1.0) {
        let (low, high) = (f64::min(low, high), f64::max(low, high));
        let all = drawn(seed, 1.0, "uniform");
        let [few, many] = [low, high].map(|share| sharing(&all, &drawn(seed, share, "uniform")));
        prop_assert!(few.iter().zip(many).all(|(few, many)| many || !few));
    }
}

/// A run, and how many prompt tokens its caches held.
fn run(workload: &str) -> (Digest, u64) {
    let scenario = resolve(&format!(
        "name = 'shares'\n[workload]\n{workload}[cluster]\nmodel = 'Qwen/Qwen3-8B'\n\
         gpu = 'H100-SXM5-80GB'\n"
    ));
    let scenario = scenario.expect("the scenario holds together");
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = servecast::sim::step_times(&scenario).expect("step times are known");
    let mut observers = (Digest::default(), Recorder::default());
    let simulation = simulation(&scenario, &costs, workload).expect("it can be built");
    simulation.run(&mut observers).expect("no trace is read");
    let cached = observers.1.requests.iter().map(|request| u64::from(request.cached_tokens)).sum();
    (observers.0, cached)
}

#[test]
fn all_have_a_system_prompt_where_no_share_is_given() {
    let (digest, cached) = run(&system_prompts("", "uniform"));
    assert_eq!(run(&system_prompts("share = 1.0,", "uniform")), (digest, cached));
    // 7 groups are computed once; requests that come meanwhile find none of theirs yet.
    let most = u64::from(PREFIX_TOKENS) * (2000 - 7);
    assert!(cached <= most && cached > most * 95 / 100, "{cached} of {most}");
}

#[test]
fn none_finds_a_system_prompt_where_the_share_is_0() {
    let (digest, cached) = run(&system_prompts("share = 0.0,", "uniform"));
    assert_eq!(cached, 0);
    // As if all prompts were so much longer, and shared nothing.
    let longer = system_prompts("", "uniform")
        .replace("min_tokens = 1, max_tokens = 300", "min_tokens = 513, max_tokens = 812");
    let (before, _) = longer.split_once("content = ").expect("it has content");
    assert_eq!(run(before), (digest, 0));
}

#[test]
fn caches_hold_what_the_share_has() {
    let (_, all) = run(&system_prompts("", "uniform"));
    let (_, part) = run(&system_prompts("share = 0.3,", "uniform"));
    // 600 ± 20 of 2000 requests, of which 7 are the first of their group.
    let share = part as f64 / all as f64;
    assert!((share - 0.3).abs() < 0.06, "{share}");
}

#[test]
fn a_share_beyond_all_and_one_of_what_is_not_shared_are_refused() {
    for (content, message) in [
        (
            "type = 'system_prompt', groups = 1, prefix_tokens = 9, share = 1.5",
            "content.share: must be between 0 and 1, got 1.5",
        ),
        (
            "type = 'system_prompt', groups = 1, prefix_tokens = 9, share = -0.1",
            "content.share: must be between 0 and 1, got -0.1",
        ),
        (
            "type = 'system_prompt', groups = 1, prefix_tokens = 9, share = nan",
            "content.share: must be between 0 and 1, got NaN",
        ),
    ] {
        let text = system_prompts("", "uniform");
        let (before, _) = text.split_once("content = ").expect("it has content");
        let config: WorkloadConfig =
            toml::from_str(&format!("{before}content = {{ {content} }}")).expect("a workload");
        let problems: Vec<String> = config.validate().iter().map(ToString::to_string).collect();
        assert_eq!(problems, [message]);
    }
    for kind in ["unique", "as_given"] {
        let content = format!("content = {{ type = '{kind}', share = 0.5 }}");
        let text = system_prompts("", "uniform");
        let (before, _) = text.split_once("content = ").expect("it has content");
        let error = toml::from_str::<WorkloadConfig>(&format!("{before}{content}"));
        let error = error.expect_err("nothing is shared").to_string();
        assert!(error.contains("unknown field `share`"), "{error}");
    }
}

//! Why a request was slow: its parts add up, what is said of it is what happened, and changes are what a comparison
//! finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use servecast::explain::{
    Came, Explain, ExplainError, Explained, Metric, PartKind, Ranked, Ranking, Shown,
};
use servecast::load::{Draft, Listener, Note, from_text};
use servecast::units::SimDuration;
use servecast::{Compare, load};

/// A scenario that takes no time to simulate, as long as nothing is added.
const SMALL: &str = r#"
name = "small"
[workload]
num_requests = 30
arrivals = { type = "poisson", rate_per_s = 60.0 }
[workload.lengths]
type = "sampled"
input_tokens = { type = "log_normal", median_tokens = 200.0, sigma = 1.0, max_tokens = 1500 }
output_tokens = { type = "uniform", min_tokens = 1, max_tokens = 160 }
[cluster]
model = "Qwen/Qwen2.5-7B"
gpu = "H100"
host = "none"
step_time = { type = "linear", base_us = 2000.0, prefill_token_us = 10.0, decode_seq_us = 50.0 }
engine = { type = "vllm_v1", max_model_len = 2048 }
"#;

fn small() -> Draft {
    from_text(SMALL).expect("a scenario")
}

fn with(settings: &[(&str, &str)]) -> Draft {
    settings.iter().fold(small(), |draft, (path, value)| {
        let value = load::value_of(value).expect("a value");
        draft.with(path, value).expect("it has a place")
    })
}

/// A question without changes.
fn asked(draft: Draft) -> Explain {
    let mut explain = Explain::new(draft);
    explain.seeds = 0;
    explain
}

fn explained(explain: &Explain) -> Explained {
    explain.run().unwrap_or_else(|error| panic!("{error}"))
}

const VLLM: &str = "{ type = 'vllm_v1', max_model_len = 2048, num_gpu_blocks = 132, max_num_batched_tokens = 256 }";
const SGLANG: &str = "{ type = 'sglang', context_length = 2048, max_total_tokens = 2100, chunked_prefill_size = 128 }";

/// What requests may meet; one of each row, or nothing.
const MAY_MEET: [&[(&str, &str)]; 7] = [
    &[("cluster.engine", VLLM), ("cluster.engine", SGLANG)],
    &[("cluster.replicas", "2"), ("cluster.replicas", "3")],
    &[("cluster.host", "{}")],
    &[("cluster.gateway", "{ max_outstanding_per_replica = 2 }")],
    &[(
        "workload.adapters",
        "{ kinds = [{ count = 6, rank = 16 }], popularity = { type = 'uniform' } }",
    )],
    &[
        (
            "faults",
            "[{ type = 'crash', replica = 0, at_s = 0.2, down_s = 0.4, detection_s = 0.1 }]",
        ),
        ("workload.client", "{ timeout_s = 0.6, retries = { max_retries = 2, backoff_s = 0.1 } }"),
    ],
    &[(
        "cluster.disaggregation",
        "{ prefill_replicas = 1, decode_replicas = 1, transfer = { nic_gb_per_s = 5.0, efficiency = 0.9, latency_us = 20.0 } }",
    )],
];

/// Scenarios that meet some of that; what does not go together is left out.
fn scenarios() -> impl Strategy<Value = Draft> {
    let chosen = MAY_MEET.map(|row| 0..=row.len()).map(|range| range.prop_map(|place| place));
    (chosen, any::<u16>()).prop_map(|(places, seed)| {
        let mut draft = small().with_seed(seed.into()).expect("a seed");
        for (row, place) in MAY_MEET.iter().zip(places) {
            let Some((path, value)) = place.checked_sub(1).map(|place| row[place]) else {
                continue;
            };
            let mut settings = vec![(path, value)];
            match path {
                "workload.adapters" => settings.push(("cluster.engine.max_loras", "2")),
                "cluster.disaggregation" => settings.push(("cluster.replicas", "2")),
                _ => {}
            }
            let put = settings.iter().try_fold(draft.clone(), |draft, (path, value)| {
                draft.with(path, load::value_of(value).expect("a value"))
            });
            if let Ok(more) = put.and_then(|more| more.resolve().map(|_| more)) {
                draft = more;
            }
        }
        draft
    })
}

fn millis(span: SimDuration) -> f64 {
    span.as_millis_f64()
}

proptest! {
    #![proptest_config(crate::support::random_cases(60))]

    #[test]
    fn parts_add_up_to_the_time_of_the_request(draft in scenarios(), percentile in 1_u32..=100) {
        let mut explain = asked(draft);
        explain.percentile = percentile.into();
        let found = match explain.run() {
            Err(ExplainError::NoAnswer(_)) => return Ok(()),
            found => found.unwrap_or_else(|error| panic!("{error}")),
        };
        for one in std::iter::once(&found.request).chain(&found.median) {
            prop_assert_eq!(one.account.parts.len(), PartKind::COUNT);
            prop_assert_eq!(millis(one.account.total()).to_bits(), one.e2e_ms.to_bits(), "{:?}", one);
            prop_assert_eq!(millis(one.account.ttft()).to_bits(), one.ttft_ms.to_bits(), "{:?}", one);
            let retried = one.account.of(PartKind::Retries) > SimDuration::ZERO;
            prop_assert_eq!(retried, one.attempts > 1, "{:?}", one);
        }
    }
}

#[test]
fn the_scenarios_of_the_law_meet_every_part() {
    // A law of parts that are never there says nothing.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut met: Vec<PartKind> = Vec::new();
    for _ in 0..40 {
        let draft = scenarios().new_tree(&mut runner).expect("a scenario").current();
        let mut explain = asked(draft);
        for percentile in [60.0, 100.0] {
            explain.percentile = percentile;
            let Ok(found) = explain.run() else { continue };
            let there =
                found.request.account.parts.iter().filter(|part| part.span > SimDuration::ZERO);
            met.extend(there.map(|part| part.kind));
        }
    }
    let missed: Vec<PartKind> =
        PartKind::ALL.into_iter().filter(|kind| !met.contains(kind)).collect();
    let rare = [PartKind::PreemptedBefore];
    assert!(missed.iter().all(|kind| rare.contains(kind)), "{missed:?}");
}

/// Steps take 1 ms + 10 µs a prompt token; the engine is synchronous.
const BY_HAND: [(&str, &str); 5] = [
    (
        "cluster.step_time",
        "{ type = 'linear', base_us = 1000.0, prefill_token_us = 10.0, decode_seq_us = 0.0 }",
    ),
    (
        "cluster.engine",
        "{ type = 'vllm_v1', max_model_len = 2048, async_scheduling = false, max_num_batched_tokens = 2048 }",
    ),
    ("workload.num_requests", "2"),
    ("workload.arrivals", "{ type = 'constant', rate_per_s = 400.0 }"),
    ("workload.lengths", "{ type = 'fixed', input_tokens = 100, output_tokens = 4 }"),
];

#[test]
fn a_small_run_is_as_worked_by_hand() {
    // The first request is sent at 0 or 2.5 ms, the other 2.5 ms later, each with 100 tokens and 4 answers:
    //   0.0 … 2.0  A prefills: 1 + 1 ms
    //   2.0 … 3.0  A decodes; B in the queue at 2.5
    //   3.0 … 5.0  A decodes beside B's prefill
    //   5.0 … 6.0  both decode; A is done
    //   6.0 … 8.0  B decodes
    let mut explain = asked(with(&BY_HAND));
    let micros = |found: &Explained| {
        let parts = &found.request.account.parts;
        let there = parts.iter().filter(|part| part.span > SimDuration::ZERO);
        there.map(|part| (part.kind, part.span.as_nanos() / 1000)).collect::<Vec<_>>()
    };
    explain.request = Some(0);
    let a = explained(&explain);
    let expected = [(PartKind::Prefill, 2000), (PartKind::Decode, 2000), (PartKind::Stalled, 2000)];
    assert_eq!(micros(&a), expected);
    assert_eq!((a.request.around.decode_steps, a.request.around.mixed_steps), (3, 1));
    assert_eq!(a.request.around.found[0].running, 0);
    explain.request = Some(1);
    let b = explained(&explain);
    let expected = [(PartKind::Queued, 500), (PartKind::Prefill, 2000), (PartKind::Decode, 3000)];
    assert_eq!(micros(&b), expected);
    assert_eq!((b.request.around.prefill_steps, b.request.around.prefill_tokens), (1, 100));
    assert_eq!((b.request.around.found[0].running, b.request.around.found[0].waiting), (1, 0));
    // Of two, the slower is at every percentile above 50: A by E2E, B by TTFT.
    explain.request = None;
    assert_eq!(explained(&explain).request.request, 0);
    explain.metric = Some(Metric::Ttft);
    let slow = explained(&explain);
    assert_eq!((slow.request.request, slow.faster, slow.answered), (1, 1, 2));
    assert!(slow.is_at_percentile);
}

#[test]
fn a_step_that_is_decided_ahead_waits_for_those_in_flight() {
    // As before, but each step is decided while the one before it runs. B is sent while A's third step is in flight:
    //   3.0        the second step has ended, the fourth is decided: A decodes beside B's prefill
    //   3.0 … 4.0  A's third step
    //   4.0 … 6.0  the fourth
    let engine =
        ("cluster.engine", "{ type = 'vllm_v1', max_model_len = 2048, async_scheduling = true }");
    let parts = |more: &[(&str, &str)]| {
        let mut explain = asked(with(&[&BY_HAND[..], &[engine], more].concat()));
        explain.request = Some(1);
        let found = explained(&explain);
        let of = |kind| found.request.account.of(kind).as_nanos() / 1000;
        let parts = [PartKind::Queued, PartKind::FirstStepWait, PartKind::Prefill].map(of);
        (parts, found)
    };
    let (of_b, found) = parts(&[]);
    assert_eq!(of_b, [500, 1000, 2000]);
    // What the host takes to learn an outcome is no part of it: the device has started before.
    let slow = ("cluster.engine.host", "{ post_process_us = 300.0 }");
    let (of_slow, _) = parts(&[slow]);
    assert_eq!(of_slow[2], 2300, "the step, and the host that learns of it");
    assert!(of_slow[1] < 1000, "decided later while the device works: {of_slow:?}");
    let text = found.account_text();
    assert!(text.contains("until its first step starts"), "{text}");
}

/// A host that takes time for each step.
const HOST: &str = "{ schedule_us = 300.0, launch_us = 200.0, post_process_us = 200.0 }";

#[test]
fn what_hides_the_host_is_judged_where_the_host_takes_time() {
    let sglang = "{ type = 'sglang', context_length = 2048 }";
    let ranking = |settings: &[(&str, &str)]| {
        let mut explain = Explain::new(with(settings));
        explain.seeds = 3;
        let found = explained(&explain);
        let text = found.to_string();
        (found.ranking.expect("changes were tried"), text)
    };
    let step_time = "cluster.step_time";
    let constant = "{ type = 'roofline', calibration = { per_step_us = 860.0 } }";
    let factors = "{ type = 'roofline', calibration = { products = 1.2 } }";
    let [asynchronous, overlap] =
        ["async_scheduling true → false", "disable_overlap_schedule false → true"];
    for (settings, name, why) in [
        (
            &[(step_time, constant)][..],
            asynchronous,
            "the calibration takes the host as a constant: per_step_us = 860",
        ),
        (&[(step_time, constant), ("cluster.engine", sglang)], overlap, "per_step_us = 860"),
        (&[(step_time, factors)], asynchronous, "the calibration holds the host's time"),
        (&[], asynchronous, "the step times of `linear` hold the host's time"),
        (&[(step_time, "{ type = 'roofline' }")], asynchronous, "the host of a step takes no time"),
        // Once is no time of the steps.
        (&[("cluster.engine.host", "{ warm_up_us = 1e5 }")], asynchronous, "`linear` hold"),
    ] {
        let (ranking, text) = ranking(settings);
        let [one] = &ranking.not_judged[..] else { panic!("{:?}", ranking.not_judged) };
        assert_eq!(one.name, name);
        assert!(one.why.contains(why), "{}", one.why);
        assert!(text.contains(&format!("Not judged: {name} ({}", one.why)), "{text}");
        assert!(ranking.changes.iter().all(|one| one.change.name != name), "{name}");
    }
    for engine in [
        format!("{{ type = 'vllm_v1', max_model_len = 2048, host = {HOST} }}"),
        format!("{{ type = 'sglang', context_length = 2048, host = {HOST} }}"),
    ] {
        let (ranking, text) = ranking(&[(step_time, constant), ("cluster.engine", &engine)]);
        assert_eq!(ranking.not_judged, []);
        assert!(!text.contains("Not judged"), "{text}");
        let mut names = ranking.changes.iter().map(|one| one.change.name.as_str());
        assert!(names.any(|name| [asynchronous, overlap].contains(&name)), "{engine}");
    }
}

#[test]
fn a_change_is_what_a_comparison_finds() {
    let draft = with(&[("workload.arrivals.rate_per_s", "80.0"), ("cluster.engine.host", HOST)]);
    let mut explain = Explain::new(draft.clone());
    (explain.seeds, explain.full) = (3, true);
    let found = explained(&explain);
    let ranking = found.ranking.as_ref().expect("changes were tried");
    let of = |name: &str| {
        let mut all = ranking.changes.iter().chain(&ranking.less_load);
        all.find(|one| one.change.name.starts_with(name)).unwrap_or_else(|| panic!("{name}"))
    };
    for (name, path, value) in [
        ("replicas 1 → 2", "cluster.replicas", 2.into()),
        ("async_scheduling true → false", "cluster.engine.async_scheduling", false.into()),
        ("10 % fewer", "workload.arrivals.rate_per_s", toml::Value::from(72.0)),
    ] {
        let other = draft.clone().with(path, value).expect("a setting");
        let mut compare = Compare::new(vec![draft.clone(), other]);
        compare.seeds = [3, 3];
        let compared = compare.read().and_then(servecast::compare::Contest::run);
        let compared = compared.unwrap_or_else(|error| panic!("{error}"));
        let expected = compared.difference(1, "p99_e2el_ms").expect("requests were answered");
        let one = of(name);
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
        assert!(close(one.now_ms, expected.mean_a), "{one:?} {expected:?}");
        assert!(close(one.then_ms, expected.mean_b), "{one:?} {expected:?}");
        assert!(
            one.half_width_ms.is_some_and(|own| close(own, expected.half_width)),
            "{one:?} {expected:?}"
        );
    }
    assert_eq!((found.gpus, of("replicas 1 → 2").gpus), (1, 2));
    // The order: what is better first, the most first.
    let better = ranking.changes.iter().take_while(|one| one.is_better()).count();
    assert!(ranking.changes[better..].iter().all(|one| !one.is_better()));
    let sizes: Vec<f64> = ranking.changes[..better].iter().map(|one| -one.difference_ms).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
}

#[test]
fn verdicts_are_of_all_changes_together() {
    // Of few seeds some differences stand by themselves and not among all.
    let mut unsure = 0;
    for seed in 0..4 {
        let mut explain = Explain::new(small().with_seed(seed).expect("a seed"));
        explain.seeds = 4;
        let ranking = explained(&explain).ranking.expect("changes were tried");
        let p_value = |one: &Ranked| {
            let of_all_seeds = one.p_value.filter(|_| one.seeds == ranking.seeds);
            of_all_seeds.unwrap_or(1.0)
        };
        let p_values: Vec<f64> = ranking.changes.iter().map(p_value).collect();
        let stands = servecast::compare::holm(&p_values, 0.95);
        for (one, stands) in ranking.changes.iter().zip(stands) {
            assert_eq!(one.differs(), stands, "{one:?}");
            let is_unsure = !stands && one.p_value.is_some_and(|p| p < 0.05) && !one.seems_worse();
            assert_eq!(one.is_unsure(), is_unsure, "{one:?}");
        }
        unsure += ranking.changes.iter().filter(|one| one.is_unsure()).count();
    }
    assert!(unsure > 0);
}

#[test]
fn what_makes_no_difference_is_given_up() {
    let ranking = explained(&Explain::new(small())).ranking.expect("changes were tried");
    let of = |name: &str| {
        let found = ranking.changes.iter().find(|one| one.change.name == name);
        found.unwrap_or_else(|| panic!("{name}"))
    };
    // No more than thirty requests run at a time.
    let same = of("max_num_seqs 1024 → 2048");
    assert_eq!((same.seeds, same.verdict, same.difference_ms), (1, "identical", 0.0));
    assert_eq!((ranking.seeds, of("replicas 1 → 2").seeds), (8, 8));
    for one in &ranking.changes {
        assert!([1, 3, 8].contains(&one.seeds), "{one:?}");
        assert_eq!(one.seeds < 8, one.given_up.is_some(), "{one:?}");
        assert!(one.given_up.is_none() || !one.differs(), "{one:?}");
        // One seed has no interval, and tells nothing of chance.
        let is_known = (one.half_width_ms.is_some(), one.p_value.is_some());
        assert_eq!(is_known, (one.seeds > 1, one.seeds > 1), "{one:?}");
    }
    // Where no seed changes anything three seeds are enough.
    let fixed = with(&BY_HAND).with("workload.num_requests", 1).expect("a number");
    let ranking = explained(&Explain::new(fixed)).ranking.expect("changes were tried");
    assert_eq!(ranking.seeds, 3);
}

#[test]
fn what_may_help_much_gets_all_seeds() {
    // Few requests, whose highest latency differs from seed to seed.
    let few = [
        ("cluster.replicas", "2"),
        ("workload.num_requests", "10"),
        ("workload.arrivals.rate_per_s", "200.0"),
    ];
    for seed in 0..8 {
        let mut explain = Explain::new(with(&few).with_seed(seed).expect("a seed"));
        explain.metric = Some(Metric::Ttft);
        let ranking = explained(&explain).ranking.expect("changes were tried");
        for one in ranking.changes.iter().filter(|one| one.seeds < ranking.seeds) {
            assert!(one.difference_ms >= -0.1 * one.now_ms, "seed {seed}: {one:?}");
        }
    }
}

#[test]
fn whether_seeds_change_requests_is_seen_in_the_requests() {
    let sampled = "{ type = 'uniform', min_tokens = 20, max_tokens = 160 }";
    let sampled =
        format!("{{ type = 'sampled', input_tokens = {sampled}, output_tokens = {sampled} }}");
    let fixed = "{ type = 'fixed', input_tokens = 100, output_tokens = 10 }";
    let constant = "{ type = 'constant', rate_per_s = 0.05 }";
    let poisson = "{ type = 'poisson', rate_per_s = 0.0005 }";
    let same = "8 seeds, the same requests; ";
    for (arrivals, lengths, told) in [
        (poisson, sampled.as_str(), same),
        (constant, sampled.as_str(), same),
        // Alone, each takes the same time.
        (poisson, fixed, "3 seeds, the same requests; "),
        (constant, fixed, "no seed changes these requests: it says nothing of others"),
    ] {
        let settings = [("workload.arrivals", arrivals), ("workload.lengths", lengths)];
        let found = explained(&Explain::new(with(&settings)));
        let text = found.to_string();
        let ranking = found.ranking.expect("changes were tried");
        // No change does anything to a request that is alone.
        assert!(ranking.changes.iter().all(|one| one.seeds == 1 || told != same), "{ranking:#?}");
        assert!(text.contains(told), "{arrivals} {lengths}: {text}");
    }
}

#[test]
fn what_is_given_up_is_no_remedy_with_all_seeds() {
    // Requests wait for places: with fewer of them they wait longer.
    let engine = "{ type = 'vllm_v1', max_model_len = 2048, max_num_batched_tokens = 2048, max_num_seqs = 16 }";
    let mut explain = Explain::new(with(&[("cluster.engine", engine)]));
    explain.seeds = 6;
    let quick = explained(&explain);
    explain.full = true;
    let full = explained(&explain).ranking.expect("changes were tried");
    let text = quick.to_string();
    assert!(text.contains("Seems worse, in the first seeds: "), "{text}");
    let quick = quick.ranking.expect("changes were tried");
    assert!(quick.changes.iter().any(Ranked::seems_worse), "{quick:#?}");
    assert!(!full.changes.iter().any(Ranked::seems_worse));
    let runs = |of: &Ranking| of.changes.iter().map(|one| one.seeds).sum::<u32>();
    assert!(runs(&quick) < runs(&full));
    for one in &quick.changes {
        let same = full.changes.iter().find(|other| other.change == one.change);
        let same = same.expect("the same changes are tried");
        if one.given_up.is_some() {
            assert!(!same.is_better(), "{one:?} {same:?}");
        } else {
            let figures = |of: &Ranked| (of.now_ms, of.then_ms, of.p_value, of.seeds);
            assert_eq!(figures(one), figures(same));
        }
    }
}

#[test]
fn changes_are_tried_on_as_many_requests_as_tell_the_percentile() {
    let short = "{ type = 'fixed', input_tokens = 20, output_tokens = 2 }";
    let tried_with = |more: &[(&str, &str)], full: bool| {
        let own = [("workload.num_requests", "4100"), ("workload.lengths", short)];
        let settings = [&own[..], more].concat();
        let mut explain = Explain::new(with(&settings));
        (explain.percentile, explain.seeds, explain.full) = (50.0, 3, full);
        let found = explained(&explain);
        (found.ranking.as_ref().expect("changes were tried").num_requests, found.to_string())
    };
    let tried_on = |arrivals: &str, full| tried_with(&[("workload.arrivals", arrivals)], full);
    let steady = "{ type = 'poisson', rate_per_s = 300.0 }";
    let (count, text) = tried_on(steady, false);
    assert_eq!(count, Some(2000));
    assert!(text.contains("the same requests with num_requests = 2000"), "{text}");
    assert_eq!(tried_on(steady, true).0, None);
    // Of a burst those that come first do not wait as long as half of all; a day has its hours.
    assert_eq!(tried_on("{ type = 'all_at_once' }", false).0, None);
    let day = "{ type = 'sine', rate_per_s = 60.0, amplitude = 0.1, period_s = 40.0 }";
    assert_eq!(tried_on(day, false).0, None);
    // A ramp of fewer requests is at its end sooner: they are not the first of all.
    let ramp = "{ strategy = 'linear', start_rate_per_s = 30.0, end_rate_per_s = 60.0 }";
    let ramp = format!("{{ type = 'vllm', ramp_up = {ramp} }}");
    assert_eq!(tried_on(&ramp, false).0, None);
    assert_eq!(tried_on("{ type = 'vllm', rate_per_s = 60.0 }", false).0, Some(2000));
    // Of fewer requests fewer have the same prefix.
    let repeated =
        "{ type = 'prefix_repetition', prefix_tokens = 20, suffix_tokens = 20, output_tokens = 2 }";
    assert_eq!(tried_with(&[("workload.lengths", repeated)], false).0, None);
    // A short run ends before the popularity of adapters has moved on.
    let with_adapters = |drift: &str| {
        let zipf = "popularity = { type = 'zipf', exponent = 1.0 }";
        let mix = format!("{{ kinds = [{{ rank = 8, count = 4 }}], {zipf}{drift} }}");
        let own = [
            ("workload.arrivals", steady),
            ("workload.adapters", mix.as_str()),
            ("cluster.lora", "{}"),
            ("cluster.engine.max_loras", "4"),
        ];
        tried_with(&own, false).0
    };
    assert_eq!(with_adapters(", drift = { interval_s = 5.0 }"), None);
    assert_eq!(with_adapters(""), Some(2000));
}

#[test]
fn settings_are_tried_that_people_would_try() {
    let tried = |settings: &[(&str, &str)]| {
        let mut explain = Explain::new(with(settings));
        explain.seeds = 3;
        let ranking = explained(&explain).ranking.expect("changes were tried");
        let names = ranking.changes.into_iter().map(|one| one.change.name);
        names.chain(ranking.left_out.into_iter().map(|one| one.name)).collect::<Vec<String>>()
    };
    let vllm = "{ type = 'vllm_v1', max_model_len = 2048, max_num_batched_tokens = 8192, max_num_seqs = 300 }";
    let sglang = "{ type = 'sglang', context_length = 2048, chunked_prefill_size = 512, max_running_requests = 64 }";
    let sarathi =
        "{ type = 'sarathi', chunk_size = 512, max_num_seqs = 128, max_model_len = 2048 }";
    for (engine, expected) in [
        (
            vllm,
            &[
                "max_num_batched_tokens 8192 → 2048",
                "max_num_batched_tokens 8192 → 4096",
                "max_num_batched_tokens 8192 → 16384",
                "max_num_seqs 300 → 128",
                "max_num_seqs 300 → 256",
                "max_num_seqs 300 → 512",
                "max_num_seqs 300 → 1024",
                "tensor_parallel_size 2 → 4",
                "tensor_parallel_size 2 → 1, replicas 2 → 4",
                "tensor_parallel_size 2 → 4, replicas 2 → 1",
                "replicas 2 → 3",
            ][..],
        ),
        (
            sglang,
            &[
                "chunked_prefill_size 512 → 256",
                "chunked_prefill_size 512 → 2048",
                "chunked_prefill_size 512 → 16384",
                "max_running_requests 64 → 16",
                "max_running_requests 64 → 256",
                "schedule_policy fcfs → lpm",
                "schedule_policy fcfs → lof",
            ],
        ),
        (sarathi, &["chunk_size 512 → 2048", "max_num_seqs 128 → 256"]),
    ] {
        let names = tried(&[
            ("cluster.engine", engine),
            ("cluster.replicas", "2"),
            ("cluster.tensor_parallel_size", "2"),
        ]);
        for name in expected {
            assert!(names.iter().any(|own| own == name), "{name} is not among {names:#?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("policy")), "{names:#?}");
    }
    let classes = "[{ name = 'a', share = 0.5, priority = 1 }, { name = 'b', share = 0.5 }]";
    let by_priority = "{ type = 'vllm_v1', max_model_len = 2048, policy = 'priority' }";
    let names = tried(&[("cluster.engine", by_priority), ("workload.classes", classes)]);
    assert!(names.iter().any(|name| name == "policy priority → fcfs"), "{names:#?}");
}

#[test]
fn the_latency_is_that_whose_slo_most_requests_miss() {
    let found = |settings: &[(&str, &str)]| explained(&asked(with(settings)));
    let none = found(&[]);
    assert_eq!((none.metric, none.slo), (Metric::E2e, None));
    let all = found(&[("report.goodput", "{ ttft = 20.0, tpot = 100000.0, e2el = 100000.0 }")]);
    let slo = all.slo.expect("it has SLOs");
    assert_eq!((all.metric, slo.metric, slo.limit_ms), (Metric::Ttft, Metric::Ttft, Some(20.0)));
    let run = with(&[]).run().expect("it runs");
    let late = run.recorder.requests.iter().filter(|one| one.ttft().as_millis_f64() > 20.0);
    assert_eq!((slo.missed, slo.of, slo.slos), (late.count(), 30, 3));
    assert!(slo.missed > 0);
    // Of those that nobody misses the one that comes nearest to its limit.
    let kept = found(&[("report.goodput", "{ ttft = 100000.0, e2el = 20000.0 }")]);
    let slo = kept.slo.expect("it has SLOs");
    assert_eq!((slo.metric, slo.missed), (Metric::E2e, 0));
    // A class has limits of its own.
    let classes = "[{ name = 'a', share = 0.5, tpot_ms = 0.001 }, { name = 'b', share = 0.5 }]";
    let classes = found(&[("workload.classes", classes)]);
    let slo = classes.slo.expect("a class has SLOs");
    assert_eq!((slo.metric, slo.limit_ms), (Metric::Tpot, None));
    assert!(slo.missed > 0 && slo.of < 30, "{slo:?}");
    // Who asks for a latency gets it.
    let mut explain = asked(with(&[("report.goodput", "{ ttft = 20.0 }")]));
    explain.metric = Some(Metric::Tpot);
    let asked_for = explained(&explain);
    assert_eq!((asked_for.metric, asked_for.slo), (Metric::Tpot, None));
}

#[test]
fn a_prompt_that_another_replica_decodes_took_the_steps_that_prefilled_it() {
    // 100 tokens fit into one step; vLLM computes the last of them once more where it decodes.
    let apart = "{ prefill_replicas = 1, decode_replicas = 1, transfer = { nic_gb_per_s = 5.0, efficiency = 0.9, latency_us = 20.0 } }";
    let lengths = "{ type = 'fixed', input_tokens = 100, output_tokens = 4 }";
    let draft = with(&[
        ("cluster.replicas", "2"),
        ("cluster.disaggregation", apart),
        ("workload.lengths", lengths),
        ("workload.num_requests", "2"),
    ]);
    let mut explain = asked(draft);
    for request in [0, 1] {
        explain.request = Some(request);
        let around = explained(&explain).request.around;
        assert_eq!((around.prefill_steps, around.prefill_tokens), (1, 100));
        let came: Vec<Came> = around.found.iter().map(|found| found.came).collect();
        assert_eq!(came, [Came::Sent, Came::ToDecode]);
    }
}

/// Adapters that one of three replicas holds, and requests that move to the others.
const MOVES: &str = "
name = 'moves'
[cluster]
model = 'meta-llama/Llama-3.1-8B'
gpu = 'H100-SXM5-80GB'
host = 'none'
replicas = 3
router = { type = 'dlora_dispatch' }
step_time = { type = 'roofline' }
engine = { type = 'vllm_v1', max_loras = 2, max_num_seqs = 16 }
[cluster.lora]
max_host_adapters = 4
placement = { type = 'static', holders = [[0], [1], [2], [1, 2]] }
migration = { policy = 'periodic', interval_s = 3.0, request_threshold = 4.0, solver = 'greedy' }
[workload]
num_requests = 300
arrivals = { type = 'poisson', rate_per_s = 48.0 }
lengths = { type = 'sampled', input_tokens = { type = 'log_normal', median_tokens = 120, sigma = 0.8, max_tokens = 1500 }, output_tokens = { type = 'log_normal', median_tokens = 100, sigma = 0.7, max_tokens = 800 } }
[workload.adapters]
kinds = [{ count = 1, rank = 16, weight = 8.0 }, { count = 3, rank = 16 }]
popularity = { type = 'weights' }
";

#[test]
fn a_request_that_was_moved_is_said_to_be_moved() {
    let mut explain = asked(from_text(MOVES).expect("a scenario"));
    let mut moved = 0;
    for request in (0..300).step_by(10) {
        explain.request = Some(request);
        let found = explained(&explain);
        let came = found.request.around.found.iter().map(|queue| queue.came);
        let is_moved = came.into_iter().any(|came| came == Came::Moved);
        let text = found.to_string();
        assert_eq!(text.contains(", to which it was moved, had "), is_moved, "{text}");
        assert!(!text.contains("which decoded it"), "{text}");
        moved += usize::from(is_moved);
    }
    assert!(moved > 0);
}

#[test]
fn replicas_that_are_down_are_not_among_the_others() {
    // Replica 0 is down from 0.2 to 60 s, and the router knows it at once.
    let crash = "[{ type = 'crash', replica = 0, at_s = 0.2, down_s = 60.0, detection_s = 0.0 }]";
    let of = |replicas: &str| {
        let mut explain = asked(with(&[("cluster.replicas", replicas), ("faults", crash)]));
        explain.request = Some(29);
        explained(&explain)
    };
    let three = of("3");
    let choice = three.request.around.choice.expect("it was sent");
    assert_eq!((choice.replicas, choice.down), (2, 1));
    assert!(three.to_string().contains(" Another one held "), "{three}");
    let two = of("2");
    let choice = two.request.around.choice.expect("it was sent");
    assert_eq!((choice.replicas, choice.others, choice.down), (1, None, 1));
    assert!(two.to_string().contains(". 1 was down.\n"), "{two}");
}

#[test]
fn changes_that_break_a_rule_are_left_out() {
    // Eight GPUs have no half of a head, and the blocks are given.
    let draft = with(&[
        ("cluster.tensor_parallel_size", "4"),
        ("cluster.engine.num_gpu_blocks", "2000"),
        ("cluster.engine.max_num_batched_tokens", "256"),
    ]);
    let ranking = explained(&Explain::new(draft)).ranking.expect("changes were tried");
    let tried: Vec<&str> = ranking.changes.iter().map(|one| one.change.name.as_str()).collect();
    let left: Vec<&str> = ranking.left_out.iter().map(|one| one.name.as_str()).collect();
    assert!(left.contains(&"tensor_parallel_size 4 → 8"), "{left:?} {tried:?}");
    assert!(!tried.iter().any(|name| name.contains("gpu_memory_utilization")), "{tried:?}");
    assert!(!tried.iter().any(|name| name.starts_with("router")), "{tried:?}");
}

#[test]
fn the_resolved_scenario_of_a_run_gives_the_same_answer() {
    let mut explain = Explain::new(small());
    let own = explained(&explain);
    let resolved = explain.draft.resolve().expect("a scenario").text();
    explain.draft = from_text(&resolved).expect("a scenario");
    assert_eq!(explained(&explain), own);
}

#[test]
fn the_account_is_told_before_any_change_is_simulated() {
    let runs = Arc::new(AtomicUsize::new(0));
    let mut explain = Explain::new(small());
    let heard = runs.clone();
    explain.listener = Listener::new(move |note| {
        if let Note::Progress(progress) = note {
            heard.fetch_max(progress.ended, Ordering::Relaxed);
        }
    });
    let mut told = None;
    let found = explain.run_telling(|account| -> Result<(), ExplainError> {
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        told = Some(account.clone());
        Ok(())
    });
    let found = found.expect("it is explained");
    assert!(runs.load(Ordering::Relaxed) > 0);
    let told = told.expect("it was told");
    assert_eq!((told.ranking.as_ref(), told.ranking_text(Shown::All)), (None, String::new()));
    assert_eq!((&told.request, &told.median), (&found.request, &found.median));
    assert_eq!(found.to_string(), told.account_text() + &found.ranking_text(Shown::Notable));
    // Who cannot be told, such as a full disk, ends the work.
    runs.store(0, Ordering::Relaxed);
    let refused = explain.run_telling(|_| Err(ExplainError::NoAnswer("told")));
    assert!(matches!(refused, Err(ExplainError::NoAnswer("told"))), "{refused:?}");
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[test]
fn requests_that_were_not_answered_say_why() {
    let crash = "[{ type = 'crash', replica = 0, at_s = 0.2, down_s = 0.4, detection_s = 0.1 }]";
    let retries = "{ timeout_s = 30.0, retries = { max_retries = 6, backoff_s = 0.1 } }";
    let lost = with(&[("faults", crash)]);
    let refused = |draft: &Draft, request| {
        let mut explain = asked(draft.clone());
        explain.request = Some(request);
        explain.run().map(|found| found.request.request).map_err(|error| error.to_string())
    };
    let none = refused(&lost, 30).expect_err("there are 30");
    assert_eq!(none, "request 30: the run has 30 requests, numbered from 0");
    let failed: Vec<String> = (0..30).filter_map(|id| refused(&lost, id).err()).collect();
    assert!(!failed.is_empty());
    for why in failed {
        assert!(why.contains(": failed: its replica was lost"), "{why}");
    }
    let again = with(&[("faults", crash), ("workload.client", retries)]);
    // Attempts are numbered too, behind the thirty.
    let told = (0..90).filter_map(|id| Some((id, refused(&again, id).err()?)));
    let told: Vec<(u32, String)> =
        told.filter(|(_, why)| !why.contains("numbered from 0")).collect();
    let mut followed = 0;
    for (id, why) in told {
        // What failed for good is told as above; of the others the attempt after it is explained, unless that was sent
        // again itself.
        let Some((_, retry)) = why.split_once("sent again as request ") else {
            assert!(why.contains(": failed: "), "{why}");
            continue;
        };
        let retry: u32 = retry.split(';').next().expect("a number").parse().expect("a number");
        assert!(retry > id);
        let mut explain = asked(again.clone());
        explain.request = Some(retry);
        let Ok(found) = explain.run() else { continue };
        assert!(found.request.attempts > 1);
        assert!(found.request.account.of(PartKind::Retries) > SimDuration::ZERO);
        followed += 1;
    }
    assert!(followed > 0);
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut Explain), told: &str| {
        let mut explain = Explain::new(small());
        change(&mut explain);
        let error = explain.run().expect_err(told).to_string();
        assert!(error.contains(told), "{error}");
    };
    refused(|explain| explain.percentile = 0.0, "--percentile: must be within 1 and 100, got 0");
    refused(|explain| explain.percentile = f64::NAN, "--percentile: must be within 1 and 100");
    let share = "--percentile: must be within 1 and 100, got 0.99; 99 means P99";
    refused(|explain| explain.percentile = 0.99, share);
    refused(|explain| explain.seeds = 2, "--seeds: must be 0 or from 3 to 1000, got 2");
    refused(|explain| explain.confidence = 1.0, "--confidence: must be within");
    let draft =
        with(&[("workload.lengths", "{ type = 'fixed', input_tokens = 9, output_tokens = 1 }")]);
    let mut explain = asked(draft);
    explain.metric = Some(Metric::Tpot);
    let none = explain.run().expect_err("answers of one token").to_string();
    assert!(none.contains("no request of the run has TPOT"), "{none}");
    explain.request = Some(1);
    let none = explain.run().expect_err("answers of one token").to_string();
    assert!(none.contains("request 1: has one token"), "{none}");
}

//! `servecast profile probe` against servers of known laws.

mod mock;

use std::sync::{Mutex, PoisonError};

use super::Cli;
use mock::{Fault, Law, serve};

const LAW: Law = Law {
    delay: 6.0,
    prefill: 12.0,
    prefill_token: 0.1,
    decode: 4.0,
    decode_seq: 0.25,
    decode_context: 0.0004,
};

/// Held by tests that measure, so that they do not disturb each other.
static MEASURING: Mutex<()> = Mutex::new(());

const SMALL: &str = "--max-prompt-tokens 1024 --max-context-tokens 2048 --max-concurrency 16";

/// Found values by the last word of their path.
fn value(file: &toml::Table, key: &str) -> f64 {
    let all = file["parameters"].as_array().unwrap();
    let ends = |found: &&toml::Value| found["path"].as_str().unwrap().ends_with(key);
    all.iter().find(ends).unwrap()["value"].as_float().unwrap()
}

/// The figure at the beginning of the line that has these words.
fn outside(stdout: &str, words: &str) -> f64 {
    let line = stdout.lines().find(|line| line.contains(words)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn within(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() < share, "found {found}, expected {expected}");
}

#[ignore = "measures time, which other tests disturb: run with --ignored --test-threads 1"]
#[test]
fn the_law_of_a_server_is_found_within_three_percent_and_a_scenario_takes_it() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let cli = Cli::with_scenario();
    let url = serve(LAW, Fault::None);
    let words = format!("profile probe --url {url} {SMALL} --repetitions 2 --output found.toml");
    let ran = cli.words(&words).expect_exit(0);
    let stdout = ran.stdout();
    let file: toml::Table = cli.read("found.toml").parse().unwrap();
    // Shown with a failure.
    within(value(&file, "base_us"), 4000.0, 0.03);
    within(value(&file, "decode_seq_us"), 250.0, 0.03);
    within(value(&file, "prefill_token_us"), 100.0, 0.03);
    // The affine law has one constant: what a step that prefills has more is on the way, and so is
    // what client and loopback take themselves, which no law of the server bounds.
    let law = LAW.delay + LAW.prefill - LAW.decode;
    let delay = value(&file, "api_delay_ms");
    assert!(delay > 0.97 * law && delay < 1.5 * law, "found {delay}, expected {law} and a little");
    within(outside(&stdout, "context that decode"), 400.0, 0.03);
    cli.words("run s.toml --calibration found.toml --no-files").expect_exit(0);
}

#[ignore = "measures time, which other tests disturb: run with --ignored --test-threads 1"]
#[test]
fn with_a_gpu_the_calibration_of_its_step_times_is_fitted() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let cli = Cli::with_scenario();
    let url = serve(LAW, Fault::None);
    let words = format!(
        "profile probe --url {url} {SMALL} --repetitions 1 --gpu A10 --config Qwen/Qwen2.5-7B \
         --output found.toml"
    );
    cli.words(&words).expect_exit(0).stdout_has("are not separable by these rounds");
    assert!(cli.read("found.toml").contains("cluster.step_time.calibration.products"));
    let scenario = super::SCENARIO.lines().filter(|line| !line.starts_with("step_time"));
    let cli = cli.file("auto.toml", scenario.collect::<Vec<_>>().join("\n"));
    cli.words("run auto.toml --calibration found.toml --no-files").expect_exit(0);
}

#[test]
fn text_is_sent_where_token_ids_are_refused() {
    let url = serve(LAW, Fault::WantsText);
    let words = format!(
        "profile probe --url {url} --max-prompt-tokens 64 --max-context-tokens 256 \
         --max-concurrency 1 --repetitions 1"
    );
    // The mock counts two tokens a word.
    Cli::new().words(&words).expect_exit(0).stdout_has("first token, prompt of 128");
}

#[test]
fn a_dry_run_sends_nothing_and_says_what_would_be_sent() {
    let cli = Cli::new();
    let url = serve(LAW, Fault::Refuses);
    let words = format!("profile probe --url {url} {SMALL} --dry-run --output found.toml");
    let ran = cli.words(&words).expect_exit(0);
    ran.stderr_has("requests, ").stdout_has("1 request, 1024 tokens in, 1 out");
    assert!(!cli.path("found.toml").exists());
}

#[test]
fn every_way_in_which_a_server_fails_is_named() {
    for (fault, words) in [
        (Fault::DoesNotStream, "the server does not stream: answers with application/json"),
        (Fault::Refuses, "HTTP 500 Internal Server Error: the mock does not like it"),
        (Fault::Hangs, "no answer in time (--timeout)"),
        (Fault::Bundles, "start the server without speculative decoding"),
        (Fault::HangsUp, "/v1/completions: "),
    ] {
        let cli = Cli::new();
        let url = serve(LAW, fault);
        let line = format!("profile probe --url {url} --timeout 0.7 --output found.toml");
        cli.words(&line).expect_exit(2).stdout_is_empty().stderr_has(words);
        assert!(cli.left_behind(&[]).is_empty(), "{fault:?} leaves nothing behind");
    }
}

#[test]
fn servers_that_are_not_there_and_models_that_they_do_not_have_are_errors() {
    let cli = Cli::new().file("there.toml", "");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = serve(LAW, Fault::None);
    for (line, words) in [
        (format!("--url http://{free}"), "/v1/models: Connection refused"),
        ("--url https://localhost".to_owned(), "must begin with http://"),
        (format!("--url {url} --model other"), "offers no `other`; it offers `mock`"),
        (format!("--url {url} --gpu A10"), "--config: is needed, `mock` is not in the catalogue"),
        (format!("--url {url} --output there.toml"), "exists already"),
    ] {
        cli.words(&format!("profile probe {line}")).expect_exit(2).stderr_has(words);
    }
}

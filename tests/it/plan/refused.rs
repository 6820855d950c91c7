//! What cannot be planned is refused before anything is simulated.

use super::{STUDY, refused};
use crate::cli::Cli;

const SLO: [&str; 2] = ["--slo", "p99_ttft_ms<=500"];

#[test]
fn arguments_that_mean_nothing_are_refused_by_name() {
    for (arguments, words) in [
        (vec!["--slo", "p99_ttft<=500"], "`p99_ttft` is no latency"),
        (vec!["--slo", "p99_ttft_ms=500"], "has no `<=`"),
        (vec!["--slo", "gold:p99_ttft_ms<=500"], "`gold` is no class"),
        (vec!["--slo", "attainment>=0.9"], "report.goodput"),
        (vec!["--gpu", "H1000"], "--gpu: `H1000` is not in the catalogue"),
        (vec!["--set", "cluster.gpu=H1000"], ".toml: cluster.gpu: `H1000` is not in the catalogue"),
        (vec!["--set", "cluster.gpu=3"], ".toml: cluster.gpu: must name a GPU"),
        (vec!["--gpu", "H100,H100"], "twice"),
        (vec!["--price", "cheap"], "give low, high or GPU=USD"),
        (vec!["--price", "H100=-1"], "US dollars per hour"),
        (vec!["--price", "H1000=1"], "`H1000` is not in the catalogue"),
        (vec!["--vary", "cluster.engine.block_size"], "has no `=`"),
        (vec!["--vary", "cluster.gpu=A100,H200"], "is not varied: give --gpu"),
        (vec!["--vary", "workload.arrivals.rate_per_s=1,2"], "is not varied: all layouts serve"),
        (vec!["--vary", "cluster.engine.max_num_seqs=8,8"], "lists 8 twice"),
        (vec!["--layout", "mixed,mixed"], "name each layout once"),
        (vec!["--price", "A100=3"], "no layout has this GPU"),
        (vec!["--price", "H100=0"], "US dollars per hour"),
        (
            vec!["--set", "workload.lengths.output_tokens=1", "--slo", "p99_tpot_ms<=20"],
            "no requests with answers",
        ),
        (vec!["--window", "1e-7"], "--window: must be at least"),
        (vec!["--vary", "cluster.engine.block_size=16,"], "a value is empty"),
        (vec!["--vary", "cluster.engine.blocks=1"], "unknown key `blocks`"),
        (vec!["--window", "0"], "--window: must be above 0"),
        (vec!["--tensor-parallel", "0"], "must be a whole number from 1 to 64"),
        (vec!["--max-gpus", "0"], "must be a whole number from 1 to"),
        (vec!["--set", "cluster.autoscaler.max_replicas=3"], "cluster.autoscaler: a plan"),
        (
            vec!["--set", "workload.client.max_concurrency=3"],
            "workload.client.max_concurrency: a plan",
        ),
        (vec!["--set", "workload.arrivals.type=all_at_once"], "rate_per_s"),
        (vec!["--set", "workload.arrivals={ type = 'all_at_once' }"], "240 at one moment"),
    ] {
        let with_slo =
            if arguments[0] == "--slo" { arguments } else { [&SLO[..], &arguments].concat() };
        let problem = refused(&with_slo).stderr();
        assert!(problem.contains(words), "{with_slo:?}: {problem}");
    }
    refused(&[]).stderr_has("--slo");
}

#[test]
fn a_scenario_that_is_several_or_waits_for_answers_is_refused() {
    let with = |more: &str| Cli::new().file("study.toml", format!("{STUDY}{more}"));
    for (more, words) in [
        ("[[variants]]\nname = 'x'\n", "variants: a plan takes one scenario"),
        ("[[cluster.groups]]\nreplicas = 1\n", "cluster.groups: a plan chooses"),
        ("[workload.sessions]\nturns = { type = 'fixed', tokens = 3 }\n", "sessions"),
    ] {
        let ran = with(more).run([&["plan", "study.toml"], &SLO[..]].concat());
        let problem = ran.expect_exit(2).stdout_is_empty().stderr();
        assert!(problem.contains(words), "{more}: {problem}");
    }
}

//! GPUs from files of the user's own, wherever one of the catalogue is named.

use serde_json::Value;

use super::Cli;

/// An L40S with twice its memory and half its speed.
const CARD: &str = r#"
like = "L40S"

[spec]
name = "slow card"
vendor = "NVIDIA"
architecture = "Ada"
form_factor = "PCIe"
bf16_tflops = 181.0
fp8_tflops = 366.0
memory_bytes = 95_400_000_000
memory_bandwidth_gb_s = 432.0
link = "PCIe"
link_gb_s = 32.0
gpus_per_domain = 8
pcie_gb_s = 32.0
price = { usd_per_hour_low = 0.4, usd_per_hour_high = 0.5, source = "ours" }
"#;

const SCENARIO: &str = r#"
name = "own"
[workload]
num_requests = 40
arrivals = { type = "poisson", rate_per_s = 1.0 }
lengths = { type = "fixed", input_tokens = 300, output_tokens = 40 }
[cluster]
model = "meta-llama/Llama-3.1-8B"
gpu = "cards/slow.toml"
step_time = { type = "roofline" }
"#;

fn cli() -> Cli {
    Cli::new().file("cards/slow.toml", CARD).file("s.toml", SCENARIO)
}

fn mean_tpot_ms(cli: &Cli, words: &str) -> f64 {
    let text = cli.words(&format!("{words} --no-files --format json")).expect_exit(0).stdout();
    let summary: Value = serde_json::from_str(&text).unwrap();
    summary["benchmark"]["mean_tpot_ms"].as_f64().unwrap()
}

#[test]
fn a_scenario_runs_on_a_gpu_of_ones_own() {
    let cli = cli();
    let own = mean_tpot_ms(&cli, "run s.toml");
    let known = mean_tpot_ms(&cli, "run s.toml --set cluster.gpu=L40S");
    assert!((1.8..2.1).contains(&(own / known)), "{own} ms for {known} ms at half the bandwidth");
    let told = cli.words("run s.toml --no-files").expect_exit(0);
    told.stderr_has("on 1 slow card").stderr_has("kernels of L40S stand in");
    let price = ["run", "s.toml", "--no-files", "--set", "report.prices={\"slow card\"=\"low\"}"];
    cli.run(price).expect_exit(0).stdout_has(" USD");
    let bill = |gpu: &str| {
        let set = format!("report.prices={{\"{gpu}\"=2.5}}");
        let ran = cli.run(["run", "s.toml", "--no-files", "--set", &set]).expect_exit(0).stdout();
        ran.lines().find(|line| line.contains(" USD")).map(str::to_owned)
    };
    assert!(bill("slow card").is_some(), "an hour has a price");
    assert_eq!(bill("cards/slow.toml"), bill("slow card"));
    let bench = "bench vllm bench serve --model meta-llama/Llama-3.1-8B --num-prompts 5 --no-files";
    cli.words(&format!("{bench} --gpu cards/slow.toml")).expect_exit(0).stderr_has("slow card");
    cli.words("profile show cards/slow.toml").expect_exit(0).stdout_has("slow card");
    let pair = "profile show meta-llama/Llama-3.1-8B --gpu cards/slow.toml";
    cli.words(pair).expect_exit(0).stdout_has("slow card");
}

#[test]
fn groups_and_plans_take_gpus_of_ones_own() {
    let cli = cli();
    let plan = "plan s.toml --slo p99_tpot_ms<=200 --gpu cards/slow.toml,L40S --price L40S=0.8 --resamples 0";
    cli.words(plan).expect_exit(0).stdout_has("Cheapest: 1 x slow card TP1 = 1 GPU, 0.40 USD/h");
    let of_scenario = "plan s.toml --slo p99_tpot_ms<=200 --resamples 0";
    cli.words(of_scenario).expect_exit(0).stdout_has("Cheapest: 1 x slow card TP1");
    let groups = SCENARIO.to_owned()
        + "[[cluster.groups]]\nreplicas = 1\n[[cluster.groups]]\nreplicas = 1\ngpu = 'L40S'\n";
    let cli = cli.file("g.toml", groups);
    cli.words("run g.toml --no-files").expect_exit(0).stderr_has("slow card").stderr_has("L40S");
    // Files that are written hold wherever they lie.
    cli.words("run s.toml --output-dir out").expect_exit(0);
    cli.words("run out/scenario.resolved.toml --no-files").expect_exit(0);
}

#[test]
fn a_plan_takes_the_price_of_a_gpu_by_its_file_or_the_name_in_it() {
    let cli = cli().file("lists/p.toml", "\"../cards/slow.toml\" = 2.5");
    let plan = |price: &[&str]| {
        let words = "plan s.toml --slo p99_tpot_ms<=200 --gpu cards/slow.toml --resamples 0";
        cli.run(words.split(' ').chain(price.iter().copied()))
    };
    for price in [
        ["--price", "cards/slow.toml=2.50"],
        ["--price", "./cards/../cards/slow.toml = 2.5"],
        ["--price", "slow card=2.5"],
        ["--price", "Slow Card=2.5"],
        ["--price-file", "lists/p.toml"],
        ["--set", "report.prices={\"cards/slow.toml\"=2.5}"],
    ] {
        plan(&price).expect_exit(0).stdout_has("1 x slow card TP1 = 1 GPU, 2.50 USD/h");
    }
    for (price, why) in [
        (
            "slow crd=2.5",
            "--price: `slow crd` is not in the catalogue of GPUs; did you mean `slow card`?",
        ),
        ("cards/none.toml=2.5", "--price: cards/none.toml: no such file"),
        ("cards/slow.toml=two", "--price cards/slow.toml=two: give US dollars per hour"),
        ("cards/slow.toml=0", "--price: cards/slow.toml=0: give US dollars per hour, above 0"),
        ("cards/slow.toml", "--price cards/slow.toml: give low, high or GPU=USD"),
    ] {
        plan(&["--price", price]).expect_exit(2).stdout_is_empty().stderr_has(why);
    }
    let twice = ["--price", "cards/slow.toml=2.5", "--price", "slow card=2"];
    plan(&twice).expect_exit(2).stderr_has("--price: slow card has two prices");
    let other = CARD.replace("slow card", "other card");
    let cli = cli.file("cards/other.toml", other);
    let words = "plan s.toml --slo p99_tpot_ms<=200 --price cards/other.toml=2";
    cli.words(words).expect_exit(2).stderr_has("--price: cards/other.toml: no layout has this GPU");
}

#[test]
fn prices_and_power_by_file_hold_on_whatever_gpu_the_cluster_runs() {
    let report = "[report.prices]\n\"./cards/slow.toml\" = 0.5\nL40S = 2.4\n\
                  [report.power.\"cards/../cards/slow.toml\"]\n\
                  idle_w = 50.0\nprefill_w = 300.0\ndecode_w = 200.0\n\
                  [report.power.L40S]\nidle_w = 50.0\nprefill_w = 300.0\ndecode_w = 200.0\n";
    let cli = cli().file("s.toml", SCENARIO.to_owned() + report);
    let cost = |words: &str| {
        let text = cli.words(&format!("{words} --format json")).expect_exit(0).stdout();
        let summary: Value = serde_json::from_str(&text).unwrap();
        let bill = &summary["bill"];
        bill["cost"]["usd"].as_f64().unwrap() / bill["gpu_hours"].as_f64().unwrap()
    };
    assert!((cost("run s.toml --no-files") - 0.5).abs() < 1e-9);
    // What is left behind can be run, with the file out of its reach.
    let known = "run s.toml --set cluster.gpu=L40S --output-dir out";
    assert!((cost(known) - 2.4).abs() < 1e-9);
    assert!((cost("run out --no-files") - 2.4).abs() < 1e-9);
    let swept = "sweep s.toml --vary cluster.gpu=cards/slow.toml,L40S --output-dir swept";
    cli.words(swept).expect_exit(0);
    let refused = |set: &str, why: &str| {
        let ran = cli.run(["run", "s.toml", "--no-files", "--set", set]).expect_exit(2);
        ran.stdout_is_empty().stderr_has(why);
    };
    let missing = "report.prices={\"cards/none.toml\"=0.5,\"slow card\"=1}";
    refused(missing, "report.prices: cards/none.toml: no such file");
    let other = ["run", "s.toml", "--no-files", "--set", "cluster.gpu=H100"];
    cli.run(other).expect_exit(2).stderr_has("report.prices: no price is given for `H100-SXM5");
    let twice = "report.prices={\"cards/slow.toml\"=0.5,\"./cards/slow.toml\"=1}";
    refused(twice, "report.prices: slow card is given twice, also as `cards/slow.toml`");
}

#[test]
fn all_keys_that_a_file_lacks_are_told_at_once_with_what_they_say() {
    let card = CARD.replace("form_factor = \"PCIe\"\n", "").replace("bf16_tflops", "int8_tops");
    let cli = Cli::new().file("cards/slow.toml", card).file("s.toml", SCENARIO);
    let told = "slow.toml: spec: 2 keys are missing:\n         \
                form_factor: socket or card, as in SXM or PCIe\n         \
                bf16_tflops: dense products of 16-bit floats, in 10¹² FLOP/s\n";
    for words in [
        "run s.toml --no-files",
        "profile show cards/slow.toml",
        "plan s.toml --slo p99_tpot_ms<=200 --gpu cards/slow.toml",
        "bench vllm bench serve --model meta-llama/Llama-3.1-8B --gpu cards/slow.toml",
    ] {
        cli.words(words).expect_exit(2).stdout_is_empty().stderr_has(told);
    }
}

#[test]
fn files_of_gpus_that_are_none_are_refused_with_what_is_wrong() {
    let refused = |card: &str, what: &str| {
        let cli = Cli::new().file("cards/slow.toml", card).file("s.toml", SCENARIO);
        cli.words("run s.toml --no-files").expect_exit(2).stdout_is_empty().stderr_has(what);
    };
    let with = |from: &str, to: &str| CARD.replace(from, to);
    refused(&with("like = \"L40S\"", ""), "slow.toml: spec: missing key `efficiency`: the shares");
    refused(
        &with("\"L40S\"", "\"L4OS\""),
        "like: `L4OS` is not in the catalogue of GPUs; did you mean `L40S`?",
    );
    refused(&with("slow card", "L40S"), "spec.name: `L40S` is L40S of the catalogue");
    let line = CARD.lines().position(|line| line.contains("432.0")).expect("it is there") + 1;
    refused(
        &with("432.0", "0.0"),
        &format!(
            "slow.toml: line {line}: spec.memory_bandwidth_gb_s: must be from 0.001 to 10⁹, got 0"
        ),
    );
    refused(&with("link_gb_s", "link_speed"), "spec.link_speed: unknown key `link_speed`");
    refused("", "slow.toml: spec: 12 keys are missing:");
    let cli = Cli::new().file("s.toml", SCENARIO);
    cli.words("run s.toml --no-files").expect_exit(2).stderr_has("slow.toml: no such file");
}

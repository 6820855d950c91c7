//! `servecast init`: what it writes runs, and what it refuses says what to do.

use super::Cli;

const LENGTHS: &str = "prompt_len,output_len\n400,20\n300,30\n800,10\n";
const TRACE: &str = "ts_ms;isl;osl\n0;400;20\n250;300;30\n900;800;10\n";

#[test]
fn what_init_writes_is_simulated_as_it_says() {
    for (options, says) in [
        ("", "model = \"Qwen/Qwen3-8B\""),
        (
            "--model Qwen/Qwen3-32B --gpu H200 --rate 0.5 --ttft 300 --tpot 20.5",
            "goodput = { ttft = 300, tpot = 20.5 }",
        ),
        ("--engine sglang --replicas 2 --input-len 300 --output-len 40", "type = \"sglang\""),
        ("--model meta-llama/Llama-3.1-70B --gpu H100", "tensor_parallel_size = 4"),
        ("--model meta-llama/Llama-3.1-70B --gpu H100 --tp 4 --rate 1", "tensor_parallel_size = 4"),
        ("--quantization fp8", "quantization = \"fp8\"\n"),
        (
            "--model openai/gpt-oss-20b --quantization mxfp4",
            "# Its matrices are stored as in the checkpoint: mxfp4.\n",
        ),
        ("--quantization none", "# Its matrices are stored as in the checkpoint: 16 bits.\n"),
        ("--model openai/gpt-oss-20b --quantization none", "quantization = \"none\"\n"),
        ("--input-len 16 --output-len 2", "input_tokens = 16, output_tokens = 2"),
        ("--trace log.csv", "path = \"log.csv\""),
        (
            "--trace named.csv --column arrival=a --column input=b --column output=c --time-unit ms",
            "time_unit = \"ms\"",
        ),
    ] {
        let named = TRACE.replace("ts_ms;isl;osl", "a;b;c");
        let cli = Cli::new().file("log.csv", TRACE).file("named.csv", named);
        let told = cli.words(&format!("init s.toml {options}")).expect_exit(0);
        let text = cli.read("s.toml");
        assert!(text.contains(says), "{options}:\n{text}");
        assert!(
            text.contains("`servecast schema` lists every key") && !text.contains("docs/"),
            "{text}"
        );
        assert!(text.lines().count() <= 40, "{text}");
        assert!(told.stdout().contains("servecast run s.toml"), "{}", told.stdout());
        let set = if options.contains("--trace") { "" } else { "--set workload.num_requests=20" };
        let block = cli.words(&format!("run s.toml --no-files {set}")).expect_exit(0).stdout();
        assert!(block.contains("goodput"), "{block}");
    }
}

#[test]
fn the_commands_it_ends_with_run() {
    let cli = Cli::new().file("log.csv", TRACE).file("lengths.csv", LENGTHS);
    for options in ["--rate 2", "--trace log.csv", "--trace lengths.csv --rate 3"] {
        let told = cli.words(&format!("init s.toml --overwrite {options}")).expect_exit(0).stdout();
        let commands: Vec<&str> =
            told.lines().filter_map(|line| line.strip_prefix("  servecast ")).collect();
        assert_eq!(commands.len(), 3, "{told}");
        assert!(commands[1].ends_with(" --slo 'p99_tpot_ms<=50' --tp 1,2,4,8"), "{told}");
        assert!(commands[2].starts_with("sweep s.toml --vary"), "{told}");
        let set = if options == "--rate 2" { " --set workload.num_requests=20" } else { "" };
        for command in [commands[0], commands[2]] {
            cli.words(&format!("{command}{set}")).expect_exit(0);
        }
        std::fs::remove_dir_all(cli.path("out")).unwrap();
    }
}

#[test]
fn what_init_writes_takes_disaggregation_and_groups() {
    let cli = Cli::new();
    cli.words("init s.toml").expect_exit(0);
    for (set, replicas) in [
        (
            "cluster.disaggregation={prefill_replicas=2,decode_replicas=2,transfer={nic_gb_per_s=6.25}}",
            "2 prefill",
        ),
        ("cluster.groups=[{replicas=2},{replicas=1}]", "on 3 GPUs"),
    ] {
        let words = format!("run s.toml --no-files --set workload.num_requests=20 --set {set}");
        cli.words(&words).expect_exit(0).stderr_has(replicas);
    }
    cli.words("init four.toml --replicas 4").expect_exit(0);
    assert!(cli.read("four.toml").contains("\nreplicas = 4\n"));
}

#[test]
fn nothing_is_written_where_the_answers_do_not_fit_together() {
    for (options, says) in [
        (
            "--model Qwen/Qwen3-8C",
            "--model: `Qwen/Qwen3-8C` is neither in the catalogue nor a local config.json; did you mean `Qwen/Qwen3-8B`? `servecast profile list` names the models",
        ),
        (
            "--gpu H10O",
            "--gpu: `H10O` is neither in the catalogue nor a file ending in .toml; did you mean `H100`?",
        ),
        (
            "--model meta-llama/Llama-3.1-70B --gpu H100 --tp 1",
            "--tp: meta-llama/Llama-3.1-70B does not fit at tensor parallel size 1",
        ),
        (
            "--model meta-llama/Llama-3.1-70B --gpu H100 --tp 1",
            "--tp 4 holds the model and one sequence of its full length",
        ),
        ("--model Qwen/Qwen3-8B --tp 3", "tensor parallel size must divide 32 heads"),
        (
            "--model deepseek-ai/DeepSeek-V3 --gpu L4",
            "--gpu: deepseek-ai/DeepSeek-V3 does not fit at tensor parallel size 8",
        ),
        ("--quantization fp6", "a similar value exists: 'fp8'"),
        ("--quantization awq", "[possible values: none, fp8, nvfp4, mxfp4, int8, int4]"),
        ("--trace none.csv", "--trace: none.csv: cannot be read"),
        ("--trace bad.csv", "--column prompt_tokens=plen"),
        ("--rate 0", "must be a number above 0, got `0`"),
        ("--input-len 1 --trace bad.csv", "cannot be used with"),
        (
            "--rate 1 --trace log.csv",
            "--rate: log.csv says when its requests come; leave --rate out",
        ),
        ("--column arrival=t", "--column: needs --trace, whose columns it names"),
        ("--time-unit ms", "--time-unit: needs --trace"),
        (
            "--input-len 32000",
            "--input-len: 32000 tokens and up to 30 % more must be below the longest sequence of Qwen/Qwen3-8B, 40960 tokens",
        ),
    ] {
        let cli = Cli::new().file("bad.csv", "arrival_s,plen,output_tokens\n0,1,1\n");
        let cli = cli.file("log.csv", TRACE);
        cli.words(&format!("init s.toml {options}")).expect_exit(2).stderr_has(says);
        assert_eq!(cli.left_behind(&["bad.csv", "log.csv"]), Vec::<String>::new(), "{options}");
    }
}

#[test]
fn a_file_that_is_there_is_kept_unless_it_is_to_be_replaced() {
    let cli = Cli::new().file("s.toml", "mine");
    let refused = cli.words("init s.toml").expect_exit(2);
    refused.stderr_has("s.toml: exists already").stderr_has("--overwrite");
    assert_eq!(cli.read("s.toml"), "mine");
    cli.words("init s.toml --overwrite").expect_exit(0);
    assert!(cli.read("s.toml").contains("[cluster]"));
}

#[test]
fn paths_hold_for_a_scenario_in_another_folder() {
    let cli = Cli::new().file("log.csv", TRACE).file("sub/keep", "");
    cli.words("init sub/s.toml --trace log.csv").expect_exit(0);
    cli.words("run sub/s.toml --no-files").expect_exit(0);
}

#[test]
fn a_format_takes_the_memory_of_that_format() {
    // 70.6e9 parameters in 16 bits need two H100 of 80 GB and more; in 8 bits two hold them.
    let cli = Cli::new();
    for (options, tp) in [("", 4), ("--quantization FP8", 2)] {
        let words = "init s.toml --overwrite --model meta-llama/Llama-3.1-70B --gpu H100";
        let told = cli.words(&format!("{words} {options}")).expect_exit(0);
        let text = cli.read("s.toml");
        assert!(text.contains(&format!("tensor_parallel_size = {tp}\n")), "{text}");
        assert_eq!(text.contains("quantization"), !options.is_empty(), "{text}");
        assert_eq!(told.stdout().contains("Llama-3.1-70B in fp8 on "), !options.is_empty());
    }
}

#[test]
fn the_default_scenario_reads_as_it_does() {
    let cli = Cli::new();
    let told = cli.words("init").expect_exit(0).stdout();
    insta::assert_snapshot!("init", format!("{told}\n{}", cli.read("scenario.toml")));
}

#[test]
fn a_trace_without_times_gets_a_rate() {
    let cli = Cli::new().file("lengths.csv", LENGTHS);
    for (options, rate) in [("--rate 3", 3), ("", 4)] {
        let told = cli.words(&format!("init s.toml --overwrite --trace lengths.csv {options}"));
        let told = told.expect_exit(0).stdout();
        let arrivals = format!("arrivals = {{ type = \"poisson\", rate_per_s = {rate} }}");
        let text = cli.read("s.toml");
        assert!(
            text.contains(&arrivals) && text.contains("lengths = { type = \"trace\" }"),
            "{text}"
        );
        assert!(told.contains(&format!("--vary workload.arrivals.rate_per_s={rate},")), "{told}");
        cli.words("run s.toml --no-files").expect_exit(0);
    }
}

#[test]
fn the_trace_is_not_replaced_by_the_scenario() {
    let cli = Cli::new().file("log.csv", TRACE).file("sub/keep", "");
    for name in ["log.csv", "./log.csv", "sub/../log.csv"] {
        let ran = cli.words(&format!("init {name} --trace log.csv --overwrite")).expect_exit(2);
        ran.stderr_has("is the trace; choose another name for the scenario");
        assert_eq!(cli.read("log.csv"), TRACE);
    }
}

#[test]
fn the_plan_that_is_proposed_has_the_sizes_that_hold_the_model() {
    let large = Cli::new().words("init --model meta-llama/Llama-3.1-70B").expect_exit(0);
    large.stdout_has("--slo 'p99_tpot_ms<=50' --tp 4,8\n");
}

#[test]
fn the_file_ends_as_its_format_does() {
    for name in ["s.yaml", "s.json", "s"] {
        let cli = Cli::new();
        let says =
            format!("{name}: a scenario is written as TOML; give it a name that ends in `.toml`");
        cli.words(&format!("init {name}")).expect_exit(2).stderr_has(&says);
        assert_eq!(cli.left_behind(&[]), Vec::<String>::new(), "{name}");
    }
    Cli::new().words("init /dev/stdout").expect_exit(0);
}

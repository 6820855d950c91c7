//! What is too much for memory is refused with the figure, before it is begun.

use std::io::Write;

use super::{BINARY, Cli, Ran, SCENARIO};

/// Runs words in a process that may take so many KiB.
fn within(cli: &Cli, kib: u32, words: &str) -> Ran {
    let limited = format!("ulimit -v {kib}; exec \"$@\"");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &limited, "sh", BINARY]).args(words.split_whitespace());
    Ran(command.current_dir(cli.path("")).output().unwrap())
}

#[test]
fn runs_that_need_more_memory_than_there_is_are_refused_with_the_figure() {
    let cli = Cli::with_scenario().file("t.toml", SCENARIO.replace("\"small\"", "\"other\""));
    for words in [
        "run s.toml --output-dir out",
        "compare s.toml t.toml",
        "plan s.toml --slo p99_ttft_ms<=900",
    ] {
        let refused =
            within(&cli, 4_000_000, &format!("{words} --set workload.num_requests=1000000000"));
        let refused = refused.expect_exit(2);
        refused
            .stderr_has("1000000000 requests on 1 replica need 220.0 GB of memory or more, and ");
    }
    // Nothing is left of requests of which nobody wants records, but a tool draws them all at first.
    let words =
        "bench vllm bench serve --model Qwen/Qwen2.5-7B --gpu H100 --num-prompts 2147483648";
    let refused = within(&cli, 4_000_000, &format!("{words} --no-files")).expect_exit(2);
    refused.stderr_has("2147483648 requests on 1 replica need 43.2 GB of memory or more, and ");
    let many = "--set cluster.replicas=100000 --set workload.num_requests=1000000";
    let refused = within(&cli, 8_000_000, &format!("run s.toml --no-files {many}")).expect_exit(2);
    refused.stderr_has("need 17.7 GB of memory or more");
    // A duration says how many come, and what may not fit is warned of.
    let long = "--set workload.num_requests=5000000 --set workload.duration_s=1";
    within(&cli, 4_000_000, &format!("run s.toml --no-files {long}")).expect_exit(0);
    let some = "--set workload.num_requests=300000 --set workload.arrivals.rate_per_s=1000000";
    let warned = within(&cli, 330_000, &format!("run s.toml --no-files {some}"));
    warned.stderr_has("300000 requests on 1 replica may need up to 280 MB of memory if they come ");
}

#[test]
fn paths_of_settings_have_a_bound() {
    let path = vec!["a"; 50_000].join(".");
    let axes = format!("{SCENARIO}\n[sweep]\naxes = [{{ path = \"{path}\", values = [1] }}]\n");
    let variant =
        format!("{SCENARIO}\n[[variants]]\nname = \"v\"\n[variants.set]\n\"{path}\" = 1\n");
    let cli = Cli::with_scenario().file("axes.toml", axes).file("variant.toml", variant);
    let told = "a.a.a..: a path has at most 32 keys, got 50000";
    cli.words(&format!("run s.toml --no-files --set {path}=1")).expect_exit(2).stderr_has(told);
    cli.words("sweep axes.toml --output-dir out").expect_exit(2).stderr_has(told);
    cli.words("run variant.toml --no-files").expect_exit(2).stderr_has(told);
}

/// A row of 80 MiB in a file of less than 100 KiB, in 600 MB of memory.
#[test]
fn rows_that_are_too_long_are_refused() {
    let bomb = |start: &str, end: &str| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(start.as_bytes()).unwrap();
        let digits = vec![b'1'; 1 << 20];
        (0..80).for_each(|_| packed.write_all(&digits).unwrap());
        packed.write_all(end.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let header = "arrived_at,num_prefill_tokens,num_decode_tokens\n";
    let row = r#"{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["#;
    let cli = Cli::with_scenario()
        .file("row.csv.gz", bomb(header, ",1,1\n"))
        .file("header.csv.gz", bomb("", "\n"))
        .file("row.jsonl.gz", bomb(row, "]}\n"))
        .file("accepted.jsonl.gz", bomb("{\"request\": 0, \"accepted\": [", "]}\n"));
    for trace in ["row.csv.gz", "header.csv.gz", "row.jsonl.gz"] {
        let refused = within(&cli, 600_000, &format!("trace describe {trace}")).expect_exit(2);
        refused.stderr_has("a row is longer than 64 MiB");
    }
    let settings = "--set cluster.engine.speculation.method=eagle --set \
                    cluster.engine.speculation.num_speculative_tokens=3 --set \
                    cluster.engine.speculation.acceptance={type=\"recorded\",path=\"accepted.jsonl.gz\"}";
    let refused = within(&cli, 600_000, &format!("run s.toml --no-files {settings}"));
    refused.expect_exit(2).stderr_has("a row is longer than 64 MiB");
    let document = vec![b' '; (16 << 20) + 1];
    let cli = cli.file("s.toml", &document);
    cli.words("run s.toml --no-files").expect_exit(2).stderr_has("s.toml: is longer than 16 MiB");
}

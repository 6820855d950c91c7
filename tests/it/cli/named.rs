//! What errors name: the file, the key, the value, and the spelling that works.

use std::io::Write;

use super::{Cli, SCENARIO};

#[test]
fn a_path_without_quotes_in_a_variant_is_told_how_to_be_written() {
    for (written, place, right) in [
        ("set.cluster.replicas = 2", "set.cluster", "\"cluster.replicas\" = 2"),
        ("set = { cluster.replicas = 2 }", "set.cluster", "\"cluster.replicas\" = 2"),
        (
            "[variants.set]\nworkload.num_requests = 9",
            "set.workload",
            "\"workload.num_requests\" = 9",
        ),
        (
            "set.cluster.engine = { type = \"sglang\" }",
            "set.cluster",
            "\"cluster.engine\" = { type = \"sglang\" }",
        ),
        (
            "set.cluster.engine = { max_running_requests = 8, type = \"sglang\" }",
            "set.cluster",
            "\"cluster.engine\" = { max_running_requests = 8, type = \"sglang\" }",
        ),
        (
            "set.cluster = { replicas = 2, tensor_parallel = 2 }",
            "set.cluster",
            "\"cluster.replicas\" = 2, \"cluster.tensor_parallel\" = 2",
        ),
    ] {
        let text = format!("{SCENARIO}\n[[variants]]\nname = \"b\"\n{written}\n");
        let refused = Cli::new().file("v.toml", text).words("run v.toml --no-files");
        refused.expect_exit(2).stderr_has(&format!(
            "v.toml: variants[0].{place}: a path must be in quotes; write `set = {{ {right} }}`"
        ));
    }
}

#[test]
fn what_is_no_list_of_variants_is_told_in_one_line() {
    for (written, told) in [
        (
            "[variants]\nname = \"b\"",
            "v.toml: variants: must be a list of tables, `[[variants]]`, got ",
        ),
        ("[[variants]]\nset = {}", "v.toml: variants[0]: missing key `name`"),
        (
            "[[variants]]\nname = \"b\"\nset = [1]",
            "v.toml: variants[0].set: must be a table, got a list",
        ),
        (
            "[[variants]]\nname = \"b\"\nsets = {}",
            "v.toml: variants[0].sets: unknown key `sets`; did you mean `set`?",
        ),
    ] {
        let text = format!("{SCENARIO}\n{written}\n");
        let refused = Cli::new().file("v.toml", text).words("run v.toml --no-files").expect_exit(2);
        assert_eq!(refused.stderr().lines().count(), 1);
        refused.stderr_has(told);
    }
}

#[test]
fn a_missing_key_is_looked_for_in_the_table_that_lacks_it() {
    for (lengths, told) in [
        ("{type='fixed',input_tokens=9}", "workload.lengths: missing key `output_tokens`"),
        (
            "{type='sampled',input_tokens={type='fixed',tokens=5}}",
            "workload.lengths: missing key `output_tokens`",
        ),
        (
            "{type='sampled',input_tokens={type='uniform',min_tokens=5},output_tokens={type='fixed',tokens=5}}",
            "workload.lengths.input_tokens: missing key `max_tokens`",
        ),
        (
            "{type='sampled',input_tokens={type='fixed',tokens=5},output_tokens={tokens=5}}",
            "workload.lengths.output_tokens: missing key `type`",
        ),
    ] {
        let set = format!("workload.lengths={lengths}");
        let refused = Cli::with_scenario().run(["run", "s.toml", "--no-files", "--set", &set]);
        refused.expect_exit(2).stderr_has(told);
    }
}

#[test]
fn negative_numbers_are_told_the_rule() {
    let cli = Cli::with_scenario();
    for (words, told) in [
        ("run s.toml --seed -1", "'--seed <SEED>': must be a whole number of at least 0"),
        ("run s.toml --seeds -3", "'--seeds <N>': must be a whole number from 3 to 100000"),
        (
            "bench --model Qwen/Qwen3-8B --gpu H100 --num-prompts -1",
            "'--num-prompts <COUNT>': must be a whole number of at least 0",
        ),
        (
            "init new.toml --replicas -1",
            "'--replicas <COUNT>': must be a whole number from 1 to 100000",
        ),
        ("serve s.toml --port -1", "'--port <PORT>': must be a whole number from 0 to 65535"),
        ("run s.toml --set -1", "--set: `-1` has no `=`"),
    ] {
        let refused = cli.words(words).expect_exit(2);
        assert!(!refused.stderr().contains("tip:"), "{}", refused.stderr());
        refused.stderr_has(told);
    }
}

/// The small scenario, with the arrivals and lengths of a trace.
fn replayed(trace: &str) -> Cli {
    let workload = SCENARIO.find("[workload]").expect("it has a workload");
    let rest = SCENARIO[workload..].find("\n[").map_or("", |end| &SCENARIO[workload + end..]);
    let text = format!(
        "{}[trace]\npath = \"{trace}\"\n[workload]\narrivals = {{ type = \"trace\" }}\n\
         lengths = {{ type = \"trace\" }}\n{rest}",
        &SCENARIO[..workload]
    );
    Cli::new().file("s.toml", text)
}

#[test]
fn a_trace_that_gives_too_little_is_named_with_its_times() {
    let rows = "arrival_s,prompt_tokens,output_tokens\n0,100,10\n1.5,200,20\n9.25,50,5\n";
    let cli = replayed("t.csv").file("t.csv", rows);
    cli.words("run s.toml --no-files").expect_exit(0);
    for (set, told) in [
        (
            "workload.arrivals.window_start_s=20",
            "t.csv: none of its rows lies in the window from 20 s on: they come from 0 s to 9.25 s; move ",
        ),
        (
            "workload.num_requests=9",
            "t.csv: has 3 requests to give, workload.num_requests asks for 9; ask for fewer, or leave it out",
        ),
    ] {
        cli.words(&format!("run s.toml --no-files --set {set}")).expect_exit(2).stderr_has(told);
        // Studies, which keep the rows, say the same.
        let compared = format!("compare s.toml s.toml --set {set}");
        cli.words(&compared).expect_exit(2).stderr_has(told);
    }
}

#[test]
fn files_that_are_no_text_in_utf_8_or_cut_off_are_called_so() {
    let latin =
        SCENARIO.replace("small", "sm\u{e5}ll").chars().map(|c| c as u8).collect::<Vec<_>>();
    let line = SCENARIO[..SCENARIO.find("small").expect("its name")].matches('\n').count() + 1;
    let utf_16: Vec<u8> = std::iter::once('\u{feff}')
        .chain(SCENARIO.chars())
        .flat_map(|c| (c as u16).to_le_bytes())
        .collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writeln!(gzip, "arrival_s,prompt_tokens,output_tokens").expect("it compresses");
    for row in 0..500 {
        writeln!(gzip, "{row},{},{}", row * 7 % 90 + 1, row * 11 % 80 + 1).expect("it compresses");
    }
    let packed = gzip.finish().expect("it compresses");
    let cli = replayed("t.csv.gz")
        .file("latin.toml", latin)
        .file("wide.toml", &utf_16)
        .file("t.csv.gz", &packed[..packed.len() / 2]);
    let latin_told = format!(
        "latin.toml: must be text in UTF-8, got the byte 0xE5 in line {line}; save it as UTF-8"
    );
    for (file, told) in [
        ("latin.toml", latin_told.as_str()),
        ("wide.toml", "wide.toml: must be text in UTF-8, got UTF-16; save it as UTF-8"),
        ("s.toml", "t.csv.gz: ends before its gzip stream does; copy the whole file again"),
    ] {
        cli.words(&format!("run {file} --no-files")).expect_exit(2).stderr_has(told);
    }
}

#[test]
fn the_file_of_a_gpu_that_is_no_toml_is_told_with_its_line() {
    let text = "like = \"H100\"\n[spec]\nbf16_tflops = 5OO\n";
    let cli = Cli::with_scenario().file("mine.toml", text);
    cli.words("run s.toml --no-files --set cluster.gpu=mine.toml")
        .expect_exit(2)
        .stderr_has("cluster.gpu: mine.toml: line 3, column 15: ");
}

#[test]
fn a_misspelt_table_is_told_before_what_is_missing_without_it() {
    let text =
        SCENARIO.replace("[cluster]", "[clusters]") + "[cluster.lora]\nmax_host_adapters = 2\n";
    let refused = Cli::new().file("s.toml", text).words("run s.toml --no-files").expect_exit(2);
    refused.stderr_has("s.toml: clusters: unknown key `clusters`; did you mean `cluster`?");
}

//! Outputs that are no plain files: links are followed, devices and pipes written to as they are.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::{Cli, SCENARIO, names};

/// A scenario, a trace, and the folder of a run.
fn cli() -> Cli {
    let cli = Cli::with_scenario().file("t.csv", "arrival_s,prompt_tokens,output_tokens\n0,5,3\n");
    cli.words("run s.toml --output-dir out").expect_exit(0);
    cli
}

/// Commands that write one file, up to its name, and a text of what they write.
const COMMANDS: [(&str, &str); 6] = [
    ("report out --overwrite --output", "<html"),
    ("trace convert t.csv --to jsonl --overwrite --output", "\"output_tokens\":3"),
    ("run s.toml --no-files --overwrite --timeline", "traceEvents"),
    ("profile plot h100-sxm5-80gb/vllm-0.14.0 --model llama-3.1-8b --output", "<svg"),
    (
        "bench python -m sglang.bench_serving --model Qwen/Qwen2.5-7B --gpu H100 --dataset-name random --num-prompts 2 \
         --random-output-len 2 --no-files --output-file",
        "\"completed\"",
    ),
    (
        "bench --tool vllm --backend vllm --model Qwen/Qwen2.5-7B --gpu H100 --dataset-name random \
         --num-prompts 2 --random-output-len 2 --no-files --save-result --result-filename",
        "\"completed\"",
    ),
];

#[test]
fn a_link_stays_and_the_file_that_it_leads_to_is_replaced() {
    for (words, mark) in COMMANDS {
        let cli = cli().file("elsewhere/target", "before\n");
        symlink("target", cli.path("elsewhere/second")).unwrap();
        symlink("elsewhere/second", cli.path("link")).unwrap();
        cli.words(&format!("{words} link")).expect_exit(0);
        assert!(cli.path("link").is_symlink(), "{words}");
        assert!(cli.path("elsewhere/second").is_symlink(), "{words}");
        assert!(cli.read("elsewhere/target").contains(mark), "{words}");
        assert_eq!(names(&cli.path("elsewhere")), ["second", "target"], "{words}");
    }
}

#[test]
fn a_link_that_leads_to_nothing_names_the_file_to_be_made() {
    let cli = cli();
    symlink("new", cli.path("link")).unwrap();
    symlink("none/new", cli.path("lost")).unwrap();
    symlink("round", cli.path("round")).unwrap();
    cli.words("trace convert t.csv --to jsonl --output link").expect_exit(0);
    assert!(cli.path("link").is_symlink() && cli.path("new").is_file());
    let refused = |target: &str| {
        cli.words(&format!("trace convert t.csv --to jsonl --output {target}")).expect_exit(2)
    };
    refused("link").stderr_has("link: exists already");
    refused("lost").stderr_has("lost: the folder none does not exist");
    refused("round").stderr_has("round: too many levels of symbolic links");
}

#[test]
fn devices_are_written_to() {
    for (words, _) in COMMANDS {
        cli().words(&format!("{words} /dev/null")).expect_exit(0);
        assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
    }
    // Nothing stands there that --overwrite could be asked for.
    cli().words("trace convert t.csv --to jsonl --output /dev/null").expect_exit(0);
    cli().words("run s.toml --no-files --timeline /dev/null").expect_exit(0);
    cli().words("report out --output /dev/null").expect_exit(0);
}

#[test]
fn rows_go_to_stdout_and_nothing_beside_them() {
    let cli = cli();
    let convert = "trace convert t.csv --to csv --output /dev/stdout";
    let rows = cli.read("t.csv");
    let ran = cli.words(convert).expect_exit(0).stderr_has("/dev/stdout: 1 rows in csv");
    let piped = ran.stdout();
    assert_eq!(piped.lines().count(), rows.lines().count(), "{piped}");
    // A file that a shell opened is written on from where it is.
    let file = File::create(cli.path("kept.txt")).unwrap();
    fs::write(cli.path("kept.txt"), "").unwrap();
    for _ in 0..2 {
        let mut command = cli.command();
        command.args(convert.split_whitespace()).stdout(file.try_clone().unwrap());
        assert!(command.output().unwrap().status.success());
    }
    assert_eq!(cli.read("kept.txt"), format!("{piped}{piped}"));
}

#[test]
fn a_pipe_is_neither_opened_before_the_work_nor_replaced() {
    let cli = cli().file("bad.csv", "no,columns\n");
    let made = Command::new("mkfifo").arg(cli.path("pipe")).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: no mkfifo");
        return;
    }
    // Nobody reads: whoever opened it would wait for ever.
    cli.words("trace convert bad.csv --to csv --output pipe").expect_exit(2);
    cli.words("run none.toml --timeline pipe").expect_exit(2);
    for (words, mark) in COMMANDS {
        let pipe = cli.path("pipe");
        let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
        cli.words(&format!("{words} pipe")).expect_exit(0);
        assert!(reader.join().unwrap().contains(mark), "{words}");
        assert!(cli.path("pipe").metadata().unwrap().file_type().is_fifo(), "{words}");
    }
}

/// A name so long that no other file can stand beside it under a longer one.
#[test]
fn what_is_appended_to_needs_no_place_beside_it() {
    let name = "a".repeat(250);
    let cli = Cli::new().file(&name, "{}\n");
    let (words, _) = COMMANDS[4];
    cli.words(&format!("{words} {name}")).expect_exit(0);
    assert_eq!(cli.read(&name).lines().count(), 2);
    let refused = cli.words(&format!("{} {}", COMMANDS[5].0, "b".repeat(250))).expect_exit(2);
    refused.stderr_has("File name too long");
}

#[test]
fn what_others_have_begun_is_left_alone() {
    for (words, _) in COMMANDS {
        let cli = cli().file("target.partial", "theirs");
        cli.words(&format!("{words} target")).expect_exit(0);
        assert_eq!(cli.read("target.partial"), "theirs", "{words}");
    }
}

#[test]
fn a_file_keeps_its_permissions() {
    let cli = Cli::new().file("s.toml", SCENARIO).file("t.json", "");
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(cli.path("t.json"), private.clone()).unwrap();
    cli.words("run s.toml --no-files --overwrite --timeline t.json").expect_exit(0);
    let mode = |name: &str| cli.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("t.json"), private.mode());
}

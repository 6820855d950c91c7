//! The GitHub Action: what its script tells a pull request, with a `gh` that writes down what it is asked.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use super::{BINARY, Cli, Ran, SCENARIO};

/// Answers with the number in `earlier` when it is asked for comments, and keeps what it is told to write; without rights
/// (the file `denied`) it fails.
const GH: &str = r#"#!/usr/bin/env bash
echo "$*" >>"$HOME/calls"
[[ ! -e $HOME/denied ]] || { echo "HTTP 403" >&2; exit 1; }
case "$*" in
  *--paginate*) cat "$HOME/earlier" 2>/dev/null || true ;;
  *) for word; do [[ $word != body=@* ]] || cp "${word#body=@}" "$HOME/posted.md"; done ;;
esac
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A recorded scenario, of which steps last so long now.
fn folder(base_us: &str) -> Cli {
    let cli = Cli::new().file("mine/one.toml", SCENARIO).file("bin/gh", GH);
    cli.words("check mine --update").expect_exit(0);
    let program = fs::Permissions::from_mode(0o755);
    fs::set_permissions(cli.path("bin/gh"), program).expect("a file of one's own");
    let now = format!("base_us = {base_us}");
    cli.file("mine/one.toml", SCENARIO.replace("base_us = 1000.0", &now))
}

/// The script in the folder `mine`, as the action runs it.
fn script(cli: &Cli) -> Command {
    let mut command = Command::new("bash");
    let path = format!("{}:{}", cli.path("bin").display(), env::var("PATH").unwrap_or_default());
    command.arg(root().join("checks/pull-request.sh")).arg("check").current_dir(cli.path(""));
    command.env("PATH", path).env("HOME", cli.path("")).env("SERVECAST", BINARY);
    command.env("CHECK_FOLDER", "mine").env("RUNNER_TEMP", cli.path(""));
    command.env("GITHUB_REPOSITORY", "one/two").env("PULL_REQUEST", "7");
    command.env("GITHUB_STEP_SUMMARY", cli.path("summary.md"));
    command.env_remove("CHECK_FILTER").env_remove("CHECK_EXACT");
    command
}

fn ran(mut command: Command) -> Ran {
    Ran(command.output().expect("bash runs"))
}

fn read(cli: &Cli, name: &str) -> String {
    fs::read_to_string(cli.path(name)).unwrap_or_default()
}

/// The lines of a comment that stand in its block of differences.
fn differences(comment: &str) -> Vec<&str> {
    let (_, rest) = comment.split_once("```diff\n").expect("the comment shows differences");
    rest.lines().take_while(|line| *line != "```").collect()
}

#[test]
fn a_slower_engine_is_told_with_its_figures() {
    let cli = folder("1100.0");
    let ended = ran(script(&cli)).expect_exit(1).stdout_has("FAIL       one");
    assert!(ended.stderr().contains("1 of 1 scenarios fail"), "{}", ended.stderr());
    let told = read(&cli, "posted.md");
    assert!(told.starts_with("<!-- servecast"), "{told}");
    assert!(told.contains("\n### `servecast check mine` fails\n"), "{told}");
    assert!(told.contains("\n0 as recorded, 0 changed within tolerance, 1 failed\n"), "{told}");
    assert!(told.contains("servecast check mine --update"), "{told}");
    let found = differences(&told);
    assert_eq!(found[0], "- FAIL       one");
    // Each line of the report is there, in red where it fails.
    let report: Vec<String> = ended.stdout().lines().map(str::to_owned).collect();
    assert_eq!(found.len(), report.len() - 1);
    for (told, said) in found.iter().zip(&report) {
        assert_eq!(&told[2..], said);
        let fails = said.starts_with("FAIL") || said.ends_with("WORSE");
        assert_eq!(told.starts_with('-'), fails, "{told}");
    }
    assert!(found.iter().filter(|line| line.ends_with("WORSE")).count() > 1, "{told}");
    assert_eq!(read(&cli, "summary.md"), told);
    let calls = read(&cli, "calls");
    let posts = "--method POST repos/one/two/issues/7/comments";
    assert!(calls.lines().nth(1).is_some_and(|call| call.contains(posts)), "{calls}");
}

#[test]
fn a_faster_engine_is_told_in_green() {
    let cli = folder("900.0");
    ran(script(&cli)).expect_exit(0);
    let told = read(&cli, "posted.md");
    assert!(told.contains("\n### `servecast check mine` passes\n"), "{told}");
    let found = differences(&told);
    assert!(found.iter().any(|line| line.starts_with("+ ")), "{told}");
    assert!(!found.iter().any(|line| line.starts_with("- ")), "{told}");
    // Any change fails where that is asked for.
    let mut exact = script(&cli);
    exact.env("CHECK_EXACT", "true");
    ran(exact).expect_exit(1);
    assert!(read(&cli, "posted.md").contains("`servecast check mine --exact` fails"));
}

#[test]
fn what_is_as_recorded_is_told_only_over_an_earlier_comment() {
    let cli = folder("1000.0");
    ran(script(&cli)).expect_exit(0);
    assert_eq!(read(&cli, "posted.md"), "");
    assert_eq!(read(&cli, "calls").lines().count(), 1);
    assert!(read(&cli, "summary.md").contains("1 as recorded"));
    let cli = cli.file("earlier", "12\n34\n");
    ran(script(&cli)).expect_exit(0);
    let told = read(&cli, "posted.md");
    assert!(told.contains("passes") && !told.contains("```"), "{told}");
    let calls = read(&cli, "calls");
    let patches = "--method PATCH repos/one/two/issues/comments/12 ";
    assert!(calls.lines().last().is_some_and(|call| call.contains(patches)), "{calls}");
}

#[test]
fn wrong_scenarios_are_told_with_their_error() {
    let cli = folder("-1.0");
    ran(script(&cli)).expect_exit(2);
    let told = read(&cli, "posted.md");
    assert!(told.contains("`servecast check mine` cannot be run"), "{told}");
    assert!(told.contains("```text\nerror: ") && told.contains("base_us"), "{told}");
}

#[test]
fn a_token_without_rights_changes_no_verdict() {
    for (base_us, code) in [("1100.0", 1), ("1000.0", 0)] {
        let cli = folder(base_us).file("denied", "");
        ran(script(&cli)).expect_exit(code).stdout_has("::warning title=servecast check::");
        assert!(read(&cli, "summary.md").contains("servecast check mine"));
    }
    // A push has no pull request.
    let cli = folder("1100.0");
    let mut push = script(&cli);
    push.env("PULL_REQUEST", "");
    ran(push).expect_exit(1);
    assert_eq!(read(&cli, "calls"), "");
}

#[test]
fn names_stay_names() {
    let cli = folder("1100.0");
    let name = "$(touch hacked) ```";
    let scenario = SCENARIO.replace("base_us = 1000.0", "base_us = 1100.0");
    let cli = cli.file(&format!("mine/{name}.toml"), scenario);
    ran(script(&cli)).expect_exit(1);
    let told = read(&cli, "posted.md");
    assert!(told.contains("\n````diff\n") && told.contains(name), "{told}");
    assert!(!cli.path("hacked").exists());
}

#[test]
fn a_long_report_fits_into_a_comment() {
    let mut cli = folder("1100.0");
    for number in 0..400 {
        let name = format!("mine/{}-{number}.toml", "long".repeat(50));
        cli = cli.file(&name, SCENARIO.replace("num_requests = 20", "num_requests = 1"));
    }
    ran(script(&cli)).expect_exit(1);
    let told = read(&cli, "posted.md");
    assert!((50_000..65_536).contains(&told.chars().count()), "{}", told.len());
    assert!(told.contains("the log of the job has the rest"), "{told}");
    assert_eq!(told.matches("```").count() % 2, 0);
}

#[test]
fn the_keys_of_the_caches_are_those_of_toolchain_crates_and_sources() {
    let keys = |folder: &Path, compiler: &str| -> Vec<(String, String)> {
        let bin = Cli::new().file("rustc", format!("#!/bin/sh\necho '{compiler}'\n"));
        let mut command = Command::new("bash");
        let allowed = Command::new("chmod").arg("+x").arg(bin.path("rustc")).status();
        assert!(allowed.expect("chmod runs").success());
        command.arg(root().join("checks/pull-request.sh")).arg("keys");
        let path = std::env::var("PATH").expect("there is a path");
        command.env("PATH", format!("{}:{path}", bin.path("").display()));
        let output = command.env("GITHUB_ACTION_PATH", folder).output().expect("bash runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("hashes are text");
        let pair = |line: &str| {
            let (name, hash) = line.split_once('=').expect("an output of a step");
            assert_eq!(hash.len(), 32, "{line}");
            (name.to_owned(), hash.to_owned())
        };
        text.lines().map(pair).collect()
    };
    let of = |source: &str, lock: &str, compiler: &str| {
        let cli = Cli::new().file("Cargo.toml", "").file("Cargo.lock", lock);
        let cli = cli.file("src/a.rs", source).file("tests/a.rs", source);
        let cli = cli
            .file("action.yml", "")
            .file("profiles/a", "")
            .file("checks/a", "")
            .file("scenarios/a", "");
        keys(&cli.path(""), compiler)
    };
    let base = of("one", "one", "rustc 1");
    assert_eq!(of("one", "one", "rustc 1"), base);
    for (place, (name, changed)) in [
        ("sources", of("two", "one", "rustc 1")),
        ("crates", of("one", "two", "rustc 1")),
        ("toolchain", of("one", "one", "rustc 2")),
    ]
    .into_iter()
    .enumerate()
    {
        let differ: Vec<usize> = (0..3).filter(|at| changed[*at] != base[*at]).collect();
        assert_eq!((differ, base[place].0.as_str()), (vec![place], name));
    }
    // Each key of a cache of the action is one of them.
    let action = fs::read_to_string(root().join("action.yml")).expect("the action is there");
    for (name, _) in keys(root(), "rustc 1") {
        assert!(action.contains(&format!("steps.keys.outputs.{name} }}}}")), "{name} is not used");
    }
}

#[cfg(feature = "yaml")]
#[test]
fn the_action_asks_for_what_the_page_explains() {
    let text = fs::read_to_string(root().join("action.yml")).expect("the action is there");
    let action: serde_yaml_ng::Value = serde_yaml_ng::from_str(&text).expect("it is YAML");
    let page = fs::read_to_string(root().join("docs/howto-ci.md")).expect("the page is there");
    let inputs = action["inputs"].as_mapping().expect("it has inputs");
    for name in inputs.keys().filter_map(|name| name.as_str()) {
        assert!(page.contains(&format!("| `{name}` |")), "docs/howto-ci.md: no `{name}`");
        assert!(text.contains(&format!("inputs.{name}")), "{name} is asked for and not used");
    }
    for step in action["runs"]["steps"].as_sequence().expect("it has steps") {
        // Texts of a workflow come as variables, never as shell.
        let run = step["run"].as_str().unwrap_or_default();
        assert!(!run.contains("${{"), "{run}");
        assert!(run.is_empty() || step["shell"] == "bash", "{run}");
    }
}

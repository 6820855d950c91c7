//! The commands of `docs/sweeps.md`, and its examples for clusters, run as they are written.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::resume::results;
use crate::cli::{BINARY, Cli};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A scratch folder with the scenario of the page, smaller.
fn cli() -> Cli {
    let scenario = page("scenarios/rate-sweep.toml");
    let smaller = scenario.replace("num_requests = 200", "num_requests = 20");
    assert_ne!(scenario, smaller);
    Cli::new().file("scenarios/rate-sweep.toml", smaller)
}

/// A command of a shell that finds servecast.
fn shell(cli: &Cli) -> Command {
    let mut command = Command::new("bash");
    let own = Path::new(BINARY).parent().expect("a binary lies in a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    command.current_dir(cli.path("")).env("PATH", format!("{}:{path}", own.display()));
    command
}

fn expect_success(what: &str, output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {stderr}");
    stderr.into_owned()
}

/// What `servecast sweep` and `servecast merge` are called with in the shell blocks of a page.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let text = blocks.collect::<String>().replace("\\\n", " ");
    text.lines().filter(|line| line.starts_with("servecast ")).map(str::to_owned).collect()
}

/// Joins the parts in `out`, and compares them with the whole.
fn expect_whole(cli: &Cli) {
    let merge =
        shell(cli).args(["-c", "servecast merge out/part-* --output-dir out/whole"]).output();
    expect_success("merge", &merge.unwrap());
    cli.words("sweep scenarios/rate-sweep.toml --output-dir whole").expect_exit(0);
    assert_eq!(results(cli, "out/whole"), results(cli, "whole"));
}

#[test]
fn the_commands_of_the_page_run() {
    let cli = cli();
    let commands = commands(&page("docs/sweeps.md"));
    assert!(commands.len() > 4, "{commands:?}");
    let said: Vec<String> = commands
        .iter()
        .map(|command| {
            expect_success(command, &shell(&cli).args(["-c", command]).output().unwrap())
        })
        .collect();
    assert!(said[1].contains("4 runs, 4 of them known before"), "{}", said[1]);
    assert_eq!(results(&cli, "out/whole").lines().count(), 1 + 36);
}

#[test]
fn the_study_of_the_page_is_one() {
    let page = page("docs/sweeps.md");
    let (_, rest) = page.split_once("```toml\n").expect("the page shows a study");
    let (study, _) = rest.split_once("```").expect("the block ends");
    let scenario = crate::cli::SCENARIO;
    let cli = Cli::new().file("study.toml", format!("{scenario}\n{study}"));
    cli.words("sweep study.toml --output-dir out")
        .expect_exit(0)
        .stdout_has("20 points with 2 seeds");
}

#[test]
fn the_slurm_array_computes_the_sweep() {
    let cli = cli();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sweep-slurm.sh");
    for task in 1..=8 {
        let mut command = shell(&cli);
        command.env("SLURM_ARRAY_TASK_ID", task.to_string()).env("SLURM_CPUS_PER_TASK", "1");
        expect_success("the script", &command.arg(&script).output().unwrap());
    }
    expect_whole(&cli);
}

#[test]
fn the_indexed_job_computes_the_sweep() {
    let cli = cli();
    let job: serde_json::Value =
        serde_yaml_ng::from_str(&page("docs/sweep-kubernetes.yaml")).unwrap();
    let completions = job["spec"]["completions"].as_u64().unwrap();
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], serde_json::json!(["sh", "-c"]));
    let arguments = container["args"][0].as_str().unwrap();
    for index in 0..completions {
        let mut command = shell(&cli);
        command.env("JOB_COMPLETION_INDEX", index.to_string()).args(["-c", arguments]);
        expect_success("the pod", &command.output().unwrap());
    }
    expect_whole(&cli);
}

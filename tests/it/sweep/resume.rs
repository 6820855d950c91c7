//! A sweep that was disturbed has the results of one that was not, byte for byte.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use proptest::prelude::*;

use crate::cli::Cli;
use crate::support::random_cases;

/// Thirty-two short runs.
const SWEEP: &str = "sweep s.toml --vary cluster.replicas=1..4 \
                     --vary workload.arrivals.rate_per_s=2,50 --seeds 4 --output-dir";

pub(super) fn results(cli: &Cli, folder: &str) -> String {
    cli.read(&format!("{folder}/results.csv"))
}

fn journal(cli: &Cli, folder: &str) -> Vec<u8> {
    fs::read(cli.path(&format!("{folder}/runs.jsonl"))).unwrap_or_default()
}

fn start(cli: &Cli, folder: &str) -> Child {
    let mut command = cli.command();
    command.args(SWEEP.split_whitespace()).arg(folder);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the journal has this many bytes, or the sweep has ended.
fn await_journal(cli: &Cli, folder: &str, bytes: usize, child: &mut Child) {
    while journal(cli, folder).len() < bytes && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// An undisturbed sweep in `whole`: what it printed, and its results.
fn undisturbed(cli: &Cli) -> (String, String) {
    let printed = cli.words(&format!("{SWEEP} whole")).expect_exit(0).stdout();
    (printed, results(cli, "whole"))
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..random_cases(4) })]

    /// Five kills in each of four folders, at moments that are spread over the sweep.
    #[test]
    fn killed_and_resumed_sweeps_end_alike(moments in prop::collection::vec(0.0..0.6_f64, 5)) {
        let cli = Cli::with_scenario();
        let expected = undisturbed(&cli);
        let total = journal(&cli, "whole").len();
        for share in moments {
            let before = journal(&cli, "cut").len();
            let mut child = start(&cli, "cut");
            let bytes = before + (share * total.saturating_sub(before) as f64) as usize;
            await_journal(&cli, "cut", bytes, &mut child);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let whole = String::from_utf8_lossy(&journal(&cli, "cut")).matches('\n').count();
        let resumed = cli.words(&format!("{SWEEP} cut")).expect_exit(0);
        let known = format!("32 runs, {whole} of them known before");
        let resumed = resumed.stderr_has(&known);
        prop_assert_eq!(&expected, &(resumed.stdout(), results(&cli, "cut")));
    }

    /// A journal cut anywhere, and anything written after it.
    #[test]
    fn a_torn_line_is_done_again(share in 0.0..1.0_f64, rest in "[a-z\"{}\\n]{0,40}") {
        let cli = Cli::with_scenario();
        let expected = undisturbed(&cli);
        let mut bytes = journal(&cli, "whole");
        bytes.truncate((share * bytes.len() as f64) as usize);
        bytes.extend(rest.as_bytes());
        fs::write(cli.path("whole/runs.jsonl"), bytes).unwrap();
        let resumed = cli.words(&format!("{SWEEP} whole")).expect_exit(0).stdout();
        prop_assert_eq!(&expected, &(resumed, results(&cli, "whole")));
        // What was torn is no longer there, or tells nothing.
        let again = cli.words(&format!("{SWEEP} whole")).expect_exit(0);
        again.stderr_has("32 runs, 32 of them known before");
    }
}

#[test]
fn a_figure_that_was_altered_is_not_believed() {
    let cli = Cli::with_scenario();
    let expected = undisturbed(&cli);
    let altered =
        cli.read("whole/runs.jsonl").replacen("\"finished\":20.0", "\"finished\":21.0", 3);
    fs::write(cli.path("whole/runs.jsonl"), altered).unwrap();
    let resumed = cli.words(&format!("{SWEEP} whole")).expect_exit(0);
    let resumed = resumed
        .stderr_has("runs.jsonl: 3 torn lines are left out")
        .stderr_has("32 runs, 29 of them known before");
    assert_eq!(expected, (resumed.stdout(), results(&cli, "whole")));
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_the_sweep_and_loses_nothing() {
    let cli = Cli::with_scenario();
    let expected = undisturbed(&cli);
    // A file may have no more than four blocks: less than what the journal needs.
    let limited = format!("ulimit -f 4; trap '' XFSZ; exec {} {SWEEP} cut", crate::cli::BINARY);
    let mut command = std::process::Command::new("sh");
    let folder = cli.path("");
    let ended = command.args(["-c", &limited]).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("cut/runs.jsonl: "), "{said}");
    assert!(ended.stdout.is_empty());
    let resumed = cli.words(&format!("{SWEEP} cut")).expect_exit(0).stdout();
    assert_eq!(expected, (resumed, results(&cli, "cut")));
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_says_so_and_keeps_its_journal() {
    let cli = Cli::with_scenario();
    let mut child = start(&cli, "cut");
    await_journal(&cli, "cut", 1, &mut child);
    let interrupt = format!("kill -INT {}", child.id());
    std::process::Command::new("sh").args(["-c", &interrupt]).status().unwrap();
    // A sweep that had ended by then had nothing left to interrupt.
    let code = child.wait().unwrap().code();
    assert!(code == Some(130) || cli.path("cut/results.csv").exists(), "{code:?}");
    assert!(!journal(&cli, "cut").is_empty());
}

#[test]
fn two_sweeps_do_not_write_one_journal() {
    let cli = Cli::with_scenario();
    undisturbed(&cli);
    let journal = fs::File::open(cli.path("whole/runs.jsonl")).unwrap();
    journal.try_lock().unwrap();
    cli.words(&format!("{SWEEP} whole"))
        .expect_exit(2)
        .stderr_has("whole/runs.jsonl: another sweep is writing it");
}

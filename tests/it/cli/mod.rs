//! The command line as its users meet it: the binary, run in scratch folders.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail with their test")]

mod autoscaler;
mod bench;
mod bench_pasted;
#[cfg(feature = "calibrate")]
mod bounds;
mod calibrate;
mod check;
mod compare;
mod conformance;
#[cfg(unix)]
mod documents;
mod explain;
mod faults;
#[cfg(unix)]
mod fuzz;
mod gateway;
#[cfg(feature = "calibrate")]
mod goals;
mod help;
mod imports;
mod init;
mod inputs;
mod man;
#[cfg(feature = "calibrate")]
mod mooncake_a10;
mod named;
mod odd;
mod output;
mod own_gpu;
#[cfg(unix)]
mod places;
#[cfg(feature = "probe")]
mod probe;
mod profile;
#[cfg(unix)]
mod pull_request;
mod report;
mod scenarios;
mod seeds;
mod speculation;
mod timeline;
mod trace;
mod unwritable;
mod validate;
mod which_router;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(super) const BINARY: &str = env!("CARGO_BIN_EXE_servecast");

/// A scratch folder with files in which commands are run.
pub(super) struct Cli {
    scratch: TempDir,
}

impl Cli {
    pub(super) fn new() -> Self {
        Self { scratch: tempfile::tempdir().unwrap() }
    }

    /// A folder that holds `s.toml`, a scenario that takes no time.
    pub(super) fn with_scenario() -> Self {
        Self::new().file("s.toml", SCENARIO)
    }

    pub(super) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(super) fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ran {
        let mut command = self.command();
        Ran(command.args(arguments).output().unwrap())
    }

    /// Runs words separated by blanks.
    pub(super) fn words(&self, words: &str) -> Ran {
        self.run(words.split_whitespace())
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(BINARY);
        command.current_dir(self.scratch.path()).stdin(Stdio::null());
        command.env_remove("COLUMNS");
        command
    }

    /// Every file and folder in the scratch folder but those that were put there.
    pub(super) fn left_behind(&self, known: &[&str]) -> Vec<String> {
        let mut left: Vec<String> = names(self.scratch.path());
        left.retain(|name| !known.contains(&name.as_str()));
        left
    }
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What `servecast validate --format json` tells of the built-in reference runs, which are simulated once for all tests.
#[cfg(feature = "calibrate")]
fn reference_runs() -> &'static serde_json::Value {
    static RUNS: std::sync::OnceLock<serde_json::Value> = std::sync::OnceLock::new();
    RUNS.get_or_init(|| {
        let ran = Cli::new().words("validate --format json");
        serde_json::from_str(&ran.stdout()).unwrap()
    })
}

/// A command that has ended.
pub(super) struct Ran(Output);

impl Ran {
    pub(super) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(super) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    pub(super) fn succeeded(&self) -> bool {
        self.0.status.success()
    }

    pub(super) fn expect_exit(self, code: i32) -> Self {
        let (stdout, stderr) = (self.stdout(), self.stderr());
        assert_eq!(self.0.status.code(), Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }

    pub(super) fn stderr_has(self, text: &str) -> Self {
        let stderr = self.stderr();
        assert!(stderr.contains(text), "`{text}` is not in stderr:\n{stderr}");
        self
    }

    pub(super) fn stdout_has(self, text: &str) -> Self {
        let stdout = self.stdout();
        assert!(stdout.contains(text), "`{text}` is not in stdout:\n{stdout}");
        self
    }

    pub(super) fn stdout_is_empty(self) -> Self {
        assert_eq!(self.stdout(), "");
        self
    }
}

/// Twenty requests at fixed step times, far below what the engine can do.
pub(super) const SCENARIO: &str = r#"
name = "small"
[workload]
num_requests = 20
arrivals = { type = "poisson", rate_per_s = 10.0 }
lengths = { type = "fixed", input_tokens = 100, output_tokens = 10 }
[cluster]
model = "Qwen/Qwen2.5-7B"
gpu = "H100"
step_time = { type = "linear", base_us = 1000.0, prefill_token_us = 1.0, decode_seq_us = 10.0 }
"#;

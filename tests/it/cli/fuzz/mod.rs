//! Every reader of files and arguments, given worse and worse inputs in a process of its own with
//! bounded memory and time: it answers or refuses, and never panics, aborts, hangs or grows.
//!
//! Each folder of `tests/data/fuzz` is a target: `commands` has a command line a row, and the other
//! files are its input, one of which is made worse (those called `keep.*` are not). `seeds` names folders
//! whose files are inputs too. Rows of `arguments` are command lines that are made worse themselves.
//! `found` has folders with inputs that once went wrong.
//!
//! `SERVECAST_FUZZ_SECONDS=3600 cargo test … fuzz` goes on for an hour, `SERVECAST_FUZZ_SEED` begins
//! elsewhere, `SERVECAST_FUZZ_BINARY` is another build, `SERVECAST_FUZZ_TARGET` one target. With
//! `SERVECAST_FUZZ_ENDS=1` every number of every input takes every end of a range, `2` is every second case.

#![expect(clippy::disallowed_methods, reason = "what hangs is told by the clock")]

mod mutate;

use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::mutate::{Dice, ENDS, mutated, numbers};
use super::BINARY;

/// KiB of address space of a process.
const MEMORY_KIB: u32 = 2_000_000;
/// What no small input takes, also on a busy machine and without optimisation.
const LIMIT: Duration = Duration::from_mins(1);
const CASES: u64 = 160;
/// What a process has written by then that is at work.
const AT_WORK_BYTES: u64 = 1 << 20;

/// What files hold, by name.
type Files = Vec<(String, Vec<u8>)>;

/// A reader with its inputs.
struct Target {
    name: String,
    commands: Vec<String>,
    /// Sets of files by name; one at a time is the input.
    inputs: Vec<Files>,
    arguments: Vec<String>,
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).map(|all| all.map(|entry| entry.unwrap().path()));
    let mut found: Vec<PathBuf> = entries.into_iter().flatten().filter(|it| it.is_dir()).collect();
    found.sort();
    found
}

/// The files below a folder by their paths in it.
fn files(folder: &Path) -> Files {
    let mut all = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "found" {
            all.extend(files(&path).into_iter().map(|(below, it)| (format!("{name}/{below}"), it)));
        } else if path.is_file() {
            all.push((name, fs::read(&path).unwrap()));
        }
    }
    all
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

impl Target {
    fn read(folder: &Path) -> Self {
        let own = |name: &str| matches!(name, "commands" | "arguments" | "seeds");
        let mut here = files(folder);
        here.retain(|(name, _)| !own(name) && !name.starts_with("seeds-in/"));
        let mut inputs = Vec::new();
        for line in lines(&folder.join("seeds")) {
            let (name, from) = line.split_once(' ').unwrap();
            for (seed, content) in files(&root().join(from)) {
                let extension = Path::new(&seed).extension().map(|it| it.to_str().unwrap());
                if extension == Path::new(name).extension().map(|it| it.to_str().unwrap()) {
                    let mut all = here.clone();
                    all.push((name.to_owned(), content));
                    inputs.push(all);
                }
            }
        }
        if inputs.is_empty() {
            inputs.push(here);
        }
        Self {
            name: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            commands: lines(&folder.join("commands")),
            inputs,
            arguments: lines(&folder.join("arguments")),
        }
    }

    /// A case: files, and command lines.
    fn case(&self, dice: &mut Dice) -> (Files, Vec<Vec<OsString>>) {
        let words = |line: &String| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        let mut files = self.inputs[dice.below(self.inputs.len())].clone();
        let mut commands: Vec<Vec<OsString>> = self.commands.iter().map(words).collect();
        if self.arguments.is_empty() {
            let open: Vec<usize> = (0..files.len())
                .filter(|place| !files[*place].0.rsplit('/').next().unwrap().starts_with("keep."))
                .collect();
            let place = open[dice.below(open.len())];
            files[place].1 = mutated(&files[place].1, dice);
        } else {
            let mut line = words(&self.arguments[dice.below(self.arguments.len())]);
            for _ in 0..=dice.below(2) {
                let place = 1 + dice.below(line.len() - 1);
                let bytes = line[place].clone().into_vec();
                let mut worse = mutated(&bytes, dice);
                worse.retain(|byte| *byte != 0);
                worse.truncate(100_000);
                line[place] = OsString::from_vec(worse);
            }
            commands = vec![line];
        }
        (files, commands)
    }
}

/// Whether a number has more digits than anyone reads and is not written so in the input: the zeros of 1e-300.
fn has_long_number(said: &str) -> bool {
    said.contains(&format!("0.{}", "0".repeat(40))) || said.contains(&"0".repeat(60))
}

/// What went wrong with a command in a folder, if anything did.
fn trouble(folder: &Path, command: &[OsString]) -> Option<String> {
    let binary = setting("SERVECAST_FUZZ_BINARY").unwrap_or_else(|| BINARY.to_owned());
    let output = |name: &str| File::create(folder.join(name)).unwrap();
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$@\"");
    let started = Instant::now();
    let child = Command::new("sh")
        .args(["-c", &limited, "sh", &binary])
        .args(command)
        .current_dir(folder)
        .env("RAYON_NUM_THREADS", "1")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(output(".stdout"))
        .stderr(output(".stderr"))
        .spawn();
    // Arguments that no process can be given are no case.
    let mut child = child.ok()?;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            // Who is asked for 10^9 rows writes for long.
            let mut entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
            let is_output =
                |name: &OsString| name.to_str().is_some_and(|it| it.contains("out.csv"));
            if entries.any(|it| {
                is_output(&it.file_name()) && it.metadata().unwrap().len() > AT_WORK_BYTES
            }) {
                return None;
            }
            // Who asks for 10^9 requests without their records is told, and simulates for long.
            let told = fs::read_to_string(folder.join(".stderr")).unwrap_or_default();
            if told.contains(" of memory if they come faster than they are served") {
                return None;
            }
            return Some(format!("hangs for {} s", LIMIT.as_secs()));
        }
        let is_quick = started.elapsed() < Duration::from_millis(50);
        std::thread::sleep(Duration::from_micros(if is_quick { 300 } else { 5000 }));
    };
    let read =
        |name: &str| String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap()).into_owned();
    let said = read(".stderr") + &read(".stdout");
    let tail = || said.chars().take(600).collect::<String>();
    match (status.code(), status.signal()) {
        _ if said.contains("panicked at") => Some(format!("panics: {}", tail())),
        _ if said.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) => {
            Some(format!("moves the cursor of a terminal: {:?}", tail()))
        }
        _ if said.lines().any(|line| line.chars().count() > 3_000) => {
            Some(format!("says a line without an end: {}", tail()))
        }
        _ if has_long_number(&said) => Some(format!("spells a number out: {}", tail())),
        (Some(0..=2 | 126 | 127), _) => None,
        (code, signal) => Some(format!("ends with {code:?} {signal:?}: {}", tail())),
    }
}

fn write_all(folder: &Path, files: &[(String, Vec<u8>)]) {
    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn targets() -> Vec<Target> {
    let all = folders(&root().join("tests/data/fuzz"));
    let only = setting("SERVECAST_FUZZ_TARGET");
    let targets = all.iter().map(|folder| Target::read(folder));
    targets.filter(|target| only.as_ref().is_none_or(|only| *only == target.name)).collect()
}

#[test]
fn worse_inputs_are_answered_or_refused() {
    let seed = setting("SERVECAST_FUZZ_SEED").map_or(20_261_123, |seed| seed.parse().unwrap());
    let seconds: Option<u64> = setting("SERVECAST_FUZZ_SECONDS").map(|it| it.parse().unwrap());
    let (targets, started) = (targets(), Instant::now());
    assert!(!targets.is_empty(), "no target of this name");
    let mut wrong = Vec::new();
    let mut cases = 0;
    let goes_on = |cases: u64| match seconds {
        Some(seconds) => started.elapsed().as_secs() < seconds,
        None => cases < CASES,
    };
    while goes_on(cases) {
        let target = &targets[(cases % targets.len() as u64) as usize];
        let mut dice = Dice(seed ^ (cases << 20));
        let (files, commands) = target.case(&mut dice);
        let scratch = tempfile::tempdir().unwrap();
        write_all(scratch.path(), &files);
        for command in &commands {
            if let Some(trouble) = trouble(scratch.path(), command) {
                let kept = scratch.keep();
                println!(
                    "{} case {cases}: {trouble}\n  {command:?} in {}",
                    target.name,
                    kept.display()
                );
                wrong.push((target.name.clone(), cases, trouble));
                break;
            }
        }
        cases += 1;
    }
    println!("{cases} cases of {} targets, seed {seed}: {} went wrong", targets.len(), wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Numbers of one file that are put to their ends.
const NUMBERS_MAX: usize = 120;

/// A number of an input and what takes its place.
struct End<'a> {
    target: &'a Target,
    input: &'a Files,
    file: usize,
    number: Range<usize>,
    becomes: &'static str,
}

impl End<'_> {
    fn files(&self) -> Files {
        let mut files = self.input.clone();
        files[self.file].1.splice(self.number.clone(), self.becomes.bytes());
        files
    }
}

/// Every number of every input at every end of the ranges that numbers have.
fn at_their_ends(targets: &[Target]) -> Vec<End<'_>> {
    let mut all = Vec::new();
    for target in targets.iter().filter(|target| target.arguments.is_empty()) {
        let inputs = target.inputs.iter();
        for (input, file) in inputs.flat_map(|it| (0..it.len()).map(move |file| (it, file))) {
            let (name, content) = &input[file];
            if !name.rsplit('/').next().unwrap().starts_with("keep.") {
                for number in numbers(content, NUMBERS_MAX) {
                    let at = |becomes| End { target, input, file, number: number.clone(), becomes };
                    all.extend(ENDS.map(at));
                }
            }
        }
    }
    all
}

#[test]
fn numbers_at_their_ends_are_answered_or_refused() {
    let targets = targets();
    let all = at_their_ends(&targets);
    let stride = setting("SERVECAST_FUZZ_ENDS").map_or(all.len() / 100, |it| it.parse().unwrap());
    let mut wrong = Vec::new();
    for (case, at) in all.iter().enumerate().step_by(stride.max(1)) {
        let (target, scratch) = (at.target, tempfile::tempdir().unwrap());
        write_all(scratch.path(), &at.files());
        for command in &target.commands {
            let words: Vec<OsString> = command.split_whitespace().map(Into::into).collect();
            if let Some(trouble) = trouble(scratch.path(), &words) {
                let kept = scratch.keep();
                println!(
                    "{} case {case}: {trouble}\n  {command} in {}",
                    target.name,
                    kept.display()
                );
                wrong.push((&target.name, case, trouble));
                break;
            }
        }
    }
    let told = all.len().div_ceil(stride.max(1));
    println!("{told} of {} cases: {} went wrong", all.len(), wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn inputs_that_once_went_wrong_are_answered_or_refused() {
    for folder in folders(&root().join("tests/data/fuzz")) {
        let target = Target::read(&folder);
        for case in folders(&folder.join("found")) {
            let scratch = tempfile::tempdir().unwrap();
            write_all(scratch.path(), &target.inputs[0]);
            write_all(scratch.path(), &files(&case));
            for command in &target.commands {
                let words: Vec<OsString> = command.split_whitespace().map(Into::into).collect();
                let trouble = trouble(scratch.path(), &words);
                assert_eq!(trouble, None, "{}: {command}", case.display());
            }
        }
    }
}

//! The help of every command, as users read it.

use std::fs;
use std::path::PathBuf;

use super::Cli;

fn help(command: &str) -> String {
    // Help is wrapped to the terminal; without one, to a hundred columns.
    let words = format!("{command} --help");
    let text = Cli::new().words(&words).expect_exit(0).stdout();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

pub(super) const COMMANDS: [&str; 30] = [
    "",
    "init",
    "run",
    "serve",
    "sweep",
    "merge",
    "bench",
    "check",
    "compare",
    "explain",
    "trace",
    "trace describe",
    "trace convert",
    "trace generate",
    "trace adapter-counts",
    "profile",
    "profile list",
    "profile show",
    "profile diff",
    "profile plot",
    "profile import",
    "profile probe",
    "plan",
    "report",
    "calibrate",
    "validate",
    "conformance",
    "schema",
    "completions",
    "man",
];

#[test]
fn every_command_explains_itself() {
    for command in COMMANDS {
        let name = format!("help {command}").trim().replace(' ', "_");
        insta::assert_snapshot!(name, help(command));
    }
}

#[test]
fn the_short_help_of_bench_fits_a_screen_and_names_the_long_one() {
    let help = |flag: &str| Cli::new().words(&format!("bench {flag}")).expect_exit(0).stdout();
    let short = help("-h");
    assert!(short.lines().count() <= 60, "{} lines:\n{short}", short.lines().count());
    assert!(short.contains("`--help` lists all flags"), "{short}");
    // Every group has its heading, and flags of one engine stand in a group of theirs.
    let long = help("--help");
    let mut heading = "";
    for line in long.lines() {
        match line.strip_suffix(':') {
            Some(title) if !line.starts_with(' ') => heading = title,
            _ => {}
        }
        let of = |flag: &str| line.trim_start().starts_with(flag);
        if of("--block-size") || of("--max-num-seqs") {
            assert_eq!(heading, "Server flags of vLLM");
        }
        if of("--disable-radix-cache") {
            assert_eq!(heading, "Server flags of SGLang");
        }
        if of("--gsp-") {
            assert_eq!(heading, "Traffic of sglang.bench_serving");
        }
        if of("--ramp-up-") || of("--prefix-repetition-") {
            assert_eq!(heading, "Traffic of vllm bench serve");
        }
        if of("--set ") || of("--output-dir") {
            assert_eq!(heading, "Simulation");
        }
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("servecast ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(Cli::new().words("--version").expect_exit(0).stdout(), version);
}

/// Words of the glossary that the field has another word for.
fn other_words() -> Vec<String> {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let (_, table) = glossary.split_once("| not | but |\n|---|---|\n").expect("the table is there");
    let rows = table.lines().map(|row| row.split('|').nth(1).expect("a row has cells"));
    rows.flat_map(|cell| cell.split(',')).map(|word| word.trim().to_owned()).collect()
}

#[test]
fn help_schema_and_pages_use_the_words_of_the_glossary() {
    let other = other_words();
    assert!(other.iter().any(|word| word == "promise"), "{other:?}");
    let says = |text: &str| {
        let is_letter = |letter: char| letter.is_alphanumeric() || letter == '-';
        let lower = text.to_lowercase();
        let found = lower
            .split(|letter| !is_letter(letter))
            .find(|word| other.contains(&(*word).to_owned()));
        found.map(str::to_owned)
    };
    assert_eq!(says("It keeps a promise."), Some("promise".to_owned()));
    for command in COMMANDS {
        assert_eq!(says(&help(command)), None, "servecast {command} --help");
    }
    assert_eq!(says(&Cli::new().words("schema").expect_exit(0).stdout()), None, "servecast schema");
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|it| it == "md");
    for page in docs.filter(is_page).chain([root().join("README.md")]) {
        if !page.ends_with("glossary.md") {
            assert_eq!(says(&fs::read_to_string(&page).unwrap()), None, "{}", page.display());
        }
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

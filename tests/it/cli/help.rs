//! The help of every command, as users read it.

use super::Cli;

fn help(command: &str) -> String {
    // Help is wrapped to the terminal; without one, to a hundred columns.
    let words = format!("{command} --help");
    let text = Cli::new().words(&words).expect_exit(0).stdout();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[test]
fn every_command_explains_itself() {
    for command in [
        "",
        "run",
        "sweep",
        "merge",
        "bench",
        "check",
        "compare",
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
        "validate",
        "conformance",
        "schema",
        "completions",
    ] {
        let name = format!("help {command}").trim().replace(' ', "_");
        insta::assert_snapshot!(name, help(command));
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("servecast ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(Cli::new().words("--version").expect_exit(0).stdout(), version);
}

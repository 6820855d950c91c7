//! `servecast man`.

use super::Cli;
use super::help::COMMANDS;

#[test]
fn every_command_has_a_page() {
    for command in COMMANDS {
        let page = Cli::new().words(&format!("man {command}")).expect_exit(0).stdout();
        let title = format!("servecast {command}").trim().replace(' ', "-");
        let head = format!(".TH {title} 1 ");
        assert!(page.lines().any(|line| line.starts_with(&head)), "{title}: {page}");
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(page.contains(section), "{title} has no {section}");
        }
        assert!(!page.contains(".SH EXTRA\nExamples"), "{title}: {page}");
    }
}

#[test]
fn the_page_of_the_program_lists_its_commands() {
    let page = Cli::new().words("man").expect_exit(0).stdout();
    let listed = page.lines().filter_map(|line| line.strip_prefix("servecast\\-"));
    let listed: Vec<&str> = listed.filter_map(|line| line.strip_suffix("(1)")).collect();
    let help = Cli::new().words("--help").expect_exit(0).stdout();
    let (_, rest) = help.split_once("Commands:\n").expect("help lists the commands");
    let rows = rest.lines().take_while(|row| !row.is_empty());
    let known: Vec<&str> = rows.filter_map(|row| row.split_whitespace().next()).collect();
    let (help, known) = known.split_last().expect("there are commands");
    assert_eq!((*help, listed.as_slice()), ("help", known));
    assert!(listed.len() > 10, "{listed:?}");
}

#[test]
fn a_page_of_no_command_is_refused() {
    let ran = Cli::new().words("man profile imports").expect_exit(2).stdout_is_empty();
    ran.stderr_has("man: `servecast profile` has no command `imports`; did you mean `import`?");
    let ran = Cli::new().words("man nothing-like-it").expect_exit(2).stdout_is_empty();
    ran.stderr_has("man: `servecast` has no command `nothing-like-it`; `servecast --help` lists");
}

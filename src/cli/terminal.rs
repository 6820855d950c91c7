//! What people read: results on stdout, everything else on stderr.
//!
//! Names come from files and arguments of others. What would move a terminal's cursor, colour it or turn the
//! direction of the text is shown by its escape, and lines of stderr have an end.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use super::failure::Failure;
use crate::load::{Listener, Note};
use crate::plain::shown;

/// Characters of the longest line on stderr; of a longer one the beginning and the end are shown.
const LINE_MAX: usize = 2_000;
const KEPT: usize = 500;
/// Characters of the longest number that is told in full.
const DIGITS_MAX: usize = 40;

/// Prints a result. A reader that has seen enough (a closed pipe) is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(visible(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Run(anyhow::Error::new(error).context("stdout")))
        }
        _ => Ok(()),
    }
}

/// The same of a text for people: with ends of long lines and numbers.
pub(super) fn print_text(text: &str) -> Result<(), Failure> {
    print(&shortened(&without_zeros(text)))
}

/// Says what a user should hear of: a warning the first time, nothing of progress.
pub(super) fn hear(note: &Note) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let text = note.to_string();
    let is_new = || SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone());
    let is_said = match note {
        Note::Warning(_) => is_new(),
        // A bar shows it where there is one.
        Note::Progress(_) => false,
        _ => true,
    };
    if is_said {
        say(&text);
    }
}

/// Has the notes of studies said.
pub(super) fn listener() -> Listener {
    Listener::new(hear)
}

/// Says something that is not a result.
pub(super) fn say(text: &str) {
    let text = shortened(&without_zeros(&visible(text)));
    // With nobody left to tell, there is nobody to tell that either.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// What clap says of arguments, in its own colours unless they hold what a terminal acts on.
pub(super) fn arguments(error: &clap::Error) -> u8 {
    let plain = error.render().to_string();
    if shortened(&visible(&plain)) == plain {
        // Help goes to stdout, which may be closed.
        let _ = error.print();
    } else {
        say(plain.trim_end());
    }
    u8::try_from(error.exit_code()).unwrap_or(2)
}

/// The text with the escapes of what a terminal acts on.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let is_layout = matches!(character, '\n' | '\t');
        // Marks and overrides of direction.
        let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (character.is_control() && !is_layout) || turns {
            // As JSON has it, which may be what is printed.
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The text with numbers of more than [`DIGITS_MAX`] characters given by their power of ten.
fn without_zeros(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let end = number.find(|c| !is_of_number(c)).unwrap_or(number.len());
        let (number, behind) = number.split_at(end);
        told.push_str(before);
        if number.len() > DIGITS_MAX {
            told.push_str(&shown(number));
        } else {
            told.push_str(number);
        }
        rest = behind;
    }
    told + rest
}

/// The text with the middles of long lines left out.
fn shortened(text: &str) -> String {
    let line = |line: &str| -> String {
        let count = line.chars().count();
        if count <= LINE_MAX {
            return line.to_owned();
        }
        let left_out = count - 2 * KEPT;
        let begin: String = line.chars().take(KEPT).collect();
        let end: String = line.chars().skip(count - KEPT).collect();
        format!("{begin} [{left_out} characters] {end}")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_shown_and_layout_is_kept() {
        assert_eq!(
            visible("a\tb\n\u{1b}[31m\rx\u{9b}\u{202e}"),
            "a\tb\n\\u001b[31m\\u000dx\\u009b\\u202e"
        );
        assert_eq!(visible("µs ≤ 10⁹ 模型"), "µs ≤ 10⁹ 模型");
    }

    #[test]
    fn numbers_without_an_end_are_given_by_their_power_of_ten() {
        let text = format!("got `-1{}`, 0.{}1 and 1.50 of v1.2.3", "0".repeat(300), "0".repeat(50));
        assert_eq!(without_zeros(&text), "got `-1e300`, 1e-51 and 1.50 of v1.2.3");
        assert_eq!(without_zeros(&"7".repeat(40)), "7".repeat(40));
    }

    #[test]
    fn long_lines_keep_their_ends() {
        let text = format!("short\n{}{}", "a".repeat(5_000), "z".repeat(5_000));
        let shown = shortened(&text);
        assert_eq!(
            shown,
            format!("short\n{} [9000 characters] {}", "a".repeat(500), "z".repeat(500))
        );
        assert_eq!(shortened("a\nb"), "a\nb");
    }
}

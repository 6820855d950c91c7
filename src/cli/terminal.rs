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
    let told = match error.kind() {
        clap::error::ErrorKind::ValueValidation => ruled(&plain),
        _ => plain.clone(),
    };
    if shortened(&visible(&told)) == plain {
        // Help goes to stdout, which may be closed.
        let _ = error.print();
    } else {
        say(told.trim_end());
    }
    u8::try_from(error.exit_code()).unwrap_or(2)
}

/// What clap says of a value, with the rule of numbers in words.
fn ruled(text: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let Some((given, why)) = first.rsplit_once("': ") else { return text.to_owned() };
    let rule = match why {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            let is_negative = given.contains("value '-");
            format!("must be a whole number{}", if is_negative { " of at least 0" } else { "" })
        }
        "number too large to fit in target type" => "is too large".to_owned(),
        "number too small to fit in target type" => "is too small".to_owned(),
        "invalid float literal" | "cannot parse float from empty string" => {
            "must be a number".to_owned()
        }
        _ => match why.split_once(" is not in ").and_then(|(_, range)| whole_number(range)) {
            Some(rule) => rule,
            None => return text.to_owned(),
        },
    };
    format!("{given}': {rule}\n{rest}")
}

/// A range of whole numbers, such as `1..=64`, as a rule.
fn whole_number(range: &str) -> Option<String> {
    let (least, most) = range.split_once("..")?;
    let most = match most.strip_prefix('=') {
        Some(most) => most.parse::<i64>().ok()?,
        None => most.parse::<i64>().ok()? - 1,
    };
    // Without a bound of its own a number has that of its type.
    Some(if most >= u32::MAX.into() {
        format!("must be a whole number of at least {least}")
    } else {
        format!("must be a whole number from {least} to {most}")
    })
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
    fn the_rule_of_a_number_is_told_in_words() {
        let told = |value: &str, why: &str| {
            let text =
                format!("error: invalid value '{value}' for '--seeds <N>': {why}\n\nFor more");
            let told = ruled(&text);
            let lines: Vec<&str> = told.lines().collect();
            assert_eq!(lines[1..], ["", "For more"]);
            lines[0].rsplit_once("<N>': ").expect("the value comes before").1.to_owned()
        };
        for (value, why, rule) in [
            ("-1", "-1 is not in 3..=100000", "must be a whole number from 3 to 100000"),
            ("-1", "-1 is not in 0..1000000", "must be a whole number from 0 to 999999"),
            ("0", "0 is not in 1..=4294967295", "must be a whole number of at least 1"),
            ("-1", "invalid digit found in string", "must be a whole number of at least 0"),
            ("x", "invalid digit found in string", "must be a whole number"),
            ("x", "invalid float literal", "must be a number"),
            ("x", "is not in fashion", "is not in fashion"),
        ] {
            assert_eq!(told(value, why), rule);
        }
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

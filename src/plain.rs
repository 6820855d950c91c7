//! Values and names of others in texts and tables.

mod table;

use std::fmt::Display;

pub(crate) use table::table;

/// A value in words: a number of more than 20 digits, or with more than five zeros behind the point, by its
/// power of ten.
pub(crate) fn shown(value: impl Display) -> String {
    let text = value.to_string();
    let is_long = text.len() > 20 || text.trim_start_matches('-').starts_with("0.00000");
    let number = if is_long { text.parse::<f64>().ok() } else { None };
    number.map_or(text, |number| format!("{number:e}"))
}

/// A share in percent, without what binary takes from it: 0.95 is a little less there.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

/// A number of three digits, for what is shown and not compared.
pub(crate) fn rounded(value: f64) -> String {
    shown(format!("{value:.2e}").parse::<f64>().unwrap_or(value))
}

/// A count with its thousands apart.
pub(crate) fn grouped(count: u64) -> String {
    separate(&count.to_string())
}

/// The digits of a whole number with its thousands apart.
pub(crate) fn separate(digits: &str) -> String {
    let mut separated = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            separated.push(',');
        }
        separated.push(digit);
    }
    separated
}

/// A text that a spreadsheet takes for no formula: one that begins as a formula does, and is no number, has an
/// apostrophe before it.
pub(crate) fn inert(text: &str) -> String {
    let begins = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if begins && text.parse::<f64>().is_err() { format!("'{text}") } else { text.to_owned() }
}

/// Whether a name is as a pattern says, in which `*` stands for any text and `?` for one letter. When a letter does
/// not fit, the last star takes one more: time is the product of both lengths at most.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, read));
                at += 1;
            }
            (Some(letter), _) if *letter == '?' || *letter == name[read] => {
                at += 1;
                read += 1;
            }
            (_, Some((after, taken))) => {
                star = Some((after, taken + 1));
                (at, read) = (after + 1, taken + 1);
            }
            _ => return false,
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
        for (pattern, name) in [
            ("*", ""),
            ("router-*", "router-load"),
            ("*-v?lm", "a-vllm"),
            ("lora", "lora"),
            ("lab/*", "lab/glm-4.5-air/a100"),
            ("*a100", "lab/glm-4.5-air/a100"),
            ("a*b*c", "axbxbxc"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("router-*", "a-router-b"),
            ("?", ""),
            ("a?00", "a00"),
            ("lora", "lora-2"),
            ("a*b*c", "axbxb"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_take_long() {
        assert!(!matches(&("*a".repeat(30) + "*b"), &"a".repeat(2000)));
    }

    #[test]
    fn long_numbers_are_given_by_their_power_of_ten() {
        for (value, text) in [
            (1e-308, "1e-308"),
            (-1e-9, "-1e-9"),
            (0.0001, "0.0001"),
            (-1e300, "-1e300"),
            (0.1, "0.1"),
            (2.0, "2"),
        ] {
            assert_eq!(shown(value), text);
        }
        assert_eq!(shown(u64::MAX), "18446744073709551615");
        assert_eq!(
            shown("a word of more than twenty letters"),
            "a word of more than twenty letters"
        );
    }

    #[test]
    fn small_figures_have_three_digits() {
        for (value, text) in [(0.083_456_7, "0.0835"), (1.234_56e-9, "1.23e-9"), (0.0, "0")] {
            assert_eq!(rounded(value), text);
        }
    }

    #[test]
    fn formulas_are_texts_and_numbers_stay_numbers() {
        for (text, cell) in
            [("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"), ("@SUM(A1)", "'@SUM(A1)")]
        {
            assert_eq!(inert(text), cell);
        }
        for text in ["-1", "+1e-3", "-inf", "plain", ""] {
            assert_eq!(inert(text), text);
        }
    }
}

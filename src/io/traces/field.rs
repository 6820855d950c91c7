//! Single values of a trace: token counts, stamps, sessions. Integers only, unless the file itself
//! writes an exponent.

use std::str;

use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::Offset;

use crate::rng::mix;

use super::format::TimeUnit;

static PARSER: DateTimeParser = DateTimeParser::new();

/// Nanoseconds since the Unix epoch of a stamp like `2023-11-16 18:17:03.9799600`: up to nine
/// fractional digits, `T` or a blank before the time, UTC unless an offset follows.
///
/// # Errors
/// The rule and the value when the text is no such stamp, or is before 1678 or after 2262.
pub fn parse_wall_clock(text: &str) -> Result<i64, String> {
    wall_clock(text.as_bytes())
        .ok_or_else(|| format!("a stamp must read like 2023-11-16 18:17:03.9799600, got `{text}`"))
}

fn wall_clock(text: &[u8]) -> Option<i64> {
    // The time ends in digits; a zone is `Z` or has a sign after the date.
    let zoned = text.last() == Some(&b'Z')
        || text.get(10..).is_some_and(|time| time.contains(&b'+') || time.contains(&b'-'));
    let stamp = if zoned {
        PARSER.parse_timestamp(text).ok()?
    } else {
        let time: DateTime = PARSER.parse_datetime(text).ok()?;
        Offset::UTC.to_timestamp(time).ok()?
    };
    i64::try_from(stamp.as_nanosecond()).ok()
}

/// A stamp in nanoseconds of the file's own clock.
pub(super) fn stamp(unit: TimeUnit, column: &str, text: &[u8]) -> Result<i64, String> {
    let text = text.trim_ascii();
    let Some(digits) = unit.decimal_digits() else {
        return wall_clock(text).ok_or_else(|| {
            format!(
                "`{column}` must be a stamp like 2023-11-16 18:17:03.9799600, got `{}`",
                String::from_utf8_lossy(text)
            )
        });
    };
    decimal(text, digits).or_else(|| exponential(text, digits)).ok_or_else(|| {
        if let Some(problem) = comma_problem(column, text) {
            return problem;
        }
        let text = String::from_utf8_lossy(text);
        let is_far = text.parse().is_ok_and(f64::is_finite);
        if is_far { too_far(column, &text) } else { no_stamp(unit, column, &text) }
    })
}

/// The same from a floating-point number, to the nearest nanosecond.
pub(super) fn stamp_from_f64(unit: TimeUnit, column: &str, value: f64) -> Result<i64, String> {
    let scaled = unit.decimal_digits().map(|digits| value * 10_f64.powi(digits.cast_signed()));
    scaled.and_then(nearest).ok_or_else(|| {
        let got = format!("{value:?}");
        let is_far = scaled.is_some() && value.is_finite();
        if is_far { too_far(column, &got) } else { no_stamp(unit, column, &got) }
    })
}

/// Times are 64-bit nanoseconds.
fn too_far(column: &str, got: &str) -> String {
    format!("`{column}` must be a time within 9.2·10⁹ seconds of zero, got `{got}`")
}

fn no_stamp(unit: TimeUnit, column: &str, got: &str) -> String {
    format!("`{column}` must be a finite number of {unit}, got `{got}`")
}

/// `text × 10^digits` as an integer, the rest rounded half away from zero; `None` unless the text
/// is a plain decimal number in range.
fn decimal(text: &[u8], digits: u32) -> Option<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let point = text.iter().position(|&c| c == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[..0]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for &c in whole {
        value = push_digit(value, c)?;
    }
    for index in 0..digits as usize {
        value = push_digit(value, fraction.get(index).copied().unwrap_or(b'0'))?;
    }
    let rest = fraction.get(digits as usize..).unwrap_or_default();
    if !rest.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if rest.first().is_some_and(|&c| c >= b'5') {
        value = value.checked_add(1)?;
    }
    Some(if negative { -value } else { value })
}

fn push_digit(value: i64, c: u8) -> Option<i64> {
    c.is_ascii_digit().then_some(())?;
    value.checked_mul(10)?.checked_add(i64::from(c - b'0'))
}

fn exponential(text: &[u8], digits: u32) -> Option<i64> {
    let value: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    nearest(value * 10_f64.powi(digits.cast_signed()))
}

/// The nearest integer, if it is safely within 64 bits.
fn nearest(value: f64) -> Option<i64> {
    (value.is_finite() && value.abs() < 9.2e18).then(|| value.round() as i64)
}

/// A token count: a whole number, with no fraction but zeros.
pub(super) fn tokens(column: &str, text: &[u8]) -> Result<u32, String> {
    let text = text.trim_ascii();
    decimal_tokens(text).ok_or_else(|| {
        let whole = || token_problem(column, &String::from_utf8_lossy(text));
        comma_problem(column, text).unwrap_or_else(whole)
    })
}

/// What to say of a number with a comma: whether it is one of decimals or of thousands nobody knows.
fn comma_problem(column: &str, text: &[u8]) -> Option<String> {
    let is_number = text.iter().all(|c| c.is_ascii_digit() || b"-.,".contains(c));
    (is_number && text.contains(&b',')).then(|| {
        format!(
            "`{column}` must have a point before its decimals and no commas, got `{}`",
            String::from_utf8_lossy(text)
        )
    })
}

fn decimal_tokens(text: &[u8]) -> Option<u32> {
    let whole = match text.iter().position(|&c| c == b'.') {
        Some(at) if text[at + 1..].iter().all(|&c| c == b'0') => &text[..at],
        Some(_) => return None,
        None => text,
    };
    if whole.is_empty() {
        return None;
    }
    whole.iter().try_fold(0_u32, |value, &c| {
        c.is_ascii_digit().then_some(())?;
        value.checked_mul(10)?.checked_add(u32::from(c - b'0'))
    })
}

pub(super) fn token_problem(column: &str, value: &str) -> String {
    format!("`{column}` must be a whole number of tokens, 0 to {}, got `{value}`", u32::MAX)
}

/// A session: numbers as they are, other names by a hash; none when empty, `nan`, `None` or −1.
pub(super) fn session(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if [&b""[..], b"-1", b"nan", b"NaN", b"None", b"null"].contains(&text) {
        return None;
    }
    // pandas writes whole numbers with a fraction where a column has gaps: `12.0`.
    let number = text.strip_suffix(b".0").unwrap_or(text);
    let parsed = str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    Some(parsed.unwrap_or_else(|| text.iter().fold(0, |hash, &c| mix(hash ^ u64::from(c)))))
}

/// Why prefix ids cannot belong to a prompt, if they cannot: a block of `block_tokens` tokens has
/// one id, a last partial block one or none.
pub(super) fn hash_ids_problem(
    ids: usize,
    block_tokens: u32,
    prompt_tokens: u32,
) -> Option<String> {
    if ids > 0 && block_tokens == 0 {
        return Some("a block of `hash_ids` must have at least 1 token, got 0".to_owned());
    }
    if ids == 0 {
        return None;
    }
    let (floor, ceil) = (prompt_tokens / block_tokens, prompt_tokens.div_ceil(block_tokens));
    let fits = ids == floor as usize || ids == ceil as usize;
    (!fits).then(|| {
        format!(
            "`hash_ids` must have one id for every {block_tokens} prompt tokens, {ceil} for \
             {prompt_tokens}, got {ids}; if blocks are of another size, state it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_stamp_keeps_every_digit_down_to_the_nanosecond() {
        let seconds = |text: &str| stamp(TimeUnit::Seconds, "t", text.as_bytes());
        assert_eq!(seconds("0.061691"), Ok(61_691_000));
        assert_eq!(seconds("1700158623.123456789"), Ok(1_700_158_623_123_456_789));
        assert_eq!(seconds("0.0000000015"), Ok(2));
        assert_eq!(seconds("-2.5"), Ok(-2_500_000_000));
        assert_eq!(seconds(" 7 "), Ok(7_000_000_000));
        assert_eq!(seconds("1e-3"), Ok(1_000_000));
        assert_eq!(stamp(TimeUnit::Milliseconds, "t", b"27.5"), Ok(27_500_000));
        assert_eq!(stamp(TimeUnit::Nanoseconds, "t", b"46926808"), Ok(46_926_808));
    }

    #[test]
    fn a_stamp_is_finite_and_a_number() {
        let problem = |text: &str| stamp(TimeUnit::Seconds, "t", text.as_bytes()).unwrap_err();
        for text in ["NaN", "inf", "", ".", "-", "1.2.3", "12:00"] {
            let problem = problem(text);
            assert!(problem.contains("finite number of seconds"), "{problem}");
            assert!(problem.contains(text), "{problem}");
        }
        for text in ["1e30", "99999999999999999999", "-1e300"] {
            let problem = problem(text);
            let said = format!("must be a time within 9.2·10⁹ seconds of zero, got `{text}`");
            assert!(problem.contains(&said), "{problem}");
        }
        let far = stamp_from_f64(TimeUnit::Milliseconds, "t", 1e300).unwrap_err();
        assert_eq!(far, "`t` must be a time within 9.2·10⁹ seconds of zero, got `1e300`");
    }

    #[test]
    fn a_wall_clock_stamp_has_seven_digits_a_blank_or_a_zone() {
        // 2023-11-16 is day 19,677 since 1970; 18:17:03 is second 65,823 of it.
        let whole = 19_677 * 86_400 + 65_823;
        let at = |text: &str| parse_wall_clock(text);
        assert_eq!(at("2023-11-16 18:17:03.9799600"), Ok(whole * 1_000_000_000 + 979_960_000));
        assert_eq!(at("2023-11-16T18:17:03"), Ok(whole * 1_000_000_000));
        assert_eq!(at("2023-11-16 18:17:03.0000001+00:00"), Ok(whole * 1_000_000_000 + 100));
        assert_eq!(at("2023-11-16 19:17:03+01:00"), Ok(whole * 1_000_000_000));
        assert_eq!(at("2023-11-16T18:17:03Z"), Ok(whole * 1_000_000_000));
        for wrong in ["2023-02-30 00:00:00", "16.11.2023", "", "12.5"] {
            assert!(at(wrong).unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn tokens_are_whole_and_fit_32_bits() {
        assert_eq!(tokens("n", b"4294967295"), Ok(u32::MAX));
        assert_eq!(tokens("n", b"17.0"), Ok(17));
        for wrong in ["4294967296", "-1", "1.5", "", "many", "1e3"] {
            let problem = tokens("n", wrong.as_bytes()).unwrap_err();
            assert!(problem.starts_with("`n` must be a whole number"), "{problem}");
        }
    }

    #[test]
    fn sessions_are_numbers_or_stable_hashes_of_names() {
        assert_eq!(session(b"12"), Some(12));
        assert_eq!(session(b"12.0"), Some(12));
        assert_eq!(session(b"-1"), None);
        assert_eq!(session(b""), None);
        assert_eq!(session(b"a-b"), session(b"a-b"));
        assert_ne!(session(b"a-b"), session(b"a-c"));
    }

    #[test]
    fn the_last_partial_block_may_go_without_an_id() {
        assert_eq!(hash_ids_problem(14, 512, 6758), None);
        assert_eq!(hash_ids_problem(13, 512, 6758), None);
        assert_eq!(hash_ids_problem(0, 512, 6758), None);
        assert!(hash_ids_problem(12, 512, 6758).is_some_and(|problem| problem.contains("14 for")));
    }
}

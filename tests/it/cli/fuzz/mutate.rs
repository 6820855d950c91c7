//! Inputs made worse: bytes, numbers, lines and structure.

use std::ops::Range;

/// Small, fast, and the same everywhere (splitmix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    pub(super) fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Values that readers have met badly.
const TOKENS: [&str; 44] = [
    "0",
    "-1",
    "1",
    "2",
    "-0.0",
    "0.5",
    "1e308",
    "-1e308",
    "1e-308",
    "1e400",
    "NaN",
    "nan",
    "inf",
    "-inf",
    "Infinity",
    "null",
    "true",
    "\"\"",
    "''",
    "[]",
    "{}",
    "[[]]",
    "4294967295",
    "4294967296",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e19",
    "1000000000",
    "999999999999",
    "0x10",
    "1_000",
    "１２",
    "\u{202e}x",
    "\u{0}",
    "\u{1b}[31m",
    "=1+1",
    "../../x",
    "a.b[0]",
    "\"a\\u0000\"",
    "2026-13-45T99:99:99Z",
    "\r",
];

/// Bytes between which tokens stand.
const BREAKS: &[u8] = b" \t\r\n,:;=[]{}()\"'|";

/// A worse copy: one to four changes.
pub(super) fn mutated(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=dice.below(4) {
        change(&mut bytes, dice);
    }
    // Growth by repetition is bounded: what is long enough to matter has targets of its own.
    bytes.truncate(4 << 20);
    bytes
}

fn change(bytes: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(16) {
        0 if !bytes.is_empty() => {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
        1 if !bytes.is_empty() => {
            let at = dice.below(bytes.len());
            bytes[at] = dice.roll() as u8;
        }
        2 => {
            let at = dice.below(bytes.len() + 1);
            bytes.truncate(at);
        }
        3 => {
            let lines = lines(bytes);
            let line = bytes[lines[dice.below(lines.len())].clone()].to_vec();
            let at = lines[dice.below(lines.len())].start;
            bytes.splice(at..at, line);
        }
        4 => {
            let lines = lines(bytes);
            bytes.drain(lines[dice.below(lines.len())].clone());
        }
        5 => {
            let lines = lines(bytes);
            let (one, other) = (dice.below(lines.len()), dice.below(lines.len()));
            let (one, other) = (lines[one.min(other)].clone(), lines[one.max(other)].clone());
            if one.end <= other.start {
                let (first, second) = (bytes[one.clone()].to_vec(), bytes[other.clone()].to_vec());
                bytes.splice(other, first);
                bytes.splice(one, second);
            }
        }
        6 => {
            let at = dice.below(bytes.len() + 1);
            let (open, count) =
                (dice.one_of(&["[", "{\"a\":", "(", "[[", "a."]), 1 << dice.below(14));
            bytes.splice(at..at, open.repeat(count).into_bytes());
        }
        7 => {
            let at = dice.below(bytes.len() + 1);
            let letter = dice.one_of(&["a", "9", ",", " ", "\n", "\"", "é"]);
            let count = 1 << dice.below(17);
            bytes.splice(at..at, letter.repeat(count).into_bytes());
        }
        8 => {
            let at = dice.below(bytes.len() + 1);
            bytes.splice(at..at, dice.one_of(&TOKENS).bytes());
        }
        9 => {
            let (one, other) = (token(bytes, dice), token(bytes, dice));
            let copy = bytes[one].to_vec();
            bytes.splice(other, copy);
        }
        _ => {
            let number = number(bytes, dice).unwrap_or_else(|| token(bytes, dice));
            let token = dice.one_of(&TOKENS);
            bytes.splice(number, token.bytes());
        }
    }
}

/// Where integers end, in the widths that readers and counters have, and floats.
pub(super) const ENDS: [&str; 7] =
    ["0", "2147483648", "4294967295", "9007199254740993", "9223372036854775807", "1e-300", "1e300"];

/// The tokens of a text that are numbers, at most so many.
pub(super) fn numbers(bytes: &[u8], most: usize) -> Vec<Range<usize>> {
    let is_break = |byte: u8| BREAKS.contains(&byte);
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() && all.len() < most {
        let length = bytes[at..].iter().position(|byte| is_break(*byte));
        let end = length.map_or(bytes.len(), |length| at + length);
        let text = std::str::from_utf8(&bytes[at..end]).unwrap_or_default();
        if text.replace('_', "").parse::<f64>().is_ok_and(f64::is_finite) {
            all.push(at..end);
        }
        at = end + 1;
    }
    all
}

/// Lines with their breaks; at least one.
fn lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut all: Vec<Range<usize>> = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        all.push(start..start + line.len());
        start += line.len();
    }
    if all.is_empty() {
        all.push(0..0);
    }
    all
}

/// A token at a random place; it may be empty.
fn token(bytes: &[u8], dice: &mut Dice) -> Range<usize> {
    let at = dice.below(bytes.len() + 1);
    let is_break = |byte: &u8| BREAKS.contains(byte);
    let start = bytes[..at].iter().rposition(is_break).map_or(0, |before| before + 1);
    let end = bytes[at..].iter().position(is_break).map_or(bytes.len(), |length| at + length);
    start..end
}

/// A token that begins like a number, if one is found soon.
fn number(bytes: &[u8], dice: &mut Dice) -> Option<Range<usize>> {
    (0..16).map(|_| token(bytes, dice)).find(|found| {
        bytes[found.clone()].first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
    })
}

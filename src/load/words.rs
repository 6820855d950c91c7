//! What readers of files say, in the words of those who wrote the files: serde speaks of Rust's types.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A message in which no type of Rust is named.
pub(crate) fn plain(message: &str) -> String {
    let message = keys(message);
    let mut told = String::with_capacity(message.len());
    let mut rest = message.as_str();
    while let Some((before, got, expected, behind)) = mismatch(rest) {
        let (wanted, found) = (wanted(expected), found(got));
        told.extend([before, "must be ", &wanted, ", got ", &found]);
        rest = behind;
    }
    told + rest
}

/// What is wrong with a text in TOML, in one line that begins with the place.
pub(crate) fn toml_problem(text: &str, error: &toml::de::Error) -> String {
    let said = plain(error.message());
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return said };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
    format!("line {line}, column {column}: {said}")
}

/// The line on which the value at a path such as `spec.link` begins, unless it is a table.
pub(crate) fn toml_line(text: &str, path: &str) -> Option<usize> {
    let mut tables = DeTable::parse(text).ok()?.into_inner();
    let (around, last) = path.rsplit_once('.').unwrap_or(("", path));
    for key in around.split('.').filter(|key| !key.is_empty()) {
        tables = match named(tables, key)?.into_inner() {
            DeValue::Table(table) => table,
            _ => return None,
        };
    }
    let value = named(tables, last)?;
    let is_table = matches!(value.get_ref(), DeValue::Table(_));
    let before = text.get(..value.span().start).filter(|_| !is_table)?;
    Some(before.matches('\n').count() + 1)
}

fn named<'a>(table: DeTable<'a>, name: &str) -> Option<Spanned<DeValue<'a>>> {
    let mut entries = table.into_iter();
    entries.find(|(key, _)| key.get_ref().as_ref() == name).map(|(_, value)| value)
}

/// Keys and words that are not known, or are missing.
fn keys(message: &str) -> String {
    [
        ("unknown field `", "unknown key `"),
        ("unknown variant `", "unknown value `"),
        ("missing field `", "missing key `"),
        ("duplicate field `", "the key comes twice: `"),
        (", there are no fields", ", there are none here"),
    ]
    .iter()
    .fold(message.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The first value that is not of its type: the text before, what was found, what was expected, the text behind.
fn mismatch(text: &str) -> Option<(&str, &str, &str, &str)> {
    let starts = ["invalid type: ", "invalid value: ", "invalid length "];
    let first = |start: &&str| text.find(start).map(|at| (at, start.len()));
    let (at, length) = starts.iter().filter_map(first).min()?;
    let said = &text[at + length..];
    let (got, expected) = said.split_once(", expected ")?;
    let ends = [" at line ", " at column ", " in `", "\n", "; "];
    let end = ends.iter().filter_map(|end| expected.find(end)).min().unwrap_or(expected.len());
    Some((&text[..at], got, &expected[..end], &expected[end..]))
}

fn found(got: &str) -> String {
    for kind in ["boolean `", "integer `", "floating point `", "character `"] {
        if let Some(value) = got.strip_prefix(kind) {
            return crate::plain::shown(value.trim_end_matches('`'));
        }
    }
    match got {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        "unit variant" => "no word".to_owned(),
        "null" | "unit value" | "Option value" => "nothing".to_owned(),
        _ => match got.strip_prefix("string ") {
            Some(word) => word.to_owned(),
            None => got.to_owned(),
        },
    }
}

fn wanted(expected: &str) -> String {
    let whole = |most: &str| format!("a whole number up to {most}");
    match expected {
        "f64" | "f32" => "a number".to_owned(),
        "u8" => whole("255"),
        "u16" => whole("65535"),
        "u32" => whole("4294967295"),
        "u64" | "usize" => whole("2^63 - 1"),
        "i32" => "a whole number from -2147483648 to 2147483647".to_owned(),
        "i64" => "a whole number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "variant identifier" | "string only" | "unit variant" => "a word".to_owned(),
        "a sequence" => "a list".to_owned(),
        "string or map" => "a word or a table".to_owned(),
        "a map" => "a table".to_owned(),
        _ if ["struct ", "internally tagged enum ", "adjacently tagged enum ", "enum "]
            .iter()
            .any(|kind| expected.starts_with(kind)) =>
        {
            "a table".to_owned()
        }
        _ if expected.starts_with("a nonzero ") => "a whole number above 0".to_owned(),
        _ => match expected.rsplit_once(' ').filter(|(list, _)| {
            list.ends_with("array of length") || list.ends_with("tuple of size")
        }) {
            Some((_, length)) => format!("a list of {length}"),
            None => expected.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{plain, toml_line, toml_problem};

    #[test]
    fn a_value_is_found_by_its_path() {
        let text = "like = 'a'\n\n[spec]\nlink = 'b'\nmemory_bytes =\t3\n";
        assert_eq!(toml_line(text, "like"), Some(1));
        assert_eq!(toml_line(text, "spec.memory_bytes"), Some(5));
        for path in ["spec", "spec.name", "like.spec", "", "memory_bytes"] {
            assert_eq!(toml_line(text, path), None, "{path}");
        }
    }

    #[test]
    fn a_text_that_is_no_toml_is_told_with_line_and_column() {
        let told = |text: &str| {
            toml_problem(text, &text.parse::<toml::Table>().expect_err("it is no TOML"))
        };
        let broken = told("a = 1\n# é\nb = 5OO\n");
        assert!(broken.starts_with("line 3, column 5: string values must be quoted"), "{broken}");
        assert!(
            told("a = 1\na = 2").starts_with("line 2, column 1: duplicate key"),
            "{}",
            told("a = 1\na = 2")
        );
    }

    #[test]
    fn types_of_rust_are_told_in_the_words_of_files() {
        for (said, told) in [
            ("a.b: invalid type: string \"x\", expected f64", "a.b: must be a number, got \"x\""),
            (
                "a: invalid type: map, expected u32",
                "a: must be a whole number up to 4294967295, got a table",
            ),
            (
                "a: invalid type: boolean `true`, expected struct HostConfig at line 3 column 4",
                "a: must be a table, got true at line 3 column 4",
            ),
            (
                "invalid type: floating point `1e-300`, expected a sequence\n",
                "must be a list, got 1e-300\n",
            ),
            (
                "invalid value: integer `-1`, expected u16",
                "must be a whole number up to 65535, got -1",
            ),
            ("invalid length 3, expected an array of length 2", "must be a list of 2, got 3"),
            ("unknown field `x`, expected `a` or `b`", "unknown key `x`, expected `a` or `b`"),
            (
                "invalid type: sequence, expected an object at column 0",
                "must be an object, got a list at column 0",
            ),
            ("missing field `a`", "missing key `a`"),
        ] {
            assert_eq!(plain(said), told);
        }
    }
}

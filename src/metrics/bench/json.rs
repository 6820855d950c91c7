//! JSON as Python's `json.dumps` writes it, byte for byte: shortest floats in Python's spelling,
//! ASCII only, keys in the order given.

use std::fmt::Write as _;

/// A JSON value whose objects keep the order of their keys.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, written without a point.
    Int(u64),
    /// A float, written with a point or an exponent.
    Float(f64),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, keys in order.
    Object(Vec<(String, Json)>),
}

/// How infinite and undefined floats are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// `Infinity`, `-Infinity`, `NaN`: what Python writes, which strict readers refuse.
    #[default]
    Python,
    /// `"inf"`, `"-inf"`, `"nan"` as strings: valid JSON, and vLLM's spelling of an endless rate.
    Text,
    /// `null`: valid JSON.
    Null,
}

/// Where the line breaks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonLayout {
    /// One line, `", "` and `": "` between items (`json.dumps(x)`).
    #[default]
    Line,
    /// One item a line, indented by this many spaces a level (`json.dumps(x, indent=n)`).
    Indented(usize),
}

impl Json {
    /// A number or string, or `null` for nothing.
    pub fn or_null<T: Into<Self>>(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }

    /// An array of these values.
    pub fn array<T: Into<Self>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::Array(values.into_iter().map(Into::into).collect())
    }

    /// The text Python's `json.dumps` makes of this value.
    pub fn to_text(&self, layout: JsonLayout, non_finite: NonFinite) -> String {
        let mut out = String::new();
        self.write(&mut out, layout, non_finite, 0);
        out
    }

    fn write(&self, out: &mut String, layout: JsonLayout, non_finite: NonFinite, depth: usize) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Int(value) => write!(out, "{value}").unwrap_or_default(),
            Self::Float(value) => write_float(out, *value, non_finite),
            Self::Text(value) => write_string(out, value),
            Self::Array(items) => {
                write_items(out, ('[', ']'), items, layout, depth, |out, item| {
                    item.write(out, layout, non_finite, depth + 1);
                });
            }
            Self::Object(items) => {
                write_items(out, ('{', '}'), items, layout, depth, |out, (key, value)| {
                    write_string(out, key);
                    out.push_str(": ");
                    value.write(out, layout, non_finite, depth + 1);
                });
            }
        }
    }
}

impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::Int(u64::from(value))
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

fn write_items<T>(
    out: &mut String,
    (open, close): (char, char),
    items: &[T],
    layout: JsonLayout,
    depth: usize,
    mut write_item: impl FnMut(&mut String, &T),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        match layout {
            JsonLayout::Line if index > 0 => out.push_str(", "),
            JsonLayout::Line => {}
            JsonLayout::Indented(spaces) => {
                out.push_str(if index > 0 { ",\n" } else { "\n" });
                out.push_str(&" ".repeat(spaces * (depth + 1)));
            }
        }
        write_item(out, item);
    }
    if let JsonLayout::Indented(spaces) = layout
        && !items.is_empty()
    {
        out.push('\n');
        out.push_str(&" ".repeat(spaces * depth));
    }
    out.push(close);
}

fn write_float(out: &mut String, value: f64, non_finite: NonFinite) {
    if value.is_finite() {
        out.push_str(&python_repr(value));
        return;
    }
    let (python, text) = match value {
        _ if value.is_nan() => ("NaN", "\"nan\""),
        _ if value > 0.0 => ("Infinity", "\"inf\""),
        _ => ("-Infinity", "\"-inf\""),
    };
    out.push_str(match non_finite {
        NonFinite::Python => python,
        NonFinite::Text => text,
        NonFinite::Null => "null",
    });
}

fn write_string(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").unwrap_or_default();
                }
            }
        }
    }
    out.push('"');
}

/// `repr(value)`: the shortest digits that read back as the same float, with an exponent below
/// 10⁻⁴ and from 10¹⁶ on; `inf`, `-inf` and `nan` as Python spells them.
pub(super) fn python_repr(value: f64) -> String {
    if !value.is_finite() {
        return format!("{value}").to_lowercase();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || value == 0.0 {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// `format(value, "g")`: six significant digits, no trailing zeros.
pub(super) fn python_general(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return format!("{value}").to_lowercase();
    }
    let rounded = format!("{value:.5e}");
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return trim_zeros(&format!("{value:.*}", (5 - exponent) as usize)).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs())
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_spelled_as_python_spells_them() {
        // each right-hand side is repr() of CPython 3
        for (value, repr) in [
            (13.52, "13.52"),
            (148.0, "148.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.2345e22, "1.2345e+22"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (2.811_263_460_218_476_5, "2.8112634602184765"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(python_repr(value), repr);
        }
    }

    #[test]
    fn general_format_keeps_six_digits() {
        for (value, text) in [
            (500.0, "500"),
            (0.5, "0.5"),
            (12.345_678, "12.3457"),
            (1e6, "1e+06"),
            (999_999.9, "1e+06"),
            (0.000_01, "1e-05"),
            (0.0, "0"),
        ] {
            assert_eq!(python_general(value), text);
        }
    }

    #[test]
    fn two_decimals_round_half_to_even_as_in_python() {
        // 0.125 and 0.375 are exact in binary: ties go to the even digit in both languages
        for (value, text) in [(0.125, "0.12"), (0.375, "0.38"), (2.675, "2.67"), (-0.001, "-0.00")]
        {
            assert_eq!(format!("{value:.2}"), text);
        }
    }

    #[test]
    fn strings_are_ascii() {
        let json = Json::Array(vec!["a\"\\\n".into(), "é😀".into(), Json::Bool(true), Json::Null]);
        let text = json.to_text(JsonLayout::Line, NonFinite::Python);
        assert_eq!(text, r#"["a\"\\\n", "\u00e9\ud83d\ude00", true, null]"#);
    }

    #[test]
    fn an_infinite_rate_has_three_spellings() {
        let json = Json::Object(vec![("request_rate".to_owned(), Json::Float(f64::INFINITY))]);
        for (non_finite, text) in [
            (NonFinite::Python, "{\"request_rate\": Infinity}"),
            (NonFinite::Text, "{\"request_rate\": \"inf\"}"),
            (NonFinite::Null, "{\"request_rate\": null}"),
        ] {
            assert_eq!(json.to_text(JsonLayout::Line, non_finite), text);
        }
    }

    #[test]
    fn empty_containers_stay_on_their_line() {
        let json = Json::Object(vec![("a".to_owned(), Json::Array(vec![]))]);
        assert_eq!(json.to_text(JsonLayout::Indented(1), NonFinite::Python), "{\n \"a\": []\n}");
    }
}

//! Rows of CSV files that may mean something else than they seem to: numbers with points that may stand before
//! thousands, times that may be durations, quotes that swallow rows. What is in doubt is refused.

use csv::ByteRecord;

use super::field;

/// What the times of a file look like so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Doubts {
    /// Whether fields are separated by semicolons, as where a point stands before thousands.
    semicolons: bool,
    /// Whether the name of the column of times would also suit a duration.
    may_be_duration: bool,
    /// The stamp before, and how it was written.
    last: Option<(i64, String)>,
    points: Points,
}

/// Points in the times of a file.
#[derive(Debug, Clone, Default)]
struct Points {
    /// Some number has a point that stands before decimals, whatever the others are.
    has_decimals: bool,
    /// A number without a point, other than 0.
    whole: Option<String>,
    /// A number with three digits after its point.
    thousand: Option<String>,
    /// The line of the row with which both were there.
    line: u64,
}

impl Doubts {
    /// Of a file of which no row was read.
    pub(super) fn new(semicolons: bool, may_be_duration: bool) -> Self {
        Self { semicolons, may_be_duration, ..Self::default() }
    }

    /// Looks at a number of tokens.
    ///
    /// # Errors
    /// When its point may stand before thousands.
    pub(super) fn tokens(&self, column: &str, text: &[u8]) -> Result<(), String> {
        let text = text.trim_ascii();
        if !self.semicolons || !is_thousand(text) {
            return Ok(());
        }
        let (number, whole) = (written(text), written(text).replace('.', ""));
        Err(format!(
            "`{column}` must be a whole number of tokens without a point, got `{number}`. Is it {whole}? Then write \
             {whole}"
        ))
    }

    /// Looks at a stamp on this line, which was read as so many nanoseconds.
    ///
    /// # Errors
    /// When its times are no arrivals.
    pub(super) fn stamp(
        &mut self,
        column: &str,
        text: &[u8],
        read: i64,
        line: u64,
    ) -> Result<(), String> {
        let text = text.trim_ascii();
        if self.semicolons {
            self.points.see(text, line);
        }
        if !self.may_be_duration {
            return Ok(());
        }
        if let Some((last, before)) = &self.last
            && read < *last
        {
            return Err(format!(
                "`{column}` goes down, from `{before}` to `{}`: is it a duration? If it is when requests arrive, say so, \
                 as in `--column 'arrival={column}'` or `trace.columns = {{ arrival = \"{column}\" }}`",
                written(text)
            ));
        }
        self.last = Some((read, written(text)));
        Ok(())
    }

    /// What no row has settled at the end of the file: the line, and why.
    pub(super) fn unsettled(&self, column: &str) -> Option<(u64, String)> {
        self.points.unsettled(column).map(|problem| (self.points.line, problem))
    }
}

impl Points {
    fn see(&mut self, text: &[u8], line: u64) {
        let was_clear = self.whole.is_none() || self.thousand.is_none();
        if is_thousand(text) {
            self.thousand.get_or_insert_with(|| written(text));
        } else if text.contains(&b'.') {
            self.has_decimals = true;
        } else if text.iter().any(|c| (b'1'..=b'9').contains(c)) {
            self.whole.get_or_insert_with(|| written(text));
        }
        if was_clear && self.whole.is_some() && self.thousand.is_some() {
            self.line = line;
        }
    }

    fn unsettled(&self, column: &str) -> Option<String> {
        match (&self.whole, &self.thousand) {
            (Some(whole), Some(thousand)) if !self.has_decimals => Some(format!(
                "`{column}` has `{whole}` and `{thousand}`: nobody knows whether the point stands before decimals or \
                 thousands. Write `{}` if it is {0}, else give every number its decimals",
                thousand.replace('.', "")
            )),
            _ => None,
        }
    }
}

/// Whether a point of a number may stand before thousands: one to three digits, and three after each point.
fn is_thousand(text: &[u8]) -> bool {
    let mut groups = text.split(|&c| c == b'.');
    let are_digits = |group: &[u8]| group.iter().all(u8::is_ascii_digit);
    let first = groups.next().unwrap_or_default();
    let mut rest = groups.peekable();
    rest.peek().is_some()
        && (1..=3).contains(&first.len())
        && are_digits(first)
        && first[0] != b'0'
        && rest.all(|group| group.len() == 3 && are_digits(group))
}

fn written(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// The line on which a quote was opened that swallowed rows, if one was: a field of the record has a line that is a
/// row of its own, with whole numbers in these columns.
pub(super) fn swallowed(record: &ByteRecord, delimiter: u8, numbers: &[usize]) -> Option<u64> {
    let mut line = record.position()?.line();
    for field in record {
        let mut lines = field.split(|&c| c == b'\n');
        lines.next();
        let is_row = |inner: &[u8]| {
            let cells: Vec<&[u8]> = inner.split(|&c| c == delimiter).collect();
            cells.len() == record.len()
                && numbers.iter().all(|at| field::tokens("", cells[*at]).is_ok())
        };
        if lines.clone().any(is_row) {
            return Some(line);
        }
        line += lines.count() as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_groups_of_three() {
        for text in ["1.000", "12.345", "999.000.000"] {
            assert!(is_thousand(text.as_bytes()), "{text}");
        }
        for text in
            ["", "1000", "0.250", "1.5", "1.0000", "1234.000", ".000", "1.", "a.000", "1.00a"]
        {
            assert!(!is_thousand(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn one_number_with_other_decimals_settles_what_points_are() {
        let seen = |texts: &[&str]| {
            let mut doubts = Doubts::new(true, false);
            for (text, line) in texts.iter().zip(2..) {
                doubts.stamp("t", text.as_bytes(), 0, line).unwrap();
            }
            doubts.unsettled("t")
        };
        assert_eq!(seen(&["0", "1.250", "2.500"]), None);
        assert_eq!(seen(&["0.5", "1.250", "20"]), None);
        assert_eq!(seen(&["1", "1.250", "2.5"]), None);
        let (line, problem) = seen(&["0", "250", "1.000", "2.000"]).unwrap();
        assert!(line == 4 && problem.contains("`250` and `1.000`"), "{line}: {problem}");
        assert_eq!(seen(&["1.000", "250"]).unwrap().0, 3);
    }
}

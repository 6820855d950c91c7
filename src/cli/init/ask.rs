//! Questions on a terminal, with a default in brackets.

use std::io::{BufRead, Write};

use crate::cli::failure::Failure;

/// Asks somebody at a terminal, or nobody.
pub(super) struct Asker<'a> {
    ends: Option<(Box<dyn BufRead + 'a>, Box<dyn Write + 'a>)>,
}

impl<'a> Asker<'a> {
    /// Asks where this is read and written.
    pub(super) fn of(from: impl BufRead + 'a, to: impl Write + 'a) -> Self {
        Self { ends: Some((Box::new(from), Box::new(to))) }
    }

    /// Asks nobody: every answer is the default.
    pub(super) fn silent() -> Self {
        Self { ends: None }
    }

    /// The answer to a question: the default where nobody is asked, the line is empty or the input has ended. An
    /// answer that breaks a rule is asked for again.
    ///
    /// # Errors
    /// When the terminal cannot be read or written.
    pub(super) fn ask<T>(
        &mut self,
        question: &str,
        default: T,
        shown: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let Some((from, to)) = &mut self.ends else { return Ok(default) };
        let broken = |error: std::io::Error| Failure::Run(error.into());
        loop {
            write!(to, "{question} [{shown}]: ").and_then(|()| to.flush()).map_err(broken)?;
            let mut line = String::new();
            let bytes = from.read_line(&mut line).map_err(broken)?;
            let line = line.trim();
            if line.is_empty() {
                if bytes == 0 {
                    writeln!(to).map_err(broken)?;
                }
                return Ok(default);
            }
            match parse(line) {
                Ok(answer) => return Ok(answer),
                Err(problem) => writeln!(to, "  {problem}").map_err(broken)?,
            }
        }
    }
}

/// A finite number above zero.
pub(super) fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| format!("must be a number above 0, got `{text}`"))
}

/// A whole number above zero.
pub(super) fn count(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("must be a whole number above 0, got `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_line_takes_the_default_and_a_wrong_one_is_asked_again() {
        let mut told = Vec::new();
        let mut asker = Asker::of(&b"\nnone\n0\n12\n"[..], &mut told);
        assert_eq!(asker.ask("Replicas", 3, "3", count).expect("it is read"), 3);
        assert_eq!(asker.ask("Replicas", 3, "3", count).expect("it is read"), 12);
        // The input has ended.
        assert_eq!(asker.ask("Replicas", 3, "3", count).expect("it is read"), 3);
        drop(asker);
        let told = String::from_utf8(told).expect("it is text");
        assert_eq!(
            told,
            "Replicas [3]: Replicas [3]:   must be a whole number above 0, got `none`\n\
             Replicas [3]:   must be a whole number above 0, got `0`\n\
             Replicas [3]: Replicas [3]: \n"
        );
    }

    #[test]
    fn nobody_is_asked_without_a_terminal() {
        let refuse = |_: &str| -> Result<u32, String> { Err("never".to_owned()) };
        assert_eq!(Asker::silent().ask("Replicas", 3, "3", refuse).expect("no terminal"), 3);
    }

    #[test]
    fn numbers_are_above_zero() {
        assert_eq!(above_zero("0.5"), Ok(0.5));
        for text in ["0", "-1", "inf", "nan", "x", ""] {
            assert!(above_zero(text).is_err(), "{text}");
        }
    }
}

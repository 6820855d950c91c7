//! What `servecast check` is asked.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args::Format;

/// `servecast check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast check\n  \
    servecast check my-checks/ --update\n  \
    servecast check my-checks/ --filter 'router-*' --exact")]
pub(in crate::cli) struct CheckArguments {
    /// Folder of scenario files, with their recorded figures in golden.toml; the suite that is part of
    /// the program if absent
    pub(super) folder: Option<PathBuf>,
    /// Record the figures as they are now
    #[arg(long, requires = "folder")]
    pub(super) update: bool,
    /// Only scenarios with such names: * stands for any letters, ? for one
    #[arg(long, value_name = "GLOB")]
    pub(super) filter: Option<String>,
    /// Fail on any change, not only on figures that are worse than their tolerance allows
    #[arg(long, conflicts_with = "update")]
    pub(super) exact: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// Whether a name is as a pattern says.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let mut letters = pattern.chars();
    match letters.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = letters.as_str();
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| matches(rest, &name[at..]))
        }
        Some(letter) => {
            let mut others = name.chars();
            let is_same = others.next().is_some_and(|other| letter == '?' || letter == other);
            is_same && matches(letters.as_str(), others.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_stand_for_names() {
        for (pattern, name) in
            [("*", ""), ("router-*", "router-load"), ("*-v?lm", "a-vllm"), ("lora", "lora")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("router-*", "a-router-b"), ("?", ""), ("lora", "lora-2")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}

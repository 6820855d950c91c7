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

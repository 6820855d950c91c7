//! What `servecast report` is asked.

use std::path::PathBuf;

use clap::Args;

/// `servecast report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast report runs/my-scenario\n  \
    servecast report out/rates --output rates.html")]
pub(in crate::cli) struct ReportArguments {
    /// Folder that run, bench, sweep, merge, plan or compare wrote
    pub(super) folder: PathBuf,
    /// The page; report.html in that folder if absent
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Replace a file that is no page of servecast
    #[arg(long)]
    pub(super) overwrite: bool,
}

//! One page of what a study or a run left behind, in HTML.
//!
//! A page is made of the files of a folder and of nothing else: equal folders give equal bytes. It needs no
//! script and loads nothing; every text in it is escaped. What is not in the files (times of steps, single
//! requests) is not on the page. Figures of sweeps and of measured runs are drawn with the feature `plot`.

mod comparison;
#[cfg(feature = "plot")]
mod curves;
mod error;
mod facts;
mod figures;
mod folder;
mod html;
mod page;
mod plan;
mod run;
mod series;
mod sweep;
mod table;

pub use error::ReportError;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use self::folder::Kind;
use crate::load::Listener;

/// How a page of servecast says that it is one.
const OWN: &str = "<meta name=\"generator\" content=\"servecast ";

/// A folder that `servecast run`, `bench`, `sweep`, `merge`, `plan` or `compare` wrote.
#[derive(Debug)]
pub struct Leavings<'a> {
    folder: &'a Path,
    kind: Kind,
}

impl<'a> Leavings<'a> {
    /// Recognises a folder by its files.
    ///
    /// # Errors
    /// When it holds no results.
    pub fn open(folder: &'a Path, listener: &Listener) -> Result<Self, ReportError> {
        Ok(Self { folder, kind: Kind::of(folder, listener)? })
    }

    /// The page of it. A listener hears of figures that are left out.
    ///
    /// # Errors
    /// When a file of it is not what it must be.
    pub fn page(&self, listener: &Listener) -> Result<String, ReportError> {
        let page = match &self.kind {
            Kind::Run => run::page(self.folder, listener)?,
            Kind::Sweep(report) => sweep::page(report, listener),
            Kind::Plan => plan::page(self.folder, listener)?,
            Kind::Comparison => comparison::page(self.folder, listener)?,
        };
        Ok(page.html())
    }
}

/// The page of a folder that a command wrote.
///
/// # Errors
/// When the folder holds no results, or a file of it is not what it must be.
pub fn page(folder: &Path, listener: &Listener) -> Result<String, ReportError> {
    Leavings::open(folder, listener)?.page(listener)
}

/// Whether a file is such a page.
///
/// # Errors
/// When it cannot be read.
pub fn is_page(path: &Path) -> io::Result<bool> {
    /// The mark stands among the first lines.
    const HEAD: u64 = 1024;
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(String::from_utf8_lossy(&head).contains(OWN))
}

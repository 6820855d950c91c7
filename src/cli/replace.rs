//! Single files that are replaced as a whole or not at all.

use std::path::Path;

use super::failure::Failure;
use crate::io::output::{self, OutputFile};

/// Finds before any work is done why a file could not be written. What is there is left alone.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    output::check(path).map_err(|error| Failure::Input(error.into()))
}

/// Writes a file beside its place and moves it there when it is whole and on the disk; a device or pipe
/// is written to. A path that is no place for a file is bad input, a disk that fills up a failure.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut OutputFile) -> anyhow::Result<()>,
) -> Result<(), Failure> {
    let mut file = OutputFile::create(path).map_err(|error| Failure::Input(error.into()))?;
    let written = write(&mut file).and_then(|()| Ok(file.commit()?));
    written.map_err(|error| Failure::Run(error.context(path.display().to_string())))
}

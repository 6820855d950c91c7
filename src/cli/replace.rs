//! Single files that are replaced as a whole or not at all.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{Failure, run};

/// Where a file is until it is whole.
pub(super) fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Writes a file beside its place and moves it there when it is whole and on the disk.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> Result<(), Failure> {
    let partial = partial(path);
    run::stage(&partial);
    let written = write(&partial).and_then(|()| {
        File::open(&partial)?.sync_all()?;
        Ok(fs::rename(&partial, path)?)
    });
    written.map_err(|error| {
        // What could not be written need not be there either.
        let _ = fs::remove_file(&partial);
        Failure::Run(error.context(path.display().to_string()))
    })
}

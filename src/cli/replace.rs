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

/// Whether this is there and is neither file nor folder, as a device or a pipe.
fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Finds before any work is done why a file could not be written. What is there is left alone.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let wrong = |problem: String| Failure::input(format!("{}: {problem}", path.display()));
    if path.is_dir() {
        return Err(wrong("is a folder; give the name of a file".to_owned()));
    }
    if path.file_name().is_none() {
        return Err(wrong("names no file".to_owned()));
    }
    if is_stream(path) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(wrong(format!("the folder {folder} does not exist; make it first")));
    }
    // Begun and removed: nothing stays.
    let partial = partial(path);
    let begun = File::create(&partial).and_then(|_| fs::remove_file(&partial));
    begun.map_err(|error| wrong(error.to_string()))
}

/// Writes a file beside its place and moves it there when it is whole and on the disk. A path that
/// is no place for a file is bad input, a disk that fills up a failure.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> Result<(), Failure> {
    check(path)?;
    let failed = |error: anyhow::Error| Failure::Run(error.context(path.display().to_string()));
    if is_stream(path) {
        return write(path).map_err(failed);
    }
    let partial = partial(path);
    run::stage(&partial);
    let written = write(&partial).and_then(|()| {
        File::open(&partial)?.sync_all()?;
        Ok(fs::rename(&partial, path)?)
    });
    written.map_err(|error| {
        // What could not be written need not be there either.
        let _ = fs::remove_file(&partial);
        failed(error)
    })
}

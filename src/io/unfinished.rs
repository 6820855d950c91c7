//! What this process has begun to write and not finished, so that an interrupt leaves nothing half-written.
//!
//! Files and folders in the making ([`OutputFile`](super::output::OutputFile), [`RunDir`](super::rundir::RunDir))
//! are known here from their first byte until they are in their place or gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn paths() -> MutexGuard<'static, Vec<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or folder is begun.
pub(super) fn begin(path: &Path) {
    paths().push(path.to_path_buf());
}

/// It is in its place, or gone.
pub(super) fn end(path: &Path) {
    let mut paths = paths();
    if let Some(place) = paths.iter().position(|known| known == path) {
        paths.swap_remove(place);
    }
}

/// Removes all of it, for the process is about to end: what handlers of interrupts call.
pub fn remove() {
    for path in paths().drain(..) {
        // An interrupted process has nobody to tell that something remained.
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
}

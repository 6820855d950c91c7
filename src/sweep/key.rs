//! Keys of runs: a name made of all that a run depends on.
//!
//! The key is the first half of the SHA-256 of servecast's version and the resolved scenario with its
//! seed. In the place of each path stands the SHA-256 of what lies there, with its name, by which
//! formats are recognised: a folder that moved is the same, a trace that changed is not. Titles and
//! measured figures are left out. Results of another build of the same version are taken for its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::load::{self, for_each_path};
use crate::scenario::ScenarioFile;

/// Names what runs depend on; files are read once.
#[derive(Debug, Default)]
pub(super) struct Keys {
    contents: Mutex<BTreeMap<PathBuf, String>>,
}

impl Keys {
    /// The key of a scenario, whose paths are relative to a folder.
    pub(super) fn of(&self, file: &ScenarioFile, folder: &Path) -> String {
        let mut file = file.clone();
        file.name.clear();
        file.measured = None;
        for_each_path(&mut file, folder, |name, path| {
            let last = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            *name = format!("{last} {}", self.content(path));
        });
        let text = crate::erased::text(&file).expect("a scenario is TOML");
        digest(&[env!("CARGO_PKG_VERSION"), &text])
    }

    /// The hash of what lies at a path; what cannot be read is found out by the run.
    fn content(&self, path: &Path) -> String {
        let path = load::model_file(path).unwrap_or_else(|| path.to_owned());
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = contents.get(&path) {
            return known.clone();
        }
        let mut hasher = Sha256::new();
        let found = match add(&mut hasher, &path) {
            Ok(()) => hex(&hasher.finalize()),
            Err(error) => error.to_string(),
        };
        contents.insert(path, found.clone());
        found
    }
}

/// The key of texts.
pub(super) fn digest(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hex(&hasher.finalize()[..16])
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

/// A file, or all files of a folder in the order of their names.
fn add(hasher: &mut Sha256, path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return io::copy(&mut File::open(path)?, &mut Sink(hasher)).map(drop);
    }
    let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    for path in paths {
        hasher.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        add(hasher, &path)?;
    }
    Ok(())
}

/// A hash as something to write to.
struct Sink<'a>(&'a mut Sha256);

impl io::Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        // FIPS 180-4: SHA-256 of "abc".
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join("abc");
        fs::write(&path, "abc").expect("it is written");
        let found = Keys::default().content(&path);
        assert!(found.starts_with("ba7816bf8f01cfea414140de5dae2223"), "{found}");
        assert!(found.ends_with("b410ff61f20015ad"), "{found}");
    }

    #[test]
    fn texts_do_not_run_into_each_other() {
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }
}

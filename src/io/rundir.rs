//! Run directories: all results of a run, complete or not at all.
//!
//! Files are staged in a folder beside the final one and moved there once all are written, so that
//! a full disk or an interrupt leaves nothing half-written.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::unfinished;
use crate::rng::Seed;

/// What to do with a folder that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Refuse it.
    #[default]
    Refuse,
    /// Replace the files of the run, leave all others.
    Overwrite,
}

/// What was asked of a command that left a folder: its `run.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFile {
    /// The version of servecast.
    pub servecast: String,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The seed of the first run.
    pub seed: Option<Seed>,
    /// The titles of the scenarios that were run.
    pub runs: Vec<String>,
    /// Real time that the runs took, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_s: Option<f64>,
}

/// A name for files: lower-case letters, digits and single dashes.
pub fn slug(name: &str) -> String {
    let mapped: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' })
        .collect();
    let slug = mapped.split_whitespace().collect::<Vec<_>>().join("-");
    if slug.is_empty() { "run".to_owned() } else { slug }
}

/// Why results cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunDirError {
    /// The folder holds something.
    #[error("{}: is not empty; give another folder, or --overwrite to replace a run's files", .0.display())]
    NotEmpty(PathBuf),
    /// The path is the name that many programs give their standard output.
    #[error(
        "-: results are not written to standard output; give a folder, or ./- for one of this name"
    )]
    Dash,
    /// A folder in it is a link to somewhere else.
    #[error("{}: is a symbolic link, and files of a run are not written through one; remove it", .0.display())]
    Link(PathBuf),
    /// The path is a file.
    #[error("{}: is a file, not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// A file or folder cannot be made.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> RunDirError {
    let path = path.to_path_buf();
    |source| RunDirError::Io { path, source }
}

/// A run directory in the making; dropped before [`commit`](Self::commit), it leaves nothing.
#[derive(Debug)]
pub struct RunDir {
    target: PathBuf,
    staging: PathBuf,
    /// Folders above the staging one that did not exist before, innermost first.
    made: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl RunDir {
    /// Starts a run directory at `target`.
    ///
    /// # Errors
    /// When the folder is not empty and may not be overwritten, or cannot be written to.
    pub fn create(target: &Path, existing: Existing) -> Result<Self, RunDirError> {
        if target.as_os_str() == "-" {
            return Err(RunDirError::Dash);
        }
        if target.exists() && !target.is_dir() {
            return Err(RunDirError::NotAFolder(target.to_path_buf()));
        }
        let is_empty =
            !target.is_dir() || fs::read_dir(target).map_err(io_error(target))?.next().is_none();
        if !is_empty && existing == Existing::Refuse {
            return Err(RunDirError::NotEmpty(target.to_path_buf()));
        }
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".partial-{}", std::process::id()));
        let staging = target.with_file_name(name);
        let above = staging.ancestors().skip(1);
        let made = above.take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let made = made.map(Path::to_path_buf).collect();
        let dir = Self { target: target.to_path_buf(), staging, made, files: Vec::new() };
        unfinished::begin(&dir.staging);
        fs::create_dir_all(&dir.staging).map_err(io_error(target))?;
        Ok(dir)
    }

    /// A new folder below `parent`, named after the run: `name`, or `name-2`, `name-3`, …
    pub fn next_free(parent: &Path, name: &str) -> PathBuf {
        let mut path = parent.join(name);
        let mut number = 1;
        while path.exists() {
            number += 1;
            path = parent.join(format!("{name}-{number}"));
        }
        path
    }

    /// Writes a file; `name` may name a folder too.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, name: &str, content: &[u8]) -> Result<(), RunDirError> {
        let path = self.reserve(name)?;
        fs::write(&path, content).map_err(io_error(&path))
    }

    /// The path to write a file to that somebody else writes.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub fn reserve(&mut self, name: &str) -> Result<PathBuf, RunDirError> {
        let path = self.staging.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(io_error(folder))?;
        }
        self.files.push(PathBuf::from(name));
        Ok(path)
    }

    /// A file that was [reserved](Self::reserve) is not going to be there.
    pub fn release(&mut self, name: &str) {
        self.files.retain(|file| file != Path::new(name));
    }

    /// Refuses a file whose folder leads out of the run's own.
    fn check_inside(&self, name: &Path) -> Result<(), RunDirError> {
        let folders = name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let mut paths = folders.map(|folder| self.target.join(folder));
        paths.find(|path| path.is_symlink()).map_or(Ok(()), |path| Err(RunDirError::Link(path)))
    }

    /// Moves all files into place.
    ///
    /// # Errors
    /// When one cannot be moved, or would leave the folder through a link.
    pub fn commit(self) -> Result<PathBuf, RunDirError> {
        for name in &self.files {
            self.check_inside(name)?;
        }
        for name in &self.files {
            let path = self.target.join(name);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(io_error(folder))?;
            }
            fs::rename(self.staging.join(name), &path).map_err(io_error(&path))?;
        }
        Ok(self.target.clone())
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Nothing can be done about a folder that cannot be removed; those in use are not empty.
        let _ = fs::remove_dir_all(&self.staging);
        unfinished::end(&self.staging);
        for folder in &self.made {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_together_or_not_at_all() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("run");
        let mut run = RunDir::create(&target, Existing::Refuse).unwrap();
        run.write("figures/a.svg", b"<svg/>").unwrap();
        assert!(!target.exists());
        drop(run);
        assert!(names(scratch.path()).is_empty());

        let mut run = RunDir::create(&target, Existing::Refuse).unwrap();
        run.write("figures/a.svg", b"<svg/>").unwrap();
        run.commit().unwrap();
        assert_eq!(names(scratch.path()), ["run"]);
        assert_eq!(names(&target), ["figures"]);
    }

    #[test]
    fn folders_made_for_a_run_that_fails_are_gone_with_it() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("a/b/run");
        drop(RunDir::create(&target, Existing::Refuse).unwrap());
        assert!(names(scratch.path()).is_empty());
        let mut run = RunDir::create(&target, Existing::Refuse).unwrap();
        run.write("run.json", b"{}").unwrap();
        run.commit().unwrap();
        assert_eq!(names(&target), ["run.json"]);
    }

    #[test]
    fn a_folder_that_is_not_empty_is_refused_and_strangers_survive_overwriting() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("mine.txt"), "mine").unwrap();
        let refused = RunDir::create(scratch.path(), Existing::Refuse);
        assert!(matches!(refused, Err(RunDirError::NotEmpty(_))));
        let mut run = RunDir::create(scratch.path(), Existing::Overwrite).unwrap();
        run.write("run.json", b"{}").unwrap();
        run.commit().unwrap();
        assert_eq!(names(scratch.path()), ["mine.txt", "run.json"]);
    }

    #[test]
    fn runs_of_one_name_are_numbered() {
        let scratch = tempfile::tempdir().unwrap();
        let first = RunDir::next_free(scratch.path(), "a");
        fs::create_dir(&first).unwrap();
        assert_eq!(RunDir::next_free(scratch.path(), "a"), scratch.path().join("a-2"));
    }
}

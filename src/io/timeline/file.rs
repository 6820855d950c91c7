//! The file of a timeline: complete or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::io::rundir::Existing;

/// Why a timeline cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The file exists.
    #[error("{}: exists; give another name, or --overwrite to replace it", .0.display())]
    Exists(PathBuf),
    /// The path names no file.
    #[error("{}: must name a file, not a folder", .0.display())]
    NotAFile(PathBuf),
    /// The folder does not exist.
    #[error("{}: the folder {} does not exist", path.display(), folder.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// The file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[derive(Debug)]
enum Stream {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

/// A file in the making beside its final place; dropped before [`commit`](Self::commit), it leaves
/// nothing. Compressed when its name ends in `.gz`.
#[derive(Debug)]
pub struct TimelineFile {
    target: PathBuf,
    staging: PathBuf,
    stream: Option<Stream>,
}

impl TimelineFile {
    /// Starts the file.
    ///
    /// # Errors
    /// When it exists and may not be overwritten, or cannot be made.
    pub fn create(target: &Path, existing: Existing) -> Result<Self, TimelineError> {
        let Some(name) = target.file_name().filter(|_| !target.is_dir()) else {
            return Err(TimelineError::NotAFile(target.to_path_buf()));
        };
        if target.exists() && existing == Existing::Refuse {
            return Err(TimelineError::Exists(target.to_path_buf()));
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let (path, folder) = (target.to_path_buf(), folder.to_path_buf());
            return Err(TimelineError::NoFolder { path, folder });
        }
        let mut name = name.to_os_string();
        name.push(format!(".partial-{}", std::process::id()));
        let staging = target.with_file_name(name);
        let file = File::create(&staging)
            .map_err(|source| TimelineError::Io { path: target.to_path_buf(), source })?;
        let file = BufWriter::new(file);
        let is_gzip = target.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        let stream = if is_gzip {
            Stream::Gzip(Box::new(GzEncoder::new(file, Compression::default())))
        } else {
            Stream::Plain(file)
        };
        Ok(Self { target: target.to_path_buf(), staging, stream: Some(stream) })
    }

    /// Where the file is until it is complete.
    pub fn staging(&self) -> &Path {
        &self.staging
    }

    /// Moves the file into place.
    ///
    /// # Errors
    /// When it cannot be written to its end or moved.
    pub fn commit(mut self) -> Result<PathBuf, TimelineError> {
        let written = match self.stream.take() {
            Some(Stream::Plain(file)) => Ok(file),
            Some(Stream::Gzip(file)) => file.finish(),
            None => return Ok(self.target.clone()),
        };
        let moved = written
            .and_then(|mut file| file.flush())
            .and_then(|()| fs::rename(&self.staging, &self.target));
        moved.map_err(|source| TimelineError::Io { path: self.target.clone(), source })?;
        Ok(self.target.clone())
    }
}

impl Write for TimelineFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Some(Stream::Plain(file)) => file.write(bytes),
            Some(Stream::Gzip(file)) => file.write(bytes),
            None => Ok(0),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Some(Stream::Plain(file)) => file.flush(),
            Some(Stream::Gzip(file)) => file.flush(),
            None => Ok(()),
        }
    }
}

impl Drop for TimelineFile {
    fn drop(&mut self) {
        // After a commit there is nothing left; nothing can be done about what cannot be removed.
        let _ = fs::remove_file(&self.staging);
    }
}

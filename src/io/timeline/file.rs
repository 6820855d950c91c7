//! The file of a timeline: complete or not at all.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::io::output::{self, OutputError, OutputFile};
use crate::io::rundir::Existing;

/// Why a timeline cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The file exists.
    #[error("{}: exists; give another name, or --overwrite to replace it", .0.display())]
    Exists(PathBuf),
    /// The path is no place for a file.
    #[error(transparent)]
    Target(#[from] OutputError),
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
    Plain(BufWriter<OutputFile>),
    Gzip(Box<GzEncoder<BufWriter<OutputFile>>>),
}

/// A file in the making beside its final place; dropped before [`commit`](Self::commit), it leaves
/// nothing. Compressed when its name ends in `.gz`.
#[derive(Debug)]
pub struct TimelineFile {
    path: PathBuf,
    stream: Stream,
}

impl TimelineFile {
    /// Finds why a file could not be written, and writes nothing.
    ///
    /// # Errors
    /// As of [`create`](Self::create).
    pub fn check(path: &Path, existing: Existing) -> Result<(), TimelineError> {
        output::check(path)?;
        if existing == Existing::Refuse && output::occupied(path).is_some() {
            return Err(TimelineError::Exists(path.to_path_buf()));
        }
        Ok(())
    }

    /// Starts the file.
    ///
    /// # Errors
    /// When it exists and may not be overwritten, or cannot be made.
    pub fn create(path: &Path, existing: Existing) -> Result<Self, TimelineError> {
        Self::check(path, existing)?;
        let file = BufWriter::new(OutputFile::create(path)?);
        let is_gzip = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        let stream = if is_gzip {
            Stream::Gzip(Box::new(GzEncoder::new(file, Compression::default())))
        } else {
            Stream::Plain(file)
        };
        Ok(Self { path: path.to_path_buf(), stream })
    }

    /// Moves the file into place.
    ///
    /// # Errors
    /// When it cannot be written to its end or moved.
    pub fn commit(self) -> Result<PathBuf, TimelineError> {
        let written = match self.stream {
            Stream::Plain(file) => Ok(file),
            Stream::Gzip(file) => file.finish(),
        };
        let moved = written
            .and_then(|file| file.into_inner().map_err(io::IntoInnerError::into_error))
            .and_then(OutputFile::commit);
        match moved {
            Ok(()) => Ok(self.path),
            Err(source) => Err(TimelineError::Io { path: self.path, source }),
        }
    }
}

impl Write for TimelineFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(file) => file.write(bytes),
            Stream::Gzip(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(file) => file.flush(),
            Stream::Gzip(file) => file.flush(),
        }
    }
}

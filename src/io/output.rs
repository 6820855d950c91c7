//! Single output files: replaced as a whole or not at all.
//!
//! A file is written beside its place and moved there when it is whole and on the disk. A symbolic link
//! is followed: the file that it leads to is replaced, and the link stays. What is neither file nor folder
//! (a device, a pipe) is written to as it is, and so are files that the process was handed open, such as
//! `/dev/stdout`: they have no place that anything could be moved to.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::unfinished;

/// Why an output cannot be begun.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The path is that of a folder.
    #[error("{}: is a folder; give the name of a file", .0.display())]
    Folder(PathBuf),
    /// The path is the name that many programs give their standard output.
    #[error(
        "-: results are not written to standard output; give a file, or ./- for one of this name"
    )]
    Dash,
    /// The path ends in no name.
    #[error("{}: names no file", .0.display())]
    NoName(PathBuf),
    /// The folder does not exist.
    #[error("{}: the folder {} does not exist; make it first", path.display(), folder.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// The system refuses it.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Where a path leads, its links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// A file, or a name that is free.
    File(PathBuf),
    /// What is written to as it is.
    Stream(PathBuf),
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        /// As many links as Linux follows.
        const LINKS_MAX: usize = 40;
        let mut place = path.to_path_buf();
        for _ in 0..LINKS_MAX {
            // What cannot be looked at is said by the attempt to write it.
            let Ok(there) = place.symlink_metadata() else { return Ok(Self::File(place)) };
            if open_files_folder(&place).is_some() {
                return Ok(Self::Stream(place));
            }
            if !there.is_symlink() {
                let has_place = there.is_file() || there.is_dir();
                return Ok(if has_place { Self::File(place) } else { Self::Stream(place) });
            }
            let target = fs::read_link(&place)?;
            place = place.parent().unwrap_or(Path::new("")).join(target);
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }
}

/// The folder of a path if it is one of those in which processes show what they have open.
fn open_files_folder(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?.canonicalize().ok()?;
    (folder.starts_with("/proc") || folder.starts_with("/dev/fd")).then_some(folder)
}

/// Opens what is written to as it is. A pipe waits here until somebody reads.
fn open_stream(path: &Path) -> io::Result<File> {
    // A file that a shell opened is written on from where it is: opened anew, it would be written
    // over by what else goes to it.
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let own = ["/proc/self/fd", "/dev/fd"].iter().filter_map(|own| fs::canonicalize(own).ok());
        let folder = open_files_folder(path);
        if folder.is_some_and(|folder| own.into_iter().any(|own| own == folder)) {
            let name = path.file_name().and_then(OsStr::to_str);
            if name == Some("1") {
                return io::stdout().as_fd().try_clone_to_owned().map(File::from);
            }
            if name == Some("2") {
                return io::stderr().as_fd().try_clone_to_owned().map(File::from);
            }
        }
    }
    OpenOptions::new().append(true).open(path)
}

fn place(path: &Path) -> Result<Place, OutputError> {
    if path.as_os_str() == "-" {
        return Err(OutputError::Dash);
    }
    Place::of(path).map_err(|source| OutputError::Io { path: path.to_owned(), source })
}

/// Whether a path leads to something that is written to as it is, and never replaced.
pub fn is_stream(path: &Path) -> bool {
    matches!(Place::of(path), Ok(Place::Stream(_)))
}

/// The file that an output would replace, if there is one.
pub fn occupied(path: &Path) -> Option<PathBuf> {
    match Place::of(path) {
        Ok(Place::File(target)) => target.exists().then_some(target),
        _ => None,
    }
}

/// Finds before any work is done why a file could not be written. What is there is left alone, and a
/// device or pipe is not opened.
///
/// # Errors
/// [`OutputError`] as of [`OutputFile::create`].
pub fn check(path: &Path) -> Result<(), OutputError> {
    match place(path)? {
        // Begun and dropped: nothing stays.
        Place::File(target) => OutputFile::staged(path, target).map(drop),
        Place::Stream(_) => Ok(()),
    }
}

/// Finds before any work is done why nothing could be appended to a file. A file that is there needs to
/// be writable, its folder does not.
///
/// # Errors
/// [`OutputError`] when the file cannot be opened or made.
pub fn check_append(path: &Path) -> Result<(), OutputError> {
    match place(path)? {
        Place::File(target) if target.is_file() => {
            let opened = OpenOptions::new().append(true).open(target);
            opened.map(drop).map_err(|source| OutputError::Io { path: path.to_owned(), source })
        }
        _ => check(path),
    }
}

/// Appends to a file, which is made if there is none; it is as before when that fails. `text` is told
/// whether the file holds something already.
///
/// # Errors
/// When the file cannot be written to its end.
pub fn append(path: &Path, text: impl FnOnce(bool) -> String) -> io::Result<()> {
    let target = match Place::of(path)? {
        Place::Stream(stream) => return open_stream(&stream)?.write_all(text(false).as_bytes()),
        Place::File(target) => target,
    };
    let existed = target.exists();
    let mut file = OpenOptions::new().append(true).create(true).open(&target)?;
    let before = file.metadata()?.len();
    let written = file.write_all(text(before > 0).as_bytes());
    if written.is_err() {
        // The error that led here is the one to tell.
        let _ = if existed { file.set_len(before) } else { fs::remove_file(&target) };
    }
    written
}

/// A file in the making; dropped before [`commit`](Self::commit), it leaves nothing.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// Where it is until it is whole, and where it goes; nothing for what is written to as it is.
    way: Option<(PathBuf, PathBuf)>,
}

impl OutputFile {
    /// Starts a file, or opens what is written to as it is.
    ///
    /// # Errors
    /// When the path is no place for a file, or cannot be written.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let stream = match place(path)? {
            Place::File(target) => return Self::staged(path, target),
            Place::Stream(stream) => stream,
        };
        let opened = open_stream(&stream);
        let file = opened.map_err(|source| OutputError::Io { path: path.to_owned(), source })?;
        Ok(Self { file, way: None })
    }

    fn staged(path: &Path, target: PathBuf) -> Result<Self, OutputError> {
        // The end of a name as of a folder is lost where a name is taken apart.
        let name = target.as_os_str().as_encoded_bytes();
        if target.is_dir() || name.ends_with(b"/") || name.ends_with(b"/.") {
            return Err(OutputError::Folder(path.to_owned()));
        }
        if target.file_name().is_none() {
            return Err(OutputError::NoName(path.to_owned()));
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let (path, folder) = (path.to_owned(), folder.to_owned());
            return Err(OutputError::NoFolder { path, folder });
        }
        let begun = begin(&target);
        let (staging, file) =
            begun.map_err(|source| OutputError::Io { path: path.to_owned(), source })?;
        unfinished::begin(&staging);
        if let Ok(before) = target.metadata() {
            // Some file systems know no permissions: no reason to write nothing.
            let _ = fs::set_permissions(&staging, before.permissions());
        }
        Ok(Self { file, way: Some((staging, target)) })
    }

    /// Where the file is until it is whole; nothing for what is written to as it is.
    pub fn staging(&self) -> Option<&Path> {
        self.way.as_ref().map(|(staging, _)| staging.as_path())
    }

    /// Moves the file into place, with the permissions of the one it replaces.
    ///
    /// # Errors
    /// When it cannot be brought to the disk or moved.
    pub fn commit(mut self) -> io::Result<()> {
        let Some((staging, target)) = &self.way else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(staging, target)?;
        unfinished::end(staging);
        self.way = None;
        Ok(())
    }
}

/// Makes a file beside its place, under a name that nobody else has.
fn begin(target: &Path) -> io::Result<(PathBuf, File)> {
    /// So many files may a process of the same number have left behind.
    const ATTEMPTS: u32 = 100;
    let mut attempt = 0;
    loop {
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".partial-{}", std::process::id()));
        if attempt > 0 {
            name.push(format!("-{attempt}"));
        }
        let staging = target.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&staging) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                attempt += 1;
            }
            made => return made.map(|file| (staging, file)),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            // Who reads a pipe may leave when it has enough, as with what is printed.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && self.way.is_none() => {
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some((staging, _)) = &self.way {
            // Nothing can be done about what cannot be removed.
            let _ = fs::remove_file(staging);
            unfinished::end(staging);
        }
    }
}

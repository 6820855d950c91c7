//! Texts from files, with bounds: no row and no document is longer than what memory surely holds, however
//! small the file is that it is packed in.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;

/// MiB of the longest row of a table or a trace.
const ROW_MIB_MAX: usize = 64;
/// MiB of the longest document of settings: a scenario, a `config.json`, a calibration.
pub(crate) const SETTINGS_MIB_MAX: usize = 16;
/// MiB of the longest document of results: what a benchmark tool or a run wrote, a table of requests.
pub(crate) const RESULTS_MIB_MAX: usize = 512;

/// Text that is read once, from front to back: decompressed if it is gzip, without a byte order mark.
pub(crate) struct Input {
    text: Box<dyn BufRead + Send>,
    /// Bytes that may still be read of this row.
    left: usize,
}

impl Input {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        const BUFFER_BYTES: usize = 1 << 16;
        let mut file = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
        let is_gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let text: Box<dyn BufRead + Send> = if is_gzip {
            let unpacked = Unpacked::new(file);
            Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked))
        } else {
            Box::new(file)
        };
        let mut input = Self { text, left: ROW_MIB_MAX << 20 };
        let begin = input.fill_buf()?;
        if begin.starts_with(b"\xff\xfe") || begin.starts_with(b"\xfe\xff") {
            return Err(invalid("must be text in UTF-8, got UTF-16; save it as UTF-8"));
        }
        if begin.starts_with(b"\xef\xbb\xbf") {
            input.read_exact(&mut [0; 3])?;
        }
        Ok(input)
    }

    /// What is read from here on is another row.
    pub(crate) fn begin_row(&mut self) {
        self.left = ROW_MIB_MAX << 20;
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut text = self.fill_buf()?;
        let count = text.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let text = self.text.fill_buf()?;
        if self.left == 0 && !text.is_empty() {
            return Err(invalid(format!("a row is longer than {ROW_MIB_MAX} MiB")));
        }
        Ok(&text[..text.len().min(self.left)])
    }

    fn consume(&mut self, count: usize) {
        self.left -= count;
        self.text.consume(count);
    }
}

/// The whole text of a file of at most so many MiB, decompressed if it is gzip.
pub(crate) fn whole(path: &Path, mib_max: usize) -> io::Result<String> {
    let bytes = bytes(Input::open(path)?.text, mib_max)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let (before, rest) = error.as_bytes().split_at(valid);
        let line = before.split(|byte| *byte == b'\n').count();
        let byte = rest.first().copied().unwrap_or_default();
        invalid(format!(
            "must be text in UTF-8, got the byte 0x{byte:02X} in line {line}; save it as UTF-8"
        ))
    })
}

/// All that comes, at most so many MiB.
pub(crate) fn bytes(from: impl Read, mib_max: usize) -> io::Result<Vec<u8>> {
    let most = mib_max << 20;
    let mut bytes = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(invalid(format!("is longer than {mib_max} MiB")));
    }
    Ok(bytes)
}

fn invalid(problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// What was packed, in one gzip stream or several on end, with errors that say what to do.
struct Unpacked<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Unpacked<R> {
    fn new(packed: R) -> Self {
        Self(Some(GzDecoder::new(packed)))
    }

    /// Goes on to the stream behind the one that has ended; `false` where the file ends with it.
    fn begin_next(&mut self) -> io::Result<bool> {
        let Some(ended) = self.0.take() else { return Ok(false) };
        let mut packed = ended.into_inner();
        match packed.fill_buf()?.first() {
            None => return Ok(false),
            Some(0x1f) => {}
            Some(byte) => {
                return Err(invalid(format!(
                    "must end with its gzip stream, got the byte 0x{byte:02X} behind it; pack the file again"
                )));
            }
        }
        self.0 = Some(GzDecoder::new(packed));
        Ok(true)
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(stream) = &mut self.0 {
            let read = stream.read(into).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    let problem = "ends before its gzip stream does; copy the whole file again";
                    io::Error::new(error.kind(), problem)
                }
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                    invalid(format!("its gzip stream is damaged ({error}); copy the file again"))
                }
                _ => error,
            })?;
            if read > 0 || into.is_empty() || !self.begin_next()? {
                return Ok(read);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn rows_may_be_many_but_none_too_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows");
        let row = vec![b'a'; 1 << 20];
        let rows: Vec<u8> = (0..70).flat_map(|_| row.iter().copied().chain([b'\n'])).collect();
        fs::write(&path, &rows).expect("it is written");
        let mut input = Input::open(&path).expect("it opens");
        let mut text = Vec::new();
        for _ in 0..70 {
            input.begin_row();
            text.clear();
            assert_eq!(input.read_until(b'\n', &mut text).expect("it is short"), (1 << 20) + 1);
        }
        let mut input = Input::open(&path).expect("it opens");
        let told = input.read_to_end(&mut text).expect_err("it is too long").to_string();
        assert_eq!(told, "a row is longer than 64 MiB");
    }

    #[test]
    fn what_is_no_text_in_utf_8_is_told_with_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("document");
        for (bytes, told) in [
            (
                &b"a\n# Gr\xf6\xdfe\n"[..],
                "must be text in UTF-8, got the byte 0xF6 in line 2; save it as UTF-8",
            ),
            (b"\xff\xfea\0", "must be text in UTF-8, got UTF-16; save it as UTF-8"),
            (b"\xfe\xff\0a", "must be text in UTF-8, got UTF-16; save it as UTF-8"),
        ] {
            fs::write(&path, bytes).expect("it is written");
            assert_eq!(whole(&path, 1).expect_err("it is no UTF-8").to_string(), told);
        }
        fs::write(&path, "\u{feff}é").expect("it is written");
        assert_eq!(whole(&path, 1).expect("it is UTF-8"), "é");
    }

    #[test]
    fn a_gzip_stream_that_is_cut_off_or_damaged_is_called_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("packed.gz");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let text: Vec<u8> =
            (0..1 << 16).map(|at: u32| ((at * at) >> 7) as u8 & 0x3f | 0x20).collect();
        gzip.write_all(&text).expect("it compresses");
        let packed = gzip.finish().expect("it compresses");
        let mut damaged = packed.clone();
        damaged[packed.len() - 5] ^= 0xff;
        for (bytes, told) in [
            (&packed[..packed.len() / 2], "ends before its gzip stream does; "),
            (&packed[..packed.len() - 4], "ends before its gzip stream does; "),
            (&damaged[..], "its gzip stream is damaged ("),
            (
                &[&packed[..], b"\n"].concat()[..],
                "must end with its gzip stream, got the byte 0x0A behind it; ",
            ),
            (
                &[&packed[..], &[0; 40]].concat()[..],
                "must end with its gzip stream, got the byte 0x00",
            ),
            (&[&packed[..], &packed[..99]].concat()[..], "ends before its gzip stream does; "),
        ] {
            fs::write(&path, bytes).expect("it is written");
            let error = whole(&path, 1).expect_err("it is broken").to_string();
            assert!(error.starts_with(told), "{error}");
        }
        fs::write(&path, &packed).expect("it is written");
        assert_eq!(whole(&path, 1).expect("it is whole").into_bytes(), text);
        fs::write(&path, [&packed[..], &packed[..]].concat()).expect("it is written");
        assert_eq!(
            whole(&path, 1).expect("it is whole").into_bytes(),
            [&text[..], &text[..]].concat()
        );
    }

    #[test]
    fn documents_have_a_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("document");
        fs::write(&path, vec![b' '; 1 << 20]).expect("it is written");
        assert_eq!(whole(&path, 1).expect("it fits").len(), 1 << 20);
        fs::write(&path, vec![b' '; (1 << 20) + 1]).expect("it is written");
        assert_eq!(
            whole(&path, 1).expect_err("it is too long").to_string(),
            "is longer than 1 MiB"
        );
    }
}

//! A connection over which requests go one after the other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What no answer of these tests takes, also on a busy machine and without optimisation.
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection that is kept as long as the server keeps it.
#[derive(Debug)]
pub(super) struct Wire {
    stream: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
    /// Whether the connection may be used again.
    pub(super) is_kept: bool,
}

impl Wire {
    pub(super) fn to(address: SocketAddr) -> Self {
        Self::try_to(address).expect("it listens")
    }

    pub(super) fn try_to(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a request and reads its answer to the end.
    pub(super) fn ask(&mut self, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.send(&request("POST", path, body))?;
        self.answer()
    }

    /// The status and the headers of the next answer, in small letters; those that only say that the request may
    /// go on are passed over.
    pub(super) fn head(&mut self) -> io::Result<(u16, Vec<String>)> {
        loop {
            let mut lines = Vec::new();
            loop {
                let line = self.line()?;
                if line.is_empty() {
                    break;
                }
                lines.push(line.to_lowercase());
            }
            let status = lines.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
            let status = status.ok_or_else(|| broken(&format!("no status in {lines:?}")))?;
            if status != 100 {
                return Ok((status, lines));
            }
        }
    }

    pub(super) fn answer(&mut self) -> io::Result<Answer> {
        let (status, headers) = self.head()?;
        let value = |name: &str| {
            let line = headers.iter().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned())
        };
        let is_kept = value("connection").is_none_or(|value| value != "close");
        let mut body = Vec::new();
        if value("transfer-encoding").is_some_and(|value| value == "chunked") {
            while self.chunk(&mut body)? {}
        } else if let Some(length) = value("content-length") {
            let length = length.parse().map_err(|_| broken("no length"))?;
            body.resize(length, 0);
            self.stream.read_exact(&mut body)?;
        }
        Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned(), is_kept })
    }

    /// The next part of an answer in parts; whether it was not the last.
    pub(super) fn chunk(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
        let length = self.line()?;
        let length = usize::from_str_radix(&length, 16).map_err(|_| broken("no length"))?;
        let begin = body.len();
        body.resize(begin + length + 2, 0);
        self.stream.read_exact(&mut body[begin..])?;
        body.truncate(begin + length);
        Ok(length > 0)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// All that comes until the server ends the connection.
    pub(super) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).map(|_| rest)
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A request as it goes over the wire.
pub(super) fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

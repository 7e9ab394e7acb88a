//! A request as the server sees it.

use std::io::{self, Read};
use std::ops::Range;
use std::time::Instant;

const MOST_HEAD: usize = 64 << 10;

/// A request that came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// `GET`, `HEAD`, `CONNECT`, …
    pub method: String,
    /// Path and query as sent; a whole address where a proxy was asked.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// When it was whole.
    pub at: Instant,
    /// The number of its connection, from 0.
    pub connection: usize,
    /// True where it says HTTP/1.0.
    pub is_old: bool,
}

impl Seen {
    /// The first header of that (lower-case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The target without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// True where the client will not send another on the connection.
    pub(super) fn wants_close(&self) -> bool {
        self.is_old || self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Reads a request, and passes over its body; `None` where the connection ends before one. `held` keeps what came
    /// with it and belongs to the next.
    pub(super) fn read(
        from: &mut impl Read,
        held: &mut Vec<u8>,
        connection: usize,
    ) -> io::Result<Option<Self>> {
        let malformed = || io::Error::other("a malformed request");
        let mut block = [0; 4096];
        let end = loop {
            if let Some(at) = held.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            let len = from.read(&mut block)?;
            held.extend_from_slice(&block[..len]);
            if len == 0 && held.is_empty() {
                return Ok(None);
            }
            if len == 0 || held.len() > MOST_HEAD {
                return Err(malformed());
            }
        };
        let head: Vec<u8> = held.drain(..end).collect();
        let head = String::from_utf8(head).map_err(|_| malformed())?;
        let mut lines = head.split("\r\n");
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, version] = words[..] else { return Err(malformed()) };
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
        let seen = Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: headers.collect(),
            at: Instant::now(),
            connection,
            is_old: version == "HTTP/1.0",
        };
        let len = seen.header("content-length").map_or(Ok(0), str::parse).map_err(|_| malformed())?;
        let early = held.len().min(len);
        held.drain(..early);
        io::copy(&mut from.take((len - early) as u64), &mut io::sink())?;
        Ok(Some(seen))
    }

    /// The range that is asked for of an object of `len` bytes: `None` where none is, an error where there is none of
    /// its bytes.
    pub(super) fn range(&self, len: u64) -> Option<Result<Range<u64>, ()>> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let range = match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => first..len.min(last.saturating_add(1)),
            (Ok(first), Err(_)) if last.is_empty() => first..len,
            (Err(_), Ok(suffix)) if first.is_empty() => len.saturating_sub(suffix)..len,
            _ => return None,
        };
        Some(if range.is_empty() { Err(()) } else { Ok(range) })
    }
}

//! The plainest HTTP client: to put objects on servers, and to ask about them, in tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What a server answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// All of the body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The first header of that lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Sends one request over a connection of its own and reads the answer to the end of the connection.
pub fn send(host: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(host).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut head = format!(
        "{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).expect("a server that listens");
    // A server that refuses early may have closed its side already: its answer counts.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    if bytes.starts_with(b"HTTP/1.1 100 ") {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an HTTP head");
        bytes.drain(..end + 4);
    }
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an HTTP head");
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()));
    Reply { status: status.expect("a status"), headers: headers.collect(), body: bytes[end + 4..].to_vec() }
}

//! A client that shows what came over the wire, byte by byte.
#![allow(clippy::unwrap_used)] // Test support: what it cannot read must stop the test.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Everything that came until the connection ended, and how it ended.
pub struct Wire {
    pub text: Vec<u8>,
    pub end: Option<ErrorKind>,
}

impl Wire {
    pub fn read(mut from: impl Read) -> Self {
        let mut text = Vec::new();
        let end = from.read_to_end(&mut text).err().map(|error| error.kind());
        Self { text, end }
    }

    pub fn head(&self) -> String {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        text.split("\r\n\r\n").next().unwrap().to_owned()
    }

    pub fn body(&self) -> &[u8] {
        let at = self.text.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        &self.text[at + 4..]
    }

    pub fn status(&self) -> u16 {
        self.head().split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn has(&self, line: &str) -> bool {
        self.head().lines().any(|other| other == line)
    }
}

/// One request on a connection of its own.
pub fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Wire {
    let mut socket = TcpStream::connect(address).unwrap();
    let text = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(text.as_bytes()).unwrap();
    Wire::read(socket)
}

pub fn get(address: SocketAddr, path: &str) -> Wire {
    ask(address, "GET", path, "")
}

/// Bytes 100 to 199.
pub fn part(address: SocketAddr, path: &str) -> Wire {
    ask(address, "GET", path, "range: bytes=100-199\r\n")
}

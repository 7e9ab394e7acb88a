//! The server as a proxy: one request, or one tunnel, for each connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::server::connection::is_welcome;
use crate::server::reply::End;
use crate::server::request::Seen;
use crate::server::wire::Wire;

/// Serves `seen`, and ends the connection.
pub(super) fn serve(mut wire: Wire, seen: &Seen, credentials: Option<&str>) -> io::Result<()> {
    if credentials.is_some_and(|credentials| !is_welcome(seen, "proxy-authorization", credentials)) {
        let refusal = "HTTP/1.1 407 Status\r\nproxy-authenticate: Basic realm=\"testkit\"\r\n";
        wire.write_all(format!("{refusal}content-length: 0\r\nconnection: close\r\n\r\n").as_bytes())?;
        wire.end(End::Close);
        return Ok(());
    }
    if seen.method == "CONNECT" {
        return match TcpStream::connect(&seen.target) {
            Ok(far) => {
                wire.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
                both_ways(&wire, &far)
            }
            Err(_) => unreachable(wire),
        };
    }
    let Some((host, path)) = seen.target.strip_prefix("http://").map(|rest| match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, "/"),
    }) else {
        wire.write_all(b"HTTP/1.1 400 Status\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
        wire.end(End::Close);
        return Ok(());
    };
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let Ok(mut far) = TcpStream::connect(address) else { return unreachable(wire) };
    let mut head = format!("{} {path} HTTP/1.1\r\nvia: 1.1 testkit\r\nconnection: close\r\n", seen.method);
    for (name, value) in &seen.headers {
        if !matches!(name.as_str(), "proxy-authorization" | "connection") {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    far.write_all(format!("{head}\r\n").as_bytes())?;
    io::copy(&mut far, &mut wire)?;
    wire.end(End::Close);
    Ok(())
}

fn unreachable(mut wire: Wire) -> io::Result<()> {
    wire.write_all(b"HTTP/1.1 502 Status\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    wire.end(End::Close);
    Ok(())
}

fn both_ways(wire: &Wire, far: &TcpStream) -> io::Result<()> {
    let near = wire.socket().try_clone()?;
    std::thread::scope(|scope| {
        scope.spawn(|| forward(&near, far));
        forward(far, &near);
    });
    Ok(())
}

fn forward(mut from: &TcpStream, mut to: &TcpStream) {
    let mut block = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut block) {
        if to.write_all(&block[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

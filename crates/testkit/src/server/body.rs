//! Sends a reply: head, body, and the faults on the way.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use crate::server::content::Content;
use crate::server::reply::{End, Framing, Pace, Reply};
use crate::server::serve::Shared;
use crate::server::wire::Wire;

/// Bodies up to this go out together with their head.
const SMALL: u64 = 64 << 10;
const PIECE: u64 = 1 << 20;

/// How it went on.
pub(super) enum Sent {
    /// The connection may carry another request.
    Whole,
    /// It has to end in that way.
    Ended(End),
}

/// Sends `reply`; `has_body` is false for the answer to a HEAD.
pub(super) fn send(wire: &mut Wire, reply: &Reply, has_body: bool, shared: &Shared) -> io::Result<Sent> {
    shared.sleep(reply.delay);
    if let Some(raw) = &reply.raw {
        wire.write_all(raw)?;
        return Ok(Sent::Ended(reply.cut.map_or(End::Close, |(_, end)| end)));
    }
    let mut head = head(reply);
    let len = reply.range.end - reply.range.start + reply.extra;
    let has_body = has_body && !matches!(reply.status, 204 | 304);
    let is_straight =
        reply.cut.is_none() && reply.stall.is_none() && reply.pace.is_none() && reply.extra == 0;
    let is_straight = is_straight && matches!(reply.framing, Framing::Length | Framing::UntilClose);
    if has_body && is_straight && len <= SMALL && reply.head_pace.is_none() && !is_file(reply) {
        straight(&mut head, reply)?;
        wire.write_all(&head)?;
    } else {
        paced(wire, &head, reply.head_pace, shared)?;
        if has_body && is_straight {
            match &reply.content {
                Content::File(path, _) => {
                    wire.send_file(&File::open(path)?, reply.range.start, len)?;
                }
                _ => straight(wire, reply)?,
            }
        } else if has_body && let Some(end) = bent(wire, reply, shared)? {
            return Ok(Sent::Ended(end));
        }
    }
    wire.flush()?;
    Ok(if reply.closes { Sent::Ended(End::Close) } else { Sent::Whole })
}

fn is_file(reply: &Reply) -> bool {
    matches!(reply.content, Content::File(..))
}

fn head(reply: &Reply) -> Vec<u8> {
    let mut text = String::new();
    if reply.is_interim {
        text.push_str(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n",
        );
    }
    text.push_str(&format!("HTTP/1.{} {} Status\r\n", reply.minor, reply.status));
    if reply.huge > 0 {
        text.push_str(&format!("x-huge: {}\r\n", "x".repeat(reply.huge)));
    }
    for (name, value) in &reply.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    match reply.framing {
        Framing::Length => {
            let len = reply.range.end - reply.range.start + reply.extra;
            text.push_str(&format!("content-length: {len}\r\n"));
        }
        Framing::Chunked(_) => text.push_str("transfer-encoding: chunked\r\n"),
        Framing::UntilClose | Framing::Untold => {}
    }
    if reply.says_close {
        text.push_str("connection: close\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

fn paced(wire: &mut Wire, bytes: &[u8], pace: Option<Pace>, shared: &Shared) -> io::Result<()> {
    let Some((size, time)) = pace else { return wire.write_all(bytes) };
    for piece in bytes.chunks(size.max(1)) {
        wire.write_all(piece)?;
        wire.flush()?;
        shared.sleep(time);
    }
    Ok(())
}

/// The body as it is.
fn straight(to: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let mut at = reply.range.start;
    while at < reply.range.end {
        let piece = reply.content.piece(at, reply.range.end - at);
        to.write_all(piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// The body with what happens to it; the end that the connection has to take before its time.
fn bent(wire: &mut Wire, reply: &Reply, shared: &Shared) -> io::Result<Option<End>> {
    let own = reply.range.end - reply.range.start;
    let total = own + reply.extra;
    let mut stall = reply.stall;
    let mut done = 0;
    loop {
        if let Some((_, end)) = reply.cut.filter(|(at, _)| done >= (*at).min(total)) {
            wire.flush()?;
            // A reset overtakes what is still on its way.
            shared.sleep(Duration::from_millis(if end == End::Reset { 10 } else { 0 }));
            return Ok(Some(end));
        }
        if let Some((_, time)) = stall.take_if(|(at, _)| done >= (*at).min(total)) {
            wire.flush()?;
            shared.sleep(time);
        }
        if done >= total {
            break;
        }
        let stops = [reply.cut.map(|(at, _)| at), stall.map(|(at, _)| at)];
        let next = stops.into_iter().flatten().filter(|at| *at > done).min().unwrap_or(total).min(total);
        let mut len = (next - done).min(PIECE);
        if let Framing::Chunked(size) = reply.framing {
            len = len.min(size as u64);
        }
        if let Some((size, time)) = reply.pace {
            shared.sleep(time);
            len = len.min(size.max(1) as u64);
        }
        let filler = [b'+'; 256];
        let piece = if done < own {
            reply.content.piece(reply.range.start + done, len.min(own - done))
        } else {
            &filler[..len.min(256) as usize]
        };
        match reply.framing {
            Framing::Chunked(_) => {
                let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
                chunk.extend_from_slice(piece);
                chunk.extend_from_slice(b"\r\n");
                wire.write_all(&chunk)?;
            }
            _ => wire.write_all(piece)?,
        }
        if reply.pace.is_some() {
            wire.flush()?;
        }
        done += piece.len() as u64;
        if shared.is_stopped() {
            return Ok(Some(End::Close));
        }
    }
    if let Framing::Chunked(_) = reply.framing {
        wire.write_all(b"0\r\nx-trailer: yes\r\n\r\n")?;
    }
    Ok(None)
}

//! One connection: requests in turn, until somebody ends it.

use std::io;
use std::net::TcpStream;

use rustls::{ServerConnection, StreamOwned};

use crate::server::body::{self, Sent};
use crate::server::content::Content;
use crate::server::reply::{End, Reply, base64, reply};
use crate::server::request::Seen;
use crate::server::script::Object;
use crate::server::serve::Shared;
use crate::server::wire::Wire;
use crate::server::{paths, tunnel};

/// Serves a connection to its end. What goes wrong on the client's side is not ours to tell.
pub(super) fn serve(socket: TcpStream, number: usize, shared: &Shared) {
    let Ok(wire) = open(socket, shared) else { return };
    let _ = talk(wire, number, shared);
}

fn open(socket: TcpStream, shared: &Shared) -> io::Result<Wire> {
    socket.set_nodelay(true)?;
    let Some(config) = &shared.script.tls else { return Ok(Wire::Plain(socket)) };
    let session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
    Ok(Wire::Tls(Box::new(StreamOwned::new(session, socket))))
}

fn talk(mut wire: Wire, number: usize, shared: &Shared) -> io::Result<()> {
    let mut count = 0;
    let mut held = Vec::new();
    while let Some(seen) = Seen::read(&mut wire, &mut held, number)? {
        count += 1;
        shared.log(seen.clone());
        if let Some(wanted) = &shared.script.proxy {
            return tunnel::serve(wire, &seen, wanted.as_deref());
        }
        let mut answer = answer(&seen, shared);
        let is_last = shared.script.keep_alive.is_some_and(|most| count >= most);
        answer.says_close |= is_last || seen.wants_close();
        answer.closes |= answer.says_close;
        match body::send(&mut wire, &answer, seen.method != "HEAD", shared)? {
            Sent::Whole => {}
            Sent::Ended(how) => {
                shared.forget(number);
                wire.end(how);
                return Ok(());
            }
        }
    }
    shared.forget(number);
    wire.end(End::Close);
    Ok(())
}

fn answer(seen: &Seen, shared: &Shared) -> Reply {
    let script = &shared.script;
    let path = seen.path();
    if script.has_paths && path == "/log" {
        return Reply::words(200, &shared.log_lines());
    }
    let mut faults = shared.strikes("script", &script.rules, seen);
    let mut object = script.objects.get(path).cloned();
    if object.is_none()
        && script.has_paths
        && let Some((named, rules)) = paths::read(path)
    {
        object = Some(named);
        faults.extend(shared.strikes("path", &rules, seen));
    }
    let object = object.or_else(|| file(path, shared));
    let mut reply = reply(seen, object.as_ref(), &faults);
    for (_, value) in &mut reply.headers {
        *value = shared.with_names(value);
    }
    reply
}

/// The file below the root that `path` names.
fn file(path: &str, shared: &Shared) -> Option<Object> {
    let root = shared.script.root.as_ref()?;
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if names.contains(&"..") {
        return None;
    }
    let path = root.join(names.join("/"));
    let len = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?.len();
    Some(Object::new(Content::File(path, len)))
}

/// True where `seen` carries the credentials in the header of that name.
pub(super) fn is_welcome(seen: &Seen, header: &str, credentials: &str) -> bool {
    seen.header(header) == Some(format!("Basic {}", base64(credentials.as_bytes())).as_str())
}

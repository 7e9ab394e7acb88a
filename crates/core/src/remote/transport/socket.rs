//! TCP sockets that never block, and the one call that lets the kernel put bytes where they belong.
#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use crate::memory::span::{Memory, Span};

/// Begins to connect to `address`; writable once that has come to an end, which [`outcome`] tells.
pub(super) fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Requests are small and each is sent whole: waiting to fill a packet only costs.
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(code) => Err(code.into()),
    }
}

/// What became of a connection attempt.
pub(super) fn outcome(socket: &OwnedFd) -> io::Result<()> {
    sockopt::socket_error(socket)??;
    // A socket that is still connecting has no error either, but no peer.
    rustix::net::getpeername(socket)?;
    Ok(())
}

/// Receives into the host memory of `span`; 0 where the peer has ended its side (or the span is empty).
pub(super) fn receive(socket: BorrowedFd<'_>, span: Span) -> io::Result<usize> {
    debug_assert!(span.memory() == Memory::Host);
    loop {
        // SAFETY: the span is host memory of that length, valid and ours to write while it is used, by the promise
        // made to `Span::new`; the kernel writes no more than its length.
        let got = unsafe { libc::recv(socket.as_raw_fd(), span.as_ptr().cast(), span.len(), 0) };
        match usize::try_from(got) {
            Ok(got) => return Ok(got),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Sends the beginning of `bytes`; answers how much.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::net::send(socket.as_fd(), bytes, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::buf::lend_mut;
    use std::io::Write;
    use std::net::TcpListener;

    fn eventually<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match call() {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) =>
                {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                other => return other,
            }
        }
    }

    #[test]
    fn bytes_land_in_the_span_and_nowhere_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        eventually(|| outcome(&socket)).unwrap();
        let mut buf = vec![0; 8];
        let span = lend_mut(&mut buf).slice(2, 4);
        let blocked = receive(socket.as_fd(), span).unwrap_err();
        assert_eq!(blocked.kind(), io::ErrorKind::WouldBlock);
        peer.write_all(b"abcdef").unwrap();
        assert_eq!(eventually(|| receive(socket.as_fd(), span)).unwrap(), 4);
        assert_eq!(buf, b"\0\0abcd\0\0");
        assert_eq!(send(socket.as_fd(), b"xyz").unwrap(), 3);
    }

    #[test]
    fn a_closed_port_is_told_by_the_outcome() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = connect(address).and_then(|socket| eventually(|| outcome(&socket)));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}

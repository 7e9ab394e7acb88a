//! A connection as the server holds it: TCP, or TLS over it, with every way of ending it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;

use rustls::{ServerConnection, StreamOwned};

use crate::server::reply::End;

pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Wire {
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.get_ref(),
        }
    }

    /// Ends the connection in that way; what was read but not answered would turn a close into a reset.
    pub fn end(mut self, how: End) {
        match how {
            End::Reset => reset_when_closed(self.socket()),
            End::Truncate => {
                let _ = self.socket().shutdown(Shutdown::Write);
            }
            End::Close => {
                if let Self::Tls(tls) = &mut self {
                    tls.conn.send_close_notify();
                    let _ = tls.flush();
                }
                let _ = self.socket().shutdown(Shutdown::Write);
            }
        }
    }

    /// Sends a part of a file: without a copy where there is no TLS.
    pub fn send_file(&mut self, file: &File, mut offset: u64, mut len: u64) -> io::Result<()> {
        if let Self::Plain(socket) = self {
            while len > 0 {
                let sent = send_file(socket, file, offset, len)?;
                if sent == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                offset += sent;
                len -= sent;
            }
            return Ok(());
        }
        let mut block = vec![0; 1 << 18];
        while len > 0 {
            let most = block.len().min(usize::try_from(len).unwrap_or(usize::MAX));
            let got = std::os::unix::fs::FileExt::read_at(file, &mut block[..most], offset)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.write_all(&block[..got])?;
            offset += got as u64;
            len -= got as u64;
        }
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buf),
            Self::Tls(tls) => tls.read(buf),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(buf),
            Self::Tls(tls) => tls.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

fn reset_when_closed(socket: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the descriptor is open as long as `socket` is, and the option is a `linger` of that size.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
}

fn send_file(socket: &TcpStream, file: &File, offset: u64, len: u64) -> io::Result<u64> {
    let mut offset = i64::try_from(offset).map_err(io::Error::other)?;
    let len = usize::try_from(len.min(1 << 30)).map_err(io::Error::other)?;
    // SAFETY: both descriptors are open as long as their owners are, and the offset is ours.
    let sent = unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &raw mut offset, len) };
    u64::try_from(sent).map_err(|_| io::Error::last_os_error())
}

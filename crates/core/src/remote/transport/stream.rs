//! The byte stream of one connection, plain or through TLS, that never blocks.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustls::ClientConnection;

use crate::memory::buf::{lend, lend_mut};
use crate::memory::span::Span;
use crate::remote::transport::socket;

/// A connected socket, and TLS on it where the origin is https.
#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Ciphertext to and from the socket, as rustls wants it.
struct Raw<'a>(BorrowedFd<'a>);

impl Read for Raw<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        socket::receive(self.0, lend_mut(buf))
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        socket::send(self.0, buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    /// A stream over a socket that may still be connecting.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, tls: None }
    }

    /// The socket, for asking what became of connecting it.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// From here on all bytes go through `tls`.
    pub(super) fn secure(&mut self, tls: ClientConnection) {
        self.tls = Some(Box::new(tls));
    }

    /// True where nothing is held back between the socket and the reader.
    pub(super) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// True where TLS has something to send.
    pub(super) fn wants_to_send(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Goes on with the TLS handshake; true once it is over (at once on a plain stream).
    ///
    /// # Errors
    /// The socket's error, or `InvalidData` around the TLS error.
    pub(super) fn shake_hands(&mut self) -> io::Result<bool> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.flush()?;
            if !self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                break;
            }
            match self.read_tls() {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    // The alert that tells the peer why: it is only a courtesy.
                    let _ = self.flush();
                    return Err(error);
                }
            }
        }
        self.flush()?;
        Ok(true)
    }

    /// One read of ciphertext; 0 where the peer has ended its side.
    fn read_tls(&mut self) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return Ok(0) };
        let got = tls.read_tls(&mut Raw(self.socket.as_fd()))?;
        tls.process_new_packets().map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        Ok(got)
    }

    /// Sends what TLS holds back; true where nothing is left.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut Raw(self.socket.as_fd())) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends the beginning of `bytes`; answers how much was taken.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => socket::send(self.socket.as_fd(), bytes),
            Some(tls) => {
                let taken = tls.writer().write(bytes)?;
                self.flush()?;
                Ok(taken)
            }
        }
    }

    /// Receives into the host memory of `span`; 0 where the peer has ended the stream in an orderly way.
    ///
    /// # Errors
    /// `WouldBlock` where there is nothing now; `UnexpectedEof` for a TLS stream that ended without saying so.
    pub(super) fn receive(&mut self, span: Span) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return socket::receive(self.socket.as_fd(), span) };
        loop {
            let mut reader = tls.reader();
            match reader.fill_buf() {
                Ok(plain) => {
                    let taken = span.copy_from(&lend(plain));
                    reader.consume(taken);
                    return Ok(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            tls.read_tls(&mut Raw(self.socket.as_fd()))?;
            tls.process_new_packets().map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        }
    }

    /// Receives at most `most` bytes to the end of `buf`; the rest as [`Stream::receive`].
    pub(super) fn receive_more(&mut self, buf: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        let len = buf.len();
        buf.resize(len + most, 0);
        let got = self.receive(lend_mut(buf.get_mut(len..).unwrap_or_default()));
        buf.truncate(len + got.as_ref().map_or(0, |got| *got));
        got
    }
}

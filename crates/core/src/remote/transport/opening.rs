//! From a name to an open stream: addresses tried in turn, the proxy's tunnel, the TLS handshake.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::request::{Origin, Scheme};
use crate::remote::transport::lookup::Addresses;
use crate::remote::transport::socket;
use crate::remote::transport::stream::Stream;
use crate::remote::wire::head;
use crate::remote::wire::proxy::Proxy;
use crate::remote::wire::trust::{Trust, server_name};

/// Bytes received at once while the proxy's answer is expected.
const ANSWER: usize = 4 << 10;

/// Whom a connection reaches, and by which way: requests of the same line may share connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) origin: Origin,
    /// The proxy between, where there is one.
    pub(super) proxy: Option<Proxy>,
}

impl Line {
    /// The host and port that the socket connects to.
    pub(super) fn peer(&self) -> (&str, u16) {
        match &self.proxy {
            Some(proxy) => (&proxy.host, proxy.port),
            None => (&self.origin.host, self.origin.port),
        }
    }

    /// True where the proxy reads the requests, which must then name the whole address.
    pub(super) fn is_relayed(&self) -> bool {
        self.proxy.is_some() && self.origin.scheme == Scheme::Http
    }
}

/// A connection that is being opened.
#[derive(Debug)]
pub(super) struct Opening {
    line: Arc<Line>,
    trust: Arc<Trust>,
    state: State,
    rest: VecDeque<SocketAddr>,
    began: Instant,
    limit: Duration,
    deadline: Instant,
    sockets: u32,
}

#[derive(Debug)]
enum State {
    Looking,
    Connecting(Stream),
    /// The request for a tunnel, how much of it has been sent, and what has come.
    Tunnel(Stream, Vec<u8>, usize, Vec<u8>),
    Shaking(Stream),
    Failed(Error),
    Over,
}

/// How far the opening is.
#[derive(Debug)]
pub(super) enum Progress {
    Wait,
    Open(Stream),
    Failed(Error),
}

impl Opening {
    /// Before anything is done; `limit` is the time that each address has.
    pub(super) fn new(line: Arc<Line>, trust: Arc<Trust>, limit: Duration, now: Instant) -> Self {
        let (state, rest) = (State::Looking, VecDeque::new());
        Self { line, trust, state, rest, began: now, limit, deadline: now + limit, sockets: 0 }
    }

    /// The socket of the address that is being tried.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Connecting(stream) | State::Tunnel(stream, ..) | State::Shaking(stream) => {
                Some(stream.as_fd())
            }
            State::Looking | State::Failed(_) | State::Over => None,
        }
    }

    /// True while the addresses of the host are not known.
    pub(super) fn is_looking(&self) -> bool {
        matches!(self.state, State::Looking)
    }

    /// Which socket that is, counted from the first.
    pub(super) fn sockets(&self) -> u32 {
        self.sockets
    }

    /// True where it waits for room to send.
    pub(super) fn is_sending(&self) -> bool {
        match &self.state {
            State::Connecting(_) => true,
            State::Tunnel(_, out, sent, _) => *sent < out.len(),
            State::Shaking(stream) => stream.wants_to_send(),
            State::Looking | State::Failed(_) | State::Over => false,
        }
    }

    /// When the address that is being tried must have answered.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The addresses are known, or will not be.
    pub(super) fn resolved(&mut self, answer: Result<Addresses>, now: Instant) {
        if !matches!(self.state, State::Looking) {
            return;
        }
        match answer {
            Ok(addresses) => {
                self.rest = addresses.iter().copied().collect();
                self.connect(now);
            }
            Err(error) => self.state = State::Failed(error),
        }
    }

    /// Gives the address up that is being tried; true where there is another, or another state to look at.
    pub(super) fn give_up_address(&mut self, now: Instant) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        self.connect(now);
        true
    }

    /// What to say where the time is over.
    pub(super) fn too_late(&self, now: Instant) -> String {
        match &self.state {
            State::Shaking(_) => self.unreachable("no answer to the TLS handshake", now),
            State::Tunnel(..) => self.unreachable("no answer of the proxy", now),
            State::Looking => {
                let millis = now.saturating_duration_since(self.began).as_millis();
                format!("Could not resolve host: {} (no answer after {millis} ms)", self.line.peer().0)
            }
            _ => self.unreachable("Connection timed out", now),
        }
    }

    fn unreachable(&self, why: &str, now: Instant) -> String {
        let (host, port) = self.line.peer();
        let elapsed = now.saturating_duration_since(self.began).as_millis();
        format!("Failed to connect to {host} port {port} after {elapsed} ms: {why}")
    }

    /// Begins with the next address.
    fn connect(&mut self, now: Instant) {
        let mut why = io::Error::from(io::ErrorKind::AddrNotAvailable);
        while let Some(address) = self.rest.pop_front() {
            match socket::connect(address) {
                Ok(socket) => {
                    self.sockets += 1;
                    self.deadline = now + self.limit;
                    self.state = State::Connecting(Stream::new(socket));
                    return;
                }
                Err(error) => why = error,
            }
        }
        self.state = State::Failed(self.refused(why, now));
    }

    fn refused(&self, why: io::Error, now: Instant) -> Error {
        let words = self.unreachable("Could not connect to server", now);
        Error::new(ErrorKind::Connection, "connect", format!("{words} ({why})")).retryable().because(why)
    }

    /// Goes as far as the socket lets it.
    pub(super) fn advance(&mut self, now: Instant) -> Progress {
        loop {
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::Connecting(stream) => match socket::outcome(stream.socket()) {
                    Ok(()) => self.connected(stream),
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                        self.state = State::Connecting(stream);
                        return Progress::Wait;
                    }
                    Err(_) if !self.rest.is_empty() => {
                        self.connect(now);
                        continue;
                    }
                    Err(error) => State::Failed(self.refused(error, now)),
                },
                State::Tunnel(stream, out, sent, come) => match self.tunnel(stream, out, sent, come) {
                    Ok(state @ State::Tunnel(..)) => {
                        self.state = state;
                        return Progress::Wait;
                    }
                    Ok(state) => state,
                    Err(error) => State::Failed(error),
                },
                State::Shaking(mut stream) => match stream.shake_hands() {
                    Ok(true) => return Progress::Open(stream),
                    Ok(false) => {
                        self.state = State::Shaking(stream);
                        return Progress::Wait;
                    }
                    Err(why) => State::Failed(self.no_tls(why)),
                },
                State::Failed(error) => return Progress::Failed(error),
                state @ (State::Looking | State::Over) => {
                    self.state = state;
                    return Progress::Wait;
                }
            };
        }
    }

    fn connected(&self, stream: Stream) -> State {
        match (&self.line.proxy, self.line.origin.scheme) {
            (Some(proxy), Scheme::Https) => match proxy.connect_request(&self.line.origin) {
                Ok(out) => State::Tunnel(stream, out, 0, Vec::new()),
                Err(error) => State::Failed(error),
            },
            _ => self.secured(stream),
        }
    }

    /// The stream reaches the origin: TLS comes next where it is https.
    fn secured(&self, mut stream: Stream) -> State {
        let origin = &self.line.origin;
        if origin.scheme == Scheme::Http {
            return State::Shaking(stream);
        }
        let session = self.trust.config().and_then(|config| {
            ClientConnection::new(config, server_name(&origin.host)?)
                .map_err(|why| self.trust.explain(&why, &origin.host))
        });
        match session {
            Ok(session) => {
                stream.secure(session);
                State::Shaking(stream)
            }
            Err(error) => State::Failed(error),
        }
    }

    /// Sends the request for a tunnel and reads the answer.
    fn tunnel(&self, mut stream: Stream, out: Vec<u8>, mut sent: usize, mut come: Vec<u8>) -> Result<State> {
        let lost = |why: io::Error| {
            let (host, port) = self.line.peer();
            let words = format!("the proxy {host}:{port} closed the connection");
            Error::new(ErrorKind::Connection, "connect", words).retryable().because(why)
        };
        loop {
            let step = match out.get(sent..).filter(|rest| !rest.is_empty()) {
                Some(rest) => stream.send(rest).inspect(|len| sent += len),
                None => stream.receive_more(&mut come, ANSWER),
            };
            match step {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(State::Tunnel(stream, out, sent, come));
                }
                Err(error) => return Err(lost(error)),
            }
            if let Some((head, len)) = head::parse(&come)? {
                if head.is_interim() {
                    come.drain(..len);
                } else if head.is_success() && come.len() == len {
                    return Ok(self.secured(stream));
                } else {
                    return Err(self.no_tunnel(head.status));
                }
            }
        }
    }

    fn no_tunnel(&self, status: u16) -> Error {
        let (host, port) = self.line.peer();
        let hint = match status {
            407 => ": put the user and password into the proxy's address",
            _ => "",
        };
        let words = format!(
            "the proxy {host}:{port} refuses a tunnel to {} (status {status}){hint}",
            self.line.origin
        );
        let error = Error::new(ErrorKind::Connection, "connect", words).with_status(status);
        if status >= 500 { error.retryable() } else { error }
    }

    fn no_tls(&self, why: io::Error) -> Error {
        let host = &self.line.origin.host;
        let reason = why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match reason {
            Some(reason) => self.trust.explain(reason, host),
            None => {
                let words = format!("{host} broke the connection off during the TLS handshake");
                Error::new(ErrorKind::Connection, "connect", words).retryable().because(why)
            }
        }
    }
}

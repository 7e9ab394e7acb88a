//! One connection: from a name to an open stream, then requests and answers in turn. It never waits: each call goes as
//! far as the socket lets it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::remote::request::Method;
use crate::remote::transport::exchange::{Ending, Exchange};
use crate::remote::transport::flow::Flow;
use crate::remote::transport::lookup::Addresses;
use crate::remote::transport::opening::{Line, Opening, Progress};
use crate::remote::transport::stream::Stream;
use crate::remote::wire::head;
use crate::remote::wire::retry::Fault;

/// Bytes received at once where a head is expected: the beginning of the body that comes along is copied.
const HEAD: usize = 4 << 10;
/// How long an idle connection is kept. Many servers close after 60 s; some ways there forget connections silently.
const KEEP: Duration = Duration::from_secs(30);
/// The most bytes that one connection may land before others get their turn.
const TURN: usize = 4 << 20;

/// Where a connection is in its life.
#[derive(Debug)]
pub(super) enum Phase {
    Opening(Opening),
    /// The request is being sent, or the head of the answer expected.
    Asking,
    Body(Flow),
    /// The answer is over; its tail is read so that the next can follow.
    Draining(Flow),
    Idle,
    Closed,
}

/// What a connection needs next.
#[derive(Debug)]
pub(super) enum Step {
    /// The socket is not ready for more.
    Wait,
    /// There is no room for the body: a copy to a device must end first.
    Paused,
    /// The exchange, which comes back, has had its attempt.
    Over(Box<Exchange>, Ending),
    /// It may be given another request.
    Idle,
    /// It is of no more use.
    Close,
}

/// A connection, and the exchange that it serves.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) line: Arc<Line>,
    pub(super) phase: Phase,
    pub(super) stream: Option<Stream>,
    pub(super) sockets: u32,
    /// The request, and how much of it has been sent.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    /// Bytes received, of which those before `used` are done with.
    pub(super) come: Vec<u8>,
    pub(super) used: usize,
    pub(super) method: Method,
    pub(super) keeps_alive: bool,
    /// Answers that came to their end.
    pub(super) served: u64,
    /// The last time something came or went.
    pub(super) active: Instant,
    pub(super) exchange: Option<Box<Exchange>>,
}

impl Connection {
    /// A connection that is to be opened for `exchange`, whose request is `out`.
    pub(super) fn new(line: Arc<Line>, opening: Opening, now: Instant) -> Self {
        Self {
            line,
            phase: Phase::Opening(opening),
            stream: None,
            sockets: 0,
            out: Vec::new(),
            sent: 0,
            come: Vec::new(),
            used: 0,
            method: Method::Get,
            keeps_alive: true,
            served: 0,
            active: now,
            exchange: None,
        }
    }

    /// Where it leads.
    pub(super) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// The socket, once there is one.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.phase {
            Phase::Opening(opening) => opening.socket(),
            _ => self.stream.as_ref().map(AsFd::as_fd),
        }
    }

    /// Gives it an exchange and the bytes of its request, to be sent as soon as it is open.
    pub(super) fn assign(&mut self, exchange: Box<Exchange>, method: Method, out: Vec<u8>, now: Instant) {
        self.exchange = Some(exchange);
        self.method = method;
        self.out = out;
        self.sent = 0;
        self.active = now;
        if matches!(self.phase, Phase::Idle) {
            self.phase = Phase::Asking;
        }
    }

    /// The addresses of the host are known, or will not be.
    pub(super) fn resolved(&mut self, answer: Result<Addresses>, now: Instant) {
        if let Phase::Opening(opening) = &mut self.phase {
            self.active = now;
            opening.resolved(answer, now);
        }
    }

    /// True where the socket must be watched for room to send.
    pub(super) fn is_sending(&self) -> bool {
        match &self.phase {
            Phase::Opening(opening) => opening.is_sending(),
            Phase::Asking => self.sent < self.out.len(),
            _ => false,
        }
    }

    /// Something has come on an idle connection: its end, or what is no answer. False where it is of no more use.
    pub(super) fn is_quiet(&mut self) -> bool {
        !matches!(self.phase, Phase::Idle)
            || matches!(self.receive(1), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// True where it may be given an exchange.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// True while it waits for the addresses of its host.
    pub(super) fn is_looking(&self) -> bool {
        matches!(&self.phase, Phase::Opening(opening) if opening.is_looking())
    }

    /// Which socket it is on, counted from the first that was tried.
    pub(super) fn sockets(&self) -> u32 {
        match &self.phase {
            Phase::Opening(opening) => opening.sockets(),
            _ => self.sockets,
        }
    }

    /// Goes as far as the socket lets it.
    pub(super) fn drive(&mut self, now: Instant) -> Step {
        let mut turn = TURN;
        loop {
            let outcome = match &mut self.phase {
                Phase::Opening(_) => self.open(now),
                Phase::Asking => self.ask(now),
                Phase::Body(_) => self.read_body(now, &mut turn),
                Phase::Draining(_) => self.drain(now),
                Phase::Idle => Ok(Some(Step::Idle)),
                Phase::Closed => Ok(Some(Step::Close)),
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(step)) => return step,
                Err(ending) => match self.exchange.take() {
                    Some(exchange) => {
                        self.phase = Phase::Closed;
                        return Step::Over(exchange, ending);
                    }
                    None => return Step::Close,
                },
            }
        }
    }

    /// When it must have got further, or be closed.
    pub(super) fn deadline(&self) -> Instant {
        let limit = match (&self.phase, &self.exchange) {
            (Phase::Opening(opening), _) => return earliest(opening.deadline(), self.exchange.as_deref()),
            (_, Some(exchange)) => exchange.policy().idle_limit,
            (_, None) => KEEP,
        };
        earliest(self.active + limit, self.exchange.as_deref())
    }

    /// Its deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) -> Step {
        if let Phase::Opening(opening) = &mut self.phase
            && !self.exchange.as_ref().is_some_and(|exchange| is_past(exchange.deadline, now))
            && opening.give_up_address(now)
        {
            return self.drive(now);
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Closed);
        let Some(exchange) = self.exchange.take() else { return Step::Close };
        let why = match (&phase, exchange.policy().total_limit) {
            (_, Some(limit)) if is_past(exchange.deadline, now) => {
                format!("not done after {} s (http_timeout)", limit.as_secs())
            }
            (Phase::Opening(opening), _) => opening.too_late(now),
            _ => format!("the server has sent nothing for {} s", exchange.policy().idle_limit.as_secs()),
        };
        let error = Error::new(ErrorKind::TimedOut, "read", why).retryable();
        Step::Over(exchange, Ending::Fault(Fault::TimedOut, error))
    }

    /// The exchange is not wanted any more, or the loop ends: both are given up.
    pub(super) fn abandon(&mut self) -> Option<Box<Exchange>> {
        self.phase = Phase::Closed;
        self.exchange.take()
    }

    /// True while an exchange is on it.
    pub(super) fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_deref()
    }

    fn open(&mut self, now: Instant) -> Outcome {
        let Phase::Opening(opening) = &mut self.phase else { return Ok(None) };
        match opening.advance(now) {
            Progress::Wait => Ok(Some(Step::Wait)),
            Progress::Open(stream) => {
                self.sockets = opening.sockets();
                self.stream = Some(stream);
                self.phase = if self.exchange.is_some() { Phase::Asking } else { Phase::Idle };
                self.active = now;
                Ok(None)
            }
            Progress::Failed(error) if error.is_retryable() => Err(Ending::Fault(Fault::Unreached, error)),
            Progress::Failed(error) => Err(Ending::Failed(error)),
        }
    }

    /// Sends the request and reads the head of the answer.
    fn ask(&mut self, now: Instant) -> Outcome {
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let Some(stream) = &mut self.stream else { return Ok(Some(Step::Close)) };
            match stream.send(rest) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Step::Wait)),
                // An answer may be there all the same: a refusal sent before the request was read.
                Err(_) => self.sent = self.out.len(),
            }
            self.active = now;
        }
        let Some(stream) = &mut self.stream else { return Ok(Some(Step::Close)) };
        if !stream.flush().map_err(|why| self.broken(&why))? {
            return Ok(Some(Step::Wait));
        }
        loop {
            if self.unread() > 0 {
                let parsed = head::parse(self.come.get(self.used..).unwrap_or_default());
                if let Some((head, len)) = parsed.map_err(Ending::Failed)? {
                    self.used += len;
                    if !head.is_interim() {
                        return self.begin_body(head);
                    }
                    continue;
                }
            }
            match self.receive(HEAD) {
                Ok(0) => return Err(self.broken(&io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => self.active = now,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Step::Wait)),
                Err(error) => return Err(self.broken(&error)),
            }
        }
    }

    fn begin_body(&mut self, head: head::Head) -> Outcome {
        let framing = head.framing(self.method).map_err(Ending::Failed)?;
        self.keeps_alive = head.keeps_alive() && framing != head::Framing::UntilClose;
        let Some(exchange) = &mut self.exchange else { return Ok(Some(Step::Close)) };
        self.phase = Phase::Body(exchange.head(head).map_err(Ending::Failed)?);
        Ok(None)
    }

    pub(super) fn unread(&self) -> usize {
        self.come.len() - self.used
    }

    /// Receives at most `most` bytes into memory of our own.
    pub(super) fn receive(&mut self, most: usize) -> io::Result<usize> {
        if self.used == self.come.len() {
            self.come.clear();
            self.used = 0;
        }
        match &mut self.stream {
            Some(stream) => stream.receive_more(&mut self.come, most),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// The stream broke while an answer was expected or under way.
    pub(super) fn broken(&self, why: &io::Error) -> Ending {
        let is_stale = self.served > 0 && self.come.is_empty() && matches!(self.phase, Phase::Asking);
        let fault = if is_stale { Fault::Stale } else { Fault::Broken };
        let words = match why.kind() {
            io::ErrorKind::UnexpectedEof => {
                "the server closed the connection before its answer was complete".into()
            }
            io::ErrorKind::ConnectionReset => "the server reset the connection".into(),
            _ => format!("the connection broke: {why}"),
        };
        Ending::Fault(fault, Error::new(ErrorKind::Connection, "read", words).retryable())
    }
}

/// `Ok(None)`: go on. `Err`: the exchange's attempt has ended, and the connection with it.
pub(super) type Outcome = std::result::Result<Option<Step>, Ending>;

fn earliest(at: Instant, exchange: Option<&Exchange>) -> Instant {
    exchange.and_then(|exchange| exchange.deadline).map_or(at, |deadline| deadline.min(at))
}

fn is_past(deadline: Option<Instant>, now: Instant) -> bool {
    deadline.is_some_and(|deadline| deadline <= now)
}

//! One request until it is answered for good: attempts, redirects, resumptions. No sockets and no waiting here: a
//! connection feeds it, the loop does what [`Next`] says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::buf::lend;
use crate::memory::span::Span;
use crate::remote::endpoint::Refusal;
use crate::remote::request::{Answer, Header, Request};
use crate::remote::transport::flow::Flow;
use crate::remote::transport::landing::Landing;
use crate::remote::transport::target::Target;
use crate::remote::wire::check::{self, Expected};
use crate::remote::wire::head::Head;
use crate::remote::wire::redirect::{self, Hops};
use crate::remote::wire::retry::{Attempts, Decision, Fault, Policy, retry_after};

/// The most bytes of a service's explanation that are kept.
const MOST_EXPLANATION: usize = 64 << 10;

/// A small request whose whole answer goes to a waiting thread.
#[derive(Debug)]
pub(crate) struct Fetching {
    pub(crate) request: Request,
    /// The most bytes of body.
    pub(crate) limit: usize,
    /// Whether a longer body is cut there, or is an error.
    pub(crate) cut: bool,
    pub(crate) policy: Arc<Policy>,
    pub(crate) weight: Arc<Weight>,
    pub(crate) reply: SyncSender<Result<Answer>>,
}

/// What a loop has on its hands, as others see it; counted off when it is dropped.
#[derive(Debug)]
pub(crate) struct Weight {
    load: Arc<AtomicUsize>,
    weight: usize,
}

impl Weight {
    /// Counts `weight` on.
    pub(super) fn new(load: &Arc<AtomicUsize>, weight: usize) -> Arc<Self> {
        load.fetch_add(weight, Ordering::Relaxed);
        Arc::new(Self { load: load.clone(), weight })
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.load.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

/// What an exchange is for.
#[derive(Debug)]
enum Work {
    Range(Arc<Target>, Landing),
    Fetch(Fetching),
}

/// Where the body of the answer goes.
#[derive(Debug)]
enum Sink {
    /// No head yet.
    None,
    /// To its landing.
    Land(Head),
    /// Here.
    Collect(Head, Vec<u8>),
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// The body is over, or all of it that was wanted has come.
    Body,
    /// It failed on the way.
    Fault(Fault, Error),
    /// It failed for good.
    Failed(Error),
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing: it is over. Copies to a device may still be under way.
    Done,
    /// Send it again, at once.
    Now,
    /// Send it again after the wait.
    After(Duration),
    /// Renew the credentials, then send it again.
    Renew(Arc<Target>, u64),
}

/// Where the next bytes of the body may be received.
#[derive(Debug)]
pub(super) enum Room {
    /// Right here.
    Here(Span),
    /// Elsewhere, then given to [`Exchange::take`].
    Elsewhere,
    /// Nowhere yet.
    Wait,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Exchange {
    work: Work,
    /// The request as it was sent last.
    request: Option<Request>,
    /// Where a redirect leads.
    onward: Option<Request>,
    /// The request is such a one.
    follows: bool,
    hops: Hops,
    attempts: Attempts,
    sink: Sink,
    renewals: u64,
    has_learned: bool,
    has_renewed: bool,
    /// An attempt is under way that has not been counted as failed.
    is_fresh: bool,
    /// Bytes landed in this attempt.
    landed: usize,
    /// The job that it is part of: counts its exchanges by being held.
    share: Option<Arc<Weight>>,
    /// When the attempt must have ended, where the user set a limit.
    pub(super) deadline: Option<Instant>,
}

impl Exchange {
    /// For the range of an object that `landing` waits for.
    pub(super) fn range(target: Arc<Target>, landing: Landing, share: Arc<Weight>) -> Self {
        let policy = target.policy.clone();
        Self { share: Some(share), ..Self::new(Work::Range(target, landing), policy) }
    }

    /// For a small request.
    pub(super) fn fetch(fetching: Fetching) -> Self {
        let policy = fetching.policy.clone();
        Self::new(Work::Fetch(fetching), policy)
    }

    fn new(work: Work, policy: Arc<Policy>) -> Self {
        Self {
            work,
            request: None,
            onward: None,
            follows: false,
            hops: Hops::new(),
            attempts: Attempts::new(policy),
            sink: Sink::None,
            renewals: 0,
            has_learned: false,
            has_renewed: false,
            is_fresh: false,
            landed: 0,
            share: None,
            deadline: None,
        }
    }

    /// The limits that hold for it.
    pub(super) fn policy(&self) -> &Policy {
        match &self.work {
            Work::Range(target, _) => &target.policy,
            Work::Fetch(fetching) => &fetching.policy,
        }
    }

    /// False once nobody waits for the answer.
    pub(super) fn is_wanted(&self) -> bool {
        match &self.work {
            Work::Range(_, landing) => landing.order().is_wanted(),
            Work::Fetch(_) => true,
        }
    }

    /// Makes the request for what is still missing; what belongs to the connection is left to its caller.
    ///
    /// # Errors
    /// What the endpoint said.
    pub(super) fn prepare(&mut self, now: Instant) -> Result<&Request> {
        self.sink = Sink::None;
        self.follows = false;
        self.landed = 0;
        self.is_fresh = true;
        self.deadline = self.policy().total_limit.and_then(|limit| now.checked_add(limit));
        let request = match (self.onward.take(), &self.work) {
            (Some(onward), _) => {
                self.follows = true;
                onward
            }
            (None, Work::Fetch(fetching)) => {
                self.hops = Hops::new();
                fetching.request.clone()
            }
            (None, Work::Range(target, landing)) => {
                self.hops = Hops::new();
                self.renewals = target.renewals();
                let start = landing.order().offset + landing.come() as u64;
                let range = start..start + landing.missing() as u64;
                target.endpoint.range(range, SystemTime::now())?
            }
        };
        Ok(self.request.insert(request))
    }

    /// The request that was prepared, and what goes beside its own headers.
    pub(super) fn sent(&self) -> Option<(&Request, Vec<Header>)> {
        let extra = match &self.work {
            Work::Range(target, _) => target.version().and_then(|version| version.if_match()),
            Work::Fetch(_) => None,
        };
        self.request.as_ref().map(|request| (request, extra.into_iter().collect()))
    }

    /// It was prepared, but cannot be sent now.
    pub(super) fn put_back(&mut self) {
        if self.follows {
            self.onward = self.request.take();
        }
    }

    /// True where it follows a redirect next.
    pub(super) fn is_onward(&self) -> bool {
        self.onward.is_some()
    }

    /// The head of the answer has come; answers how its body is to be read.
    ///
    /// # Errors
    /// Where it is not the answer to what was asked.
    pub(super) fn head(&mut self, head: Head) -> Result<Flow> {
        let Some(request) = &self.request else { return Err(unasked()) };
        let framing = head.framing(request.method)?;
        let (limit, range) = match &self.work {
            Work::Fetch(fetching) => (fetching.limit + usize::from(!fetching.cut), None),
            Work::Range(target, landing) if head.is_success() => (0, Some((target, landing))),
            Work::Range(..) => (MOST_EXPLANATION, None),
        };
        let Some((target, landing)) = range else {
            self.sink = Sink::Collect(head, Vec::new());
            return Ok(Flow::new(framing, 0, limit as u64));
        };
        let start = landing.order().offset + landing.come() as u64;
        let version = target.version();
        let expected = Expected {
            range: start..start + landing.missing() as u64,
            size: Some(target.size),
            version: version.as_deref(),
            proof: target.endpoint.proof(),
        };
        let body = check::judge(&head, framing, &expected)?;
        if let Some(version) = &body.version {
            target.learn(version).map_err(|error| error.with_status(head.status))?;
        }
        self.sink = Sink::Land(head);
        Ok(Flow::new(framing, body.skip, body.take))
    }

    /// Where the next bytes may be received.
    ///
    /// # Errors
    /// What the driver said.
    pub(super) fn room(&mut self) -> Result<Room> {
        match (&self.sink, &mut self.work) {
            (Sink::Land(_), Work::Range(_, landing)) => Ok(landing.room()?.map_or(Room::Wait, Room::Here)),
            _ => Ok(Room::Elsewhere),
        }
    }

    /// `len` bytes have been received into the last [`Room::Here`].
    ///
    /// # Errors
    /// What the driver said.
    pub(super) fn land(&mut self, len: usize) -> Result<()> {
        if let Work::Range(_, landing) = &mut self.work {
            self.landed += len;
            landing.land(len)?;
        }
        Ok(())
    }

    /// Takes the next bytes of the body from elsewhere; answers how many, 0 where there is no room yet.
    ///
    /// # Errors
    /// What the driver said.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        if let Sink::Collect(_, body) = &mut self.sink {
            body.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        match self.room()? {
            Room::Here(room) => {
                let taken = room.copy_from(&lend(bytes));
                self.land(taken)?;
                Ok(taken)
            }
            Room::Elsewhere => Err(unasked()),
            Room::Wait => Ok(0),
        }
    }

    /// The status of the answer that is being read, 0 where there is none yet.
    pub(super) fn status(&self) -> u16 {
        match &self.sink {
            Sink::None => 0,
            Sink::Land(head) | Sink::Collect(head, _) => head.status,
        }
    }

    /// Bytes that have landed since the last attempt began.
    pub(super) fn landed(&self) -> usize {
        self.landed
    }

    /// An attempt has ended; `random` is in `0.0..1.0`, anew each time.
    pub(super) fn ended(&mut self, ending: Ending, random: f64) -> Next {
        if self.landed > 0 {
            self.attempts.progressed();
        }
        let sink = std::mem::replace(&mut self.sink, Sink::None);
        match (ending, sink) {
            (Ending::Body, Sink::Land(head)) => self.body_over(&head, random),
            (Ending::Body, Sink::Collect(head, body)) => self.answered(head, body, random),
            // What a refusal says has come far enough to be told, even where its explanation was cut.
            (Ending::Fault(..), Sink::Collect(head, body)) if head.status >= 400 => {
                self.answered(head, body, random)
            }
            (Ending::Fault(fault, error), _) => self.again(fault, error, random),
            (Ending::Failed(error), _) => self.fail(error),
            (Ending::Body, Sink::None) => self.fail(unasked()),
        }
    }

    /// The body has come to its own end, or to that of the range.
    fn body_over(&mut self, head: &Head, random: f64) -> Next {
        let Work::Range(_, landing) = &self.work else { return Next::Done };
        if landing.missing() == 0 {
            return Next::Done;
        }
        if head.status == 206 && self.landed > 0 {
            // A part of what was asked for, and right: ask for the rest.
            return match self.failed(Fault::Stale, random) {
                Decision::Again { .. } => Next::Now,
                Decision::GiveUp => self.fail(short(head)),
            };
        }
        self.again(Fault::Broken, short(head), random)
    }

    /// An answer that is no body of an object.
    fn answered(&mut self, head: Head, body: Vec<u8>, random: f64) -> Next {
        if redirect::is_redirect(&head)
            && let Some(request) = &self.request
        {
            return match redirect::follow(request, &head, &mut self.hops) {
                Ok(onward) => {
                    self.onward = Some(onward);
                    Next::Now
                }
                Err(error) => self.fail(error),
            };
        }
        let status = head.status;
        if self.policy().is_retryable(status) {
            let retry_after = retry_after(&head, SystemTime::now());
            let fault = Fault::Status { status, retry_after };
            match self.failed(fault, random) {
                Decision::Again { wait } => return self.wait(wait),
                Decision::GiveUp => {}
            }
        }
        let target = match &self.work {
            Work::Fetch(_) => return self.reply(head, body),
            Work::Range(target, _) => target.clone(),
        };
        let seen = self.renewals;
        match target.endpoint.refused(&head.into_answer(body)) {
            Refusal::Learned(_) if !std::mem::replace(&mut self.has_learned, true) => Next::Now,
            Refusal::Stale(_) if !std::mem::replace(&mut self.has_renewed, true) => Next::Renew(target, seen),
            Refusal::Learned(error) | Refusal::Stale(error) | Refusal::Final(error) => {
                let is_retryable = self.policy().is_retryable(status);
                let error = error.with_status(status);
                self.fail(if is_retryable { error.retryable() } else { error })
            }
        }
    }

    fn reply(&mut self, head: Head, body: Vec<u8>) -> Next {
        let Work::Fetch(fetching) = &self.work else { return Next::Done };
        if body.len() > fetching.limit {
            let why = format!("the answer is longer than {} bytes", fetching.limit);
            return self.fail(Error::new(ErrorKind::Unverified, "read", why).with_status(head.status));
        }
        // Nobody may be waiting any more.
        let _ = fetching.reply.try_send(Ok(head.into_answer(body)));
        Next::Done
    }

    fn failed(&mut self, fault: Fault, random: f64) -> Decision {
        self.is_fresh = false;
        self.attempts.failed(fault, random)
    }

    fn again(&mut self, fault: Fault, error: Error, random: f64) -> Next {
        match self.failed(fault, random) {
            Decision::Again { wait } => self.wait(wait),
            Decision::GiveUp => self.fail(error.retryable()),
        }
    }

    fn wait(&self, wait: Duration) -> Next {
        if let Some(notice) = self.attempts.notice() {
            tracing::warn!("{notice}");
        }
        if wait.is_zero() { Next::Now } else { Next::After(wait) }
    }

    /// It failed for good.
    pub(super) fn fail(&mut self, error: Error) -> Next {
        let made = self.attempts.made() + u32::from(self.is_fresh);
        let error = error.with_attempts(made.max(1));
        match &self.work {
            Work::Range(_, landing) => landing.fail(error),
            Work::Fetch(fetching) => {
                let error = error.on(fetching.request.address());
                let _ = fetching.reply.try_send(Err(error));
            }
        }
        Next::Done
    }

    /// True once nothing is under way for it any more, so that it may be dropped.
    pub(super) fn is_settled(&mut self) -> bool {
        match &mut self.work {
            Work::Fetch(_) => true,
            Work::Range(_, landing) => landing.settle().unwrap_or_else(|error| {
                landing.fail(error);
                true
            }),
        }
    }
}

fn unasked() -> Error {
    Error::new(ErrorKind::Unverified, "read", "the server sends what nobody asked for")
}

fn short(head: &Head) -> Error {
    let why = "the server's answer ended before the bytes that were asked for";
    Error::new(ErrorKind::Unverified, "read", why).with_status(head.status)
}

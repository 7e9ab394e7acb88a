//! One request until it is answered for good: attempts, redirects, resumptions. No sockets and no waiting here: a
//! connection feeds it, the loop does what [`Next`] says.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::buf::lend;
use crate::memory::span::Span;
use crate::remote::request::{Answer, Header, Origin, Request};
use crate::remote::transport::flow::Flow;
use crate::remote::transport::landing::Landing;
use crate::remote::transport::target::Target;
use crate::remote::transport::weight::Weight;
use crate::remote::wire::check::{self, Expected};
use crate::remote::wire::head::Head;
use crate::remote::wire::redirect::Hops;
use crate::remote::wire::retry::{Attempts, Fault, Policy};

/// The most bytes of a service's explanation that are kept.
const MOST_EXPLANATION: usize = 64 << 10;

/// The answer to a small request, and who gave it: where a redirect led.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    pub(crate) origin: Origin,
}

/// A small request whose whole answer goes to a waiting thread.
#[derive(Debug)]
pub(crate) struct Fetching {
    pub(crate) request: Request,
    /// The most bytes of body.
    pub(crate) limit: usize,
    /// Whether a longer body is cut there, or is an error.
    pub(crate) cut: bool,
    pub(crate) policy: Arc<Policy>,
    pub(crate) weight: Option<Arc<Weight>>,
    pub(crate) reply: SyncSender<Result<Answered>>,
}

/// What an exchange is for.
#[derive(Debug)]
pub(super) enum Work {
    Range(Arc<Target>, Landing),
    Fetch(Fetching),
}

/// Where the body of the answer goes.
#[derive(Debug)]
pub(super) enum Sink {
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
    /// The job that it is part of counts its exchanges by their holding this. Let go of before the work is reported,
    /// so that who waits for it finds a loop that has less to do.
    pub(super) share: Option<Arc<Weight>>,
    pub(super) work: Work,
    /// The request as it was sent last.
    pub(super) request: Option<Request>,
    /// Where a redirect leads.
    pub(super) onward: Option<Request>,
    /// The request is such a one.
    pub(super) follows: bool,
    pub(super) hops: Hops,
    pub(super) attempts: Attempts,
    pub(super) sink: Sink,
    pub(super) renewals: u64,
    pub(super) has_learned: bool,
    pub(super) has_renewed: bool,
    /// How often it was sent, redirects not counted.
    pub(super) sends: u32,
    /// Bytes landed in this attempt.
    pub(super) landed: usize,
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
            sends: 0,
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
        self.sends += u32::from(!self.follows);
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
        } else {
            self.sends -= 1;
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
            // A caller may want but the beginning of an object, where the server says which bytes it sends.
            size: (target.is_sure || head.status == 200).then_some(target.size),
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

    /// It is not gone on with: its transfer has failed elsewhere.
    pub(super) fn withdraw(&self) {
        if let Work::Range(_, landing) = &self.work {
            landing.order().withdraw();
        }
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

pub(super) fn unasked() -> Error {
    Error::new(ErrorKind::Unverified, "read", "the server sends what nobody asked for")
}

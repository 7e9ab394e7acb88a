//! Requests over the wire: event loops that share nothing, each with its connections, whose bodies land where they
//! belong as they leave the socket.

mod body;
mod connection;
mod exchange;
mod fleet;
mod flow;
mod landing;
mod lookup;
mod mailbox;
mod opening;
mod reactor;
mod socket;
mod stream;
mod table;
mod tally;
mod target;
mod traffic;
mod verdict;
mod weight;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::engine::carrier::Ticket;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Environment, Key, Options, Value};
use crate::process;
use crate::remote::endpoint::Fetch;
use crate::remote::request::{Answer, Request};
use crate::remote::wire::proxy::Proxies;
use crate::remote::wire::retry::Policy;
use crate::remote::wire::trust::Trust;

use exchange::Fetching;
use fleet::Fleet;
use lookup::Lookup;
use reactor::Means;
use tally::Tally;

pub(crate) use exchange::Answered;
pub use tally::Statistics;
pub(crate) use target::Target;

/// The most loops that we choose by ourselves: one moves about 4 GB/s, so these outrun any network card.
const MOST_LOOPS: usize = 16;
/// The most requests in flight where nothing is set: enough to hide the latency of object stores.
const MOST_IN_FLIGHT: usize = 64;

/// The event loops of this process, what they trust, and the ways they go.
#[derive(Debug)]
pub struct Transport {
    fleet: ArcSwapOption<Fleet>,
    loops: usize,
    in_flight: usize,
    trust: Arc<Trust>,
    proxies: Proxies,
    tally: Arc<Tally>,
    /// For small requests that are not tried again: their callers have ways of their own.
    once: Arc<Policy>,
}

impl Transport {
    /// Loops as `options` have them, on the ways that `environment` describes. No thread is started yet.
    #[must_use]
    pub fn new(options: &Options, environment: &Environment<'_>) -> Self {
        let once = Options::default().with(Key::HttpMaxAttempts, Value::Int(1)).unwrap_or_default();
        Self {
            fleet: ArcSwapOption::empty(),
            loops: loops(options).min(in_flight(options)),
            in_flight: in_flight(options),
            trust: Arc::new(Trust::read(environment)),
            proxies: Proxies::read(environment),
            tally: Arc::default(),
            once: Arc::new(Policy::from(&once)),
        }
    }

    /// What has been done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.tally.read()
    }

    /// Has the loops run the tasks of a transfer that reads `target`.
    pub(crate) fn carry(&self, ticket: &Ticket, target: &Arc<Target>) {
        match self.fleet() {
            Ok(fleet) => fleet.carry(ticket, target),
            Err(error) => ticket.refuse(error),
        }
    }

    /// Sends a request and waits for the answer, of whose body at most `limit` bytes are read; faults are treated as
    /// `policy` says.
    ///
    /// # Errors
    /// Where no answer came.
    pub(crate) fn ask(&self, request: &Request, limit: usize, policy: &Arc<Policy>) -> Result<Answered> {
        self.exchange(request, limit, true, policy, None)
    }

    fn exchange(
        &self,
        request: &Request,
        limit: usize,
        cut: bool,
        policy: &Arc<Policy>,
        patience: Option<Duration>,
    ) -> Result<Answered> {
        let (reply, answer) = sync_channel(1);
        let (request, policy) = (request.clone(), policy.clone());
        let address = request.address();
        self.fleet()?.fetch(|weight| Fetching { request, limit, cut, policy, weight, reply })?;
        let received = match patience {
            Some(patience) => answer.recv_timeout(patience),
            None => answer.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        received.unwrap_or_else(|why| {
            Err(match why {
                RecvTimeoutError::Timeout => {
                    Error::new(ErrorKind::TimedOut, "ask", "no answer in time").retryable()
                }
                RecvTimeoutError::Disconnected => {
                    Error::new(ErrorKind::Io, "ask", "the event loop that carried the request is gone")
                }
            }
            .on(address))
        })
    }

    /// The loops of this process. A forked child has its own: the parent's threads do not exist there, and its locks
    /// may be held for ever.
    fn fleet(&self) -> Result<Arc<Fleet>> {
        let current = self.fleet.load();
        if let Some(fleet) = &*current
            && fleet.process == process::id()
        {
            return Ok(fleet.clone());
        }
        let most = self.in_flight.div_ceil(self.loops);
        let fresh = Arc::new(Fleet::new(
            self.loops,
            Means {
                lookup: Arc::new(Lookup::default()),
                trust: self.trust.clone(),
                proxies: self.proxies.clone(),
                tally: self.tally.clone(),
                most,
            },
        )?);
        let previous = self.fleet.compare_and_swap(&current, Some(fresh.clone()));
        match &*previous {
            // Another thread was faster.
            Some(fleet) if fleet.process == process::id() => Ok(fleet.clone()),
            Some(parents) => {
                // It must not be dropped here: its locks are not this process's.
                std::mem::forget(parents.clone());
                Ok(fresh)
            }
            None => Ok(fresh),
        }
    }
}

impl Fetch for Transport {
    fn fetch(&self, request: &Request, limit: usize, patience: Duration) -> Result<Answer> {
        self.exchange(request, limit, false, &self.once, Some(patience)).map(|answered| answered.answer)
    }
}

/// As many loops as the user asked for, by either of two settings; else one for each CPU.
fn loops(options: &Options) -> usize {
    let is_multi = options.get(Key::RemoteIoBackend) == Value::Choice("MULTI_POLL");
    match options.get(Key::RemoteIoNumReactors) {
        Value::Int(reactors) if is_multi => usize::try_from(reactors).unwrap_or(MOST_LOOPS).max(1),
        _ if options.is_set(Key::NumThreads) => options.num_threads().max(1),
        _ => std::thread::available_parallelism().map_or(1, usize::from).min(MOST_LOOPS),
    }
}

fn in_flight(options: &Options) -> usize {
    match options.get(Key::RemoteIoMaxConcurrentRequests) {
        Value::Int(0) => usize::MAX,
        Value::Int(most) if options.is_set(Key::RemoteIoMaxConcurrentRequests) => {
            usize::try_from(most).unwrap_or(usize::MAX)
        }
        _ => MOST_IN_FLIGHT,
    }
}

//! One event loop: it takes tasks of the transfers that it was told of, sends their requests on connections of its
//! own, and sleeps only where nothing can go on.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::carrier::Ticket;
use crate::error::Result;
use crate::remote::transport::exchange::{Exchange, Fetching};
use crate::remote::transport::landing::Landing;
use crate::remote::transport::lookup::{Addresses, Lookup};
use crate::remote::transport::mailbox::Mailbox;
use crate::remote::transport::table::{BELL, Table, Token};
use crate::remote::transport::tally::Tally;
use crate::remote::transport::target::Target;
use crate::remote::transport::weight::Weight;
use crate::remote::wire::proxy::Proxies;
use crate::remote::wire::throttle::Load;
use crate::remote::wire::trust::Trust;

/// How often a loop looks after transfers that failed elsewhere, and after limits of time.
const TICK: Duration = Duration::from_millis(100);
/// How often in a row a loop asks for the end of a copy to a device before it sleeps a little in between.
const MOST_SPINS: u32 = 50;

/// What all loops of a process share.
#[derive(Debug)]
pub(super) struct Means {
    pub(super) lookup: Arc<Lookup>,
    pub(super) trust: Arc<Trust>,
    pub(super) proxies: Proxies,
    pub(super) tally: Arc<Tally>,
    /// The most requests of one loop.
    pub(super) most: usize,
}

/// What other threads tell a loop.
#[derive(Debug)]
pub(super) enum Mail {
    /// A transfer whose tasks it may take.
    Job(Job),
    /// A small request.
    Fetch(Fetching),
    /// The addresses of a host and port.
    Resolved(String, u16, Result<Addresses>),
    /// The credentials of this exchange's object were renewed, or could not be.
    Renewed(Box<Exchange>, Result<()>),
    /// Nobody will send requests any more.
    Stop,
}

/// A transfer whose tasks a loop may take.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) ticket: Ticket,
    pub(super) target: Arc<Target>,
    /// The most tasks that it takes at once, so that others get theirs.
    pub(super) share: usize,
    pub(super) weight: Arc<Weight>,
}

/// An event loop.
#[derive(Debug)]
pub(super) struct Reactor {
    pub(super) mailbox: Arc<Mailbox<Mail>>,
    pub(super) means: Arc<Means>,
    pub(super) table: Table,
    pub(super) now: Instant,
    pub(super) jobs: VecDeque<Job>,
    /// Exchanges to be sent now, and later.
    pub(super) ready: VecDeque<Box<Exchange>>,
    pub(super) later: Vec<(Instant, Box<Exchange>)>,
    /// Exchanges that are over but for copies to a device.
    pub(super) settling: VecDeque<Box<Exchange>>,
    /// Connections that wait for such copies.
    pub(super) paused: Vec<Token>,
    /// Exchanges in all.
    pub(super) in_flight: usize,
    /// An attempt has ended since tasks were last taken: there may be room for more.
    pub(super) has_ended: bool,
    pub(super) spins: u32,
    pub(super) next_tick: Instant,
    pub(super) random: u64,
    pub(super) stops: bool,
}

impl Reactor {
    /// A loop that empties `mailbox`.
    pub(super) fn new(mailbox: Arc<Mailbox<Mail>>, means: Arc<Means>, seed: u64) -> io::Result<Self> {
        let table = Table::new(means.most)?;
        table.watch_bell(mailbox.bell())?;
        let now = Instant::now();
        Ok(Self {
            mailbox,
            means,
            table,
            now,
            jobs: VecDeque::new(),
            ready: VecDeque::new(),
            later: Vec::new(),
            settling: VecDeque::new(),
            paused: Vec::new(),
            in_flight: 0,
            has_ended: false,
            spins: 0,
            next_tick: now,
            random: seed | 1,
            stops: false,
        })
    }

    /// Runs until it is told to stop and nothing is left to do.
    pub(super) fn run(&mut self) {
        loop {
            self.has_ended = false;
            self.claim();
            self.dispatch();
            self.settle();
            self.tick();
            if self.stops && self.in_flight == 0 && self.jobs.is_empty() && self.mailbox.close_if_empty() {
                return;
            }
            let until = self.sleep_until();
            let events = self.table.wait(until, self.now);
            self.now = Instant::now();
            for token in events {
                if token == BELL {
                    self.mailbox.silence();
                    self.mailbox.take().into_iter().for_each(|mail| self.open_mail(mail));
                } else {
                    self.wake(token);
                }
            }
        }
    }

    fn open_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Job(job) => self.jobs.push_back(job),
            Mail::Fetch(fetching) => {
                self.in_flight += 1;
                self.ready.push_back(Box::new(Exchange::fetch(fetching)));
            }
            Mail::Resolved(host, port, answer) => {
                for token in self.table.tokens() {
                    if let Some(connection) = self.table.get(token)
                        && connection.is_looking()
                        && connection.line().peer() == (host.as_str(), port)
                    {
                        connection.resolved(answer.clone(), self.now);
                        self.drive(token);
                    }
                }
            }
            Mail::Renewed(exchange, Ok(())) => self.ready.push_back(exchange),
            Mail::Renewed(mut exchange, Err(error)) => {
                exchange.fail(error);
                self.over(exchange);
            }
            Mail::Stop => self.stops = true,
        }
    }

    /// Takes tasks as long as there is capacity, one of each transfer in turn.
    fn claim(&mut self) {
        let mut refused = 0;
        while self.in_flight < self.means.most && refused < self.jobs.len() {
            let Some(job) = self.jobs.pop_front() else { return };
            // The job holds one, each of its exchanges another.
            if Arc::strong_count(&job.weight) > job.share {
                refused += 1;
                self.jobs.push_back(job);
                continue;
            }
            let Some(order) = job.ticket.next() else { continue };
            refused = 0;
            let left = job.target.size.saturating_sub(order.offset);
            let whole = usize::try_from(left).unwrap_or(usize::MAX);
            let landing = Landing::new(order, whole);
            let is_empty = landing.missing() == 0;
            let exchange = Box::new(Exchange::range(job.target.clone(), landing, job.weight.clone()));
            self.in_flight += 1;
            if is_empty {
                self.over(exchange);
            } else {
                self.ready.push_back(exchange);
            }
            if job.ticket.has_more() {
                self.jobs.push_back(job);
            }
        }
    }

    /// What time brings: repeated requests that are due, limits, transfers that failed elsewhere.
    fn tick(&mut self) {
        if self.later.iter().any(|(due, _)| *due <= self.now) {
            for (due, exchange) in std::mem::take(&mut self.later) {
                if due <= self.now {
                    self.ready.push_back(exchange);
                } else {
                    self.later.push((due, exchange));
                }
            }
            self.dispatch();
        }
        if self.now < self.next_tick {
            return;
        }
        self.next_tick = self.now + TICK;
        for (due, exchange) in std::mem::take(&mut self.later) {
            match exchange.is_wanted() {
                true => self.later.push((due, exchange)),
                false => {
                    exchange.withdraw();
                    self.over(exchange);
                }
            }
        }
        for token in self.table.tokens() {
            self.check(token);
        }
    }

    /// Ends what takes too long, or is not wanted any more.
    fn check(&mut self, token: Token) {
        let Some(connection) = self.table.get(token) else { return };
        if connection.exchange().is_some_and(|exchange| !exchange.is_wanted()) {
            let exchange = connection.abandon();
            if let Some((brake, throttle)) = self.table.take_brake(token) {
                throttle.end(brake, Load::Unknown);
            }
            self.table.remove(token);
            if let Some(exchange) = exchange {
                exchange.withdraw();
                self.over(exchange);
            }
        } else if connection.deadline() <= self.now {
            let step = connection.expire(self.now);
            self.rest(token, step);
        }
    }

    fn sleep_until(&mut self) -> Option<Instant> {
        if self.has_ended && !(self.jobs.is_empty() && self.ready.is_empty()) {
            return Some(self.now);
        }
        if !self.settling.is_empty() || !self.paused.is_empty() {
            self.spins += 1;
            let pause = if self.spins > MOST_SPINS { Duration::from_millis(1) } else { Duration::ZERO };
            return Some(self.now + pause);
        }
        self.spins = 0;
        let due = self.later.iter().map(|(due, _)| *due).min();
        let tick = if self.in_flight > 0 { Some(self.next_tick) } else { None };
        // Idle connections are closed in their time also where nothing else happens.
        let idle = (!self.table.is_empty()).then(|| self.now + Duration::from_secs(5));
        [due, tick, idle].into_iter().flatten().min()
    }
}

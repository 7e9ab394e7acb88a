//! One event loop: it takes tasks of the transfers that it was told of, sends their requests on connections of its
//! own, and sleeps only where nothing can go on.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::engine::carrier::Ticket;
use crate::error::{Error, ErrorKind, Result};
use crate::remote::transport::connection::{Connection, Step};
use crate::remote::transport::exchange::{Ending, Exchange, Fetching, Next, Weight};
use crate::remote::transport::landing::Landing;
use crate::remote::transport::lookup::{Addresses, Lookup};
use crate::remote::transport::mailbox::Mailbox;
use crate::remote::transport::opening::{Line, Opening};
use crate::remote::transport::table::{BELL, Table, Token};
use crate::remote::transport::tally::Tally;
use crate::remote::transport::target::Target;
use crate::remote::wire::head;
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
    mailbox: Arc<Mailbox<Mail>>,
    means: Arc<Means>,
    table: Table,
    now: Instant,
    jobs: VecDeque<Job>,
    /// Exchanges to be sent now, and later.
    ready: VecDeque<Box<Exchange>>,
    later: Vec<(Instant, Box<Exchange>)>,
    /// Exchanges that are over but for copies to a device.
    settling: VecDeque<Box<Exchange>>,
    /// Connections that wait for such copies.
    paused: Vec<Token>,
    /// Exchanges in all.
    in_flight: usize,
    /// An attempt has ended since tasks were last taken: there may be room for more.
    has_ended: bool,
    spins: u32,
    next_tick: Instant,
    random: u64,
    stops: bool,
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

    /// Gives what is to be sent now to connections.
    fn dispatch(&mut self) {
        for _ in 0..self.ready.len() {
            let Some(mut exchange) = self.ready.pop_front() else { return };
            if !exchange.is_wanted() {
                exchange.withdraw();
                self.over(exchange);
                continue;
            }
            let origin = match exchange.prepare(self.now) {
                Ok(request) => request.origin.clone(),
                Err(error) => {
                    exchange.fail(error);
                    self.over(exchange);
                    continue;
                }
            };
            match self.means.proxies.via(&origin).map(|proxy| Line { origin, proxy: proxy.cloned() }) {
                Ok(line) => self.send(exchange, line),
                Err(error) => {
                    exchange.fail(error);
                    self.over(exchange);
                }
            }
        }
    }

    fn send(&mut self, mut exchange: Box<Exchange>, line: Line) {
        let number = self.table.line(line);
        let Some((line, throttle)) = self.table.known(number) else { return };
        let line = line.clone();
        let Some(brake) = throttle.begin() else {
            // Tried again when a request of the line has ended.
            exchange.put_back();
            self.ready.push_back(exchange);
            return;
        };
        let encoded = match exchange.sent() {
            Some((request, mut extra)) => {
                let authorization = line.proxy.as_ref().and_then(|proxy| proxy.authorization.clone());
                extra.extend(authorization.filter(|_| line.is_relayed()));
                head::encode(request, &extra, line.is_relayed()).map(|bytes| (request.method, bytes))
            }
            None => Err(Error::new(ErrorKind::InvalidInput, "send", "there is no request")),
        };
        let (method, bytes) = match encoded {
            Ok(encoded) => encoded,
            Err(error) => {
                throttle.end(brake, Load::Unknown);
                exchange.fail(error);
                return self.over(exchange);
            }
        };
        Tally::add(&self.means.tally.requests, 1);
        let token = match self.table.take_idle(number) {
            Some(token) => {
                Tally::add(&self.means.tally.reused, 1);
                token
            }
            None => self.connect(number, &line, exchange.policy().connect_limit),
        };
        self.table.set_brake(token, brake);
        if let Some(connection) = self.table.get(token) {
            connection.assign(exchange, method, bytes, self.now);
            self.drive(token);
        }
    }

    /// Begins to open a connection.
    fn connect(&mut self, number: usize, line: &Arc<Line>, limit: Duration) -> Token {
        Tally::add(&self.means.tally.opened, 1);
        let opening = Opening::new(line.clone(), self.means.trust.clone(), limit, self.now);
        let mut connection = Connection::new(line.clone(), opening, self.now);
        let (host, port) = line.peer();
        match self.means.lookup.known(host, port) {
            Some(addresses) => connection.resolved(Ok(addresses), self.now),
            None => {
                let (mailbox, name): (Weak<_>, _) = (Arc::downgrade(&self.mailbox), host.to_owned());
                self.means.lookup.ask(host, port, move |answer| {
                    if let Some(mailbox) = mailbox.upgrade() {
                        drop(mailbox.reply(Mail::Resolved(name, port, answer.clone())));
                    }
                });
            }
        }
        self.table.insert(connection, number)
    }

    /// The socket of a connection is ready.
    fn wake(&mut self, token: Token) {
        if self.table.get(token).is_some_and(Connection::is_quiet) {
            self.drive(token);
        } else {
            self.table.remove(token);
        }
    }

    /// Takes a connection as far as its socket lets it.
    fn drive(&mut self, token: Token) {
        while let Some(connection) = self.table.get(token) {
            match connection.drive(self.now) {
                Step::Over(exchange, ending) => self.attempt_over(token, exchange, ending),
                step => return self.rest(token, step),
            }
        }
    }

    /// A connection can go no further now.
    fn rest(&mut self, token: Token, step: Step) {
        match step {
            Step::Wait => self.watch(token, false),
            Step::Paused => {
                self.watch(token, true);
                self.paused.push(token);
            }
            Step::Idle => {
                self.watch(token, false);
                if let Some(oldest) = self.table.put_idle(token) {
                    self.table.remove(oldest);
                }
            }
            Step::Close => self.table.remove(token),
            Step::Over(exchange, ending) => {
                self.attempt_over(token, exchange, ending);
                self.drive(token);
            }
        }
    }

    fn watch(&mut self, token: Token, is_paused: bool) {
        let Err(why) = self.table.watch(token, is_paused) else { return };
        let error = Error::new(ErrorKind::Io, "watch a socket", why.to_string()).because(why);
        if let Some(exchange) = self.table.get(token).and_then(Connection::abandon) {
            self.attempt_over(token, exchange, Ending::Failed(error));
        }
        self.table.remove(token);
    }

    fn attempt_over(&mut self, token: Token, mut exchange: Box<Exchange>, ending: Ending) {
        self.has_ended = true;
        let status = exchange.status();
        let tally = &self.means.tally;
        if status > 0 {
            tally.last_status.store(u64::from(status), Ordering::Relaxed);
        }
        Tally::add(&tally.bytes, exchange.landed() as u64);
        if let Some((brake, throttle)) = self.table.take_brake(token) {
            let load = match (status, &ending) {
                (429 | 503, _) => Load::TooMuch,
                (_, Ending::Body) => Load::Borne,
                _ => Load::Unknown,
            };
            throttle.end(brake, load);
        }
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
        match exchange.ended(ending, random) {
            Next::Done => self.over(exchange),
            Next::Now => {
                let counter = if exchange.is_onward() { &tally.redirects } else { &tally.retries };
                Tally::add(counter, 1);
                self.ready.push_front(exchange);
            }
            Next::After(wait) => {
                Tally::add(&tally.retries, 1);
                Tally::add(&tally.waited_us, u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
                self.later.push((self.now + wait, exchange));
            }
            Next::Renew(target, seen) => {
                Tally::add(&tally.retries, 1);
                let mailbox = self.mailbox.clone();
                target.renew(seen, move |outcome| drop(mailbox.reply(Mail::Renewed(exchange, outcome))));
            }
        }
    }

    /// An exchange has come to its end; it is kept while copies to a device are under way.
    fn over(&mut self, mut exchange: Box<Exchange>) {
        self.has_ended = true;
        if exchange.is_settled() {
            self.in_flight -= 1;
        } else {
            self.settling.push_back(exchange);
        }
    }

    /// Looks after copies to devices.
    fn settle(&mut self) {
        for mut exchange in std::mem::take(&mut self.settling) {
            if exchange.is_settled() {
                self.in_flight -= 1;
                self.has_ended = true;
                self.spins = 0;
            } else {
                self.settling.push_back(exchange);
            }
        }
        for token in std::mem::take(&mut self.paused) {
            self.drive(token);
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

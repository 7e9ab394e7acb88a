//! The traffic of an event loop: exchanges given to connections, connections driven, what comes of both.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::remote::transport::connection::{Connection, Step};
use crate::remote::transport::exchange::{Ending, Exchange, Next};
use crate::remote::transport::opening::{Line, Opening};
use crate::remote::transport::reactor::{Mail, Reactor};
use crate::remote::transport::table::Token;
use crate::remote::transport::tally::Tally;
use crate::remote::wire::head;
use crate::remote::wire::throttle::Load;

impl Reactor {
    /// Gives what is to be sent now to connections.
    pub(super) fn dispatch(&mut self) {
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

    pub(super) fn send(&mut self, mut exchange: Box<Exchange>, line: Line) {
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
    pub(super) fn connect(&mut self, number: usize, line: &Arc<Line>, limit: Duration) -> Token {
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
    pub(super) fn wake(&mut self, token: Token) {
        if self.table.get(token).is_some_and(Connection::is_quiet) {
            self.drive(token);
        } else {
            self.table.remove(token);
        }
    }

    /// Takes a connection as far as its socket lets it.
    pub(super) fn drive(&mut self, token: Token) {
        while let Some(connection) = self.table.get(token) {
            match connection.drive(self.now) {
                Step::Over(exchange, ending) => self.attempt_over(token, exchange, ending),
                step => return self.rest(token, step),
            }
        }
    }

    /// A connection can go no further now.
    pub(super) fn rest(&mut self, token: Token, step: Step) {
        match step {
            Step::Wait => self.watch(token, false),
            Step::Paused => {
                self.watch(token, true);
                if !self.paused.contains(&token) {
                    self.paused.push(token);
                }
            }
            Step::Idle => {
                self.watch(token, false);
                if let Some(oldest) = self.table.put_idle(token) {
                    self.table.remove(oldest);
                }
            }
            Step::Close => {
                // None as a rule: whoever closes a connection has taken its exchange off.
                if let Some(mut exchange) = self.table.get(token).and_then(Connection::abandon) {
                    exchange.fail(
                        Error::new(ErrorKind::Connection, "read", "the connection was closed").retryable(),
                    );
                    self.over(exchange);
                }
                self.table.remove(token);
            }
            Step::Over(exchange, ending) => {
                self.attempt_over(token, exchange, ending);
                self.drive(token);
            }
        }
    }

    pub(super) fn watch(&mut self, token: Token, is_paused: bool) {
        let Err(why) = self.table.watch(token, is_paused) else { return };
        let error = Error::new(ErrorKind::Io, "watch a socket", why.to_string()).because(why);
        if let Some(exchange) = self.table.get(token).and_then(Connection::abandon) {
            self.attempt_over(token, exchange, Ending::Failed(error));
        }
        self.table.remove(token);
    }

    pub(super) fn attempt_over(&mut self, token: Token, mut exchange: Box<Exchange>, ending: Ending) {
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
    pub(super) fn over(&mut self, mut exchange: Box<Exchange>) {
        self.has_ended = true;
        if exchange.is_settled() {
            self.in_flight -= 1;
        } else {
            self.settling.push_back(exchange);
        }
    }

    /// Looks after copies to devices.
    pub(super) fn settle(&mut self) {
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
}

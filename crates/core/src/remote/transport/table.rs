//! The connections of one loop: where they are, what the system watches them for, which are idle.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::remote::transport::connection::Connection;
use crate::remote::transport::opening::Line;
use crate::remote::wire::throttle::{Throttle, Ticket};

/// The most idle connections that a loop keeps.
const MOST_IDLE: usize = 64;
/// The most events that are taken at once.
const MOST_EVENTS: usize = 128;
/// The token of the loop's bell.
pub(super) const BELL: Token = Token(u64::MAX);

/// A connection's place: it names this one only, not a later one in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token(u64);

impl Token {
    fn new(place: usize, generation: u32) -> Self {
        Self((u64::from(generation) << 32) | (place as u64 & 0xFFFF_FFFF))
    }

    fn place(self) -> usize {
        (self.0 & 0xFFFF_FFFF) as usize
    }
}

#[derive(Debug)]
struct Slot {
    token: Token,
    generation: u32,
    connection: Option<Connection>,
    line: usize,
    /// The permission of the brake under which its request is on its way.
    brake: Option<Ticket>,
    /// Which of its sockets is watched, and for what.
    watched: Option<(u32, EventFlags)>,
}

/// What a loop knows of a line.
#[derive(Debug)]
struct Known {
    line: Arc<Line>,
    idle: Vec<Token>,
    throttle: Throttle,
}

/// The connections of a loop.
#[derive(Debug)]
pub(super) struct Table {
    epoll: OwnedFd,
    slots: Vec<Slot>,
    free: Vec<usize>,
    lines: Vec<Known>,
    most: usize,
}

impl Table {
    /// A table without connections; `most` requests may be on their way on each line.
    pub(super) fn new(most: usize) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, slots: Vec::new(), free: Vec::new(), lines: Vec::new(), most })
    }

    /// Watches the loop's bell.
    pub(super) fn watch_bell(&self, bell: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, bell, EventData::new_u64(BELL.0), EventFlags::IN)?)
    }

    /// Waits for events until `until` at most; answers whose they are.
    pub(super) fn wait(&self, until: Option<Instant>, now: Instant) -> Vec<Token> {
        let limit = until.map(|until| {
            let left = until.saturating_duration_since(now);
            // The system counts milliseconds: rounded up, so that a deadline has passed when the sleep is over.
            let millis = left.as_micros().div_ceil(1000).min(3_600_000);
            let (seconds, millis) = ((millis / 1000) as i64, (millis % 1000) as i64);
            Timespec { tv_sec: seconds, tv_nsec: millis * 1_000_000 }
        });
        let mut events: Vec<Event> = Vec::with_capacity(MOST_EVENTS);
        if let Err(why) = epoll::wait(&self.epoll, spare_capacity(&mut events), limit.as_ref())
            && why != rustix::io::Errno::INTR
        {
            tracing::error!(%why, "an event loop cannot wait");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        events.iter().map(|event| Token(event.data.u64())).collect()
    }

    /// The number of a line; lines are few, so they are searched one by one.
    pub(super) fn line(&mut self, line: Line) -> usize {
        if let Some(known) = self.lines.iter().position(|known| *known.line == line) {
            return known;
        }
        let throttle = Throttle::new(self.most);
        self.lines.push(Known { line: Arc::new(line), idle: Vec::new(), throttle });
        self.lines.len() - 1
    }

    /// The line of that number, and its brake.
    pub(super) fn known(&mut self, line: usize) -> Option<(&Arc<Line>, &mut Throttle)> {
        self.lines.get_mut(line).map(|known| (&known.line, &mut known.throttle))
    }

    /// Takes an idle connection of a line, the one that was used last.
    pub(super) fn take_idle(&mut self, line: usize) -> Option<Token> {
        loop {
            let token = self.lines.get_mut(line)?.idle.pop()?;
            if self.get(token).is_some_and(|connection| connection.is_idle()) {
                return Some(token);
            }
        }
    }

    /// A connection has become idle. Where too many are, one that has been so for long comes back, to be closed.
    pub(super) fn put_idle(&mut self, token: Token) -> Option<Token> {
        let line = self.slot(token)?.line;
        let count: usize = self.lines.iter().map(|known| known.idle.len()).sum();
        let known = self.lines.get_mut(line)?;
        if known.idle.contains(&token) {
            return None;
        }
        known.idle.push(token);
        if count < MOST_IDLE {
            return None;
        }
        let longest = self.lines.iter_mut().max_by_key(|known| known.idle.len())?;
        Some(longest.idle.remove(0))
    }

    /// Adds a connection.
    pub(super) fn insert(&mut self, connection: Connection, line: usize) -> Token {
        let place = self.free.pop().unwrap_or(self.slots.len());
        if place == self.slots.len() {
            let token = Token::new(place, 0);
            self.slots.push(Slot {
                token,
                generation: 0,
                connection: None,
                line,
                brake: None,
                watched: None,
            });
        }
        let Some(slot) = self.slots.get_mut(place) else { return BELL };
        slot.generation = slot.generation.wrapping_add(1) & 0x7FFF_FFFF;
        slot.token = Token::new(place, slot.generation);
        slot.connection = Some(connection);
        slot.line = line;
        slot.token
    }

    fn slot(&mut self, token: Token) -> Option<&mut Slot> {
        self.slots.get_mut(token.place()).filter(|slot| slot.token == token && slot.connection.is_some())
    }

    /// The connection, where it is still there.
    pub(super) fn get(&mut self, token: Token) -> Option<&mut Connection> {
        self.slot(token)?.connection.as_mut()
    }

    /// Remembers the permission under which its request is on its way.
    pub(super) fn set_brake(&mut self, token: Token, brake: Ticket) {
        if let Some(slot) = self.slot(token) {
            slot.brake = Some(brake);
        }
    }

    /// The permission, and the brake that gave it.
    pub(super) fn take_brake(&mut self, token: Token) -> Option<(Ticket, &mut Throttle)> {
        let slot = self.slot(token)?;
        let (line, brake) = (slot.line, slot.brake.take()?);
        self.lines.get_mut(line).map(|known| (brake, &mut known.throttle))
    }

    /// True without connections.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// All connections.
    pub(super) fn tokens(&self) -> Vec<Token> {
        self.slots.iter().filter(|slot| slot.connection.is_some()).map(|slot| slot.token).collect()
    }

    /// Has the system watch the connection for what it needs now; for nothing while it is paused.
    pub(super) fn watch(&mut self, token: Token, is_paused: bool) -> io::Result<()> {
        let Some(slot) = self.slots.get_mut(token.place()).filter(|slot| slot.token == token) else {
            return Ok(());
        };
        let Some(connection) = &slot.connection else { return Ok(()) };
        let Some(socket) = connection.socket() else { return Ok(()) };
        let flags = match (is_paused, connection.is_sending()) {
            (true, _) => EventFlags::empty(),
            (false, true) => EventFlags::IN | EventFlags::OUT,
            (false, false) => EventFlags::IN,
        };
        let wanted = (connection.sockets(), flags);
        let data = EventData::new_u64(token.0);
        match slot.watched {
            Some(watched) if watched == wanted => {}
            Some((number, _)) if number == wanted.0 => epoll::modify(&self.epoll, socket, data, flags)?,
            _ => epoll::add(&self.epoll, socket, data, flags)?,
        }
        slot.watched = Some(wanted);
        Ok(())
    }

    /// Closes a connection.
    pub(super) fn remove(&mut self, token: Token) {
        let Some(slot) = self.slots.get_mut(token.place()).filter(|slot| slot.token == token) else { return };
        let Some(connection) = slot.connection.take() else { return };
        // Said aloud, since a forked child may hold the socket open, and with it the system's interest.
        if let (Some(socket), Some(_)) = (connection.socket(), slot.watched.take()) {
            let _ = epoll::delete(&self.epoll, socket);
        }
        if let Some(known) = self.lines.get_mut(slot.line) {
            known.idle.retain(|idle| *idle != token);
        }
        self.free.push(token.place());
    }
}

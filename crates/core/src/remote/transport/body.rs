//! A connection's way through one body: bytes into their landing, framing, the tail after them.

use std::io;
use std::time::Instant;

use crate::remote::transport::connection::{Connection, Outcome, Phase, Step};
use crate::remote::transport::exchange::{Ending, Room};
use crate::remote::transport::flow::Want;

/// Bytes received at once where framing or unwanted bytes are expected.
const ELSEWHERE: usize = 64 << 10;
/// The most bytes after the wanted ones that are read to keep a connection.
const MOST_TAIL: u64 = 64 << 10;

impl Connection {
    /// Reads the body up to the last byte that is wanted.
    pub(super) fn read_body(&mut self, now: Instant, turn: &mut usize) -> Outcome {
        let (Phase::Body(flow), Some(exchange), Some(stream)) =
            (&mut self.phase, &mut self.exchange, &mut self.stream)
        else {
            return Ok(Some(Step::Close));
        };
        let want = flow.want();
        if want == Want::End || flow.is_served() {
            return Ok(Some(self.finish_body()));
        }
        let unread = self.come.get(self.used..).unwrap_or_default();
        let cut = |most: u64| unread.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        match want {
            Want::Frame if !unread.is_empty() => {
                self.used += flow.frame(unread).map_err(Ending::Failed)?;
                return Ok(None);
            }
            Want::Skip(most) if !unread.is_empty() => {
                let len = cut(most);
                flow.pass(len as u64);
                self.used += len;
                return Ok(None);
            }
            Want::Land(most) if !unread.is_empty() => {
                let taken =
                    exchange.take(unread.get(..cut(most)).unwrap_or_default()).map_err(Ending::Failed)?;
                flow.pass(taken as u64);
                self.used += taken;
                return Ok(if taken == 0 { Some(self.pause(now)) } else { None });
            }
            _ => {}
        }
        if *turn == 0 && stream.is_plain() {
            return Ok(Some(Step::Wait));
        }
        let got = match (want, exchange.room().map_err(Ending::Failed)?) {
            (Want::Land(most), Room::Here(room)) => {
                let got = stream.receive(room.slice(0, usize::try_from(most).unwrap_or(usize::MAX)));
                if let Ok(len) = got {
                    exchange.land(len).map_err(Ending::Failed)?;
                    flow.pass(len as u64);
                }
                got
            }
            (Want::Land(_), Room::Wait) => return Ok(Some(self.pause(now))),
            _ => self.receive(ELSEWHERE),
        };
        match got {
            Ok(0) => self.stream_ended(),
            Ok(len) => {
                *turn = turn.saturating_sub(len);
                self.active = now;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(Step::Wait)),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// There is no room: the server is not to blame, so its time does not run.
    pub(super) fn pause(&mut self, now: Instant) -> Step {
        self.active = now;
        Step::Paused
    }

    /// All that was wanted has come, or the body is over.
    pub(super) fn finish_body(&mut self) -> Step {
        self.served += 1;
        let phase = std::mem::replace(&mut self.phase, Phase::Closed);
        if let Phase::Body(flow) = phase
            && self.keeps_alive
            && flow.is_worth_draining(MOST_TAIL)
        {
            self.phase = Phase::Draining(flow);
        }
        match self.exchange.take() {
            Some(exchange) => Step::Over(exchange, Ending::Body),
            None => Step::Close,
        }
    }

    pub(super) fn stream_ended(&mut self) -> Outcome {
        let may_end = matches!(&self.phase, Phase::Body(flow) if flow.may_end_here());
        if !may_end {
            return Err(self.broken(&io::ErrorKind::UnexpectedEof.into()));
        }
        self.keeps_alive = false;
        Ok(Some(self.finish_body()))
    }

    pub(super) fn drain(&mut self, now: Instant) -> Outcome {
        let Phase::Draining(flow) = &mut self.phase else { return Ok(None) };
        let unread = self.come.get(self.used..).unwrap_or_default();
        match flow.want() {
            Want::End => {
                self.phase = Phase::Idle;
                self.active = now;
                // Bytes that no request has asked for: whatever they are, they are no answer to the next one.
                return Ok(if unread.is_empty() { None } else { Some(Step::Close) });
            }
            Want::Frame if !unread.is_empty() => {
                let Ok(used) = flow.frame(unread) else { return Ok(Some(Step::Close)) };
                self.used += used;
                return Ok(None);
            }
            Want::Land(most) | Want::Skip(most) if !unread.is_empty() => {
                if !flow.is_worth_draining(MOST_TAIL) {
                    return Ok(Some(Step::Close));
                }
                let len = unread.len().min(usize::try_from(most).unwrap_or(usize::MAX));
                flow.pass(len as u64);
                self.used += len;
                return Ok(None);
            }
            _ => {}
        }
        match self.receive(ELSEWHERE) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(Step::Wait)),
            Ok(0) | Err(_) => Ok(Some(Step::Close)),
            Ok(_) => Ok(None),
        }
    }
}

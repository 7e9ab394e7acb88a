//! Full positional reads and writes of a file's host side, by direct I/O where a part is aligned for it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::source::{Access, Direction};
use crate::error::{Error, ErrorKind, Result};
use crate::local::fd::{OpenFile, read_once, write_once};
use crate::memory::align::cut;
use crate::memory::span::Span;

/// The most bytes of one direct call: 1 GiB.
const LARGEST_CALL: usize = 1 << 30;

/// How the system reads and writes one file for us.
#[derive(Debug, Default)]
pub struct Posix {
    /// Set once a direct call was refused although `O_DIRECT` was granted at open: never tried again for the file.
    direct_refused: AtomicBool,
}

/// How far a run of calls came.
#[derive(Debug, Clone, Copy)]
enum End {
    /// All of it.
    Whole,
    /// The file ended after so many bytes.
    Short(usize),
}

impl Posix {
    /// Moves `span` at `offset`, looping until it is whole or, for a read, the file ends; answers the bytes moved.
    ///
    /// # Errors
    /// What the system said, with the bytes that were moved before it.
    pub fn transfer(
        &self,
        file: &OpenFile,
        direction: Direction,
        offset: u64,
        span: Span,
        access: Access<'_>,
    ) -> Result<usize> {
        let parts = cut(offset, span.len() as u64, file.alignment() as u64);
        let is_direct = access.direct
            && parts.body > 0
            && !self.direct_refused.load(Ordering::Relaxed)
            && file.direct().is_ok();
        // The parts add up to the span's length, a usize.
        let lens = match is_direct {
            true => [parts.head as usize, parts.body as usize, parts.tail as usize],
            false => [span.len(), 0, 0],
        };
        let mut done = 0;
        for (number, len) in lens.into_iter().enumerate().filter(|(_, len)| *len > 0) {
            let part = span.slice(done, len);
            let at = offset + done as u64;
            let moved = match number {
                1 => self.around_cache(file, direction, at, part, access),
                _ => through_cache(file, direction, at, part),
            };
            match moved.map_err(|error| counted(error, done))? {
                End::Whole => done += len,
                End::Short(moved) => return Ok(done + moved),
            }
        }
        Ok(done)
    }

    /// An aligned range by direct I/O, through page-aligned blocks where the memory is not aligned. What direct I/O
    /// leaves undone (it was refused, or stopped at the end of the file) the page cache finishes.
    fn around_cache(
        &self,
        file: &OpenFile,
        direction: Direction,
        offset: u64,
        span: Span,
        access: Access<'_>,
    ) -> Result<End> {
        let unit = file.alignment();
        let usable = access.block_size - access.block_size % unit;
        let is_aligned = span.address().is_multiple_of(unit);
        let block = match is_aligned {
            true => None,
            false if usable == 0 => return through_cache(file, direction, offset, span),
            false => Some(access.lease()?),
        };
        let mut done = 0;
        while done < span.len() {
            let rest = span.slice(done, span.len() - done);
            let piece = match &block {
                // The system takes no more in one call (`man 2 read`): 0x7ffff000 bytes, here a multiple of any unit.
                None => rest.slice(0, LARGEST_CALL),
                Some(block) => block.span().slice(0, usable.min(rest.len())),
            };
            if block.is_some() && direction == Direction::Write {
                piece.copy_from(&rest);
            }
            let moved = match self.direct_call(file, direction, offset + done as u64, piece) {
                Ok(moved) => moved,
                // Granted at open, refused now: some file systems do that. Once is enough to know.
                Err(libc::EINVAL | libc::EOPNOTSUPP) => {
                    if !self.direct_refused.swap(true, Ordering::Relaxed) {
                        let path = file.path().display();
                        tracing::info!(%path, "direct I/O refused at its first call; buffered from now on");
                    }
                    0
                }
                Err(code) => return Err(Error::from_os(direction.verb(), code).after(done as u64)),
            };
            if block.is_some() && direction == Direction::Read {
                rest.copy_from(&piece.slice(0, moved));
            }
            done += moved;
            if moved < piece.len() {
                let rest = span.slice(done, span.len() - done);
                let end = through_cache(file, direction, offset + done as u64, rest);
                return match end.map_err(|error| counted(error, done))? {
                    End::Whole => Ok(End::Whole),
                    End::Short(moved) => Ok(End::Short(done + moved)),
                };
            }
        }
        Ok(End::Whole)
    }

    fn direct_call(
        &self,
        file: &OpenFile,
        direction: Direction,
        offset: u64,
        span: Span,
    ) -> std::result::Result<usize, i32> {
        let Ok(fd) = file.direct() else { return Err(libc::EINVAL) };
        match direction {
            Direction::Read => read_once(fd, span, offset),
            Direction::Write => write_once(fd, span, offset),
        }
    }
}

/// A range through the page cache.
fn through_cache(file: &OpenFile, direction: Direction, offset: u64, span: Span) -> Result<End> {
    let mut done = 0;
    while done < span.len() {
        let rest = span.slice(done, span.len() - done);
        let at = offset + done as u64;
        let moved = match direction {
            Direction::Read => read_once(file.buffered(), rest, at),
            Direction::Write => write_once(file.buffered(), rest, at),
        };
        match moved {
            Ok(0) if direction == Direction::Read => return Ok(End::Short(done)),
            Ok(0) => return Err(nothing_written().after(done as u64)),
            Ok(moved) => done += moved,
            Err(code) => return Err(Error::from_os(direction.verb(), code).after(done as u64)),
        }
    }
    Ok(End::Whole)
}

fn nothing_written() -> Error {
    Error::new(ErrorKind::Io, "write", "the system took no byte and gave no reason")
}

/// `error`, with the bytes before its own part counted in.
fn counted(error: Error, before: usize) -> Error {
    let done = before as u64 + error.done().unwrap_or(0);
    error.after(done)
}

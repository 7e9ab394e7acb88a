//! Copies between host and device memory, waited for or queued on a stream.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cells::{self, Cell};
use crate::host::{bytes_at, checksum, put_bytes};
use crate::memory::{self, Allocation};
use crate::status::{INVALID_VALUE, Refusal};
use crate::stream::{self, Submitted};
use crate::violations::violation;

const STEP: usize = 1 << 20;
const LEGACY_STREAM: usize = 0;

/// One end of a copy.
enum Place {
    Device {
        allocation: Arc<Allocation>,
        at: usize,
    },
    /// Page-locked host memory.
    Locked {
        allocation: Arc<Allocation>,
        address: usize,
    },
    /// Host memory that the driver does not know.
    Pageable {
        address: usize,
    },
    /// Bytes of pageable memory, taken when the copy was submitted.
    Staged(Vec<u8>),
}

fn place(address: u64, len: usize) -> Result<Place, Refusal> {
    let host = usize::try_from(address).map_err(|_| INVALID_VALUE)?;
    let Some(allocation) = memory::find(address) else {
        return if host == 0 { Err(INVALID_VALUE) } else { Ok(Place::Pageable { address: host }) };
    };
    if !allocation.contains(address, len) {
        return Err(INVALID_VALUE);
    }
    let at = usize::try_from(address - allocation.address).map_err(|_| INVALID_VALUE)?;
    Ok(match allocation.pages() {
        Some(_) => Place::Device { allocation, at },
        None => Place::Locked { allocation, address: host },
    })
}

/// Which sides a function takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// Whatever the addresses say.
    Any,
}

/// A copy whose addresses have been checked.
pub(crate) struct CopyPlan {
    from: Place,
    to: Place,
    len: usize,
}

impl CopyPlan {
    pub(crate) fn new(direction: Direction, to: u64, from: u64, len: usize) -> Result<Self, Refusal> {
        let (from, to) = (place(from, len)?, place(to, len)?);
        let sides = (matches!(from, Place::Device { .. }), matches!(to, Place::Device { .. }));
        let is_allowed = match direction {
            Direction::HostToDevice => sides == (false, true),
            Direction::DeviceToHost => sides == (true, false),
            Direction::DeviceToDevice => sides == (true, true),
            Direction::Any => true,
        };
        if is_allowed { Ok(Self { from, to, len }) } else { Err(INVALID_VALUE) }
    }

    /// Copies in the order of the legacy default stream, and waits.
    pub(crate) fn run(self) -> Result<(), Refusal> {
        self.submit(LEGACY_STREAM, None)?.wait();
        Ok(())
    }

    /// Queues the copy on a stream.
    ///
    /// Pageable memory is treated as drivers do: a source is staged before the call returns, a destination is waited
    /// for. Page-locked memory is left alone until the stream gets there, so the program must not touch it.
    pub(crate) fn queue(mut self, stream: usize) -> Result<(), Refusal> {
        let is_waited_for = matches!(self.to, Place::Pageable { .. });
        if is_waited_for || matches!(self.from, Place::Pageable { .. }) {
            cells::PAGEABLE_COPIES.add(1);
        }
        if let Place::Pageable { address } = self.from {
            self.from = Place::Staged(bytes_at(address, self.len));
        }
        let submitted = self.submit(stream, Some(cells::COPY_DELAY_US.get()))?;
        if is_waited_for {
            submitted.wait();
        }
        Ok(())
    }

    /// With a delay for asynchronous copies, which tests may also hold.
    fn submit(self, stream: usize, delay_us: Option<i64>) -> Result<Submitted, Refusal> {
        let expected = match self.from {
            Place::Locked { address, .. } => Some(checksum(&bytes_at(address, self.len))),
            _ => None,
        };
        let held = Held::new([&self.from, &self.to]);
        stream::submit(stream, move || {
            if let Some(delay_us) = delay_us {
                pause(delay_us, &cells::HOLD_COPIES);
            }
            self.execute(expected);
            drop(held);
        })
    }

    fn execute(&self, expected: Option<u64>) {
        match self.transfer() {
            Ok(found) => {
                if expected.is_some_and(|expected| expected != found) {
                    violation(format!(
                        "the source of a copy of {} bytes changed before the copy ran",
                        self.len
                    ));
                }
            }
            Err(error) => violation(format!("a copy of {} bytes failed: {error}", self.len)),
        }
    }

    /// Moves the bytes; answers the checksum of what was moved.
    fn transfer(&self) -> io::Result<u64> {
        // Copies are small enough in tests to be held in memory whole.
        let mut bytes = vec![0; self.len];
        match (&self.from, &self.to) {
            // Through the kernel, which notices a source that is gone.
            (Place::Locked { address, .. }, Place::Device { allocation, at }) => {
                let Some(pages) = allocation.pages() else { return Ok(0) };
                pages.store_from(*at, *address, self.len)?;
                pages.read(*at, &mut bytes)?;
                return Ok(checksum(&bytes));
            }
            // Likewise for a destination.
            (
                Place::Device { allocation, at },
                Place::Locked { address, .. } | Place::Pageable { address },
            ) => {
                let Some(pages) = allocation.pages() else { return Ok(0) };
                pages.load_to(*at, *address, self.len)?;
                return Ok(0);
            }
            (Place::Device { allocation, at }, _) => {
                allocation.pages().map_or(Ok(()), |pages| pages.read(*at, &mut bytes))?;
            }
            (Place::Locked { address, .. } | Place::Pageable { address }, _) => {
                bytes = bytes_at(*address, self.len);
            }
            (Place::Staged(staged), _) => bytes.clone_from(staged),
        }
        match &self.to {
            Place::Device { allocation, at } => {
                allocation.pages().map_or(Ok(()), |pages| pages.write(*at, &bytes))?;
            }
            Place::Locked { address, .. } | Place::Pageable { address } => put_bytes(*address, &bytes),
            Place::Staged(_) => {}
        }
        Ok(checksum(&bytes))
    }
}

/// Counts a pending copy on both its sides, until dropped.
struct Held(Vec<Arc<Allocation>>);

impl Held {
    fn new(places: [&Place; 2]) -> Self {
        let allocation = |place: &Place| match place {
            Place::Device { allocation, .. } | Place::Locked { allocation, .. } => {
                Some(Arc::clone(allocation))
            }
            Place::Pageable { .. } | Place::Staged(_) => None,
        };
        let held: Vec<_> = places.into_iter().filter_map(allocation).collect();
        for allocation in &held {
            allocation.pending.fetch_add(1, Ordering::SeqCst);
        }
        Self(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for allocation in &self.0 {
            allocation.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Fills device memory with one value, in a stream's order.
pub(crate) fn fill(address: u64, value: u8, len: usize, stream: usize) -> Result<(), Refusal> {
    let Place::Device { allocation, at } = place(address, len)? else { return Err(INVALID_VALUE) };
    let run = move || {
        let chunk = vec![value; len.min(STEP)];
        let mut done = 0;
        while let (Some(pages), true) = (allocation.pages(), done < len) {
            let count = chunk.len().min(len - done);
            if pages.write(at + done, &chunk[..count]).is_err() {
                return violation(format!("filling {len} bytes failed"));
            }
            done += count;
        }
    };
    stream::submit(stream, run).map(|_| ())
}

/// Waits as long as a test has set: a time, and until it releases the hold.
pub(crate) fn pause(delay_us: i64, hold: &Cell) {
    sleep_us(delay_us);
    while hold.get() != 0 {
        sleep_us(100);
    }
}

fn sleep_us(microseconds: i64) {
    if let Ok(microseconds @ 1..) = u64::try_from(microseconds) {
        std::thread::sleep(Duration::from_micros(microseconds));
    }
}

//! Moves tasks through bounce buffers between a source and a device.
//!
//! A lane has a stream and two blocks. While the copy of one block runs on the device's engine, the CPU fills (or
//! empties) the other; an event, not a stream synchronise, says when a block may be used again.

use std::rc::Rc;
use std::sync::Arc;

use kvikio_sys::cuda::{Event, Stream};

use crate::engine::claim::{Claim, Terms};
use crate::engine::plan::Route;
use crate::engine::resources::{LaneLease, Resources};
use crate::engine::source::{Access, Direction};
use crate::engine::transfer::InFlight;
use crate::error::Result;
use crate::memory::bounce::Lease;
use crate::memory::device::{Cuda, Entered};
use crate::memory::span::Device;

/// One block and what is going on with it.
struct Slot {
    block: Lease,
    event: Event,
    pending: Option<Piece>,
}

/// A part of a task, as large as a block, whose copy has been started.
struct Piece {
    claim: Rc<Claim>,
    start: usize,
    len: usize,
}

/// The pipeline of one lane. Dropping it waits for every copy it has started, so that no block returns too early.
///
/// The order of the fields is that of giving up: blocks, then the stream, then the context.
struct Pipeline<'a> {
    slots: Vec<Slot>,
    turn: usize,
    lane: LaneLease<'a>,
    cuda: &'a Cuda,
    access: Access<'a>,
    _entered: Entered<'a>,
}

/// Takes tasks of `flight` until there are none, two blocks in turn. A lane that comes too late to get a task takes
/// nothing else either.
pub(crate) fn run(flight: &Arc<InFlight>, resources: &Resources, terms: &Terms, device: Device) {
    let Some(first) = Claim::next(flight) else { return };
    if flight.plan.count() == 1 && flight.plan.len() <= terms.block_size {
        let outcome = resources
            .cuda()
            .and_then(|cuda| cuda.enter(device.context))
            .and_then(|_entered| one(&first, resources, terms, device));
        if let Err(error) = outcome {
            first.fail(error);
        }
        return;
    }
    match Pipeline::open(flight, resources, terms, device) {
        Ok(mut pipeline) => {
            let mut next = Some(first);
            while let Some(claim) = next {
                pipeline.carry(&Rc::new(claim), resources, terms, device);
                next = Claim::next(flight);
            }
        }
        Err(error) => first.fail(error),
    }
}

/// One task through one block, each copy waited for: where there is nothing to overlap with.
pub(crate) fn one(claim: &Claim, resources: &Resources, terms: &Terms, device: Device) -> Result<()> {
    let cuda = resources.cuda()?;
    let (flight, task) = (claim.flight(), claim.task);
    match &flight.marker {
        Some(marker) => marker.wait()?,
        // The engine has waited before it began.
        None if flight.plan.route() == Route::Direct => {}
        // The synchronous copies below come after the legacy default stream by themselves, and after no other.
        None if device.after == Stream(0) => {}
        None => cuda
            .table()
            .synchronize_stream(device.after)
            .map_err(|status| cuda.fault("cuStreamSynchronize", status))?,
    }
    let block = resources.pinned()?.lease(terms.block_size, terms.limit, device.context)?;
    let access = terms.access(resources);
    let mut start = 0;
    while start < task.len && claim.is_open() {
        let host = block.span().slice(0, task.len - start);
        let target = flight.span.slice(task.start + start, host.len());
        let offset = task.offset + start as u64;
        let outcome = match flight.direction {
            Direction::Read => flight
                .source
                .fill(offset, host, access)
                .and_then(|filled| cuda.copy_in(target, host.slice(0, filled)).map(|()| filled))
                // What reached the block only is not done.
                .map_err(|error| error.after(0)),
            Direction::Write => cuda
                .copy_out(host, target)
                .and_then(|()| flight.source.take(offset, host, access))
                .map(|()| host.len()),
        };
        match outcome {
            Ok(moved) => {
                claim.add(moved);
                if moved < host.len() {
                    claim.end_of_source();
                }
            }
            Err(error) => claim.fail(error),
        }
        start += host.len();
    }
    Ok(())
}

impl<'a> Pipeline<'a> {
    /// A lane with one block; the second comes when there is use for it and the pool has one.
    fn open(flight: &InFlight, resources: &'a Resources, terms: &Terms, device: Device) -> Result<Self> {
        let cuda = resources.cuda()?;
        let entered = cuda.enter(device.context)?;
        let lane = resources.lane(device.context)?;
        if let Some(marker) = &flight.marker {
            marker.hold_up(lane.stream)?;
        }
        let block = resources.pinned()?.lease(terms.block_size, terms.limit, device.context)?;
        let slots = vec![Slot { block, event: lane.events[0], pending: None }];
        Ok(Self { slots, turn: 0, lane, cuda, access: terms.access(resources), _entered: entered })
    }

    /// Sends one task through, a block at a time.
    fn carry(&mut self, claim: &Rc<Claim>, resources: &Resources, terms: &Terms, device: Device) {
        let mut start = 0;
        while start < claim.task.len && claim.is_open() {
            if self.wants_another_block()
                && let Ok(pinned) = resources.pinned()
                && let Some(block) = pinned.try_lease(terms.block_size, terms.limit, device.context)
            {
                self.slots.push(Slot { block, event: self.lane.events[1], pending: None });
            }
            let len = terms.block_size.min(claim.task.len - start);
            self.push(Piece { claim: claim.clone(), start, len });
            start += len;
        }
    }

    /// True while there is one block, and it is in use.
    fn wants_another_block(&self) -> bool {
        matches!(&self.slots[..], [only] if only.pending.is_some())
    }

    /// Starts a piece in the next block, after ending what that block was used for.
    fn push(&mut self, piece: Piece) {
        self.turn = (self.turn + 1) % self.slots.len();
        let Some(slot) = self.slots.get_mut(self.turn) else { return };
        drop(Self::end(self.cuda, self.access, self.lane.stream, slot));
        if !piece.claim.is_open() {
            return;
        }
        let started = match piece.claim.flight().direction {
            Direction::Read => Self::fill_and_send(self.cuda, self.access, self.lane.stream, slot, piece),
            Direction::Write => Self::fetch(self.cuda, self.lane.stream, slot, piece),
        };
        slot.pending = started;
    }

    /// Read: the source fills the block, the copy to the device is started.
    fn fill_and_send(
        cuda: &Cuda,
        access: Access<'_>,
        stream: Stream,
        slot: &Slot,
        piece: Piece,
    ) -> Option<Piece> {
        let (claim, host) = (&piece.claim, slot.block.span().slice(0, piece.len));
        let offset = claim.task.offset + piece.start as u64;
        let filled = match claim.flight().source.fill(offset, host, access) {
            Ok(filled) => filled,
            Err(error) => {
                // What reached the block only is not done.
                claim.fail(error.after(0));
                return None;
            }
        };
        if filled < piece.len {
            claim.end_of_source();
        }
        if filled == 0 {
            return None;
        }
        let target = claim.flight().span.slice(claim.task.start + piece.start, filled);
        // The block is leased and not touched again before its event; the target is part of the buffer that the
        // transfer owns until this task is reported, which happens after the event.
        let sent = cuda
            .start_copy_in(target, host.slice(0, filled), stream)
            .and_then(|()| mark(cuda, slot.event, stream));
        if let Err(error) = sent {
            claim.fail(error);
            quiesce(cuda, stream);
            return None;
        }
        Some(Piece { len: filled, ..piece })
    }

    /// Write: the copy from the device is started; the source takes the block when it has arrived.
    fn fetch(cuda: &Cuda, stream: Stream, slot: &Slot, piece: Piece) -> Option<Piece> {
        let claim = &piece.claim;
        let host = slot.block.span().slice(0, piece.len);
        let target = claim.flight().span.slice(claim.task.start + piece.start, piece.len);
        let sent = cuda.start_copy_out(host, target, stream).and_then(|()| mark(cuda, slot.event, stream));
        if let Err(error) = sent {
            claim.fail(error);
            quiesce(cuda, stream);
            return None;
        }
        Some(piece)
    }

    /// Waits for the copy of a block's piece and finishes the piece. Whoever drops the claim that comes back may
    /// thereby report the task.
    fn end(cuda: &Cuda, access: Access<'_>, stream: Stream, slot: &mut Slot) -> Option<Rc<Claim>> {
        let Piece { claim, start, len } = slot.pending.take()?;
        let arrived = cuda.table().synchronize_event(slot.event);
        if let Err(status) = arrived {
            claim.fail(cuda.fault("cuEventSynchronize", status));
            quiesce(cuda, stream);
        }
        let stored = match claim.flight().direction {
            _ if claim.has_failed() => return Some(claim),
            Direction::Read => Ok(()),
            Direction::Write => {
                let offset = claim.task.offset + start as u64;
                claim.flight().source.take(offset, slot.block.span().slice(0, len), access)
            }
        };
        match stored {
            Ok(()) => claim.add(len),
            Err(error) => claim.fail(error),
        }
        Some(claim)
    }
}

fn mark(cuda: &Cuda, event: Event, stream: Stream) -> Result<()> {
    cuda.table().record_event(event, stream).map_err(|status| cuda.fault("cuEventRecord", status))
}

/// A copy may have been started although the call that would tell of its end failed: wait for the whole stream.
fn quiesce(cuda: &Cuda, stream: Stream) {
    if let Err(status) = cuda.table().synchronize_stream(stream) {
        tracing::debug!(?status, "the stream failed too; none of its copies runs any more");
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The source has panicked: it is not asked again, its copies are waited for all the same.
            for piece in self.slots.iter().filter_map(|slot| slot.pending.as_ref()) {
                piece.claim.fail_by_panic();
            }
        }
        let mut ended = Vec::with_capacity(2);
        for _ in 0..self.slots.len() {
            self.turn = (self.turn + 1) % self.slots.len();
            if let Some(slot) = self.slots.get_mut(self.turn) {
                ended.extend(Self::end(self.cuda, self.access, self.lane.stream, slot));
            }
        }
        // Blocks go back before the last tasks are reported: when a transfer has ended, its blocks are idle.
        self.slots.clear();
        drop(ended);
    }
}

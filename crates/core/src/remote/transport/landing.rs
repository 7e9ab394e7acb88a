//! Where the bytes of a task go: straight into host memory, or through page-locked blocks on to a device.
//!
//! A device landing has two blocks. While the copy of one is under way the wire fills the other; an event that is asked
//! for, never waited for, says when a block may be used again.

use std::sync::Arc;

use kvikio_sys::cuda::Event;

use crate::engine::carrier::Order;
use crate::engine::resources::{Lane, Resources};
use crate::error::{Error, Result};
use crate::memory::bounce::Lease;
use crate::memory::device::Cuda;
use crate::memory::span::{Device, Span};

/// Bytes of one page-locked block where the user set nothing: a few of them in flight keep both the wire and the
/// copy engine busy, and they stay in the CPU's cache between the two.
const BLOCK: usize = 1 << 20;
/// The most page-locked blocks out at once, in all loops.
const MOST_BLOCKS: usize = 256;

/// The place for one task's bytes, which come in order.
#[derive(Debug)]
pub(super) struct Landing {
    // Before the order: its drop waits for copies, and only then may the task be reported.
    stage: Option<Box<Stage>>,
    /// Bytes that have come.
    come: usize,
    /// Bytes that will come in all.
    whole: usize,
    order: Order,
}

#[derive(Debug)]
struct Slot {
    block: Option<Lease>,
    event: Event,
    /// Bytes whose copy has been started.
    sent: Option<usize>,
}

#[derive(Debug)]
struct Stage {
    slots: [Slot; 2],
    /// The slot being filled, and how far.
    turn: usize,
    filled: usize,
    /// Bytes whose copy has been started, and of those whose copy has ended.
    started: usize,
    block_size: usize,
    device: Device,
    lane: Lane,
    resources: Arc<Resources>,
}

impl Landing {
    /// The landing of the first `whole` bytes of a task.
    pub(super) fn new(order: Order, whole: usize) -> Self {
        Self { stage: None, come: 0, whole: whole.min(order.span.len()), order }
    }

    /// The task.
    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// Bytes that have come, each right and none missing.
    pub(super) fn come(&self) -> usize {
        self.come
    }

    /// Bytes that are still to come.
    pub(super) fn missing(&self) -> usize {
        self.whole - self.come
    }

    /// Host memory for the next bytes; `None` while all blocks are being copied.
    ///
    /// # Errors
    /// What the driver said.
    pub(super) fn room(&mut self) -> Result<Option<Span>> {
        let missing = self.missing();
        let Some(device) = self.order.span.device() else {
            return Ok(Some(self.order.span.slice(self.come, missing)));
        };
        if self.stage.is_none() {
            self.stage = Some(Box::new(Stage::open(&self.order, device)?));
        }
        let Some(stage) = &mut self.stage else { return Ok(None) };
        stage.poll(&self.order)?;
        Ok(stage.room()?.map(|room| room.slice(0, missing)))
    }

    /// `len` bytes have been put at the start of the last [`Landing::room`].
    ///
    /// # Errors
    /// What the driver said.
    pub(super) fn land(&mut self, len: usize) -> Result<()> {
        self.come += len;
        let is_last = self.missing() == 0;
        match &mut self.stage {
            None => self.order.add(len),
            Some(stage) => {
                stage.filled += len;
                if stage.filled == stage.block_size || is_last {
                    stage.send(&self.order)?;
                }
            }
        }
        Ok(())
    }

    /// True once no copy is under way any more; the task may then be dropped, done or failed.
    ///
    /// # Errors
    /// What the driver said.
    pub(super) fn settle(&mut self) -> Result<bool> {
        if let Some(stage) = &mut self.stage {
            stage.poll(&self.order)?;
            if stage.slots.iter().any(|slot| slot.sent.is_some()) {
                return Ok(false);
            }
        }
        if self.missing() == 0 && self.whole < self.order.span.len() {
            self.order.end_of_source();
        }
        Ok(true)
    }

    /// The task failed.
    pub(super) fn fail(&self, error: Error) {
        self.order.fail(error);
    }
}

impl Stage {
    fn open(order: &Order, device: Device) -> Result<Self> {
        let resources = order.resources()?.clone();
        let cuda = resources.cuda()?;
        let _entered = cuda.enter(device.context)?;
        let lane = resources.take_lane(device.context)?;
        if let Some(marker) = order.marker()
            && let Err(error) = marker.hold_up(lane.stream)
        {
            resources.put_lane(lane);
            return Err(error);
        }
        let slot = |event| Slot { block: None, event, sent: None };
        let slots = lane.events.map(slot);
        let block_size = order.block_size().unwrap_or(BLOCK).max(1);
        drop(_entered);
        Ok(Self { slots, turn: 0, filled: 0, started: 0, block_size, device, lane, resources })
    }

    /// What is left of the block being filled; `None` where there is no block now.
    fn room(&mut self) -> Result<Option<Span>> {
        if self.needs_a_block() {
            self.lease()?;
        }
        let Some(slot) = self.slots.get(self.turn).filter(|slot| slot.sent.is_none()) else {
            return Ok(None);
        };
        Ok(slot.block.as_ref().map(|block| block.span().slice(self.filled, self.block_size - self.filled)))
    }

    fn needs_a_block(&self) -> bool {
        self.slots.get(self.turn).is_some_and(|slot| slot.block.is_none())
    }

    /// Leases a block for the slot in turn. Where the pool has none now, the other slot's own will do.
    fn lease(&mut self) -> Result<()> {
        let _entered = self.resources.cuda()?.enter(self.device.context)?;
        let block = self.resources.wire()?.lease_now(self.block_size, MOST_BLOCKS, self.device.context)?;
        let other = 1 - self.turn;
        let Some(slot) = self.slots.get_mut(self.turn) else { return Ok(()) };
        slot.block = block;
        if slot.block.is_none() && self.slots.get(other).is_some_and(|slot| slot.block.is_some()) {
            self.turn = other;
        }
        Ok(())
    }

    /// Starts the copy of the block in turn, and turns to the other.
    fn send(&mut self, order: &Order) -> Result<()> {
        let resources = self.resources.clone();
        let (cuda, stream) = (resources.cuda()?, self.lane.stream);
        let Some(slot) = self.slots.get_mut(self.turn) else { return Ok(()) };
        let Some(block) = &slot.block else { return Ok(()) };
        let _entered = cuda.enter(self.device.context)?;
        // The block is not touched again before its event, nor is the task reported: see `Drop`.
        slot.sent = Some(self.filled);
        let target = order.span.slice(self.started, self.filled);
        cuda.start_copy_in(target, block.span().slice(0, self.filled), stream)?;
        cuda.table()
            .record_event(slot.event, stream)
            .map_err(|status| cuda.fault("cuEventRecord", status))?;
        self.started += self.filled;
        self.filled = 0;
        self.turn = 1 - self.turn;
        Ok(())
    }

    /// Counts the copies that have ended, in the order in which they were started.
    fn poll(&mut self, order: &Order) -> Result<()> {
        // The slot in turn holds the older copy, where both are under way.
        for index in [self.turn, 1 - self.turn] {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            let Some(sent) = slot.sent else { continue };
            let cuda = self.resources.cuda()?;
            if !is_done(cuda, self.device, slot.event)? {
                break;
            }
            slot.sent = None;
            order.add(sent);
        }
        Ok(())
    }
}

fn is_done(cuda: &Cuda, device: Device, event: Event) -> Result<bool> {
    let _entered = cuda.enter(device.context)?;
    cuda.table().is_event_done(event).map_err(|status| cuda.fault("cuEventQuery", status))
}

impl Drop for Stage {
    /// Given up half way, or after an error: blocks and memory are let go of only when no copy is under way.
    fn drop(&mut self) {
        let Ok(cuda) = self.resources.cuda() else { return };
        if self.slots.iter().any(|slot| slot.sent.is_some()) {
            let _entered = cuda.enter(self.device.context);
            if let Err(status) = cuda.table().synchronize_stream(self.lane.stream) {
                tracing::debug!(?status, "the stream failed too; none of its copies runs any more");
            }
        }
        // Blocks go back before the task is reported: when a transfer has ended, its blocks are idle.
        self.slots.iter_mut().for_each(|slot| drop(slot.block.take()));
        self.resources.put_lane(self.lane);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.stage = None;
    }
}

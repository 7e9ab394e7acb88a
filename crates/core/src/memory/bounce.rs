//! A bounded pool of bounce buffers, handed out as leases that return themselves when the copy is done.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use kvikio_sys::cuda::{Context, HOST_PORTABLE};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::align::{page_size, up};
use crate::memory::device::Cuda;
use crate::memory::span::{Memory, Span};

/// Where a pool's blocks come from.
#[derive(Debug, Clone)]
pub enum Backing {
    /// Page-aligned host memory, for direct I/O from and to unaligned host buffers.
    Plain,
    /// Page-locked, page-aligned host memory, for copies from and to a device.
    Pinned(Arc<Cuda>),
}

/// A pool of equal blocks; the most that live at once is given at each lease.
#[derive(Debug)]
pub struct BouncePool {
    backing: Backing,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    block_size: usize,
    idle: Vec<Block>,
    leased: usize,
    /// Threads that wait for a block: without any, a returned block wakes nobody, which would be a system call.
    waiting: usize,
}

/// One block; it is freed by its pool only.
#[derive(Debug)]
struct Block {
    address: usize,
    len: usize,
    context: Context,
}

/// A block on loan; dropping it returns it.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<BouncePool>,
    block: Option<Block>,
}

/// What to do when the pool has lent all that it may lend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Wait,
    GiveUp,
}

impl BouncePool {
    /// An empty pool.
    #[must_use]
    pub fn new(backing: Backing) -> Arc<Self> {
        Arc::new(Self { backing, state: Mutex::default(), returned: Condvar::new() })
    }

    /// Lends a block of `block_size` bytes, waiting while `limit` blocks are out. `context` is the current one.
    ///
    /// # Errors
    /// [`ErrorKind::Cuda`] where page-locked memory cannot be had and no block is out that could come back.
    pub fn lease(self: &Arc<Self>, block_size: usize, limit: usize, context: Context) -> Result<Lease> {
        match self.obtain(block_size, limit, context, Patience::Wait)? {
            Some(lease) => Ok(lease),
            None => Err(Error::new(ErrorKind::Io, "lease", "no bounce buffer although none is out")),
        }
    }

    /// Lends a block as [`BouncePool::lease`] does, or answers `None` at once where it would have to wait.
    pub fn try_lease(self: &Arc<Self>, block_size: usize, limit: usize, context: Context) -> Option<Lease> {
        self.obtain(block_size, limit, context, Patience::GiveUp).ok().flatten()
    }

    /// As [`BouncePool::try_lease`], but where no memory is to be had and no block is out that could come back, that
    /// is an error.
    ///
    /// # Errors
    /// [`ErrorKind::Cuda`] in the driver's words.
    pub fn lease_now(
        self: &Arc<Self>,
        block_size: usize,
        limit: usize,
        context: Context,
    ) -> Result<Option<Lease>> {
        match self.obtain(block_size, limit, context, Patience::GiveUp) {
            Err(_) if self.state().leased > 0 => Ok(None),
            outcome => outcome,
        }
    }

    fn obtain(
        self: &Arc<Self>,
        block_size: usize,
        limit: usize,
        context: Context,
        patience: Patience,
    ) -> Result<Option<Lease>> {
        let mut state = self.state();
        let mut stale = Vec::new();
        loop {
            if state.block_size != block_size {
                state.block_size = block_size;
                stale.append(&mut state.idle);
            }
            if let Some(block) = state.idle.pop() {
                state.leased += 1;
                drop(state);
                self.free(stale);
                return Ok(Some(Lease { pool: self.clone(), block: Some(block) }));
            }
            if state.leased < limit.max(1) {
                state.leased += 1;
                drop(state);
                self.free(stale);
                match self.allocate(block_size, context) {
                    Ok(block) => return Ok(Some(Lease { pool: self.clone(), block: Some(block) })),
                    Err(error) => {
                        state = self.state();
                        state.leased -= 1;
                        stale = Vec::new();
                        // Who waits counted on this block; the last of them gets the error.
                        self.returned.notify_all();
                        // Memory is short: another transfer's block will do, if one is out.
                        if state.leased == 0 || patience == Patience::GiveUp {
                            return Err(error);
                        }
                    }
                }
            } else if patience == Patience::GiveUp {
                drop(state);
                self.free(stale);
                return Ok(None);
            }
            state.waiting += 1;
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Frees every idle block; answers their number times the block size.
    pub fn free_idle(&self) -> usize {
        let mut state = self.state();
        let idle = std::mem::take(&mut state.idle);
        let bytes = idle.len() * state.block_size;
        drop(state);
        self.free(idle);
        bytes
    }

    /// Bytes held now, idle and on loan, counted as [`BouncePool::free_idle`] counts.
    pub fn held(&self) -> usize {
        let state = self.state();
        (state.idle.len() + state.leased) * state.block_size
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate(&self, len: usize, context: Context) -> Result<Block> {
        let capacity = capacity(len)?;
        let address = match &self.backing {
            Backing::Plain => allocate_pages(capacity)?,
            Backing::Pinned(cuda) => cuda
                .table()
                .host_alloc(capacity, HOST_PORTABLE)
                .map_err(|status| cuda.fault("cuMemHostAlloc", status))?
                .expose_provenance(),
        };
        Ok(Block { address, len, context })
    }

    fn free(&self, blocks: Vec<Block>) {
        for block in blocks {
            match &self.backing {
                Backing::Plain => free_pages(block.address, block.len),
                Backing::Pinned(cuda) => free_pinned(cuda, &block),
            }
        }
    }

    fn put_back(&self, block: Block) {
        let mut state = self.state();
        state.leased -= 1;
        let stale = if block.len == state.block_size {
            state.idle.push(block);
            Vec::new()
        } else {
            vec![block]
        };
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.returned.notify_one();
        }
        self.free(stale);
    }
}

impl Drop for BouncePool {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut self.state().idle);
        self.free(idle);
    }
}

impl Lease {
    /// The block's memory.
    #[must_use]
    pub fn span(&self) -> Span {
        let (address, len) = self.block.as_ref().map_or((0, 0), |block| (block.address, block.len));
        // SAFETY: the block is allocated as long as the lease lives, nobody else holds it, and no reference to its
        // bytes exists; engine and sources use spans of a lease only while they hold it.
        unsafe { Span::new(address, len, Memory::Host) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.put_back(block);
        }
    }
}

fn capacity(len: usize) -> Result<usize> {
    up(len as u64, page_size() as u64)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "lease", format!("a bounce buffer of {len} bytes"))
        })
}

fn layout(len: usize) -> Option<Layout> {
    let bytes = capacity(len).ok()?;
    Layout::from_size_align(bytes, page_size()).ok()
}

fn allocate_pages(len: usize) -> Result<usize> {
    let refused = || Error::from_os("lease", libc::ENOMEM);
    let layout = layout(len).ok_or_else(refused)?;
    // SAFETY: the layout's size is not zero: `capacity` refuses that.
    let address = unsafe { std::alloc::alloc(layout) };
    if address.is_null() { Err(refused()) } else { Ok(address.expose_provenance()) }
}

fn free_pages(address: usize, len: usize) {
    if let Some(layout) = layout(len) {
        // SAFETY: the block came from `allocate_pages` with the same length, and its lease is gone.
        unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(address), layout) };
    }
}

fn free_pinned(cuda: &Cuda, block: &Block) {
    // The thread that frees may have no context; where the block's own is gone, so is its memory.
    let Ok(_entered) = cuda.enter(block.context) else { return };
    // SAFETY: the block came from `host_alloc`, its lease is gone, and leases end only after their copies have.
    let freed = unsafe { cuda.table().host_free(std::ptr::with_exposed_provenance_mut(block.address)) };
    if let Err(status) = freed {
        tracing::debug!(?status, "cuMemFreeHost failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const NONE: Context = Context(0);

    #[test]
    fn idle_blocks_are_counted_by_configured_size_and_freed_once() {
        let pool = BouncePool::new(Backing::Plain);
        drop(pool.lease(1000, 4, NONE).unwrap());
        assert_eq!(pool.held(), 1000);
        assert_eq!(pool.free_idle(), 1000);
        assert_eq!(pool.free_idle(), 0);
    }

    #[test]
    fn a_new_size_empties_the_pool_and_stale_leases_do_not_return() {
        let pool = BouncePool::new(Backing::Plain);
        let old = pool.lease(4096, 4, NONE).unwrap();
        drop(pool.lease(4096, 4, NONE).unwrap());
        let new = pool.lease(8192, 4, NONE).unwrap();
        drop(old);
        assert_eq!(pool.free_idle(), 0, "neither the idle nor the stale block of 4096 bytes is kept");
        drop(new);
        assert_eq!(pool.free_idle(), 8192);
    }

    #[test]
    fn the_limit_holds_until_a_lease_returns() {
        let pool = BouncePool::new(Backing::Plain);
        let first = pool.lease(4096, 1, NONE).unwrap();
        assert!(pool.try_lease(4096, 1, NONE).is_none());
        let (sender, receiver) = mpsc::channel();
        let waiting = pool.clone();
        let thread = std::thread::spawn(move || {
            let lease = waiting.lease(4096, 1, NONE).unwrap();
            sender.send(lease.span().address()).unwrap();
        });
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        let address = first.span().address();
        drop(first);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)).unwrap(), address);
        thread.join().unwrap();
    }

    #[test]
    fn blocks_are_page_aligned() {
        let pool = BouncePool::new(Backing::Plain);
        let lease = pool.lease(5000, 1, NONE).unwrap();
        assert_eq!(lease.span().address() % page_size(), 0);
        assert_eq!(lease.span().len(), 5000);
    }
}

//! What transfers share: worker threads, bounce buffers, streams. One set per process: a forked child makes its own.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kvikio_sys::cuda::{Context, Event, Stream};

use crate::engine::pool::Pool;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::bounce::{Backing, BouncePool};
use crate::memory::device::Cuda;
use crate::platform::Platform;
use crate::process;

/// The shared means of an engine in one process.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) process: u32,
    pub(crate) pool: Pool,
    platform: Arc<Platform>,
    plain: Arc<BouncePool>,
    pinned: OnceLock<Arc<BouncePool>>,
    wire: OnceLock<Arc<BouncePool>>,
    lanes: Mutex<Vec<Lane>>,
}

/// A stream of ours with an event for each of its two bounce buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    context: Context,
    pub(crate) stream: Stream,
    pub(crate) events: [Event; 2],
}

/// A lane on loan; dropping it returns it.
#[derive(Debug)]
pub(crate) struct LaneLease<'a> {
    resources: &'a Resources,
    lane: Lane,
}

impl std::ops::Deref for LaneLease<'_> {
    type Target = Lane;
    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl Drop for LaneLease<'_> {
    fn drop(&mut self) {
        self.resources.put_lane(self.lane);
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        if self.process != process::id() {
            return; // The lock may be held for ever, and the streams are not this process's.
        }
        let lanes = std::mem::take(&mut *self.lanes.lock().unwrap_or_else(PoisonError::into_inner));
        for lane in lanes {
            if let Ok(cuda) = self.cuda() {
                cuda.discard(lane.context, lane.stream, &lane.events);
            }
        }
    }
}

impl Resources {
    pub(crate) fn new(platform: Arc<Platform>, threads: usize) -> Self {
        Self {
            process: process::id(),
            pool: Pool::new(threads),
            platform,
            plain: BouncePool::new(Backing::Plain),
            pinned: OnceLock::new(),
            wire: OnceLock::new(),
            lanes: Mutex::default(),
        }
    }

    pub(crate) fn cuda(&self) -> Result<&Arc<Cuda>> {
        self.platform.cuda().map_err(|why| {
            Error::new(ErrorKind::Unavailable, "use a device", "there is no CUDA driver").because(why)
        })
    }

    /// Page-aligned host blocks.
    pub(crate) fn plain(&self) -> &Arc<BouncePool> {
        &self.plain
    }

    /// Page-locked blocks.
    pub(crate) fn pinned(&self) -> Result<&Arc<BouncePool>> {
        let cuda = self.cuda()?;
        Ok(self.pinned.get_or_init(|| BouncePool::new(Backing::Pinned(cuda.clone()))))
    }

    /// Page-locked blocks for bodies that come in over the wire: smaller ones, in a pool of their own.
    pub(crate) fn wire(&self) -> Result<&Arc<BouncePool>> {
        let cuda = self.cuda()?;
        Ok(self.wire.get_or_init(|| BouncePool::new(Backing::Pinned(cuda.clone()))))
    }

    /// A lane of `context`, which is current.
    pub(crate) fn lane(&self, context: Context) -> Result<LaneLease<'_>> {
        Ok(LaneLease { resources: self, lane: self.take_lane(context)? })
    }

    /// As [`Resources::lane`], for whoever gives it back by [`Resources::put_lane`].
    pub(crate) fn take_lane(&self, context: Context) -> Result<Lane> {
        let mut idle = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle.iter().rposition(|lane| lane.context == context).map(|at| idle.swap_remove(at));
        drop(idle);
        match known {
            Some(lane) => Ok(lane),
            None => {
                let (stream, events) = self.cuda()?.new_lane(context)?;
                Ok(Lane { context, stream, events })
            }
        }
    }

    /// Takes a lane back whose copies have ended.
    pub(crate) fn put_lane(&self, lane: Lane) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }

    fn page_locked(&self) -> impl Iterator<Item = &Arc<BouncePool>> {
        [self.pinned.get(), self.wire.get()].into_iter().flatten()
    }

    /// Frees the idle bounce buffers; answers their bytes.
    pub(crate) fn free_idle(&self) -> usize {
        self.plain.free_idle() + self.page_locked().map(|pool| pool.free_idle()).sum::<usize>()
    }

    /// Bytes of bounce buffers held now, idle and in use.
    pub(crate) fn bounce_held(&self) -> usize {
        self.plain.held() + self.page_locked().map(|pool| pool.held()).sum::<usize>()
    }
}

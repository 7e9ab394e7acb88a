//! The engine: threads, bounce buffers and streams, shared by the files that use it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;

use crate::engine::resources::Resources;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::buf::{DeviceBuf, PinnedBuf};
use crate::memory::device::Cuda;
use crate::options::Options;
use crate::platform::Platform;
use crate::process;

/// Threads, bounce buffers and streams, shared by the files that use it.
///
/// Cloning is cheap and shares them. A forked child gets threads and buffers of its own at its first request.
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    platform: Arc<Platform>,
    threads: AtomicUsize,
    resources: ArcSwap<Resources>,
}

static SHARED: LazyLock<Engine> =
    LazyLock::new(|| Engine::new(Platform::detect([]), Options::default().num_threads()));

impl Engine {
    /// An engine with up to `threads` workers, none of which exists before the first request that needs one.
    #[must_use]
    pub fn new(platform: Arc<Platform>, threads: usize) -> Self {
        let resources = ArcSwap::from_pointee(Resources::new(platform.clone(), threads));
        Self { shared: Arc::new(Shared { platform, threads: AtomicUsize::new(threads.max(1)), resources }) }
    }

    /// The engine that files use where they are given none.
    #[must_use]
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// The vendor libraries and the system behind the engine.
    #[must_use]
    pub fn platform(&self) -> &Arc<Platform> {
        &self.shared.platform
    }

    /// The most worker threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shared.threads.load(Ordering::Relaxed)
    }

    /// Changes the most worker threads; what runs goes on, what waits is kept.
    ///
    /// # Errors
    /// Where work waits and the system refuses the thread that it needs.
    pub fn set_threads(&self, threads: usize) -> Result<()> {
        self.shared.threads.store(threads.max(1), Ordering::Relaxed);
        self.resources().pool.resize(threads)
    }

    /// Frees the bounce buffers that are idle; answers their bytes.
    #[must_use = "the bytes freed"]
    pub fn free_bounce_buffers(&self) -> usize {
        self.resources().free_idle()
    }

    /// Bytes of bounce buffers held now, idle and in use.
    #[must_use]
    pub fn bounce_bytes(&self) -> usize {
        self.resources().bounce_held()
    }

    /// Page-locked host memory of `len` bytes, all 0, for copies from and to `device`.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] without a driver or device, [`ErrorKind::Cuda`] where the driver refuses.
    pub fn pinned(&self, device: i32, len: usize) -> Result<PinnedBuf> {
        PinnedBuf::new(self.started()?, device, len)
    }

    /// Device memory of `len` bytes, all 0.
    ///
    /// # Errors
    /// As [`Engine::pinned`].
    pub fn device_buf(&self, device: i32, len: usize) -> Result<DeviceBuf> {
        DeviceBuf::new(self.started()?, device, len)
    }

    fn started(&self) -> Result<Arc<Cuda>> {
        let unavailable = |why: String| Error::new(ErrorKind::Unavailable, "use a device", why);
        let cuda = self.shared.platform.cuda().map_err(|why| unavailable(why.to_string()))?;
        cuda.start().map_err(|why| unavailable(why.to_string()))?;
        Ok(cuda.clone())
    }

    /// What transfers share in this process.
    pub(crate) fn resources(&self) -> Arc<Resources> {
        let current = self.shared.resources.load();
        if current.process == process::id() {
            return Arc::clone(&current);
        }
        // A fork came between. The parent's threads do not exist here, and its locks may be held for ever.
        let fresh = Arc::new(Resources::new(self.shared.platform.clone(), self.threads()));
        let previous = self.shared.resources.compare_and_swap(&current, fresh);
        if Arc::ptr_eq(&previous, &current) {
            // The parent's set must not be dropped here: its locks and its CUDA handles are not this process's.
            std::mem::forget(Arc::clone(&previous));
        }
        self.shared.resources.load_full()
    }
}

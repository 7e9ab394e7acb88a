//! The seam: what a source must tell, and what it must do.
#![allow(unsafe_code)]

use std::fmt::Debug;
use std::sync::Arc;

use crate::engine::carrier::Carrier;
use crate::error::Result;
use crate::memory::bounce::{BouncePool, Lease};
use crate::memory::span::{Device, Span};
use crate::options::Options;

/// Which way bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the source into memory.
    Read,
    /// From memory into the source.
    Write,
}

impl Direction {
    /// The word for it in errors.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What a source can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// It may be read.
    pub read: bool,
    /// It may be written to.
    pub write: bool,
    /// The unit to which direct I/O aligns offsets and lengths: a power of two.
    pub alignment: usize,
}

/// How one task may reach the storage.
#[derive(Debug, Clone, Copy)]
pub struct Access<'engine> {
    /// Move aligned parts around the page cache.
    pub direct: bool,
    /// Page-aligned host blocks for parts of a buffer that are not aligned.
    pub bounce: &'engine Arc<BouncePool>,
    /// Bytes of one block.
    pub block_size: usize,
    /// The most blocks that may be out at once.
    pub limit: usize,
}

impl Access<'_> {
    /// Lends a page-aligned host block.
    ///
    /// # Errors
    /// Where the system has no memory.
    pub fn lease(&self) -> Result<Lease> {
        self.bounce.lease(self.block_size, self.limit, kvikio_sys::cuda::Context(0))
    }
}

/// What became of a task that was offered to a source's own path to the device.
#[derive(Debug)]
pub enum DeviceOutcome {
    /// It was done; so many bytes, fewer than asked only at the end of the source.
    Moved(usize),
    /// The source does not take that path (any more): the bytes must go through host memory.
    NotTaken,
}

/// Something that can be read, and perhaps written, at offsets.
///
/// A source is shared by the tasks of many transfers; each call names its own range. Spans given to
/// [`Source::fill`] and [`Source::take`] are host memory, those given to the `_device` calls are a device's.
///
/// # Safety
/// A span is memory of somebody else's, lent for one call: an implementation uses it in no way after the call has
/// returned, passes it on only to what keeps this promise too, and does not write to a span that it was given to take
/// from (it may be memory that must not change).
pub unsafe trait Source: Debug + Send + Sync {
    /// Its name in errors.
    fn subject(&self) -> String;

    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// Fills `span` with the bytes at `offset`; answers their number, less than the span only at the end.
    ///
    /// # Errors
    /// What the storage said; [`Error::done`](crate::Error::done) counts the bytes that are right nevertheless.
    fn fill(&self, offset: u64, span: Span, access: Access<'_>) -> Result<usize>;

    /// Stores all of `span` at `offset`.
    ///
    /// # Errors
    /// What the storage said; [`Error::done`](crate::Error::done) counts the bytes that were stored nevertheless.
    fn take(&self, offset: u64, span: Span, access: Access<'_>) -> Result<()>;

    /// Whoever runs the tasks of reads in place of the engine's workers, where the source has its own threads.
    #[doc(hidden)]
    fn carrier(&self) -> Option<&dyn Carrier> {
        None
    }

    /// The most bytes of one task of a request for `len` bytes.
    fn task_size(&self, len: usize, options: &Options) -> usize {
        let _ = len;
        options.task_size()
    }

    /// True where the source can move bytes from or to `device` by itself.
    fn reaches(&self, device: Device) -> bool {
        let _ = device;
        false
    }

    /// As [`Source::fill`], for device memory whose context is current.
    ///
    /// # Errors
    /// What the storage said.
    fn fill_device(&self, offset: u64, span: Span) -> Result<DeviceOutcome> {
        let _ = (offset, span);
        Ok(DeviceOutcome::NotTaken)
    }

    /// As [`Source::take`], for device memory whose context is current.
    ///
    /// # Errors
    /// What the storage said.
    fn take_device(&self, offset: u64, span: Span) -> Result<DeviceOutcome> {
        let _ = (offset, span);
        Ok(DeviceOutcome::NotTaken)
    }
}

//! A checked piece of memory: address, length, kind; it can be split but never grown.
#![allow(unsafe_code)]

use kvikio_sys::cuda::{Context, Stream};

/// What kind of memory an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Memory that the CPU may touch: ordinary, page-locked or mapped.
    Host,
    /// Memory of a GPU, managed memory included.
    Device(Device),
}

/// Which GPU, and how to reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// The device's ordinal, as CUDA counts.
    pub ordinal: i32,
    /// The context to make current for work on the memory.
    pub context: Context,
    /// The stream whose earlier work the transfer must come after; 0 is the legacy default stream.
    pub after: Stream,
}

/// A piece of memory that somebody keeps alive: a transfer's buffer, a bounce buffer, or a borrowed slice.
///
/// A span carries no ownership. Whoever makes one promises, by [`Span::new`], that the memory stays valid as long as
/// any span cut from it is used; engine and sources never keep one beyond the task that it was cut for.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    address: usize,
    len: usize,
    memory: Memory,
}

impl Span {
    /// A span over `len` bytes at `address`.
    ///
    /// # Safety
    /// As long as this span or one cut from it is used, the memory must stay allocated, be of kind `memory`, and no
    /// Rust reference may contradict the accesses made through it (shared for a source of bytes, exclusive for a
    /// destination).
    #[must_use]
    pub unsafe fn new(address: usize, len: usize, memory: Memory) -> Self {
        Self { address, len, memory }
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where there is nothing to move.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.address
    }

    /// The kind of memory.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// The device, where the memory is a device's.
    #[must_use]
    pub fn device(&self) -> Option<Device> {
        match self.memory {
            Memory::Host => None,
            Memory::Device(device) => Some(device),
        }
    }

    /// The piece `start .. start + len` of this span, cut to what the span holds.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        let start = start.min(self.len);
        Self { address: self.address + start, len: len.min(self.len - start), memory: self.memory }
    }

    /// The first byte as a pointer; only for host memory may it be followed.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// Copies host memory to host memory; the shorter of the two says how much. Answers the bytes copied.
    pub(crate) fn copy_from(&self, other: &Self) -> usize {
        debug_assert!(self.memory == Memory::Host && other.memory == Memory::Host);
        let len = self.len.min(other.len);
        // SAFETY: both are host memory of at least `len` bytes, by the promise made to `Span::new`; a source span and
        // a destination span are never the same buffer's bytes (one is a bounce buffer or a source's own memory).
        unsafe { std::ptr::copy(other.as_ptr(), self.as_ptr(), len) };
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_never_reach_beyond_the_span() {
        // SAFETY: the span is never followed.
        let span = unsafe { Span::new(4096, 10, Memory::Host) };
        assert_eq!(span.slice(4, 100).len(), 6);
        assert_eq!(span.slice(4, 100).address(), 4100);
        assert_eq!(span.slice(11, 1).len(), 0);
        assert_eq!(span.slice(usize::MAX, usize::MAX).len(), 0);
    }
}

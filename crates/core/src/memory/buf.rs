//! The unsafe traits by which an owner promises a stable address, and their standard implementations.
#![allow(unsafe_code)]

use std::sync::Arc;

use kvikio_sys::cuda::{HOST_PORTABLE, Stream};

use crate::error::Result;
use crate::memory::device::Cuda;
use crate::memory::span::{Memory, Span};

/// Where an owner's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In memory that the CPU may touch.
    Host,
    /// Wherever the CUDA driver says the address is; `after` is the stream whose earlier work must come first
    /// (0 is the legacy default stream).
    Ask {
        /// The stream.
        after: Stream,
    },
}

/// An owner of bytes that a transfer may read from.
///
/// # Safety
/// From the moment the owner is given to a transfer until it is given back: the address and length do not change
/// (moving the owner itself must not move its bytes), the bytes are initialised, stay allocated, and are not written
/// to by anyone else. The stream that [`IoBuf::place`] names exists when the request is made.
pub unsafe trait IoBuf: Send + 'static {
    /// The address of the first byte; need not be valid where the length is 0.
    fn address(&self) -> usize;

    /// The length in bytes.
    fn byte_len(&self) -> usize;

    /// Where the memory is.
    fn place(&self) -> Place {
        Place::Host
    }
}

/// An owner of bytes that a transfer may write to.
///
/// # Safety
/// As [`IoBuf`], and: the memory may be written to, and nobody else reads it meanwhile.
pub unsafe trait IoBufMut: IoBuf {}

// SAFETY: the heap block does not move with the vector, which nobody can grow while the transfer owns it.
unsafe impl IoBuf for Vec<u8> {
    fn address(&self) -> usize {
        self.as_ptr().expose_provenance()
    }
    fn byte_len(&self) -> usize {
        self.len()
    }
}
// SAFETY: a `Vec<u8>` is owned alone.
unsafe impl IoBufMut for Vec<u8> {}

// SAFETY: the heap block does not move with the box.
unsafe impl IoBuf for Box<[u8]> {
    fn address(&self) -> usize {
        self.as_ptr().expose_provenance()
    }
    fn byte_len(&self) -> usize {
        self.len()
    }
}
// SAFETY: a `Box<[u8]>` is owned alone.
unsafe impl IoBufMut for Box<[u8]> {}

// SAFETY: static bytes neither move nor change.
unsafe impl IoBuf for &'static [u8] {
    fn address(&self) -> usize {
        self.as_ptr().expose_provenance()
    }
    fn byte_len(&self) -> usize {
        self.len()
    }
}

// SAFETY: the shared block neither moves nor changes as long as one `Arc` to it lives.
unsafe impl IoBuf for Arc<[u8]> {
    fn address(&self) -> usize {
        self.as_ptr().expose_provenance()
    }
    fn byte_len(&self) -> usize {
        self.len()
    }
}

// SAFETY: `Bytes` is immutable and its block does not move with the handle.
unsafe impl IoBuf for bytes::Bytes {
    fn address(&self) -> usize {
        self.as_ptr().expose_provenance()
    }
    fn byte_len(&self) -> usize {
        self.len()
    }
}

// SAFETY: the block does not move with the handle, which nobody can grow while the transfer owns it; only the
// initialised part (`len`) counts.
unsafe impl IoBuf for bytes::BytesMut {
    fn address(&self) -> usize {
        self.as_ptr().expose_provenance()
    }
    fn byte_len(&self) -> usize {
        self.len()
    }
}
// SAFETY: a `BytesMut` is the only handle to its part of the block.
unsafe impl IoBufMut for bytes::BytesMut {}

/// Page-locked host memory of our own: reads and writes of it need no bounce on their way to a GPU.
///
/// It is an ordinary host buffer where bytes are moved by the CPU; see [`Engine::pinned`](crate::Engine::pinned).
#[derive(Debug)]
pub struct PinnedBuf {
    cuda: Arc<Cuda>,
    device: i32,
    address: usize,
    len: usize,
}

impl PinnedBuf {
    pub(crate) fn new(cuda: Arc<Cuda>, device: i32, len: usize) -> Result<Self> {
        let context = cuda.primary_context(device)?;
        let entered = cuda.enter(context)?;
        let address = cuda
            .table()
            .host_alloc(len.max(1), HOST_PORTABLE)
            .map_err(|status| cuda.fault("cuMemHostAlloc", status))?;
        // SAFETY: fresh memory of `len` bytes that nobody else knows of.
        unsafe { address.write_bytes(0, len) };
        drop(entered);
        Ok(Self { cuda, device, address: address.expose_provenance(), len })
    }
}

impl std::ops::Deref for PinnedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation holds `len` initialised bytes until `drop`, and `&self` keeps writers out.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.len) }
    }
}

impl std::ops::DerefMut for PinnedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `deref`, and `&mut self` is exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(self.address), self.len)
        }
    }
}

impl Drop for PinnedBuf {
    fn drop(&mut self) {
        let entered = self.cuda.primary_context(self.device).and_then(|context| self.cuda.enter(context));
        if entered.is_ok() {
            // SAFETY: the allocation is ours and no transfer owns it any more.
            let freed =
                unsafe { self.cuda.table().host_free(std::ptr::with_exposed_provenance_mut(self.address)) };
            if let Err(status) = freed {
                tracing::debug!(?status, "cuMemFreeHost failed");
            }
        }
    }
}

// SAFETY: the allocation is fixed until `drop`.
unsafe impl IoBuf for PinnedBuf {
    fn address(&self) -> usize {
        self.address
    }
    fn byte_len(&self) -> usize {
        self.len
    }
}
// SAFETY: the allocation has one owner.
unsafe impl IoBufMut for PinnedBuf {}

/// Device memory of our own; see [`Engine::device_buf`](crate::Engine::device_buf).
#[derive(Debug)]
pub struct DeviceBuf {
    cuda: Arc<Cuda>,
    device: i32,
    address: u64,
    len: usize,
}

impl DeviceBuf {
    pub(crate) fn new(cuda: Arc<Cuda>, device: i32, len: usize) -> Result<Self> {
        let context = cuda.primary_context(device)?;
        let entered = cuda.enter(context)?;
        let address = cuda.table().alloc(len.max(1)).map_err(|status| cuda.fault("cuMemAlloc", status))?;
        // SAFETY: the fresh allocation holds `len` bytes.
        let filled = unsafe { cuda.table().fill(address, 0, len) };
        drop(entered);
        let buf = Self { cuda, device, address, len };
        filled.map_err(|status| buf.cuda.fault("cuMemsetD8", status))?;
        Ok(buf)
    }

    /// The device's ordinal.
    #[must_use]
    pub fn device(&self) -> i32 {
        self.device
    }

    /// Copies the whole buffer to the host and waits for it.
    ///
    /// # Errors
    /// [`ErrorKind::Cuda`](crate::ErrorKind::Cuda) in the driver's words.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len];
        let _entered = self.cuda.enter(self.cuda.primary_context(self.device)?)?;
        // SAFETY: both sides hold `len` bytes; the call returns when the copy is done.
        unsafe { self.cuda.table().copy_to_host(bytes.as_mut_ptr(), self.address, self.len) }
            .map_err(|status| self.cuda.fault("cuMemcpyDtoH", status))?;
        Ok(bytes)
    }

    /// Fills the buffer from host bytes, as many as both hold, and waits for it.
    ///
    /// # Errors
    /// [`ErrorKind::Cuda`](crate::ErrorKind::Cuda) in the driver's words.
    pub fn fill_from(&mut self, bytes: &[u8]) -> Result<()> {
        let _entered = self.cuda.enter(self.cuda.primary_context(self.device)?)?;
        let len = bytes.len().min(self.len);
        // SAFETY: both sides hold `len` bytes; the call returns when the copy is done.
        unsafe { self.cuda.table().copy_to_device(self.address, bytes.as_ptr(), len) }
            .map_err(|status| self.cuda.fault("cuMemcpyHtoD", status))
    }
}

impl Drop for DeviceBuf {
    fn drop(&mut self) {
        let entered = self.cuda.primary_context(self.device).and_then(|context| self.cuda.enter(context));
        if entered.is_ok() {
            // SAFETY: the allocation is ours and no transfer owns it any more.
            if let Err(status) = unsafe { self.cuda.table().free(self.address) } {
                tracing::debug!(?status, "cuMemFree failed");
            }
        }
    }
}

// SAFETY: the allocation is fixed until `drop`.
unsafe impl IoBuf for DeviceBuf {
    fn address(&self) -> usize {
        // Device addresses fit: the platforms CUDA runs on have 64-bit pointers.
        self.address as usize
    }
    fn byte_len(&self) -> usize {
        self.len
    }
    fn place(&self) -> Place {
        Place::Ask { after: Stream(0) }
    }
}
// SAFETY: the allocation has one owner.
unsafe impl IoBufMut for DeviceBuf {}

/// The span of an owner's bytes, which are `memory`.
///
/// The owner's promise ([`IoBuf`]) makes it valid as long as the owner is held by a transfer or borrowed by a call.
pub(crate) fn span_of<B: IoBuf + ?Sized>(buf: &B, memory: Memory) -> Span {
    // SAFETY: `IoBuf` promises allocated, initialised, unmoving memory; `memory` is what the driver said of it.
    unsafe { Span::new(buf.address(), buf.byte_len(), memory) }
}

/// The span of borrowed bytes to read from; whoever calls does not let it outlive the borrow.
pub(crate) fn lend(bytes: &[u8]) -> Span {
    // SAFETY: a slice is valid for its length; a span of it is used as a source only and within the borrow.
    unsafe { Span::new(bytes.as_ptr().expose_provenance(), bytes.len(), Memory::Host) }
}

/// The span of borrowed bytes to write to; whoever calls does not let it outlive the borrow.
pub(crate) fn lend_mut(bytes: &mut [u8]) -> Span {
    // SAFETY: a mutable slice is valid and exclusive for its length, and its span is used within the borrow.
    unsafe { Span::new(bytes.as_mut_ptr().expose_provenance(), bytes.len(), Memory::Host) }
}

//! The CUDA driver as this crate uses it: finds whose an address is, makes contexts current, holds streams and events.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kvikio_sys::cuda::{
    Context, CuStatus, EVENT_DISABLE_TIMING, Event, MemoryType, Stream, Table, Unavailable,
};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::span::{Device, Memory, Span};
use crate::process;

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the legacy default stream; we order by events instead, so that
/// a kernel launched after a request does not hold the request's copies up.
const STREAM_NON_BLOCKING: u32 = 1;

/// The CUDA driver, opened, with what we remember about its devices.
#[derive(Debug)]
pub struct Cuda {
    table: Table,
    primary: Mutex<HashMap<i32, Context>>,
    /// The process that has used the driver first, 0 before that.
    user: AtomicU32,
}

impl Cuda {
    /// Wraps an opened driver; a test hands in a table of its own.
    #[must_use]
    pub fn new(table: Table) -> Self {
        Self { table, primary: Mutex::new(HashMap::new()), user: AtomicU32::new(0) }
    }

    /// The driver's functions.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Initialises the driver and answers the number of devices, at least 1.
    ///
    /// # Errors
    /// [`Unavailable`], typed: a stub, no device, or what `cuInit` said.
    pub fn start(&self) -> std::result::Result<u32, Unavailable> {
        self.is_foreign();
        self.table.start()
    }

    /// True in a child of the process that has used the driver; else the calling process is its user from now on.
    fn is_foreign(&self) -> bool {
        let own = process::id();
        match self.user.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => false,
            Err(user) => user != own,
        }
    }

    fn refuse_child(&self) -> Result<()> {
        let why =
            "CUDA cannot be used after a fork: start workers with 'spawn', or use the GPU only in the child";
        if self.is_foreign() { Err(Error::new(ErrorKind::Forked, "use the device", why)) } else { Ok(()) }
    }

    /// What kind of memory `address` is, and for device memory how to reach it.
    ///
    /// `after` is the stream whose earlier work a transfer must come after.
    ///
    /// # Errors
    /// [`ErrorKind::Cuda`] in the driver's words; [`ErrorKind::Forked`] in the child of a process that used the GPU.
    pub fn locate(&self, address: u64, after: Stream) -> Result<Memory> {
        self.refuse_child()?;
        let info = match self.table.pointer_info(address) {
            Err(CuStatus::NOT_INITIALIZED) => {
                self.start().map_err(|why| Error::new(ErrorKind::Unavailable, "locate", why.to_string()))?;
                self.table.pointer_info(address)
            }
            answer => answer,
        }
        .map_err(|status| self.fault("cuPointerGetAttributes", status))?;
        if matches!(info.memory_type, MemoryType::UNREGISTERED | MemoryType::HOST) {
            return Ok(Memory::Host);
        }
        // Memory from a stream-ordered pool belongs to no context: the device's primary context reaches it.
        let context = match info.context {
            Context(0) => self.primary_context(info.device)?,
            context => context,
        };
        Ok(Memory::Device(Device { ordinal: info.device, context, after }))
    }

    /// The primary context of a device, retained once and kept.
    ///
    /// # Errors
    /// [`ErrorKind::Cuda`] in the driver's words.
    pub fn primary_context(&self, ordinal: i32) -> Result<Context> {
        let mut known = self.primary.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = known.get(&ordinal) {
            return Ok(*context);
        }
        let context = self
            .table
            .primary_context(ordinal)
            .map_err(|status| self.fault("cuDevicePrimaryCtxRetain", status))?;
        known.insert(ordinal, context);
        Ok(context)
    }

    /// Makes `context` current on this thread until the guard is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Cuda`] in the driver's words; [`ErrorKind::Forked`] in the child of a process that used the GPU.
    pub fn enter(&self, context: Context) -> Result<Entered<'_>> {
        self.refuse_child()?;
        self.table.push_context(context).map_err(|status| self.fault("cuCtxPushCurrent", status))?;
        Ok(Entered { cuda: self })
    }

    /// The error for a failed driver call.
    pub(crate) fn fault(&self, operation: &'static str, status: CuStatus) -> Error {
        Error::from_cuda(&self.table, operation, status)
    }

    /// A stream of our own with two events, in `context`, which is current.
    pub(crate) fn new_lane(&self, context: Context) -> Result<(Stream, [Event; 2])> {
        let stream = self
            .table
            .create_stream(STREAM_NON_BLOCKING)
            .map_err(|status| self.fault("cuStreamCreate", status))?;
        let first = self.new_event().inspect_err(|_| self.discard(context, stream, &[]))?;
        let second = self.new_event().inspect_err(|_| self.discard(context, stream, &[first]))?;
        Ok((stream, [first, second]))
    }

    /// An event in the current context.
    fn new_event(&self) -> Result<Event> {
        self.table.create_event(EVENT_DISABLE_TIMING).map_err(|status| self.fault("cuEventCreate", status))
    }

    /// Copies host memory to the device and waits for it.
    pub(crate) fn copy_in(&self, device: Span, host: Span) -> Result<()> {
        if host.is_empty() {
            return Ok(());
        }
        // SAFETY: both spans are valid for their lengths, by the promise made to `Span::new`; the copy is no longer
        // than either and over when the call returns.
        unsafe {
            self.table.copy_to_device(device.address() as u64, host.as_ptr(), host.len().min(device.len()))
        }
        .map_err(|status| self.fault("cuMemcpyHtoD", status))
    }

    /// Copies device memory to the host and waits for it.
    pub(crate) fn copy_out(&self, host: Span, device: Span) -> Result<()> {
        if host.is_empty() {
            return Ok(());
        }
        // SAFETY: as in `copy_in`, the other way round.
        unsafe {
            self.table.copy_to_host(host.as_ptr(), device.address() as u64, host.len().min(device.len()))
        }
        .map_err(|status| self.fault("cuMemcpyDtoH", status))
    }

    /// Starts a copy of host memory to the device. Both spans count as used until `stream` has passed the copy.
    pub(crate) fn start_copy_in(&self, device: Span, host: Span, stream: Stream) -> Result<()> {
        let len = host.len().min(device.len());
        // SAFETY: both spans are valid for their lengths, by the promise made to `Span::new`, as long as they are in
        // use, which is until the stream has passed the copy.
        unsafe { self.table.copy_to_device_async(device.address() as u64, host.as_ptr(), len, stream) }
            .map_err(|status| self.fault("cuMemcpyHtoDAsync", status))
    }

    /// Starts a copy of device memory to the host. Both spans count as used until `stream` has passed the copy.
    pub(crate) fn start_copy_out(&self, host: Span, device: Span, stream: Stream) -> Result<()> {
        let len = host.len().min(device.len());
        // SAFETY: as in `start_copy_in`, the other way round.
        unsafe { self.table.copy_to_host_async(host.as_ptr(), device.address() as u64, len, stream) }
            .map_err(|status| self.fault("cuMemcpyDtoHAsync", status))
    }

    /// Marks the point that `device.after` has reached, for a transfer that must come after it.
    pub(crate) fn mark(self: &Arc<Self>, device: Device) -> Result<Marker> {
        let _entered = self.enter(device.context)?;
        let marker = Marker { cuda: self.clone(), context: device.context, event: self.new_event()? };
        self.table
            .record_event(marker.event, device.after)
            .map_err(|status| self.fault("cuEventRecord", status))?;
        Ok(marker)
    }

    /// Gives a stream of ours and its events back, when no work of theirs is pending.
    pub(crate) fn discard(&self, context: Context, stream: Stream, events: &[Event]) {
        let Ok(_entered) = self.enter(context) else { return };
        events.iter().for_each(|event| self.drop_event(*event));
        // SAFETY: the caller owned the stream and is done with it.
        if let Err(status) = unsafe { self.table.destroy_stream(stream) } {
            tracing::debug!(?status, "cuStreamDestroy failed");
        }
    }

    /// Gives an event back; a failure is of no consequence to anyone and is logged.
    fn drop_event(&self, event: Event) {
        // SAFETY: the caller owned the event and is done with it; the driver keeps it until recorded work has passed.
        if let Err(status) = unsafe { self.table.destroy_event(event) } {
            tracing::debug!(?status, "cuEventDestroy failed");
        }
    }
}

/// A context that is current on this thread; leaving happens by dropping.
#[derive(Debug)]
pub struct Entered<'cuda> {
    cuda: &'cuda Cuda,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Err(status) = self.cuda.table.pop_context() {
            tracing::warn!(?status, "cuCtxPopCurrent failed");
        }
    }
}

/// A point in a stream's work.
#[derive(Debug)]
pub(crate) struct Marker {
    cuda: Arc<Cuda>,
    context: Context,
    event: Event,
}

impl Marker {
    /// Makes later work on `stream` wait for the point; does not block the caller.
    pub(crate) fn hold_up(&self, stream: Stream) -> Result<()> {
        let table = &self.cuda.table;
        table
            .stream_wait_event(stream, self.event)
            .map_err(|status| self.cuda.fault("cuStreamWaitEvent", status))
    }
}

impl Marker {
    /// Waits until the point has been reached. The context is current.
    pub(crate) fn wait(&self) -> Result<()> {
        self.cuda
            .table
            .synchronize_event(self.event)
            .map_err(|status| self.cuda.fault("cuEventSynchronize", status))
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        // Where the context cannot be entered any more the event is gone with it, or another process's.
        if let Ok(_entered) = self.cuda.enter(self.context) {
            self.cuda.drop_event(self.event);
        }
    }
}

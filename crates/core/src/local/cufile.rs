//! A file registered with cuFile: reads and writes between it and device memory.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use kvikio_sys::cufile::{CuFileStatus, Handle, Table};

use crate::engine::source::Direction;
use crate::memory::device::Cuda;
use crate::memory::span::Span;
use crate::process;

/// A registration that ends when it is dropped.
#[derive(Debug)]
pub struct Registration {
    table: Arc<Table>,
    cuda: Arc<Cuda>,
    handle: Handle,
    process: u32,
}

impl Registration {
    /// Registers an open descriptor.
    ///
    /// The owner of `fd` keeps it open as long as the registration lives: `LocalFile` holds both and drops this first.
    ///
    /// # Errors
    /// cuFile's status.
    pub fn new(table: Arc<Table>, cuda: Arc<Cuda>, fd: BorrowedFd<'_>) -> Result<Self, CuFileStatus> {
        // SAFETY: `LocalFile` owns the descriptor and declares this registration before it, so it is dropped first.
        let handle = unsafe { table.register(fd.as_raw_fd()) }?;
        Ok(Self { table, cuda, handle, process: process::id() })
    }

    /// Moves `span` (device memory, its context current) from or to `offset`; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// cuFile's status, and the bytes moved before it.
    pub fn transfer(
        &self,
        direction: Direction,
        offset: u64,
        span: Span,
    ) -> Result<usize, (CuFileStatus, usize)> {
        // Where the allocation was registered with cuFile, only its base is known there.
        let address = span.address() as u64;
        let base = self.cuda.table().address_range(address).map_or(address, |(base, _)| base);
        let mut done = 0;
        while done < span.len() {
            let (at, within) = (offset + done as u64, address - base + done as u64);
            let (Ok(at), Ok(within)) = (i64::try_from(at), i64::try_from(within)) else {
                return Err((CuFileStatus { op: 5022, driver: 0 }, done));
            };
            let rest = span.len() - done;
            let moved = match direction {
                Direction::Read => {
                    // SAFETY: the span is device memory, writable for its length, by the promise to `Span::new`.
                    unsafe { self.table.read(self.handle, base, rest, at, within) }
                }
                Direction::Write => {
                    // SAFETY: as above, readable.
                    unsafe { self.table.write(self.handle, base, rest, at, within) }
                }
            };
            match moved {
                Ok(0) if direction == Direction::Read => break,
                Ok(0) => return Err((CuFileStatus { op: libc::EIO, driver: 0 }, done)),
                Ok(moved) => done += moved,
                Err(status) => return Err((status, done)),
            }
        }
        Ok(done)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.process != process::id() {
            return; // In a forked child neither cuFile nor CUDA may be called; the handle is the parent's.
        }
        // SAFETY: transfers hold the file that holds this registration, so none is running.
        unsafe { self.table.deregister(self.handle) };
    }
}

//! Reads and writes between a registered file and device memory.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

use super::handle::{Registration, Running, device_range};
use crate::cells;
use crate::context;
use crate::copy::pause;
use crate::entry::exports;
use crate::pages::{HostPages, PAGE, Pages};
use crate::status::{INVALID_ARGUMENT, OUT_OF_MEMORY, Refusal, last_errno};

exports! {
    Process "cuFileRead" = read(handle: usize, base: u64, len: usize, offset: i64, device_offset: i64) -> isize;
    Process "cuFileWrite" = write(handle: usize, base: u64, len: usize, offset: i64, device_offset: i64) -> isize;
}

/// Bytes that one system call moves.
const STEP: usize = 1 << 20;

fn read(handle: usize, base: u64, len: usize, offset: i64, device_offset: i64) -> Result<usize, Refusal> {
    Request { way: Way::Read, handle, base, len, offset, device_offset }.run(context::current()?)
}

fn write(handle: usize, base: u64, len: usize, offset: i64, device_offset: i64) -> Result<usize, Refusal> {
    Request { way: Way::Write, handle, base, len, offset, device_offset }.run(context::current()?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// One read or write.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) way: Way,
    pub(crate) handle: usize,
    pub(crate) base: u64,
    pub(crate) len: usize,
    pub(crate) offset: i64,
    pub(crate) device_offset: i64,
}

impl Request {
    /// Moves the bytes, for a caller whose current context is of `device`; answers how many.
    pub(crate) fn run(self, device: i32) -> Result<usize, Refusal> {
        let running = Running::start(self.handle)?;
        if self.offset < 0 {
            return Err(INVALID_ARGUMENT);
        }
        let (allocation, at) = device_range(device, self.base, self.device_offset, self.len)?;
        let pages = allocation.pages().ok_or(INVALID_ARGUMENT)?;
        let limit = usize::try_from(cells::MAX_TRANSFER.get()).unwrap_or(0);
        let len = if limit == 0 { self.len } else { self.len.min(limit) };
        match self.way {
            Way::Read => {
                pause(cells::READ_DELAY_US.get(), &cells::HOLD_TRANSFERS);
                read_into(running.file(), pages, at, len, self.offset)
            }
            Way::Write => {
                pause(cells::WRITE_DELAY_US.get(), &cells::HOLD_TRANSFERS);
                write_from(running.file(), pages, at, len, self.offset)
            }
        }
    }
}

/// Reads whole pages into memory of its own and passes on what was asked for, so that no alignment is needed.
fn read_into(
    file: &Registration,
    pages: &Pages,
    at: usize,
    len: usize,
    offset: i64,
) -> Result<usize, Refusal> {
    let mut bounce = bounce(len)?;
    let mut done = 0;
    while done < len {
        let from = offset.checked_add(signed(done)?).ok_or(INVALID_ARGUMENT)?;
        let lead = usize::try_from(from).map_err(|_| INVALID_ARGUMENT)? % PAGE;
        let wanted = (len - done).min(STEP - lead);
        let widened = (lead + wanted).next_multiple_of(PAGE);
        let found = pread(file.fd, &mut bounce.bytes_mut()[..widened], from - signed(lead)?)?;
        let count = found.saturating_sub(lead).min(wanted);
        // As the real library does (seen with cuFile 1.15 in its compatibility mode): all that was asked for is written
        // to, whatever the bounce buffer holds beyond the end of the file; only the count says how much of it is right.
        pages.write(at + done, &bounce.bytes_mut()[lead..lead + wanted]).map_err(|_| OUT_OF_MEMORY)?;
        done += count;
        if count < wanted {
            break;
        }
    }
    Ok(done)
}

/// Writes past the page cache where everything is aligned, else through it: its neighbours stay as they are.
fn write_from(
    file: &Registration,
    pages: &Pages,
    at: usize,
    len: usize,
    offset: i64,
) -> Result<usize, Refusal> {
    let is_aligned = len.is_multiple_of(PAGE) && offset % signed(PAGE)? == 0;
    let cached = if file.is_direct && !is_aligned { Some(reopen(file)?) } else { None };
    let fd = cached.as_ref().map_or(file.fd, AsRawFd::as_raw_fd);
    let mut bounce = bounce(len)?;
    let mut done = 0;
    while done < len {
        let count = (len - done).min(STEP);
        let bytes = &mut bounce.bytes_mut()[..count];
        pages.read(at + done, bytes).map_err(|_| OUT_OF_MEMORY)?;
        let to = offset.checked_add(signed(done)?).ok_or(INVALID_ARGUMENT)?;
        done += pwrite_all(fd, bytes, to)?;
    }
    Ok(done)
}

fn bounce(len: usize) -> Result<HostPages, Refusal> {
    HostPages::new(len.saturating_add(2 * PAGE).min(STEP)).map_err(|_| OUT_OF_MEMORY)
}

/// The same file without `O_DIRECT`.
fn reopen(file: &Registration) -> Result<File, Refusal> {
    if file.access() == libc::O_RDONLY {
        return Err(Refusal::System(libc::EBADF));
    }
    let path = format!("/proc/self/fd/{}", file.fd);
    OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|error| Refusal::System(error.raw_os_error().unwrap_or(libc::EIO)))
}

fn signed(len: usize) -> Result<i64, Refusal> {
    i64::try_from(len).map_err(|_| INVALID_ARGUMENT)
}

fn pread(fd: c_int, bytes: &mut [u8], offset: i64) -> Result<usize, Refusal> {
    loop {
        // SAFETY: a buffer of the length that is passed, borrowed mutably; the kernel checks the descriptor.
        let count = unsafe { libc::pread(fd, bytes.as_mut_ptr().cast::<c_void>(), bytes.len(), offset) };
        match usize::try_from(count) {
            Ok(count) => return Ok(count),
            Err(_) if last_errno() == Refusal::System(libc::EINTR) => {}
            Err(_) => return Err(last_errno()),
        }
    }
}

fn pwrite_all(fd: c_int, bytes: &[u8], offset: i64) -> Result<usize, Refusal> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        // SAFETY: a buffer of the length that is passed; the kernel checks the descriptor.
        let count =
            unsafe { libc::pwrite(fd, rest.as_ptr().cast::<c_void>(), rest.len(), offset + signed(done)?) };
        match usize::try_from(count) {
            Ok(count) => done += count,
            Err(_) if last_errno() == Refusal::System(libc::EINTR) => {}
            Err(_) => return Err(last_errno()),
        }
    }
    Ok(done)
}

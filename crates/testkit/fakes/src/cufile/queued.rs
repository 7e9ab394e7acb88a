//! Reads and writes on a stream: what to move is read from the caller's cells when the stream gets there.
#![allow(unsafe_code)]

use std::ffi::c_uint;

use super::handle::Running;
use super::transfer::{Request, Way};
use crate::entry::exports;
use crate::status::{Answer, FileStatus, INVALID_ARGUMENT, Out, Refusal};
use crate::{context, stream};

exports! {
    Process "cuFileReadAsync" = read(
        handle: usize, base: u64, len: Out<usize>, offset: Out<i64>, device_offset: Out<i64>, done: Out<isize>,
        stream: usize) -> FileStatus;
    Process "cuFileWriteAsync" = write(
        handle: usize, base: u64, len: Out<usize>, offset: Out<i64>, device_offset: Out<i64>, done: Out<isize>,
        stream: usize) -> FileStatus;
    Process "cuFileStreamRegister" = register(stream: usize, flags: c_uint) -> FileStatus;
    Process "cuFileStreamDeregister" = deregister(stream: usize) -> FileStatus;
}

/// The caller's cells, which it keeps in place until the stream has passed the transfer.
struct Cells {
    way: Way,
    handle: usize,
    base: u64,
    /// Addresses, since the cells are used on another thread.
    len: usize,
    offset: usize,
    device_offset: usize,
    done: usize,
}

fn read(
    handle: usize,
    base: u64,
    len: Out<usize>,
    offset: Out<i64>,
    device_offset: Out<i64>,
    done: Out<isize>,
    stream: usize,
) -> Result<(), Refusal> {
    let (len, offset, device_offset) = (len.address(), offset.address(), device_offset.address());
    Cells { way: Way::Read, handle, base, len, offset, device_offset, done: done.address() }.queue(stream)
}

fn write(
    handle: usize,
    base: u64,
    len: Out<usize>,
    offset: Out<i64>,
    device_offset: Out<i64>,
    done: Out<isize>,
    stream: usize,
) -> Result<(), Refusal> {
    let (len, offset, device_offset) = (len.address(), offset.address(), device_offset.address());
    Cells { way: Way::Write, handle, base, len, offset, device_offset, done: done.address() }.queue(stream)
}

impl Cells {
    fn queue(self, stream: usize) -> Result<(), Refusal> {
        let device = context::current()?;
        if [self.len, self.offset, self.device_offset, self.done].contains(&0) {
            return Err(INVALID_ARGUMENT);
        }
        // The handle counts as in use until the stream has passed the transfer.
        let running = Running::start(self.handle)?;
        stream::submit(stream, move || {
            let outcome = self.request().and_then(|request| request.run(device));
            Out::from_address(self.done).offer(<isize as Answer<usize>>::answer(outcome));
            drop(running);
        })
        .map(|_| ())
    }

    fn request(&self) -> Result<Request, Refusal> {
        Ok(Request {
            way: self.way,
            handle: self.handle,
            base: self.base,
            len: Out::from_address(self.len).get()?,
            offset: Out::from_address(self.offset).get()?,
            device_offset: Out::from_address(self.device_offset).get()?,
        })
    }
}

fn register(stream: usize, flags: c_uint) -> Result<(), Refusal> {
    if flags > 15 { Err(INVALID_ARGUMENT) } else { stream::is_done(stream).map(|_| ()) }
}

fn deregister(stream: usize) -> Result<(), Refusal> {
    stream::is_done(stream).map(|_| ())
}

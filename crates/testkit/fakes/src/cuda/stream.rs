//! Streams and events.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use crate::entry::{exports, in_callback};
use crate::status::{INVALID_VALUE, NOT_READY, Out, Refusal};
use crate::{context, stream};

/// `CUhostFn`
type Callback = Option<unsafe extern "C" fn(*mut c_void)>;

exports! {
    Context "cuStreamCreate" = create(out: Out<usize>, flags: c_uint) -> c_int;
    Init "cuStreamDestroy_v2" = destroy(stream: usize) -> c_int;
    Init "cuStreamSynchronize" = synchronize(stream: usize) -> c_int;
    Init "cuStreamQuery" = query(stream: usize) -> c_int;
    Init "cuStreamWaitEvent" = wait_event(stream: usize, event: usize, flags: c_uint) -> c_int;
    Init "cuLaunchHostFunc" = launch(stream: usize, callback: Callback, data: *mut c_void) -> c_int;
    Context "cuEventCreate" = create_event(out: Out<usize>, flags: c_uint) -> c_int;
    Init "cuEventDestroy_v2" = destroy_event(event: usize) -> c_int;
    Init "cuEventRecord" = record(event: usize, stream: usize) -> c_int;
    Init "cuEventQuery" = query_event(event: usize) -> c_int;
    Init "cuEventSynchronize" = synchronize_event(event: usize) -> c_int;
}

fn create(out: Out<usize>, flags: c_uint) -> Result<(), Refusal> {
    if out.is_null() || flags > 1 {
        return Err(INVALID_VALUE);
    }
    out.set(stream::create(context::current()?, flags)?)
}

fn destroy(stream: usize) -> Result<(), Refusal> {
    stream::destroy(stream)
}

fn synchronize(stream: usize) -> Result<(), Refusal> {
    stream::synchronize(stream)
}

fn query(stream: usize) -> Result<(), Refusal> {
    if stream::is_done(stream)? { Ok(()) } else { Err(NOT_READY) }
}

fn wait_event(stream: usize, event: usize, flags: c_uint) -> Result<(), Refusal> {
    if flags > 1 { Err(INVALID_VALUE) } else { stream::wait_event(stream, event) }
}

fn launch(stream: usize, callback: Callback, data: *mut c_void) -> Result<(), Refusal> {
    let callback = callback.ok_or(INVALID_VALUE)?;
    let data = data as usize;
    let call = move || {
        // SAFETY: whoever launched the callback guarantees that it may be called with `data`, once, on any thread.
        unsafe { callback(data as *mut c_void) };
    };
    stream::submit(stream, move || in_callback(call)).map(|_| ())
}

fn create_event(out: Out<usize>, flags: c_uint) -> Result<(), Refusal> {
    if out.is_null() || flags > 7 {
        return Err(INVALID_VALUE);
    }
    out.set(stream::create_event(context::current()?))
}

fn destroy_event(event: usize) -> Result<(), Refusal> {
    stream::destroy_event(event)
}

fn record(event: usize, stream: usize) -> Result<(), Refusal> {
    stream::record(event, stream)
}

fn query_event(event: usize) -> Result<(), Refusal> {
    if stream::is_event_done(event)? { Ok(()) } else { Err(NOT_READY) }
}

fn synchronize_event(event: usize) -> Result<(), Refusal> {
    stream::synchronize_event(event)
}

//! cuFile's driver: opening, closing, properties and versions.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_uint};

use super::{door, handle};
use crate::cells::{self, Cell};
use crate::entry::exports;
use crate::status::{DRIVER_NOT_OPEN, FileStatus, INVALID_ARGUMENT, INVALID_PROPERTY, Out, Refusal};

exports! {
    Process "cuFileDriverOpen" = open() -> FileStatus;
    Process "cuFileDriverClose" = close() -> FileStatus;
    Process "cuFileDriverClose_v2" = close() -> FileStatus;
    Nothing "cuFileUseCount" = use_count() -> c_long;
    Nothing "cuFileGetVersion" = version(out: Out<c_int>) -> FileStatus;
    Process "cuFileDriverGetProperties" = properties(out: Out<Properties>) -> FileStatus;
    Process "cuFileDriverSetPollMode" = set_poll_mode(is_on: bool, threshold_kib: usize) -> FileStatus;
    Process "cuFileDriverSetMaxDirectIOSize" = set_max_direct_io(kib: usize) -> FileStatus;
    Process "cuFileDriverSetMaxCacheSize" = set_max_cache(kib: usize) -> FileStatus;
    Process "cuFileDriverSetMaxPinnedMemSize" = set_max_pinned(kib: usize) -> FileStatus;
}

/// `CUfileDrvProps_t`
#[derive(Clone, Copy)]
#[repr(C)]
struct Properties {
    nvfs_major: c_uint,
    nvfs_minor: c_uint,
    poll_thresh_kib: usize,
    max_direct_io_kib: usize,
    status_flags: c_uint,
    control_flags: c_uint,
    feature_flags: c_uint,
    max_device_cache_kib: c_uint,
    per_buffer_cache_kib: c_uint,
    max_pinned_kib: c_uint,
    max_batch_io: c_uint,
    batch_timeout_ms: c_uint,
}

const _: () = assert!(size_of::<Properties>() == 56);

fn open() -> Result<(), Refusal> {
    let _held = door::hold();
    door::open()
}

/// The last close ends all registrations.
fn close() -> Result<(), Refusal> {
    let _held = door::hold();
    if cells::CUFILE_USE_COUNT.get() == 0 {
        return Err(DRIVER_NOT_OPEN);
    }
    if cells::CUFILE_USE_COUNT.add(-1) == 0 {
        handle::forget_all();
    }
    Ok(())
}

fn use_count() -> Result<c_long, Refusal> {
    Ok(cells::CUFILE_USE_COUNT.get())
}

fn version(out: Out<c_int>) -> Result<(), Refusal> {
    out.set(c_int::try_from(cells::CUFILE_VERSION.get()).map_err(|_| INVALID_ARGUMENT)?)
}

fn properties(out: Out<Properties>) -> Result<(), Refusal> {
    if out.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let word = |cell: &Cell| c_uint::try_from(cell.get()).map_err(|_| INVALID_PROPERTY);
    let size = |cell: &Cell| usize::try_from(cell.get()).map_err(|_| INVALID_PROPERTY);
    out.set(Properties {
        nvfs_major: word(&cells::NVFS_MAJOR)?,
        nvfs_minor: word(&cells::NVFS_MINOR)?,
        poll_thresh_kib: size(&cells::POLL_THRESH_KIB)?,
        max_direct_io_kib: size(&cells::MAX_DIRECT_IO_KIB)?,
        status_flags: word(&cells::STATUS_FLAGS)?,
        control_flags: word(&cells::CONTROL_FLAGS)?,
        feature_flags: word(&cells::FEATURE_FLAGS)?,
        max_device_cache_kib: word(&cells::MAX_DEVICE_CACHE_KIB)?,
        per_buffer_cache_kib: word(&cells::PER_BUFFER_CACHE_KIB)?,
        max_pinned_kib: word(&cells::MAX_PINNED_KIB)?,
        max_batch_io: word(&cells::MAX_BATCH_IO)?,
        batch_timeout_ms: word(&cells::BATCH_TIMEOUT_MS)?,
    })
}

fn set_poll_mode(is_on: bool, threshold_kib: usize) -> Result<(), Refusal> {
    set_size(&cells::POLL_THRESH_KIB, threshold_kib)?;
    cells::CONTROL_FLAGS.set(cells::CONTROL_FLAGS.get() & !1 | i64::from(is_on));
    Ok(())
}

fn set_max_direct_io(kib: usize) -> Result<(), Refusal> {
    set_size(&cells::MAX_DIRECT_IO_KIB, kib)
}

fn set_max_cache(kib: usize) -> Result<(), Refusal> {
    set_size(&cells::MAX_DEVICE_CACHE_KIB, kib)
}

fn set_max_pinned(kib: usize) -> Result<(), Refusal> {
    set_size(&cells::MAX_PINNED_KIB, kib)
}

/// Sizes are in units of pages.
fn set_size(cell: &Cell, kib: usize) -> Result<(), Refusal> {
    if kib == 0 || !kib.is_multiple_of(4) {
        return Err(INVALID_ARGUMENT);
    }
    cell.set(i64::try_from(kib).map_err(|_| INVALID_ARGUMENT)?);
    Ok(())
}

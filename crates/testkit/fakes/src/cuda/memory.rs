//! Allocation and registration of memory.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use crate::entry::exports;
use crate::memory::{self, Wanted};
use crate::status::{INVALID_VALUE, NOT_FOUND, Out, Refusal};
use crate::{context, stream};

exports! {
    Context "cuMemAlloc_v2" = alloc(out: Out<u64>, len: usize) -> c_int;
    Context "cuMemAllocManaged" = alloc_managed(out: Out<u64>, len: usize, flags: c_uint) -> c_int;
    Context "cuMemAllocAsync" = alloc_async(out: Out<u64>, len: usize, stream: usize) -> c_int;
    Init "cuMemFree_v2" = free(address: u64) -> c_int;
    Init "cuMemFreeAsync" = free_async(address: u64, stream: usize) -> c_int;
    Init "cuMemGetAddressRange_v2" = range(base: Out<u64>, len: Out<usize>, address: u64) -> c_int;
    Context "cuMemHostAlloc" = host_alloc(out: Out<usize>, len: usize, flags: c_uint) -> c_int;
    Init "cuMemFreeHost" = host_free(address: u64) -> c_int;
    Context "cuMemHostRegister_v2" = host_register(address: u64, len: usize, flags: c_uint) -> c_int;
    Init "cuMemHostUnregister" = host_unregister(address: u64) -> c_int;
}

fn alloc(out: Out<u64>, len: usize) -> Result<(), Refusal> {
    allocate(out, len, Wanted::Device)
}

fn alloc_managed(out: Out<u64>, len: usize, flags: c_uint) -> Result<(), Refusal> {
    if !(1..=4).contains(&flags) {
        return Err(INVALID_VALUE);
    }
    allocate(out, len, Wanted::Managed)
}

fn alloc_async(out: Out<u64>, len: usize, stream: usize) -> Result<(), Refusal> {
    // The address is given at once; that it may be used only behind this point of the stream is not checked.
    stream::submit(stream, || ())?;
    allocate(out, len, Wanted::Pool)
}

fn allocate(out: Out<u64>, len: usize, wanted: Wanted) -> Result<(), Refusal> {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    out.set(memory::allocate(context::current()?, len, wanted)?)
}

/// Like the driver, waits for all work on the device first.
fn free(address: u64) -> Result<(), Refusal> {
    stream::synchronize_all(None);
    memory::free(address).map(drop)
}

/// The memory is gone for new calls at once; copies that are queued keep its bytes.
fn free_async(address: u64, stream: usize) -> Result<(), Refusal> {
    // A bad stream must not cost the memory.
    stream::is_done(stream)?;
    let allocation = memory::free(address)?;
    stream::submit(stream, move || drop(allocation)).map(|_| ())
}

fn range(base: Out<u64>, len: Out<usize>, address: u64) -> Result<(), Refusal> {
    let allocation = memory::find(address).ok_or(NOT_FOUND)?;
    base.offer(allocation.address);
    len.offer(allocation.len);
    Ok(())
}

fn host_alloc(out: Out<usize>, len: usize, flags: c_uint) -> Result<(), Refusal> {
    if out.is_null() || flags > 7 {
        return Err(INVALID_VALUE);
    }
    let address = memory::host_allocate(context::current()?, len)?;
    out.set(usize::try_from(address).map_err(|_| INVALID_VALUE)?)
}

fn host_free(address: u64) -> Result<(), Refusal> {
    let allocation = memory::host_free(address)?;
    stream::synchronize_all(None);
    drop(allocation);
    Ok(())
}

fn host_register(address: u64, len: usize, flags: c_uint) -> Result<(), Refusal> {
    if flags > 15 {
        return Err(INVALID_VALUE);
    }
    memory::register(context::current()?, address, len)
}

fn host_unregister(address: u64) -> Result<(), Refusal> {
    let allocation = memory::unregister(address)?;
    stream::synchronize_all(None);
    drop(allocation);
    Ok(())
}

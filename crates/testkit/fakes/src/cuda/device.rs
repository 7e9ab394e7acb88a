//! Initialisation, devices and contexts.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};

use crate::entry::{self, exports};
use crate::status::{INVALID_VALUE, Out, Refusal};
use crate::{cells, context, stream};

exports! {
    Process "cuInit" = init(flags: c_uint) -> c_int;
    Init "cuDeviceGet" = get(out: Out<c_int>, ordinal: c_int) -> c_int;
    Init "cuDeviceGetCount" = count(out: Out<c_int>) -> c_int;
    Init "cuDeviceGetName" = name(out: Out<c_char>, len: c_int, device: c_int) -> c_int;
    Init "cuDeviceGetPCIBusId" = pci_bus_id(out: Out<c_char>, len: c_int, device: c_int) -> c_int;
    Init "cuDeviceGetAttribute" = attribute(out: Out<c_int>, which: c_int, device: c_int) -> c_int;
    Init "cuDeviceTotalMem_v2" = total_memory(out: Out<usize>, device: c_int) -> c_int;
    Init "cuDevicePrimaryCtxRetain" = retain(out: Out<usize>, device: c_int) -> c_int;
    Init "cuDevicePrimaryCtxRelease_v2" = release(device: c_int) -> c_int;
    Init "cuCtxPushCurrent_v2" = push(context: usize) -> c_int;
    Init "cuCtxPopCurrent_v2" = pop(out: Out<usize>) -> c_int;
    Init "cuCtxSetCurrent" = set(context: usize) -> c_int;
    Init "cuCtxGetCurrent" = current(out: Out<usize>) -> c_int;
    Context "cuCtxGetDevice" = current_device(out: Out<c_int>) -> c_int;
    Context "cuCtxSynchronize" = synchronize() -> c_int;
}

fn init(flags: c_uint) -> Result<(), Refusal> {
    if flags == 0 { entry::initialise() } else { Err(INVALID_VALUE) }
}

fn get(out: Out<c_int>, ordinal: c_int) -> Result<(), Refusal> {
    context::check_device(ordinal)?;
    out.set(ordinal)
}

fn count(out: Out<c_int>) -> Result<(), Refusal> {
    out.set(c_int::try_from(cells::DEVICES.get()).map_err(|_| INVALID_VALUE)?)
}

fn name(out: Out<c_char>, len: c_int, device: c_int) -> Result<(), Refusal> {
    context::check_device(device)?;
    put_text(out, len, &format!("Fake GPU {device}"))
}

fn pci_bus_id(out: Out<c_char>, len: c_int, device: c_int) -> Result<(), Refusal> {
    context::check_device(device)?;
    put_text(out, len, &format!("0000:{:02X}:00.0", 0x10 + device))
}

/// Writes as much of `text` as fits, always terminated.
fn put_text(out: Out<c_char>, len: c_int, text: &str) -> Result<(), Refusal> {
    let room = usize::try_from(len).ok().and_then(|len| len.checked_sub(1)).ok_or(INVALID_VALUE)?;
    let bytes = text.bytes().take(room).chain([0]);
    bytes.enumerate().try_for_each(|(index, byte)| out.at(index).set(c_char::from_ne_bytes([byte])))
}

fn attribute(out: Out<c_int>, which: c_int, device: c_int) -> Result<(), Refusal> {
    context::check_device(device)?;
    out.set(match which {
        16 => 4,                       // multiprocessors
        33 => 0x10 + device,           // PCI bus
        34 | 50 => 0,                  // PCI device, PCI domain
        75 => 9,                       // compute capability, major
        76 => 0,                       // and minor
        41 | 83 | 89 | 115 | 116 => 1, // unified addressing, managed memory, concurrent access, pools, GPUDirect RDMA
        1..=150 => 0,
        _ => return Err(INVALID_VALUE),
    })
}

fn total_memory(out: Out<usize>, device: c_int) -> Result<(), Refusal> {
    context::check_device(device)?;
    out.set(usize::try_from(cells::DEVICE_MEMORY.get()).map_err(|_| INVALID_VALUE)?)
}

fn retain(out: Out<usize>, device: c_int) -> Result<(), Refusal> {
    out.set(context::retain(device)?)
}

fn release(device: c_int) -> Result<(), Refusal> {
    context::release(device)
}

fn push(context: usize) -> Result<(), Refusal> {
    context::push(context)
}

fn pop(out: Out<usize>) -> Result<(), Refusal> {
    let popped = context::pop()?;
    out.offer(popped);
    Ok(())
}

fn set(context: usize) -> Result<(), Refusal> {
    context::set(context)
}

fn current(out: Out<usize>) -> Result<(), Refusal> {
    out.set(context::top())
}

fn current_device(out: Out<c_int>) -> Result<(), Refusal> {
    out.set(context::current()?)
}

fn synchronize() -> Result<(), Refusal> {
    stream::synchronize_all(Some(context::current()?));
    Ok(())
}

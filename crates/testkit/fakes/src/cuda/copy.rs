//! Copies and fills.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::copy::{CopyPlan, Direction, fill};
use crate::entry::exports;
use crate::status::Refusal;

exports! {
    Context "cuMemcpyHtoD_v2" = to_device(to: u64, from: u64, len: usize) -> c_int;
    Context "cuMemcpyDtoH_v2" = to_host(to: u64, from: u64, len: usize) -> c_int;
    Context "cuMemcpyDtoD_v2" = on_device(to: u64, from: u64, len: usize) -> c_int;
    Context "cuMemcpy" = any(to: u64, from: u64, len: usize) -> c_int;
    Init "cuMemcpyHtoDAsync_v2" = to_device_async(to: u64, from: u64, len: usize, stream: usize) -> c_int;
    Init "cuMemcpyDtoHAsync_v2" = to_host_async(to: u64, from: u64, len: usize, stream: usize) -> c_int;
    Init "cuMemcpyDtoDAsync_v2" = on_device_async(to: u64, from: u64, len: usize, stream: usize) -> c_int;
    Init "cuMemcpyAsync" = any_async(to: u64, from: u64, len: usize, stream: usize) -> c_int;
    Context "cuMemsetD8_v2" = set(to: u64, value: u8, len: usize) -> c_int;
    Init "cuMemsetD8Async" = set_async(to: u64, value: u8, len: usize, stream: usize) -> c_int;
}

fn to_device(to: u64, from: u64, len: usize) -> Result<(), Refusal> {
    CopyPlan::new(Direction::HostToDevice, to, from, len)?.run()
}

fn to_host(to: u64, from: u64, len: usize) -> Result<(), Refusal> {
    CopyPlan::new(Direction::DeviceToHost, to, from, len)?.run()
}

fn on_device(to: u64, from: u64, len: usize) -> Result<(), Refusal> {
    CopyPlan::new(Direction::DeviceToDevice, to, from, len)?.run()
}

fn any(to: u64, from: u64, len: usize) -> Result<(), Refusal> {
    CopyPlan::new(Direction::Any, to, from, len)?.run()
}

fn to_device_async(to: u64, from: u64, len: usize, stream: usize) -> Result<(), Refusal> {
    CopyPlan::new(Direction::HostToDevice, to, from, len)?.queue(stream)
}

fn to_host_async(to: u64, from: u64, len: usize, stream: usize) -> Result<(), Refusal> {
    CopyPlan::new(Direction::DeviceToHost, to, from, len)?.queue(stream)
}

fn on_device_async(to: u64, from: u64, len: usize, stream: usize) -> Result<(), Refusal> {
    CopyPlan::new(Direction::DeviceToDevice, to, from, len)?.queue(stream)
}

fn any_async(to: u64, from: u64, len: usize, stream: usize) -> Result<(), Refusal> {
    CopyPlan::new(Direction::Any, to, from, len)?.queue(stream)
}

/// Like the driver's, returns before the fill is done; it is in the order of the default stream.
fn set(to: u64, value: u8, len: usize) -> Result<(), Refusal> {
    fill(to, value, len, 0)
}

fn set_async(to: u64, value: u8, len: usize, stream: usize) -> Result<(), Refusal> {
    fill(to, value, len, stream)
}

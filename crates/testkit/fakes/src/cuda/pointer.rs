//! What the driver says about an address.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use crate::entry::exports;
use crate::memory::{self, Allocation, Kind};
use crate::status::{INVALID_VALUE, Out, Refusal};
use crate::{context, violations};

exports! {
    Init "cuPointerGetAttribute" = one(out: usize, attribute: c_int, address: u64) -> c_int;
    Init "cuPointerGetAttributes" = several(count: c_uint, which: Out<c_int>, outs: Out<usize>, address: u64) -> c_int;
}

const CONTEXT: c_int = 1;
const MEMORY_TYPE: c_int = 2;
const DEVICE_POINTER: c_int = 3;
const HOST_POINTER: c_int = 4;
const IS_MANAGED: c_int = 8;
const DEVICE_ORDINAL: c_int = 9;
const RANGE_START: c_int = 11;
const RANGE_SIZE: c_int = 12;
const IS_MAPPED: c_int = 13;

const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

/// An address that the driver does not know is an error here, unlike in the plural.
fn one(out: usize, attribute: c_int, address: u64) -> Result<(), Refusal> {
    let allocation = memory::find(address).ok_or(INVALID_VALUE)?;
    put(out, attribute, address, Some(&allocation))
}

fn several(count: c_uint, which: Out<c_int>, outs: Out<usize>, address: u64) -> Result<(), Refusal> {
    if count == 0 {
        return Err(INVALID_VALUE);
    }
    let allocation = memory::find(address);
    (0..usize::try_from(count).map_err(|_| INVALID_VALUE)?).try_for_each(|index| {
        put(outs.at(index).get()?, which.at(index).get()?, address, allocation.as_deref())
    })
}

/// Writes one attribute, in the width that it has in the header.
fn put(out: usize, attribute: c_int, address: u64, known: Option<&Allocation>) -> Result<(), Refusal> {
    let kind = known.map(|allocation| &allocation.kind);
    let is_managed = matches!(kind, Some(Kind::Managed(_)));
    match (attribute, known) {
        (CONTEXT, Some(known)) if !matches!(known.kind, Kind::Pool(_)) => {
            Out::from_address(out).set(context::handle_of(known.device))
        }
        (CONTEXT, _) => Out::from_address(out).set(0usize),
        (MEMORY_TYPE, None) => Out::from_address(out).set(0 as c_uint),
        (MEMORY_TYPE, Some(known)) if known.pages().is_some() => Out::from_address(out).set(DEVICE),
        (MEMORY_TYPE, Some(_)) => Out::from_address(out).set(HOST),
        (DEVICE_ORDINAL, known) => Out::from_address(out).set(known.map_or(-2, |known| known.device)),
        (IS_MANAGED, _) => Out::from_address(out).set(c_uint::from(is_managed)),
        (DEVICE_POINTER, Some(_)) => Out::from_address(out).set(address),
        (DEVICE_POINTER, None) => Out::from_address(out).set(0u64),
        (HOST_POINTER, Some(known)) if is_managed || known.pages().is_none() => {
            Out::from_address(out).set(address)
        }
        (HOST_POINTER, _) => Out::from_address(out).set(0u64),
        (IS_MAPPED, known) => Out::from_address(out).set(c_uint::from(known.is_some())),
        (RANGE_START, Some(known)) => Out::from_address(out).set(known.address),
        (RANGE_SIZE, Some(known)) => Out::from_address(out).set(known.len),
        // Left alone, as the driver does.
        (RANGE_START | RANGE_SIZE, None) => Ok(()),
        _ => {
            violations::violation(format!("pointer attribute {attribute} is not known to this double"));
            Err(INVALID_VALUE)
        }
    }
}

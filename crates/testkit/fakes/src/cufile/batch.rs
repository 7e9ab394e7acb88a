//! Batches: the transfers run when they are submitted, and their events wait to be collected.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_uint};
use std::sync::Mutex;

use super::transfer::{Request, Way};
use crate::cells;
use crate::context;
use crate::entry::exports;
use crate::lock::lock;
use crate::status::{BATCH_FULL, FileStatus, INVALID_ARGUMENT, Out, Refusal};

exports! {
    Process "cuFileBatchIOSetUp" = set_up(out: Out<usize>, capacity: c_uint) -> FileStatus;
    Process "cuFileBatchIOSubmit" = submit(batch: usize, count: c_uint, entries: Out<Entry>, flags: c_uint) -> FileStatus;
    Process "cuFileBatchIOGetStatus" = collect(
        batch: usize, least: c_uint, count: Out<c_uint>, events: Out<Event>, timeout: usize) -> FileStatus;
    Process "cuFileBatchIOCancel" = cancel(batch: usize) -> FileStatus;
    Process "cuFileBatchIODestroy" = destroy(batch: usize) -> ();
}

const FIRST_BATCH: usize = 0xBA_0000;
const COMPLETE: c_int = 16;
const FAILED: c_int = 64;
const READ: c_int = 0;

/// `CUfileIOParams_t`
#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    mode: c_int,
    base: u64,
    offset: i64,
    device_offset: i64,
    len: usize,
    handle: usize,
    opcode: c_int,
    cookie: usize,
}

/// `CUfileIOEvents_t`
#[derive(Clone, Copy)]
#[repr(C)]
struct Event {
    cookie: usize,
    status: c_int,
    count: usize,
}

const _: () = assert!(size_of::<Entry>() == 64);
const _: () = assert!(size_of::<Event>() == 24);

struct Batch {
    capacity: usize,
    events: VecDeque<Event>,
}

static BATCHES: Mutex<BTreeMap<usize, Batch>> = Mutex::new(BTreeMap::new());

fn set_up(out: Out<usize>, capacity: c_uint) -> Result<(), Refusal> {
    if out.is_null() || capacity == 0 || i64::from(capacity) > cells::MAX_BATCH_IO.get() {
        return Err(INVALID_ARGUMENT);
    }
    let mut batches = lock(&BATCHES);
    let handle = batches.last_key_value().map_or(FIRST_BATCH, |(last, _)| last + 0x10);
    let capacity = usize::try_from(capacity).map_err(|_| INVALID_ARGUMENT)?;
    batches.insert(handle, Batch { capacity, events: VecDeque::new() });
    out.set(handle)
}

fn submit(batch: usize, count: c_uint, entries: Out<Entry>, _flags: c_uint) -> Result<(), Refusal> {
    let device = context::current()?;
    let mut batches = lock(&BATCHES);
    let batch = batches.get_mut(&batch).ok_or(INVALID_ARGUMENT)?;
    let count = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
    if batch.events.len() + count > batch.capacity {
        return Err(BATCH_FULL);
    }
    for index in 0..count {
        let Entry { mode, base, offset, device_offset, len, handle, opcode, cookie } =
            entries.at(index).get()?;
        if mode != 1 {
            return Err(INVALID_ARGUMENT);
        }
        let way = if opcode == READ { Way::Read } else { Way::Write };
        let event = match (Request { way, handle, base, len, offset, device_offset }).run(device) {
            Ok(count) => Event { cookie, status: COMPLETE, count },
            Err(_) => Event { cookie, status: FAILED, count: 0 },
        };
        batch.events.push_back(event);
    }
    Ok(())
}

fn collect(
    batch: usize,
    least: c_uint,
    count: Out<c_uint>,
    events: Out<Event>,
    _timeout: usize,
) -> Result<(), Refusal> {
    let mut batches = lock(&BATCHES);
    let batch = batches.get_mut(&batch).ok_or(INVALID_ARGUMENT)?;
    let room = count.get()?;
    if least > room {
        return Err(INVALID_ARGUMENT);
    }
    let mut given = 0;
    while given < room {
        let Some(event) = batch.events.pop_front() else { break };
        events.at(usize::try_from(given).map_err(|_| INVALID_ARGUMENT)?).set(event)?;
        given += 1;
    }
    count.set(given)
}

fn cancel(batch: usize) -> Result<(), Refusal> {
    lock(&BATCHES).get_mut(&batch).map(|batch| batch.events.clear()).ok_or(INVALID_ARGUMENT)
}

fn destroy(batch: usize) -> Result<(), Refusal> {
    lock(&BATCHES).remove(&batch).map(|_| ()).ok_or(INVALID_ARGUMENT)
}

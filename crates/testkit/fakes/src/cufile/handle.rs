//! Registered files and buffers.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::door::open_if_closed;
use crate::cells;
use crate::entry::exports;
use crate::lock::lock;
use crate::memory::{self, Allocation};
use crate::status::{
    BAD_FILE_TYPE, BAD_MEMORY_TYPE, BAD_OPEN_FLAGS, BEYOND_ALLOCATION, BUFFER_ALREADY_REGISTERED,
    BUFFER_NOT_REGISTERED, CONTEXT_MISMATCH, FileStatus, HANDLE_ALREADY_REGISTERED, HANDLE_NOT_REGISTERED,
    INVALID_ARGUMENT, NOT_DIRECT, Out, Refusal,
};
use crate::violations::violation;
use crate::{context, stream};

exports! {
    Process "cuFileHandleRegister" = register(out: Out<usize>, descriptor: Out<Descriptor>) -> FileStatus;
    Process "cuFileHandleDeregister" = deregister(handle: usize) -> ();
    Process "cuFileBufRegister" = register_buffer(base: u64, len: usize, flags: c_int) -> FileStatus;
    Process "cuFileBufDeregister" = deregister_buffer(base: u64) -> FileStatus;
}

const FIRST_HANDLE: usize = 0xF1_0000;
const OPAQUE_FD: c_int = 1;

/// `CUfileDescr_t`; the descriptor is the first member of a union as wide as a pointer.
#[derive(Clone, Copy)]
#[repr(C)]
struct Descriptor {
    kind: c_int,
    _padding: c_int,
    fd: c_int,
    _union_rest: c_int,
    _fs_ops: usize,
}

const _: () = assert!(size_of::<Descriptor>() == 24);

/// Which file a descriptor stands for, so that one closed and opened anew is noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// A registered file.
pub(crate) struct Registration {
    pub(crate) fd: c_int,
    pub(crate) is_direct: bool,
    id: FileId,
    running: AtomicUsize,
}

#[derive(Default)]
struct Table {
    created: usize,
    files: BTreeMap<usize, Arc<Registration>>,
    buffers: BTreeMap<u64, Arc<Allocation>>,
}

static TABLE: Mutex<Table> =
    Mutex::new(Table { created: 0, files: BTreeMap::new(), buffers: BTreeMap::new() });

fn stat(fd: c_int) -> Option<libc::stat> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: a place for the answer; a descriptor that is not open is answered by a status.
    let status = unsafe { libc::fstat(fd, stat.as_mut_ptr()) };
    // SAFETY: the kernel filled it in, since it answered success.
    (status == 0).then(|| unsafe { stat.assume_init() })
}

fn file_id(fd: c_int) -> Option<FileId> {
    stat(fd).map(|stat| FileId { device: stat.st_dev, inode: stat.st_ino })
}

fn open_flags(fd: c_int) -> c_int {
    // SAFETY: asks for flags; a descriptor that is not open is answered by a status.
    unsafe { libc::fcntl(fd, libc::F_GETFL) }
}

impl Registration {
    fn new(fd: c_int) -> Result<Self, Refusal> {
        let stat = stat(fd).ok_or(INVALID_ARGUMENT)?;
        if !matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK) {
            return Err(BAD_FILE_TYPE);
        }
        let flags = open_flags(fd);
        if flags & (libc::O_PATH | libc::O_APPEND) != 0 {
            return Err(BAD_OPEN_FLAGS);
        }
        let is_direct = flags & libc::O_DIRECT != 0;
        if !is_direct && cells::REQUIRE_DIRECT.get() != 0 {
            return Err(NOT_DIRECT);
        }
        let id = FileId { device: stat.st_dev, inode: stat.st_ino };
        Ok(Self { fd, is_direct, id, running: AtomicUsize::new(0) })
    }

    /// True while the descriptor stands for the file that was registered.
    fn is_same_file(&self) -> bool {
        file_id(self.fd) == Some(self.id)
    }

    /// The access mode of the descriptor (`O_RDONLY`, `O_WRONLY`, `O_RDWR`).
    pub(crate) fn access(&self) -> c_int {
        open_flags(self.fd) & libc::O_ACCMODE
    }
}

fn register(out: Out<usize>, descriptor: Out<Descriptor>) -> Result<(), Refusal> {
    if out.is_null() || descriptor.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    open_if_closed()?;
    let status = c_int::try_from(cells::REGISTER_STATUS.get()).unwrap_or(-1);
    if status != 0 {
        return Err(Refusal::CuFile(status));
    }
    let Descriptor { kind, fd, .. } = descriptor.get()?;
    if kind != OPAQUE_FD {
        return Err(INVALID_ARGUMENT);
    }
    let registration = Registration::new(fd)?;
    let mut table = lock(&TABLE);
    if let Some(other) = table.files.values().find(|other| other.fd == fd) {
        if other.id == registration.id {
            return Err(HANDLE_ALREADY_REGISTERED);
        }
        violation(format!("descriptor {fd} was closed while registered with cuFile"));
    }
    table.created += 1;
    let handle = FIRST_HANDLE + table.created * 0x10;
    table.files.insert(handle, Arc::new(registration));
    cells::REGISTERED_HANDLES.add(1);
    out.set(handle)
}

fn deregister(handle: usize) -> Result<(), Refusal> {
    let Some(registration) = lock(&TABLE).files.remove(&handle) else {
        violation(format!("cuFile handle {handle:#x} was deregistered, but is not registered"));
        return Err(HANDLE_NOT_REGISTERED);
    };
    cells::REGISTERED_HANDLES.add(-1);
    if registration.running.load(Ordering::SeqCst) > 0 {
        violation(format!("descriptor {} was deregistered while a transfer was running", registration.fd));
    }
    if !registration.is_same_file() {
        violation(format!("descriptor {} was closed before it was deregistered", registration.fd));
    }
    Ok(())
}

/// Ends all registrations, as closing the driver does.
pub(crate) fn forget_all() {
    let mut table = lock(&TABLE);
    let (files, buffers) = (std::mem::take(&mut table.files), std::mem::take(&mut table.buffers));
    drop(table);
    cells::REGISTERED_HANDLES.set(0);
    cells::REGISTERED_BUFFERS.set(0);
    for buffer in buffers.values() {
        buffer.registrations.fetch_sub(1, Ordering::SeqCst);
    }
    if files.values().any(|file| file.running.load(Ordering::SeqCst) > 0) {
        violation("cuFile's driver was closed while a transfer was running".to_owned());
    }
}

/// A registered file with a transfer running on it, until dropped.
pub(crate) struct Running(Arc<Registration>);

impl Running {
    pub(crate) fn start(handle: usize) -> Result<Self, Refusal> {
        let registration = lock(&TABLE).files.get(&handle).map(Arc::clone).ok_or(HANDLE_NOT_REGISTERED)?;
        registration.running.fetch_add(1, Ordering::SeqCst);
        if !registration.is_same_file() {
            violation(format!("descriptor {} was closed while registered with cuFile", registration.fd));
        }
        Ok(Self(registration))
    }

    pub(crate) fn file(&self) -> &Registration {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The device allocation at `base`, and where in it `len` bytes at `base + device_offset` begin.
pub(crate) fn device_range(
    device: i32,
    base: u64,
    device_offset: i64,
    len: usize,
) -> Result<(Arc<Allocation>, usize), Refusal> {
    let allocation = memory::find(base).ok_or(BAD_MEMORY_TYPE)?;
    if allocation.pages().is_none() {
        return Err(BAD_MEMORY_TYPE);
    }
    if allocation.device != device {
        return Err(CONTEXT_MISMATCH);
    }
    let start = base.checked_add_signed(device_offset).ok_or(INVALID_ARGUMENT)?;
    if !allocation.contains(start, len) {
        return Err(BEYOND_ALLOCATION);
    }
    let at = usize::try_from(start - allocation.address).map_err(|_| BEYOND_ALLOCATION)?;
    Ok((allocation, at))
}

fn register_buffer(base: u64, len: usize, _flags: c_int) -> Result<(), Refusal> {
    open_if_closed()?;
    if len == 0 {
        return Err(INVALID_ARGUMENT);
    }
    let (allocation, _) = device_range(context::current()?, base, 0, len)?;
    let mut table = lock(&TABLE);
    if table.buffers.contains_key(&base) {
        return Err(BUFFER_ALREADY_REGISTERED);
    }
    allocation.registrations.fetch_add(1, Ordering::SeqCst);
    table.buffers.insert(base, allocation);
    cells::REGISTERED_BUFFERS.add(1);
    Ok(())
}

fn deregister_buffer(base: u64) -> Result<(), Refusal> {
    let allocation = lock(&TABLE).buffers.remove(&base).ok_or(BUFFER_NOT_REGISTERED)?;
    allocation.registrations.fetch_sub(1, Ordering::SeqCst);
    cells::REGISTERED_BUFFERS.add(-1);
    // A real deregistration ends the mapping of the pages, which queued work may still need.
    stream::synchronize_all(None);
    Ok(())
}

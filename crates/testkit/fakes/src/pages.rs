//! The bytes of "device" memory: ranges of one file in memory, at addresses that the CPU may or may not touch.
//!
//! The doubles' own copies go through the file's descriptor. The kernel then checks the host's side of each copy: a
//! buffer that is no longer mapped gives an error instead of a crash.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use crate::lock::lock;

pub(crate) const PAGE: usize = 4096;

struct Store {
    file: Arc<File>,
    next: u64,
}

/// Ranges are never used twice, so stale bytes cannot turn up; freed ones give their memory back.
static STORE: Mutex<Option<Store>> = Mutex::new(None);

/// A range of device memory. Dropping it frees the memory and the address.
pub(crate) struct Pages {
    file: Arc<File>,
    offset: u64,
    address: u64,
    mapped: usize,
}

/// `len` rounded up to whole pages.
pub(crate) fn whole_pages(len: usize) -> usize {
    len.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX - PAGE + 1)
}

fn reserve(mapped: usize) -> io::Result<(Arc<File>, u64)> {
    let mut store = lock(&STORE);
    if store.is_none() {
        // SAFETY: a terminated name and a known flag.
        let fd = unsafe { libc::memfd_create(c"kvikio-fake-device".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just answered this descriptor; nobody else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        *store = Some(Store { file: Arc::new(file), next: 0 });
    }
    let Some(store) = store.as_mut() else { return Err(io::ErrorKind::OutOfMemory.into()) };
    let offset = store.next;
    store.file.set_len(offset + mapped as u64)?;
    store.next = offset + mapped as u64;
    Ok((Arc::clone(&store.file), offset))
}

impl Pages {
    /// Takes `len` bytes, zeroed; the CPU may touch them where `is_visible`, else touching them is a fault.
    pub(crate) fn new(len: usize, is_visible: bool) -> io::Result<Self> {
        let mapped = whole_pages(len);
        let (file, offset) = reserve(mapped)?;
        let access = if is_visible { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        let start = i64::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the kernel's choice, of a range that lies within the file.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), mapped, access, libc::MAP_SHARED, file.as_raw_fd(), start)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file, offset, address: address as u64, mapped })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Copies the `len` bytes at the host address `from` to `at` within the range.
    pub(crate) fn store_from(&self, at: usize, from: usize, len: usize) -> io::Result<()> {
        self.step_through(at, len, |done, rest, offset| {
            // SAFETY: the kernel only reads the host's bytes, and answers with an error where there are none.
            unsafe { libc::pwrite(self.file.as_raw_fd(), (from + done) as *const c_void, rest, offset) }
        })
    }

    /// Copies `len` bytes from `at` within the range to the host address `to`.
    pub(crate) fn load_to(&self, at: usize, to: usize, len: usize) -> io::Result<()> {
        self.step_through(at, len, |done, rest, offset| {
            // SAFETY: the caller of the exported function named `to` as the destination of `len` bytes, so they are
            // its to give away; where nothing is mapped the kernel answers with an error.
            unsafe { libc::pread(self.file.as_raw_fd(), (to + done) as *mut c_void, rest, offset) }
        })
    }

    fn step_through(
        &self,
        at: usize,
        len: usize,
        step: impl Fn(usize, usize, i64) -> isize,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let offset = i64::try_from(self.offset + (at + done) as u64).map_err(io::Error::other)?;
            match usize::try_from(step(done, len - done, offset)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.offset + at as u64)
    }

    pub(crate) fn read(&self, at: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, self.offset + at as u64)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `new`, and only its owner, which ends here, ends it.
        let unmapped = unsafe { libc::munmap(self.address as *mut c_void, self.mapped) };
        debug_assert_eq!(unmapped, 0);
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let range = (i64::try_from(self.offset), i64::try_from(self.mapped));
        if let (Ok(offset), Ok(len)) = range {
            // SAFETY: an open file and a range within it that nobody else uses. A failure only keeps memory longer.
            unsafe { libc::fallocate(self.file.as_raw_fd(), punch, offset, len) };
        }
    }
}

/// Page-aligned host memory, zeroed. Dropping it unmaps it.
pub(crate) struct HostPages {
    address: usize,
    mapped: usize,
}

impl HostPages {
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let mapped = whole_pages(len);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address: address as usize, mapped })
    }

    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// The bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `mapped` bytes long, readable and writable, and borrowed mutably with `self`; this is
        // only used for memory that no program was given the address of.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.mapped) }
    }
}

impl Drop for HostPages {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `new`, and only its owner, which ends here, ends it.
        let unmapped = unsafe { libc::munmap(self.address as *mut c_void, self.mapped) };
        debug_assert_eq!(unmapped, 0);
    }
}

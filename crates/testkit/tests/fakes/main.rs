//! The doubles of CUDA and cuFile behave as the real libraries do, and notice what those let pass by luck.
#![allow(unsafe_code)] // The tables' functions are unsafe to call; each use upholds what it tests.
#![allow(clippy::unwrap_used)] // Helpers of tests, which Clippy does not count as tests.

mod control;
mod cufile;
mod extras;
mod memory;
mod process;
mod streams;

use kvikio_sys::cuda::Table;
use kvikio_testkit::fakes::{Control, Fakes};

/// A fresh instance with a context of device 0 current on this thread.
struct Bench {
    fakes: Fakes,
    cuda: Table,
    control: Control,
}

impl Bench {
    fn new() -> Self {
        let fakes = Fakes::install();
        let (cuda, control) = (fakes.cuda(), fakes.control());
        assert_eq!(cuda.start(), Ok(2));
        let context = cuda.primary_context(0).unwrap();
        cuda.push_context(context).unwrap();
        Self { fakes, cuda, control }
    }

    /// Page-locked memory with `bytes` in it.
    fn pinned(&self, bytes: &[u8]) -> *mut u8 {
        let address = self.cuda.host_alloc(bytes.len(), 1).unwrap();
        // SAFETY: just allocated, as long as `bytes`.
        unsafe { address.copy_from(bytes.as_ptr(), bytes.len()) };
        address
    }

    fn assert_clean(&self) {
        assert_eq!(self.control.violation(), None);
    }
}

/// The bytes at a host address that a test owns.
fn at(address: *const u8, len: usize) -> Vec<u8> {
    // SAFETY: every caller passes memory of its own of at least `len` bytes.
    unsafe { std::slice::from_raw_parts(address, len) }.to_vec()
}

/// Bytes that differ from their neighbours and from page to page.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 7 + at / 4096) % 251).unwrap()).collect()
}

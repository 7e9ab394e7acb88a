//! Statuses, how each C return type carries them, and the place where a C caller wants an answer.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A status of the CUDA driver.
    Cuda(i32),
    /// A status of cuFile.
    CuFile(i32),
    /// An `errno`.
    System(i32),
}

pub(crate) const INVALID_VALUE: Refusal = Refusal::Cuda(1);
pub(crate) const OUT_OF_MEMORY: Refusal = Refusal::Cuda(2);
pub(crate) const NOT_INITIALIZED: Refusal = Refusal::Cuda(3);
pub(crate) const STUB_LIBRARY: Refusal = Refusal::Cuda(34);
pub(crate) const NO_DEVICE: Refusal = Refusal::Cuda(100);
pub(crate) const INVALID_DEVICE: Refusal = Refusal::Cuda(101);
pub(crate) const INVALID_CONTEXT: Refusal = Refusal::Cuda(201);
pub(crate) const INVALID_HANDLE: Refusal = Refusal::Cuda(400);
pub(crate) const NOT_FOUND: Refusal = Refusal::Cuda(500);
pub(crate) const NOT_READY: Refusal = Refusal::Cuda(600);
pub(crate) const ALREADY_REGISTERED: Refusal = Refusal::Cuda(712);
pub(crate) const NOT_REGISTERED: Refusal = Refusal::Cuda(713);
pub(crate) const NOT_PERMITTED: Refusal = Refusal::Cuda(800);
pub(crate) const UNKNOWN: Refusal = Refusal::Cuda(999);

pub(crate) const DRIVER_NOT_OPEN: Refusal = Refusal::CuFile(5001);
pub(crate) const INVALID_PROPERTY: Refusal = Refusal::CuFile(5002);
pub(crate) const BAD_MEMORY_TYPE: Refusal = Refusal::CuFile(5013);
pub(crate) const BEYOND_ALLOCATION: Refusal = Refusal::CuFile(5014);
pub(crate) const CONTEXT_MISMATCH: Refusal = Refusal::CuFile(5015);
pub(crate) const BAD_FILE_TYPE: Refusal = Refusal::CuFile(5018);
pub(crate) const BAD_OPEN_FLAGS: Refusal = Refusal::CuFile(5019);
pub(crate) const NOT_DIRECT: Refusal = Refusal::CuFile(5020);
pub(crate) const INVALID_ARGUMENT: Refusal = Refusal::CuFile(5022);
pub(crate) const BUFFER_ALREADY_REGISTERED: Refusal = Refusal::CuFile(5023);
pub(crate) const BUFFER_NOT_REGISTERED: Refusal = Refusal::CuFile(5024);
pub(crate) const HANDLE_NOT_REGISTERED: Refusal = Refusal::CuFile(5027);
pub(crate) const HANDLE_ALREADY_REGISTERED: Refusal = Refusal::CuFile(5028);
pub(crate) const BATCH_FULL: Refusal = Refusal::CuFile(5037);

/// `CUfileError_t`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct FileStatus {
    op: c_int,
    driver: c_int,
}

/// A C return type.
pub(crate) trait Answer<T>: Sized {
    /// The outcome of a call, in this type.
    fn answer(outcome: Result<T, Refusal>) -> Self;

    /// What a status given by a test means for a function with this type.
    fn planned(status: i32) -> Refusal;
}

/// Functions of the CUDA driver.
impl Answer<()> for c_int {
    fn answer(outcome: Result<(), Refusal>) -> Self {
        match outcome {
            Ok(()) => 0,
            Err(Refusal::Cuda(status) | Refusal::CuFile(status) | Refusal::System(status)) => status,
        }
    }

    fn planned(status: i32) -> Refusal {
        Refusal::Cuda(status)
    }
}

/// Functions of cuFile that move no bytes; a planned status below 5000 is one of CUDA's.
impl Answer<()> for FileStatus {
    fn answer(outcome: Result<(), Refusal>) -> Self {
        match outcome {
            Ok(()) => Self { op: 0, driver: 0 },
            Err(Refusal::Cuda(status)) => Self { op: 5011, driver: status },
            Err(Refusal::CuFile(status) | Refusal::System(status)) => Self { op: status, driver: 0 },
        }
    }

    fn planned(status: i32) -> Refusal {
        if status < 5000 { Refusal::Cuda(status) } else { Refusal::CuFile(status) }
    }
}

/// Reads and writes of cuFile; a planned status below 5000 is an `errno`.
impl Answer<usize> for isize {
    fn answer(outcome: Result<usize, Refusal>) -> Self {
        let negated = |status: i32| -Self::try_from(status).unwrap_or(Self::MAX);
        match outcome {
            Ok(count) => Self::try_from(count).unwrap_or(Self::MAX),
            Err(Refusal::Cuda(_)) => -5011,
            Err(Refusal::CuFile(status)) => negated(status),
            Err(Refusal::System(errno)) => {
                set_errno(errno);
                -1
            }
        }
    }

    fn planned(status: i32) -> Refusal {
        if status < 5000 { Refusal::System(status) } else { Refusal::CuFile(status) }
    }
}

/// Functions that answer nothing.
impl Answer<()> for () {
    fn answer(_: Result<(), Refusal>) -> Self {}

    fn planned(status: i32) -> Refusal {
        Refusal::CuFile(status)
    }
}

/// `cuFileUseCount`.
impl Answer<c_long> for c_long {
    fn answer(outcome: Result<c_long, Refusal>) -> Self {
        outcome.unwrap_or(-1)
    }

    fn planned(status: i32) -> Refusal {
        Refusal::CuFile(status)
    }
}

fn set_errno(errno: i32) {
    // SAFETY: the C library answers the address of the calling thread's own errno, which is always valid.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = errno };
}

/// The `errno` of the call that just failed.
pub(crate) fn last_errno() -> Refusal {
    Refusal::System(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// A place where a C caller wants an answer; null is an invalid value.
///
/// Such a value only ever arrives as a parameter of an exported function, so whoever calls that function guarantees
/// that a non-null place is writable.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    pub(crate) fn set(self, value: T) -> Result<(), Refusal> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and writable for a `T` by the guarantee of the exported function's caller.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Answers where the caller wants an answer at all.
    pub(crate) fn offer(self, value: T) {
        // An optional answer: null is no error.
        let _ = self.set(value);
    }

    /// What the caller put there beforehand.
    pub(crate) fn get(self) -> Result<T, Refusal>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and initialised by the caller, as the functions that use this require.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The place `index` elements further on, in what the caller promised to be an array.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_address(address: usize) -> Self {
        Self(address as *mut T)
    }
}

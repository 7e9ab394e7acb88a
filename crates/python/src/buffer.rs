//! A Python object as an owned buffer that holds the object, and lets go of it legally on whatever thread ends the use.
//!
//! Asked in this order: `__cuda_array_interface__`, the buffer protocol, DLPack.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use kvikio::{IoBuf, IoBufMut, Place};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::{ffi, prelude::*};

use crate::arguments::type_name;
use crate::extent::Extent;
use crate::{dlpack, interface};

/// What keeps the memory where it is.
enum Keeper {
    /// An export by the buffer protocol. Boxed: exporters may point into the struct itself.
    Export(Box<ffi::Py_buffer>),
    /// The object, or the capsule that it gave.
    Object(Py<PyAny>),
}

// SAFETY: the buffer protocol lets any thread that holds the interpreter release an export, and `Keeper` is only
// ever released by such a thread.
unsafe impl Send for Keeper {}
// SAFETY: a shared keeper gives access to nothing.
unsafe impl Sync for Keeper {}

/// Memory lent by a Python object: from now until it is given back, the object cannot free or move it.
pub(crate) struct Loan {
    extent: Extent,
    /// `None` once the loan is given back.
    keeper: Option<Keeper>,
}

/// A loan that may be written to.
pub(crate) struct LoanMut(Loan);

impl Loan {
    /// The memory of `obj`.
    pub(crate) fn of(obj: &Bound<'_, PyAny>) -> PyResult<Self> {
        bury_the_dead(obj.py());
        if let Some(extent) = interface::extent(obj)? {
            return Ok(Self::new(extent, Keeper::Object(obj.clone().unbind())));
        }
        if let Some(loan) = Self::by_buffer_protocol(obj)? {
            return Ok(loan);
        }
        match dlpack::capsule(obj)? {
            Some((extent, capsule)) => Ok(Self::new(extent, Keeper::Object(capsule.unbind()))),
            None => {
                let text = format!("a bytes-like object is required, not {}", type_name(obj));
                Err(PyTypeError::new_err(text))
            }
        }
    }

    fn new(extent: Extent, keeper: Keeper) -> Self {
        Self { extent, keeper: Some(keeper) }
    }

    fn by_buffer_protocol(obj: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        // SAFETY: asking whether a live object has the protocol.
        if unsafe { ffi::PyObject_CheckBuffer(obj.as_ptr()) } == 0 {
            return Ok(None);
        }
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: a live object, and a struct to fill that stays at its address until the export is released. Without
        // a request for the format, exporters also lend what the `struct` module has no letters for.
        if unsafe { ffi::PyObject_GetBuffer(obj.as_ptr(), &raw mut *view, ffi::PyBUF_INDIRECT) } != 0 {
            return Err(PyErr::fetch(obj.py()));
        }
        let is_indirect = has_suboffsets(&view);
        let extent = Extent {
            address: view.buf.expose_provenance(),
            len: view.len.unsigned_abs(),
            place: Place::Host,
            is_read_only: view.readonly != 0,
            // SAFETY: the struct was filled by `PyObject_GetBuffer`.
            is_contiguous: unsafe { ffi::PyBuffer_IsContiguous(&raw const *view, b'A'.cast_signed()) } != 0,
        };
        let loan = Self::new(extent, Keeper::Export(view));
        if is_indirect {
            loan.give_back(obj.py());
            return Err(PyNotImplementedError::new_err("Suboffsets are not supported"));
        }
        Ok(Some(loan))
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.extent.len
    }

    /// True where the memory is one block.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.extent.is_contiguous
    }

    /// True where the object says that its memory is a GPU's.
    pub(crate) fn is_device(&self) -> bool {
        self.extent.place != Place::Host
    }

    /// The part that starts at `start` and is `len` bytes long; `None` where the loan ends before that.
    pub(crate) fn part(mut self, start: usize, len: usize) -> Result<Self, Self> {
        if start.checked_add(len).is_none_or(|end| end > self.extent.len) {
            return Err(self);
        }
        // Within the loan, whose end is an address.
        self.extent.address += start;
        self.extent.len = len;
        Ok(self)
    }

    /// The loan as one that may be written to; the loan itself where the object forbids that. Of no bytes, any may.
    pub(crate) fn writable(self) -> Result<LoanMut, Self> {
        if self.extent.is_read_only && self.extent.len > 0 { Err(self) } else { Ok(LoanMut(self)) }
    }

    /// Gives the memory back, by a thread that holds the interpreter.
    pub(crate) fn give_back(mut self, py: Python<'_>) {
        if let Some(keeper) = self.keeper.take() {
            keeper.release(py);
        }
    }
}

impl LoanMut {
    /// As [`Loan::give_back`].
    pub(crate) fn give_back(self, py: Python<'_>) {
        self.0.give_back(py);
    }
}

fn has_suboffsets(view: &ffi::Py_buffer) -> bool {
    let axes = usize::try_from(view.ndim).unwrap_or(0);
    if view.suboffsets.is_null() || axes == 0 {
        return false;
    }
    // SAFETY: the array, which is not null, has one entry for each axis (buffer protocol) until the export's end.
    let suboffsets = unsafe { std::slice::from_raw_parts(view.suboffsets, axes) };
    suboffsets.iter().any(|suboffset| *suboffset >= 0)
}

impl Keeper {
    fn release(self, _attached: Python<'_>) {
        match self {
            Self::Object(object) => drop(object),
            Self::Export(mut view) => {
                // SAFETY: filled by `PyObject_GetBuffer`, released once, and the interpreter is held.
                unsafe { ffi::PyBuffer_Release(&raw mut *view) }
            }
        }
    }
}

impl Drop for Loan {
    /// On a worker thread: it holds no interpreter and must not ask for one, which at exit would never come.
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            entomb(keeper);
        }
    }
}

// SAFETY: the exporter keeps an export's memory in place until it is released (buffer protocol), and an object keeps
// what its interface or its capsule names (CUDA array interface, DLPack). Python's other threads may change the bytes
// meanwhile; the engine hands them to the system and to the driver only, which bear that.
unsafe impl IoBuf for Loan {
    fn address(&self) -> usize {
        self.extent.address
    }
    fn byte_len(&self) -> usize {
        self.extent.len
    }
    fn place(&self) -> Place {
        self.extent.place
    }
}

// SAFETY: as `Loan`.
unsafe impl IoBuf for LoanMut {
    fn address(&self) -> usize {
        self.0.extent.address
    }
    fn byte_len(&self) -> usize {
        self.0.extent.len
    }
    fn place(&self) -> Place {
        self.0.extent.place
    }
}
// SAFETY: made by `Loan::writable` only, that is where the object allows writes or there is nothing to write to.
unsafe impl IoBufMut for LoanMut {}

/// Keepers whose loans ended on threads without the interpreter, until one that has it comes by.
struct Tomb {
    keepers: Vec<Keeper>,
    has_called: bool,
    is_sealed: bool,
}

static TOMB: Mutex<Tomb> = Mutex::new(Tomb { keepers: Vec::new(), has_called: false, is_sealed: false });
static IS_TENANTED: AtomicBool = AtomicBool::new(false);

/// The tomb, unless it stays locked: after a `fork` its owner may be a thread that does not exist here.
fn tomb() -> Option<MutexGuard<'static, Tomb>> {
    for _ in 0..50 {
        match TOMB.try_lock() {
            Ok(tomb) => return Some(tomb),
            Err(TryLockError::Poisoned(tomb)) => return Some(tomb.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
    None
}

/// Keeps `keeper` until a thread with the interpreter releases it, and asks the main thread to be that one. At exit
/// it is never released: the interpreter may be gone.
fn entomb(keeper: Keeper) {
    let keeper = ManuallyDrop::new(keeper);
    let Some(mut tomb) = tomb().filter(|tomb| !tomb.is_sealed) else { return };
    tomb.keepers.push(ManuallyDrop::into_inner(keeper));
    IS_TENANTED.store(true, Ordering::Release);
    if !tomb.has_called {
        // SAFETY: any thread may call this without the interpreter, as long as there is one; the tomb is sealed,
        // which takes the lock that is held here, before the interpreter ends.
        let refused = unsafe { ffi::Py_AddPendingCall(Some(called), std::ptr::null_mut()) };
        tomb.has_called = refused == 0;
    }
}

extern "C" fn called(_nothing: *mut c_void) -> c_int {
    Python::attach(bury_the_dead);
    0
}

/// Releases what other threads could not.
fn bury_the_dead(py: Python<'_>) {
    if !IS_TENANTED.swap(false, Ordering::AcqRel) {
        return;
    }
    let keepers = tomb().map(|mut tomb| {
        tomb.has_called = false;
        std::mem::take(&mut tomb.keepers)
    });
    // Outside the lock: an object's end may run any Python code.
    keepers.into_iter().flatten().for_each(|keeper| keeper.release(py));
}

#[pyfunction]
fn seal() {
    if let Some(mut tomb) = tomb() {
        tomb.is_sealed = true;
    }
}

/// Has the tomb sealed when the interpreter begins to end.
pub(crate) fn watch_exit(py: Python<'_>) -> PyResult<()> {
    let seal = pyo3::wrap_pyfunction!(seal, py)?;
    py.import("atexit")?.call_method1("register", (seal,)).map(drop)
}

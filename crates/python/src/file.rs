//! `kvikio.CuFile`: an open file, with the methods of KvikIO's class of that name.

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kvikio::{Error, ErrorKind, File, Key, Options, Route, Value};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::{Count, Flags, Mode, path_of};
use crate::buffer::{Loan, LoanMut};
use crate::errors::Subject;
use crate::future::{Flight, IOFuture};
use crate::{defaults, engine, errors, gil};

/// Blocking calls of so many bytes or more wait where Ctrl-C is heard.
const LONG: usize = 64 << 20;

/// A file, open for reads and writes at offsets, into and out of host and device memory.
///
/// `file` is a path; `flags` are as for `open()`: "r", "w" or "a", with "+" for both ways. With "a" every write goes to
/// where the file ends. Sizes and offsets are in bytes.
///
/// Raises a class of `kvikio.exceptions`: `NotFoundError` (also a `FileNotFoundError`), `DirectoryError`, …
#[pyclass(module = "kvikio.cufile", frozen, subclass, weakref)]
pub(crate) struct CuFile {
    path: PathBuf,
    appends: bool,
    file: ArcSwapOption<File>,
}

/// One request, checked: the file with the settings for it, the memory, the place in the file.
struct Request {
    file: File,
    loan: Loan,
    offset: u64,
}

impl Request {
    /// True where the request is done when the call that makes it returns.
    fn is_small(&self) -> bool {
        self.loan.is_device() && self.loan.len() < self.file.settings().gds_threshold()
    }
}

impl CuFile {
    fn raise(&self, py: Python<'_>, error: &Error) -> PyErr {
        errors::exception(py, error, Some(&self.path))
    }

    fn subject(&self) -> Subject {
        Subject::File(self.path.clone())
    }

    fn opened(&self, py: Python<'_>, operation: &'static str) -> PyResult<Arc<File>> {
        let closed =
            || Error::new(ErrorKind::Closed, operation, "the file is closed").on(self.path.display());
        self.file.load_full().ok_or_else(|| self.raise(py, &closed()))
    }

    /// Checks the arguments that all reads and writes have.
    fn request(
        &self,
        operation: &'static str,
        buf: &Bound<'_, PyAny>,
        (size, file_offset): (Option<Count>, Count),
        tuning: Tuning,
    ) -> PyResult<Request> {
        let py = buf.py();
        let file = self.opened(py, operation)?;
        let loan = Loan::of(buf)?;
        let start = match tuning {
            Tuning::Raw { dev_offset } => dev_offset.0,
            Tuning::Tasks(_) => 0,
        };
        let offset = file_offset.0;
        let size = size.map_or((loan.len() as u64).saturating_sub(start), |size| size.0);
        let refused = |kind, why: &str| {
            let error = Error::new(kind, operation, why).on(self.path.display()).at(offset, size);
            Err(self.raise(py, &error))
        };
        if !loan.is_contiguous() {
            return refused(ErrorKind::InvalidInput, "Array must be contiguous");
        }
        if matches!(tuning, Tuning::Raw { .. }) && !loan.is_device() {
            return refused(ErrorKind::InvalidInput, "Non-CUDA buffers not supported");
        }
        if self.appends && operation == "write" && offset != 0 {
            return refused(
                ErrorKind::InvalidInput,
                "the file is open for appending, so file_offset must be 0",
            );
        }
        // Both fit where the part lies within the loan, whose length is a `usize`.
        let (start, len) =
            (usize::try_from(start).unwrap_or(usize::MAX), usize::try_from(size).unwrap_or(usize::MAX));
        let Ok(loan) = loan.part(start, len) else {
            return refused(ErrorKind::OutOfRange, "Size is greater than the size of the buffer");
        };
        let options = defaults::current(py)?;
        let options = match tuning {
            Tuning::Tasks(None | Some(Count(0))) => options,
            Tuning::Tasks(Some(Count(bytes))) => self.tasks_of(py, &options, bytes)?,
            Tuning::Raw { .. } => self.tasks_of(py, &options, size.max(1))?,
        };
        Ok(Request { file: file.with(options), loan, offset })
    }

    fn tasks_of(&self, py: Python<'_>, options: &Options, bytes: u64) -> PyResult<Arc<Options>> {
        let options = options.clone().with(Key::TaskSize, Value::Int(bytes));
        options.map(Arc::new).map_err(|error| self.raise(py, &error))
    }

    fn destination(&self, py: Python<'_>, loan: Loan, offset: u64) -> PyResult<LoanMut> {
        loan.writable().map_err(|loan| {
            let why = "the buffer is read-only: nothing can be read into it";
            let error = Error::new(ErrorKind::ReadOnlyBuffer, "read", why).at(offset, loan.len() as u64);
            loan.give_back(py);
            self.raise(py, &error.on(self.path.display()))
        })
    }

    fn start_read(&self, py: Python<'_>, request: Request) -> PyResult<Flight> {
        let Request { file, loan, offset } = request;
        let loan = self.destination(py, loan, offset)?;
        Ok(Flight::Read(gil::detached(py, || file.read_exact_at(loan, offset))))
    }

    fn start_write(&self, py: Python<'_>, request: Request) -> Flight {
        let Request { file, loan, offset } = request;
        let appends = self.appends;
        let start = || if appends { file.append(loan) } else { file.write_at(loan, offset) };
        Flight::Write(gil::detached(py, start))
    }

    /// `over`: the request was small enough to be done within the call.
    fn future(&self, py: Python<'_>, flight: Flight, over: bool) -> PyResult<IOFuture> {
        let future = IOFuture::new(flight, self.subject());
        future.raise_if_refused(py, over)?;
        Ok(future)
    }

    fn read_now(&self, py: Python<'_>, request: Request) -> PyResult<usize> {
        if request.loan.len() >= LONG {
            let flight = self.start_read(py, request)?;
            return IOFuture::new(flight, self.subject()).get_or_stop(py);
        }
        let Request { file, loan, offset } = request;
        let mut loan = self.destination(py, loan, offset)?;
        let result = gil::detached(py, || file.read_blocking(&mut loan, offset, true));
        loan.give_back(py);
        result.map_err(|error| self.raise(py, &error))
    }

    fn write_now(&self, py: Python<'_>, request: Request) -> PyResult<usize> {
        if request.loan.len() >= LONG || self.appends {
            let flight = self.start_write(py, request);
            return IOFuture::new(flight, self.subject()).get_or_stop(py);
        }
        let Request { file, loan, offset } = request;
        let result = gil::detached(py, || file.write_blocking(&loan, offset));
        loan.give_back(py);
        result.map_err(|error| self.raise(py, &error))
    }
}

/// How a request is cut.
#[derive(Clone, Copy)]
enum Tuning {
    /// Into tasks of so many bytes; as `defaults` say where that is `None` or 0.
    Tasks(Option<Count>),
    /// Not at all, and its memory starts at `dev_offset`.
    Raw { dev_offset: Count },
}

#[pymethods]
impl CuFile {
    #[new]
    #[pyo3(signature = (file, flags = Flags::default()), text_signature = "(file, flags='r')")]
    fn new(file: &Bound<'_, PyAny>, flags: Flags) -> PyResult<Self> {
        let py = file.py();
        let path = path_of(file)?;
        let refused = |why: String| {
            let error = Error::new(ErrorKind::InvalidInput, "open", why).on(path.display());
            errors::exception(py, &error, Some(&path))
        };
        let Flags(flags) = flags;
        let mode = Mode::parse(&flags).ok_or_else(|| refused(format!("Unknown file open flag {flags:?}")))?;
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(refused("the path contains a null byte".to_owned()));
        }
        let options = defaults::current(py)?;
        let engine = engine::engine(py, &options)?;
        let opened = gil::detached(py, || mode.open(&path, engine, Options::clone(&options)));
        let opened = opened.map_err(|error| errors::exception(py, &error, Some(&path)))?;
        Ok(Self { path, appends: mode.append, file: ArcSwapOption::from_pointee(opened) })
    }

    /// Closes the file. What is in flight goes on and keeps the descriptors until it ends.
    fn close(&self, py: Python<'_>) {
        gil::detached(py, || drop(self.file.swap(None)));
    }

    /// True once `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.file.load().is_none()
    }

    /// The file descriptor that goes through the page cache; -1 once closed.
    fn fileno(&self) -> i32 {
        let file = self.file.load();
        file.as_ref().and_then(|file| file.fd().map(|fd| fd.as_raw_fd())).unwrap_or(-1)
    }

    /// The flags of that descriptor, as of `fcntl(F_GETFL)`.
    fn open_flags(&self, py: Python<'_>) -> PyResult<i32> {
        let file = self.opened(py, "retrieve open flags of")?;
        file.open_flags().map_err(|error| self.raise(py, &error))
    }

    /// True where the file system grants direct I/O on the file, and it was opened with a use for it.
    fn is_direct_io_supported(&self, py: Python<'_>) -> bool {
        let Some(file) = self.file.load_full() else { return false };
        gil::detached(py, || {
            let settings = file.settings();
            let is_wanted =
                settings.direct_read() || settings.direct_write() || file.route() == Route::Direct;
            is_wanted && file.has_direct_io()
        })
    }

    /// How device memory is reached: "direct" (storage to GPU, by cuFile) or "staged" (through host memory).
    #[getter]
    fn route(&self, py: Python<'_>) -> PyResult<&'static str> {
        let file = self.opened(py, "query")?;
        Ok(match gil::detached(py, || file.route()) {
            Route::Direct => "direct",
            _ => "staged",
        })
    }

    /// Why device memory is reached that way.
    #[getter]
    fn route_reason(&self, py: Python<'_>) -> PyResult<String> {
        let file = self.opened(py, "query")?;
        Ok(gil::detached(py, || file.route_reason().to_owned()))
    }

    /// The native handle, which is this object itself.
    #[getter]
    fn _handle(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, py: Python<'_>, _exc: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { " (closed)" } else { "" };
        format!("<kvikio.CuFile {:?}{state}>", self.path)
    }

    /// Fills `buf`, or its first `size` bytes, from `file_offset` on, and returns the number of bytes.
    ///
    /// A large read is cut into tasks of `task_size` bytes (None or 0: `defaults.get("task_size")`) that run side by
    /// side. Raises `UnexpectedEofError` (also an `EOFError`) where the file ends before; `buf` then holds what was read.
    #[pyo3(signature = (buf, size=None, file_offset=Count(0), task_size=None),
           text_signature = "($self, buf, size=None, file_offset=0, task_size=None)")]
    fn read(
        &self,
        buf: &Bound<'_, PyAny>,
        size: Option<Count>,
        file_offset: Count,
        task_size: Option<Count>,
    ) -> PyResult<usize> {
        let request = self.request("read", buf, (size, file_offset), Tuning::Tasks(task_size))?;
        self.read_now(buf.py(), request)
    }

    /// Writes `buf`, or its first `size` bytes, at `file_offset`, and returns the number of bytes.
    ///
    /// Raises `StorageFullError` (also an `OSError`) where the device is full: its `done` says how many bytes went well.
    #[pyo3(signature = (buf, size=None, file_offset=Count(0), task_size=None),
           text_signature = "($self, buf, size=None, file_offset=0, task_size=None)")]
    fn write(
        &self,
        buf: &Bound<'_, PyAny>,
        size: Option<Count>,
        file_offset: Count,
        task_size: Option<Count>,
    ) -> PyResult<usize> {
        let request = self.request("write", buf, (size, file_offset), Tuning::Tasks(task_size))?;
        self.write_now(buf.py(), request)
    }

    /// As `read`, but returns at once with an `IOFuture`, which keeps the buffer and the file until the read has ended.
    #[pyo3(signature = (buf, size=None, file_offset=Count(0), task_size=None),
           text_signature = "($self, buf, size=None, file_offset=0, task_size=None)")]
    fn pread(
        &self,
        buf: &Bound<'_, PyAny>,
        size: Option<Count>,
        file_offset: Count,
        task_size: Option<Count>,
    ) -> PyResult<IOFuture> {
        let request = self.request("read", buf, (size, file_offset), Tuning::Tasks(task_size))?;
        let over = request.is_small();
        self.future(buf.py(), self.start_read(buf.py(), request)?, over)
    }

    /// As `write`, but returns at once with an `IOFuture`, which keeps the buffer and the file until the write has ended.
    #[pyo3(signature = (buf, size=None, file_offset=Count(0), task_size=None),
           text_signature = "($self, buf, size=None, file_offset=0, task_size=None)")]
    fn pwrite(
        &self,
        buf: &Bound<'_, PyAny>,
        size: Option<Count>,
        file_offset: Count,
        task_size: Option<Count>,
    ) -> PyResult<IOFuture> {
        let request = self.request("write", buf, (size, file_offset), Tuning::Tasks(task_size))?;
        let over = request.is_small();
        self.future(buf.py(), self.start_write(buf.py(), request), over)
    }

    /// As `read`, for device memory only, by the calling thread and in one piece. `dev_offset` bytes of `buf` are skipped.
    #[pyo3(signature = (buf, size=None, file_offset=Count(0), dev_offset=Count(0)),
           text_signature = "($self, buf, size=None, file_offset=0, dev_offset=0)")]
    fn raw_read(
        &self,
        buf: &Bound<'_, PyAny>,
        size: Option<Count>,
        file_offset: Count,
        dev_offset: Count,
    ) -> PyResult<usize> {
        let request = self.request("read", buf, (size, file_offset), Tuning::Raw { dev_offset })?;
        self.read_now(buf.py(), request)
    }

    /// As `write`, for device memory only, by the calling thread and in one piece. `dev_offset` bytes of `buf` are skipped.
    #[pyo3(signature = (buf, size=None, file_offset=Count(0), dev_offset=Count(0)),
           text_signature = "($self, buf, size=None, file_offset=0, dev_offset=0)")]
    fn raw_write(
        &self,
        buf: &Bound<'_, PyAny>,
        size: Option<Count>,
        file_offset: Count,
        dev_offset: Count,
    ) -> PyResult<usize> {
        let request = self.request("write", buf, (size, file_offset), Tuning::Raw { dev_offset })?;
        self.write_now(buf.py(), request)
    }
}

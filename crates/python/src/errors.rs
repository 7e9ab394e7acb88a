//! From our errors to the classes of `kvikio.exceptions`, with the phrases that KvikIO's users search for in front.

use std::path::Path;

use kvikio::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The class in `kvikio.exceptions`.
fn class(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound if error.code() == Some(libc::ENOTDIR) => "PathError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::PermissionDenied => "AccessDeniedError",
        ErrorKind::IsADirectory => "DirectoryError",
        ErrorKind::NotSeekable => "NotSeekableError",
        ErrorKind::InvalidInput => "InvalidInputError",
        ErrorKind::Overflow => "OffsetOverflowError",
        ErrorKind::OutOfRange => "OutOfRangeError",
        ErrorKind::ReadOnlyBuffer => "ReadOnlyBufferError",
        ErrorKind::WrongMode => "WrongModeError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::UnexpectedEof => "UnexpectedEofError",
        ErrorKind::Changed => "ChangedError",
        ErrorKind::StorageFull => "StorageFullError",
        ErrorKind::Cuda => "CudaError",
        ErrorKind::CuFile => "CuFileError",
        ErrorKind::Unavailable => "UnavailableError",
        ErrorKind::Forked => "ForkedError",
        ErrorKind::Cancelled => "CancelledError",
        _ if error.code().is_some() => "SystemFailure",
        _ => "KvikIOError",
    }
}

/// The words that upstream's users match.
fn phrase(error: &Error) -> &'static str {
    let is_write = matches!(error.operation(), "write" | "append");
    match error.kind() {
        _ if error.operation() == "open" => "Unable to open file: ",
        ErrorKind::WrongMode | ErrorKind::Closed => "POSIX error: Operation not permitted: ",
        ErrorKind::UnexpectedEof => "POSIX error on pread: EOF: ",
        ErrorKind::Overflow => "size_t argument too large to fit off_t: ",
        ErrorKind::Io | ErrorKind::StorageFull if error.code().is_some() && is_write => {
            "POSIX error on pwrite: "
        }
        ErrorKind::Io if error.code().is_some() && error.operation() == "read" => "POSIX error on pread: ",
        _ => "",
    }
}

/// The Python exception for `error`; `path` is the file's, where it is about one.
///
/// The class is looked up each time: tests purge and re-import the package.
pub(crate) fn exception(py: Python<'_>, error: &Error, path: Option<&Path>) -> PyErr {
    build(py, error, path).unwrap_or_else(|failure| failure)
}

fn build(py: Python<'_>, error: &Error, path: Option<&Path>) -> PyResult<PyErr> {
    let name = class(error);
    let fields = PyDict::new(py);
    fields.set_item("kind", format!("{:?}", error.kind()))?;
    fields.set_item("operation", error.operation())?;
    match path {
        Some(path) => fields.set_item("subject", path.as_os_str())?,
        None => fields.set_item("subject", error.subject())?,
    }
    fields.set_item("range", error.range().map(|range| (range.start, range.end)))?;
    fields.set_item("done", error.done())?;
    fields.set_item("retryable", error.is_retryable())?;
    fields.set_item("code", error.code())?;
    fields.set_item("reason", error.message())?;
    let text = format!("{}{error}", phrase(error));
    let class = py.import("kvikio.exceptions")?.getattr(name)?;
    Ok(PyErr::from_value(class.call((text,), Some(&fields))?))
}

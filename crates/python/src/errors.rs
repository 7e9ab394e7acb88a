//! From our errors to the classes of `kvikio.exceptions`, with the phrases that KvikIO's users search for in front.

use std::path::{Path, PathBuf};

use kvikio::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What a request is about.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// A file of this machine.
    File(PathBuf),
    /// A remote object, by its address without secrets.
    Remote(String),
}

/// How the message begins where a body is larger than what was asked for.
const OVERSIZED: &str = "maybe the server doesn't support file ranges? [";

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
        ErrorKind::InvalidUrl => "InvalidUrlError",
        ErrorKind::Credentials => "CredentialsError",
        ErrorKind::Connection => "UnreachableError",
        ErrorKind::TimedOut => "TimedOutError",
        ErrorKind::Refused => "RefusedError",
        ErrorKind::Unverified if error.message().starts_with(OVERSIZED) => "OversizedError",
        ErrorKind::Unverified => "UnverifiedError",
        ErrorKind::Cancelled => "CancelledError",
        _ if error.code().is_some() => "SystemFailure",
        _ => "KvikIOError",
    }
}

/// The words that upstream's users match, for a file.
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

/// The words that upstream's users match, for a remote object.
fn remote_phrase(error: &Error) -> String {
    let reason = match (error.kind(), error.status()) {
        (ErrorKind::InvalidUrl, _) => return "KvikIO detects an URL error: ".to_owned(),
        (_, Some(status)) => format!("Got HTTP code {status}."),
        (ErrorKind::TimedOut, None) => "Operation timed out.".to_owned(),
        _ => return String::new(),
    };
    match error.attempts().filter(|_| error.is_retryable()) {
        Some(attempts) => {
            format!("KvikIO: HTTP request reached maximum number of attempts ({attempts}). Reason: {reason} ")
        }
        None => String::new(),
    }
}

/// The Python exception for `error`; `path` is the file's, where it is about one.
///
/// The class is looked up each time: tests purge and re-import the package.
pub(crate) fn exception(py: Python<'_>, error: &Error, path: Option<&Path>) -> PyErr {
    let text = format!("{}{error}", phrase(error));
    let subject = path.map(|path| path.as_os_str().into_pyobject(py).map(Bound::into_any));
    subject
        .transpose()
        .map_err(PyErr::from)
        .and_then(|subject| build(py, error, subject, text))
        .unwrap_or_else(|failure| failure)
}

/// As [`exception`], for an error about a remote object.
pub(crate) fn remote_exception(py: Python<'_>, error: &Error) -> PyErr {
    let text = format!("{}{error}", remote_phrase(error));
    build(py, error, None, text).unwrap_or_else(|failure| failure)
}

impl Subject {
    /// The Python exception for an `error` about it.
    pub(crate) fn exception(&self, py: Python<'_>, error: &Error) -> PyErr {
        match self {
            Self::File(path) => exception(py, error, Some(path)),
            Self::Remote(address) => remote_exception(py, &error.clone().on(address)),
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Remote(address) => f.write_str(address),
        }
    }
}

fn build(py: Python<'_>, error: &Error, subject: Option<Bound<'_, PyAny>>, text: String) -> PyResult<PyErr> {
    let name = class(error);
    let fields = PyDict::new(py);
    fields.set_item("kind", format!("{:?}", error.kind()))?;
    fields.set_item("operation", error.operation())?;
    match subject {
        Some(subject) => fields.set_item("subject", subject)?,
        None => fields.set_item("subject", error.subject())?,
    }
    fields.set_item("range", error.range().map(|range| (range.start, range.end)))?;
    fields.set_item("done", error.done())?;
    fields.set_item("retryable", error.is_retryable())?;
    fields.set_item("code", error.code())?;
    fields.set_item("status", error.status())?;
    fields.set_item("attempts", error.attempts())?;
    fields.set_item("reason", error.message())?;
    let class = py.import("kvikio.exceptions")?.getattr(name)?;
    Ok(PyErr::from_value(class.call((text,), Some(&fields))?))
}

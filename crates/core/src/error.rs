//! The one public error: what kind, during which operation, on what, where in it, and whether a retry can help.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use kvikio_sys::cuda::{CuStatus, Table};
use kvikio_sys::cufile::CuFileStatus;

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, in few and stable words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path or object does not exist.
    NotFound,
    /// The system refused access.
    PermissionDenied,
    /// The path names a directory.
    IsADirectory,
    /// The path names something without offsets: a FIFO, a socket.
    NotSeekable,
    /// An argument is wrong in itself.
    InvalidInput,
    /// An offset or length does not fit the type that the system uses for it.
    Overflow,
    /// A range lies outside the buffer.
    OutOfRange,
    /// The buffer must not be written to.
    ReadOnlyBuffer,
    /// The file was not opened for this: a read on a write-only file, or the reverse.
    WrongMode,
    /// The file was closed.
    Closed,
    /// The file ended before the bytes that were asked for.
    UnexpectedEof,
    /// The file changed while it was read, so that no answer is the right one.
    Changed,
    /// No space left on the device, or a quota was reached.
    StorageFull,
    /// A CUDA driver call failed.
    Cuda,
    /// A cuFile call failed.
    CuFile,
    /// What the request needs is not there: no driver, no device, no cuFile.
    Unavailable,
    /// The request belongs to the process before a `fork`.
    Forked,
    /// The request was given up by its owner.
    Cancelled,
    /// A URL that cannot be used; the message says what is wrong with it.
    InvalidUrl,
    /// No credentials, or none that the service accepts; the message says what was looked for.
    Credentials,
    /// A server could not be reached, or a connection broke: name resolution, TCP, TLS.
    Connection,
    /// Nothing came, or not enough, within the time that a limit allows.
    TimedOut,
    /// A server refused with a status that no other kind describes; [`Error::status`] tells which.
    Refused,
    /// A server's answer is not what was asked for: a wrong range or length, an encoding, no HTTP.
    Unverified,
    /// Any other failure of the system.
    Io,
}

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    subject: Option<String>,
    range: Option<Range<u64>>,
    done: Option<u64>,
    retryable: bool,
    os_code: Option<i32>,
    status: Option<u16>,
    attempts: Option<u32>,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// A failed operation of this crate.
///
/// ```
/// let error = kvikio::File::open("/no/such/file").unwrap_err();
/// assert_eq!(error.kind(), kvikio::ErrorKind::NotFound);
/// assert_eq!(error.subject(), Some("/no/such/file"));
/// assert!(!error.is_retryable());
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

impl Error {
    /// An error of `kind` during `operation`; `message` says what happened, in lower case.
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            operation,
            subject: None,
            range: None,
            done: None,
            retryable: false,
            os_code: None,
            status: None,
            attempts: None,
            message: message.into(),
            source: None,
        }))
    }

    /// The error for a failed system call.
    #[must_use]
    pub fn from_os(operation: &'static str, code: i32) -> Self {
        let mut error = Self::new(kind_of(code), operation, strerror(code));
        error.0.os_code = Some(code);
        error.0.retryable = matches!(code, libc::EAGAIN | libc::EINTR | libc::EBUSY | libc::ETIMEDOUT);
        error
    }

    /// The error for a failed CUDA driver call, in the driver's words.
    #[must_use]
    pub fn from_cuda(table: &Table, call: &'static str, status: CuStatus) -> Self {
        let words = table.describe(status);
        let mut error = Self::new(ErrorKind::Cuda, "use the device", format!("{call}: {words}"));
        error.0.os_code = Some(status.0);
        error
    }

    /// The error for a failed cuFile call.
    #[must_use]
    pub fn from_cufile(operation: &'static str, status: CuFileStatus) -> Self {
        // Below cuFile's own codes stand the system's: a full disk is one, whoever noticed.
        let kind = match kind_of(status.op) {
            ErrorKind::Io => ErrorKind::CuFile,
            kind => kind,
        };
        let mut error = Self::new(kind, operation, format!("cuFile: {status}"));
        error.0.os_code = Some(status.op);
        error
    }

    /// Names what the caller wanted, in place of the step on the way to it that failed.
    #[must_use]
    pub fn during(mut self, operation: &'static str) -> Self {
        self.0.operation = operation;
        self
    }

    /// Names what was worked on; the first name given stays.
    #[must_use]
    pub fn on(mut self, subject: impl fmt::Display) -> Self {
        self.0.subject.get_or_insert_with(|| subject.to_string());
        self
    }

    /// Names the bytes that were worked on; the first range given stays.
    #[must_use]
    pub fn at(mut self, offset: u64, len: u64) -> Self {
        self.0.range.get_or_insert_with(|| offset..offset.saturating_add(len));
        self
    }

    /// Adds to what happened.
    #[must_use]
    pub(crate) fn and(mut self, words: &str) -> Self {
        self.0.message.push_str(words);
        self
    }

    /// Says how many bytes of the range were done before the failure.
    #[must_use]
    pub fn after(mut self, done: u64) -> Self {
        self.0.done = Some(done);
        self
    }

    /// Says that the same call may succeed later.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.0.retryable = true;
        self
    }

    /// Keeps the HTTP status of the last answer.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Says how often it was tried.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = Some(attempts);
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// During what: `open`, `read`, `write`, `register`, …
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// On what: a path or an address, without secrets.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// The bytes of the subject that the operation was about.
    #[must_use]
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.range.clone()
    }

    /// How many bytes from the start of the range are done and right, where that is known.
    #[must_use]
    pub fn done(&self) -> Option<u64> {
        self.0.done
    }

    /// True where the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// The system's `errno`, the driver's `CUresult` or cuFile's code, by [`Error::kind`].
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.0.os_code
    }

    /// The HTTP status of the last answer, where there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// How often a request was sent before this was given up, where it was one for a server.
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        self.0.attempts
    }

    /// What happened, without operation, subject and range.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// A path may hold anything; a message is one line.
fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escape = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escape).collect::<String>().into()
}

fn kind_of(code: i32) -> ErrorKind {
    match code {
        libc::ENOENT | libc::ENOTDIR => ErrorKind::NotFound,
        libc::EACCES | libc::EPERM | libc::EROFS => ErrorKind::PermissionDenied,
        libc::EISDIR => ErrorKind::IsADirectory,
        libc::ESPIPE | libc::ENXIO => ErrorKind::NotSeekable,
        libc::ENOSPC | libc::EDQUOT => ErrorKind::StorageFull,
        libc::EBADF => ErrorKind::WrongMode,
        _ => ErrorKind::Io,
    }
}

fn strerror(code: i32) -> String {
    let text = std::io::Error::from_raw_os_error(code).to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        write!(f, "{}", inner.operation)?;
        if let Some(subject) = &inner.subject {
            write!(f, " {}", one_line(subject))?;
        }
        if let Some(range) = &inner.range {
            write!(f, " bytes {}..{}", range.start, range.end)?;
        }
        write!(f, ": {}", inner.message)?;
        if let Some(done) = inner.done.filter(|done| *done > 0) {
            write!(f, " (after {done} bytes)")?;
        }
        if let Some(attempts) = inner.attempts.filter(|attempts| *attempts > 1) {
            write!(f, " (tried {attempts} times)")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

//! What a person or a program is told: results on standard output, failures on standard error.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Why a command failed, in one line.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<kvikio::Error> for Failure {
    fn from(error: kvikio::Error) -> Self {
        Self(error.to_string())
    }
}

/// The failure of a system call of ours, in the form of the library's errors.
pub fn failed(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    Failure(format!("{operation} {}: {words}", path.display()))
}

/// Prints `text` on standard output. A reader that has gone away is no failure.
///
/// # Errors
/// What the system said, for instance that the disk is full.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(failed("write", Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Prints a failure on standard error.
pub fn complain(failure: &Failure) {
    // Where standard error is gone too, there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "kvikio: {failure}");
}

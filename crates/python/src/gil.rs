//! The one place that lets go of the interpreter: long work runs without it, and Ctrl-C is heard while waiting.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;

/// How often a wait looks whether the user has pressed Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(100);

/// Does `work` while other Python threads may run.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(work)
}

/// Waits until `has_ended` (which may take as long as it is told) says so, or a signal's handler raises.
pub(crate) fn wait(py: Python<'_>, has_ended: impl Fn(Duration) -> bool + Sync) -> PyResult<()> {
    while !py.detach(|| has_ended(PATIENCE)) {
        py.check_signals()?;
    }
    Ok(())
}

/// Does `work`, which may wait for others (a server, a program), on a thread of its own, while Ctrl-C is heard. `None`
/// where there is no such thread, or it panicked.
pub(crate) fn aside<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<Option<T>> {
    let (sender, receiver) = sync_channel(1);
    // Whoever waited may be gone, by Ctrl-C.
    let task = move || drop(sender.send(work()));
    if std::thread::Builder::new().name("kvikio-open".to_owned()).spawn(task).is_err() {
        return Ok(None);
    }
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let received = py.detach(|| match receiver.lock() {
            Ok(receiver) => receiver.recv_timeout(PATIENCE),
            Err(_poisoned) => Err(RecvTimeoutError::Disconnected),
        });
        match received {
            Ok(value) => return Ok(Some(value)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
    }
}

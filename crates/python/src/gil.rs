//! The one place that lets go of the interpreter: long work runs without it, and Ctrl-C is heard while waiting.

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

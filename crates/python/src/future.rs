//! `IOFuture`: a request in flight, with the buffer and the file that it keeps.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kvikio::{Error, ErrorKind, Result, Transfer};
use pyo3::prelude::*;

use crate::buffer::{Loan, LoanMut};
use crate::errors::Subject;
use crate::gil;

/// A transfer, either way.
pub(crate) enum Flight {
    Read(Transfer<LoanMut>),
    Write(Transfer<Loan>),
}

impl Flight {
    fn wait_for(&self, patience: Duration) -> bool {
        match self {
            Self::Read(transfer) => transfer.wait_for(patience),
            Self::Write(transfer) => transfer.wait_for(patience),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Read(transfer) => transfer.is_done(),
            Self::Write(transfer) => transfer.is_done(),
        }
    }

    fn result(&self) -> Result<usize> {
        match self {
            Self::Read(transfer) => transfer.result(),
            Self::Write(transfer) => transfer.result(),
        }
    }

    fn cancel(&self) {
        match self {
            Self::Read(transfer) => transfer.cancel(),
            Self::Write(transfer) => transfer.cancel(),
        }
    }

    /// Gives the buffer of an ended transfer back.
    fn finish(self, py: Python<'_>) {
        match self {
            Self::Read(transfer) => transfer.wait().1.give_back(py),
            Self::Write(transfer) => transfer.wait().1.give_back(py),
        }
    }
}

/// True for what is wrong with a request itself.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Overflow | ErrorKind::WrongMode | ErrorKind::OutOfRange)
}

/// A read or write in flight.
///
/// It keeps its buffer and its file until it has ended. Dropping it neither waits nor cancels.
#[pyclass(module = "kvikio.cufile", frozen, weakref)]
pub(crate) struct IOFuture {
    subject: Subject,
    process: u32,
    outcome: OnceLock<Result<usize>>,
    /// `None` once the buffer was given back.
    flight: Mutex<Option<Arc<Flight>>>,
}

impl IOFuture {
    pub(crate) fn new(flight: Flight, subject: Subject) -> Self {
        Self {
            subject,
            process: std::process::id(),
            outcome: OnceLock::new(),
            flight: Mutex::new(Some(Arc::new(flight))),
        }
    }

    fn flight(&self) -> MutexGuard<'_, Option<Arc<Flight>>> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_foreign(&self) -> bool {
        self.process != std::process::id()
    }

    /// Raises at once what is wrong with the request itself, rather than at `get`; of a request that is `over` when it
    /// is made, whatever went wrong.
    pub(crate) fn raise_if_refused(&self, py: Python<'_>, over: bool) -> PyResult<()> {
        let Some(flight) = self.flight().clone().filter(|flight| flight.is_done()) else { return Ok(()) };
        match flight.result() {
            Err(error) if over || is_refusal(error.kind()) => {
                drop(flight);
                self.get(py).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// As [`IOFuture::get`] for whoever is the only one that knows of the request: an exception that breaks the wait
    /// gives the rest of it up and waits for what is running, so that nobody's memory changes behind their back.
    pub(crate) fn get_or_stop(&self, py: Python<'_>) -> PyResult<usize> {
        let answer = self.get(py);
        let running = self.flight().clone().filter(|_| answer.is_err() && !self.is_foreign());
        if let Some(flight) = running {
            flight.cancel();
            gil::detached(py, || while !flight.wait_for(Duration::from_secs(3600)) {});
            self.settle(py, flight);
        }
        answer
    }

    /// Keeps the outcome of an ended flight and gives its buffer back.
    fn settle(&self, py: Python<'_>, flight: Arc<Flight>) {
        let _first_stays = self.outcome.set(flight.result());
        let kept = self.flight().take();
        drop(kept);
        // Another thread may be in `get` too: the last of them gives the buffer back.
        if let Some(flight) = Arc::into_inner(flight) {
            flight.finish(py);
        }
    }

    fn answer(&self, py: Python<'_>) -> Option<PyResult<usize>> {
        let outcome = self.outcome.get()?;
        Some(outcome.clone().map_err(|error| self.subject.exception(py, &error)))
    }

    fn forked(&self, py: Python<'_>) -> PyErr {
        let why =
            "the future was made before a fork; this process has no part in it, start the request again";
        let error = Error::new(ErrorKind::Forked, "get", why).on(&self.subject);
        self.subject.exception(py, &error)
    }
}

#[pymethods]
impl IOFuture {
    /// Waits for the end and returns the number of bytes moved; a second call answers the same.
    ///
    /// Raises what stopped the request. Ctrl-C is heard while waiting; the request goes on after it.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<usize> {
        if let Some(answer) = self.answer(py) {
            return answer;
        }
        if self.is_foreign() {
            return Err(self.forked(py));
        }
        let flight = self.flight().clone();
        if let Some(flight) = flight {
            gil::wait(py, |patience| flight.wait_for(patience))?;
            self.settle(py, flight);
        }
        // Whoever takes the flight away has set the outcome before.
        self.answer(py).unwrap_or_else(|| Err(self.forked(py)))
    }

    /// True once the request has ended, well or not. Does not wait.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        if self.outcome.get().is_some() {
            return Ok(true);
        }
        if self.is_foreign() {
            return Err(self.forked(py));
        }
        let flight = self.flight().clone();
        if let Some(flight) = flight {
            if !flight.is_done() {
                return Ok(false);
            }
            self.settle(py, flight);
        }
        Ok(true)
    }

    fn __repr__(&self) -> String {
        let state = match self.outcome.get() {
            Some(Ok(moved)) => format!("{moved} bytes"),
            Some(Err(error)) => format!("failed: {error}"),
            None => "in flight".to_owned(),
        };
        match &self.subject {
            Subject::File(path) => format!("<kvikio.IOFuture of {path:?}: {state}>"),
            Subject::Remote(address) => format!("<kvikio.IOFuture of {address:?}: {state}>"),
        }
    }
}

impl Drop for IOFuture {
    fn drop(&mut self) {
        let Some(flight) = self.flight().take() else { return };
        if self.is_foreign() {
            // Its locks may be held by threads that do not exist in this process.
            std::mem::forget(flight);
        } else if flight.is_done() {
            // Python drops its objects by threads that hold the interpreter: this does not ask for it anew.
            if let Some(flight) = Arc::into_inner(flight) {
                let _ = Python::try_attach(|py| flight.finish(py));
            }
        }
    }
}

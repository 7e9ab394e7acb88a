//! A task that somebody has taken, and the terms on which it is done.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::engine::plan::Task;
use crate::engine::resources::Resources;
use crate::engine::source::Access;
use crate::engine::transfer::{InFlight, Outcome};
use crate::error::{Error, ErrorKind};

/// How a transfer's tasks reach storage and memory: the options that hold for one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Move aligned parts around the page cache.
    pub(crate) direct: bool,
    /// Bytes of one bounce buffer.
    pub(crate) block_size: usize,
    /// The most bounce buffers that may be out at once.
    pub(crate) limit: usize,
}

impl Terms {
    pub(crate) fn access<'a>(&self, resources: &'a Resources) -> Access<'a> {
        Access {
            direct: self.direct,
            bounce: resources.plain(),
            block_size: self.block_size,
            limit: self.limit,
        }
    }
}

/// A task that was taken. It is reported when the last of its pieces lets go of it, whatever way that comes about.
pub(crate) struct Claim {
    flight: Arc<InFlight>,
    pub(crate) task: Task,
    moved: Cell<usize>,
    is_short: Cell<bool>,
    is_withdrawn: Cell<bool>,
    error: RefCell<Option<Error>>,
}

impl Claim {
    pub(crate) fn next(flight: &Arc<InFlight>) -> Option<Self> {
        let task = flight.claim()?;
        Some(Self {
            flight: flight.clone(),
            task,
            moved: Cell::new(0),
            is_short: Cell::new(false),
            is_withdrawn: Cell::new(false),
            error: RefCell::new(None),
        })
    }

    /// The transfer that the task is part of.
    pub(crate) fn flight(&self) -> &InFlight {
        &self.flight
    }

    /// `moved` more bytes are where they belong, counted from the task's start without a gap.
    pub(crate) fn add(&self, moved: usize) {
        self.moved.set(self.moved.get() + moved);
    }

    /// The source ended within this task.
    pub(crate) fn end_of_source(&self) {
        self.is_short.set(true);
    }

    /// The task failed; the first error stays.
    pub(crate) fn fail(&self, error: Error) {
        let within = error.done().unwrap_or(0);
        let done = self.moved.get() as u64 + within;
        self.error.borrow_mut().get_or_insert_with(|| error.after(done));
    }

    /// The source panicked within this task, or within another while this one was under way.
    pub(crate) fn fail_by_panic(&self) {
        self.fail(Error::new(ErrorKind::Io, self.flight.direction.verb(), "the source panicked"));
    }

    /// Nobody wants the rest: the transfer has failed elsewhere.
    pub(crate) fn withdraw(&self) {
        self.is_withdrawn.set(true);
    }

    /// False once there is no point in moving more of this task.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_short.get() && self.error.borrow().is_none()
    }

    /// True where the task has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail_by_panic();
        }
        let moved = self.moved.get();
        let outcome = match self.error.take() {
            Some(error) => Outcome::Failed(error),
            None if self.is_withdrawn.get() && !self.flight.is_wanted() => Outcome::Withdrawn,
            None if moved == self.task.len || self.is_short.get() => Outcome::Moved(moved),
            // Nothing may be reported as done that is not.
            None => Outcome::Failed(Error::new(
                ErrorKind::Io,
                self.flight.direction.verb(),
                "the task was given up half way",
            )),
        };
        self.flight.complete(self.task, outcome);
    }
}

//! The hook for sources that run a transfer's tasks themselves, on threads of their own (event loops), instead of
//! having workers wait in `fill`.

use std::fmt::Debug;
use std::sync::Arc;

use crate::engine::resources::Resources;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::device::Marker;
use crate::memory::span::Span;

/// Whoever runs the tasks of a source's transfers.
pub trait Carrier: Debug + Send + Sync {
    /// Takes the tasks of one transfer over; returns at once. Every clone of the ticket may take tasks.
    fn carry(&self, ticket: Ticket);
}

/// The tasks of one transfer, as a carrier sees them; implemented by the engine (`ticket.rs`).
pub(crate) trait Tasks: Debug + Send + Sync {
    /// The number of tasks, taken ones included.
    fn count(&self) -> usize;

    /// Takes the next task: where in the source, where to, and whom to tell. `None` once all are taken or one failed.
    fn claim(&self) -> Option<(u64, Span, Box<dyn Report>)>;

    /// True while there are tasks that nobody has taken.
    fn has_more(&self) -> bool;

    /// False once the transfer has failed: nobody will look at further bytes.
    fn is_wanted(&self) -> bool;

    /// What copies to the device must come after.
    fn marker(&self) -> Option<&Marker>;

    /// Fails the transfer.
    fn abort(&self, error: Error);
}

/// Whom the end of one task is told. Dropping it reports the task, as failed where bytes are missing.
pub(crate) trait Report: Send {
    /// `moved` more bytes are where they belong, without a gap.
    fn add(&self, moved: usize);

    /// The source ends within the task.
    fn end_of_source(&self);

    /// The task failed; the first error stays.
    fn fail(&self, error: Error);

    /// The task is not gone on with, because the transfer has failed already.
    fn withdraw(&self);
}

/// The right to take tasks of one transfer. When the last clone and the last order are gone, tasks that nobody has
/// taken are reported as failed, so that a transfer always ends.
#[derive(Debug, Clone)]
pub struct Ticket {
    tasks: Arc<dyn Tasks>,
    resources: Option<Arc<Resources>>,
    block_size: Option<usize>,
}

impl Ticket {
    pub(crate) fn new(
        tasks: Arc<dyn Tasks>,
        resources: Option<Arc<Resources>>,
        block_size: Option<usize>,
    ) -> Self {
        Self { tasks, resources, block_size }
    }

    /// The number of tasks of the transfer, taken ones included.
    pub(crate) fn count(&self) -> usize {
        self.tasks.count()
    }

    /// Takes a task; `None` once there is nothing more to take.
    pub(crate) fn next(&self) -> Option<Order> {
        let (offset, span, report) = self.tasks.claim()?;
        Some(Order { offset, span, report, ticket: self.clone() })
    }

    /// True while there are tasks that nobody has taken.
    pub(crate) fn has_more(&self) -> bool {
        self.tasks.has_more()
    }

    /// Fails the transfer before its tasks are taken.
    pub(crate) fn refuse(&self, error: Error) {
        self.tasks.abort(error);
    }
}

/// A task that a carrier has taken.
///
/// The memory of `span` stays valid until the order is dropped, and not longer: whatever fills it (a copy of the
/// device's engine too) must have ended by then.
pub(crate) struct Order {
    pub(crate) offset: u64,
    pub(crate) span: Span,
    report: Box<dyn Report>,
    ticket: Ticket,
}

impl Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {}", self.span.len(), self.offset)
    }
}

impl Order {
    /// False once there is no point in going on.
    pub(crate) fn is_wanted(&self) -> bool {
        self.ticket.tasks.is_wanted()
    }

    /// As [`Report::add`].
    pub(crate) fn add(&self, moved: usize) {
        self.report.add(moved);
    }

    /// As [`Report::end_of_source`].
    pub(crate) fn end_of_source(&self) {
        self.report.end_of_source();
    }

    /// As [`Report::fail`].
    pub(crate) fn fail(&self, error: Error) {
        self.report.fail(error);
    }

    /// As [`Report::withdraw`].
    pub(crate) fn withdraw(&self) {
        self.report.withdraw();
    }

    /// What copies to the device must come after.
    pub(crate) fn marker(&self) -> Option<&Marker> {
        self.ticket.tasks.marker()
    }

    /// Bytes of one bounce buffer, where the user set them.
    pub(crate) fn block_size(&self) -> Option<usize> {
        self.ticket.block_size
    }

    /// Streams and blocks of the engine whose transfer it is.
    pub(crate) fn resources(&self) -> Result<&Arc<Resources>> {
        self.ticket.resources.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "read", "device memory without an engine that reaches it")
        })
    }
}

//! The doorway: a request comes in, is checked, planned, and given to lanes.

use std::any::Any;
use std::sync::Arc;

use crate::engine::claim::Terms;
use crate::engine::lane;
use crate::engine::plan::{Plan, Request, Route};
use crate::engine::scope::{Scope, ScopedTransfer};
use crate::engine::shared::Engine;
use crate::engine::source::{Direction, Source};
use crate::engine::ticket;
use crate::engine::transfer::{InFlight, Transfer};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::buf::{IoBuf, IoBufMut, Place, lend, lend_mut, span_of};
use crate::memory::device::Marker;
use crate::memory::span::{Memory, Span};
use crate::options::{Key, Options};

/// One request: which bytes of which source, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    /// The source.
    pub(crate) source: &'a Arc<dyn Source>,
    /// Where in it.
    pub(crate) offset: u64,
    /// Which way.
    pub(crate) direction: Direction,
    /// The values in force.
    pub(crate) options: &'a Options,
    /// Whether reaching the end of the source is an error.
    pub(crate) exact: bool,
}

/// Who runs a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Help {
    /// The caller waits, so its thread is the first lane.
    Caller,
    /// The caller goes on, except with device requests below the threshold.
    Workers,
}

impl Engine {
    /// Starts a read into `buf`, which the transfer owns until it ends.
    pub(crate) fn read<B: IoBufMut>(&self, job: Job<'_>, buf: B) -> Transfer<B> {
        self.start(job, buf)
    }

    /// Starts a write of `buf`, which the transfer owns until it ends.
    pub(crate) fn write<B: IoBuf>(&self, job: Job<'_>, buf: B) -> Transfer<B> {
        self.start(job, buf)
    }

    /// What is wrong with a request, without starting it.
    ///
    /// # Errors
    /// What would refuse it.
    pub(crate) fn check<B: IoBuf>(&self, job: Job<'_>, buf: &B) -> Result<()> {
        self.span(buf).and_then(|span| self.plan(job, span)).map(drop)
    }

    /// A transfer of `buf` that has failed before it began.
    pub(crate) fn refuse<B: IoBuf>(&self, job: Job<'_>, error: Error, buf: B) -> Transfer<B> {
        Transfer::new(refused(job, buf.byte_len(), error, Box::new(buf)))
    }

    fn start<B: IoBuf>(&self, job: Job<'_>, buf: B) -> Transfer<B> {
        match self.span(&buf).and_then(|span| Ok((span, self.plan(job, span)?))) {
            Ok((span, plan)) => {
                Transfer::new(self.launch(job, span, plan, Help::Workers, Some(Box::new(buf))))
            }
            Err(error) => self.refuse(job, error, buf),
        }
    }

    /// Moves bytes between the source and a borrowed owner, waiting.
    ///
    /// # Errors
    /// What stopped the request.
    pub(crate) fn move_owned<B: IoBuf>(&self, job: Job<'_>, buf: &B) -> Result<usize> {
        let span = self.span(buf).map_err(|error| name(job, buf.byte_len(), error))?;
        self.run(job, span)
    }

    /// Fills borrowed memory, waiting.
    ///
    /// # Errors
    /// What stopped the request.
    pub(crate) fn read_slice(&self, job: Job<'_>, buf: &mut [u8]) -> Result<usize> {
        self.run(job, lend_mut(buf))
    }

    /// Stores borrowed memory, waiting.
    ///
    /// # Errors
    /// What stopped the request.
    pub(crate) fn write_slice(&self, job: Job<'_>, buf: &[u8]) -> Result<usize> {
        self.run(job, lend(buf))
    }

    /// Starts to fill borrowed memory; the scope waits for it.
    pub(crate) fn read_scoped<'scope>(
        &self,
        job: Job<'_>,
        scope: &'scope Scope<'scope, '_>,
        buf: &'scope mut [u8],
    ) -> ScopedTransfer<'scope> {
        scope.adopt(self.start_borrowed(job, lend_mut(buf)))
    }

    /// Starts to store borrowed memory; the scope waits for it.
    pub(crate) fn write_scoped<'scope>(
        &self,
        job: Job<'_>,
        scope: &'scope Scope<'scope, '_>,
        buf: &'scope [u8],
    ) -> ScopedTransfer<'scope> {
        scope.adopt(self.start_borrowed(job, lend(buf)))
    }

    fn start_borrowed(&self, job: Job<'_>, span: Span) -> Arc<InFlight> {
        match self.plan(job, span) {
            Ok(plan) => self.launch(job, span, plan, Help::Workers, None),
            Err(error) => refused(job, span.len(), error, Box::new(())),
        }
    }

    /// Moves bytes between the source and memory that is borrowed by the caller; returns when the last byte has moved.
    fn run(&self, job: Job<'_>, span: Span) -> Result<usize> {
        let plan = self.plan(job, span).map_err(|error| name(job, span.len(), error))?;
        let flight = self.launch(job, span, plan, Help::Caller, None);
        flight.wait(None);
        flight.result()
    }

    /// The checked piece of memory that an owner holds; its kind is asked for here, once.
    fn span<B: IoBuf>(&self, buf: &B) -> Result<Span> {
        let memory = match buf.place() {
            // Nothing will be touched, so no one need know where it is.
            _ if buf.byte_len() == 0 => Memory::Host,
            Place::Host => Memory::Host,
            // Only now is the driver's library opened: a process that moves host memory never does.
            Place::Ask { after } => {
                let cuda = self.platform().cuda().map_err(|why| {
                    Error::new(ErrorKind::Unavailable, "locate", "there is no CUDA driver").because(why)
                })?;
                cuda.locate(buf.address() as u64, after)?
            }
        };
        Ok(span_of(buf, memory))
    }

    fn plan(&self, job: Job<'_>, span: Span) -> Result<Plan> {
        let abilities = job.source.abilities();
        let (able, direct) = match job.direction {
            Direction::Read => (abilities.read, job.options.direct_read()),
            Direction::Write => (abilities.write, job.options.direct_write()),
        };
        if !able && !span.is_empty() {
            let why = match job.direction {
                Direction::Read => "the file is not open for reading",
                Direction::Write => "the file is not open for writing",
            };
            return Err(Error::new(ErrorKind::WrongMode, job.direction.verb(), why));
        }
        let end = job.offset.checked_add(span.len() as u64);
        if !span.is_empty() && end.is_none_or(|end| i64::try_from(end).is_err()) {
            let why = "the range ends beyond the largest offset that the system knows (2^63 - 1)";
            return Err(Error::new(ErrorKind::Overflow, job.direction.verb(), why));
        }
        let route = match span.device() {
            None => Route::Host,
            Some(_) if span.len() < job.options.gds_threshold() => Route::Staged,
            Some(device) if job.source.reaches(device) => Route::Direct,
            Some(_) => Route::Staged,
        };
        let request = Request {
            offset: job.offset,
            len: span.len(),
            task_size: job.source.task_size(span.len(), job.options),
            alignment: (direct || route == Route::Direct).then_some(abilities.alignment),
            route,
        };
        Ok(Plan::new(request))
    }

    /// Puts a planned request into flight. With [`Help::Caller`] it has not ended when this returns, but has no task
    /// left to take.
    fn launch(
        &self,
        job: Job<'_>,
        span: Span,
        plan: Plan,
        help: Help,
        owner: Option<Box<dyn Any + Send>>,
    ) -> Arc<InFlight> {
        let resources = self.resources();
        let threads = self.threads();
        let terms = Terms {
            direct: match job.direction {
                Direction::Read => job.options.direct_read(),
                Direction::Write => job.options.direct_write(),
            },
            block_size: job.options.bounce_buffer_size(),
            limit: 2 * threads,
        };
        let carrier = job.source.carrier().filter(|_| job.direction == Direction::Read && plan.count() > 0);
        let is_small = plan.route() != Route::Host && plan.len() < job.options.gds_threshold();
        let mut by_caller = (help == Help::Caller || is_small) && carrier.is_none();
        let at_once = by_caller && plan.count() == 1 && plan.len() <= terms.block_size;
        let (marker, trouble) = match self.order(span, plan, at_once) {
            Ok(marker) => (marker, None),
            Err(error) => (None, Some(error)),
        };
        let flight = InFlight::new(job.source.clone(), span, plan, job.direction, marker, job.exact, owner);
        if let Some(error) = trouble {
            flight.abort(error);
            return flight;
        }
        tracing::trace!(?flight, offset = job.offset, len = plan.len(), route = ?plan.route(), "launched");
        if let Some(carrier) = carrier {
            let block_size = job.options.is_set(Key::BounceBufferSize).then_some(terms.block_size);
            carrier.carry(ticket::of(&flight, Some(resources), block_size));
            return flight;
        }
        let lanes = threads.min(plan.count());
        for _ in usize::from(by_caller)..lanes {
            let (mine, shared) = (flight.clone(), resources.clone());
            if let Err(error) = resources.pool.submit(move || lane::run(&mine, &shared, &terms)) {
                // Without any worker the caller does the work itself: late is better than never.
                tracing::warn!(%error, "no worker can be had; the calling thread does what it can");
                by_caller = true;
                break;
            }
        }
        if by_caller {
            lane::run(&flight, &resources, &terms);
        }
        flight
    }

    /// What a device request must come after: the work that the caller has put on its stream so far.
    fn order(&self, span: Span, plan: Plan, at_once: bool) -> Result<Option<Marker>> {
        let Some(device) = span.device().filter(|_| plan.count() > 0) else { return Ok(None) };
        let Ok(cuda) = self.platform().cuda() else { return Ok(None) };
        match plan.route() {
            Route::Host => Ok(None),
            // The caller's own thread waits for the caller's stream.
            Route::Staged if at_once => Ok(None),
            // The stream may be gone when a worker comes to it, the mark is ours.
            Route::Staged => cuda.mark(device).map(Some),
            Route::Direct => {
                let _entered = cuda.enter(device.context)?;
                cuda.table()
                    .synchronize_stream(device.after)
                    .map_err(|status| cuda.fault("cuStreamSynchronize", status))?;
                Ok(None)
            }
        }
    }
}

fn name(job: Job<'_>, len: usize, error: Error) -> Error {
    error.during(job.direction.verb()).on(job.source.subject()).at(job.offset, len as u64)
}

/// A transfer that has ended before it began.
fn refused(job: Job<'_>, len: usize, error: Error, owner: Box<dyn Any + Send>) -> Arc<InFlight> {
    let request = Request { offset: job.offset, len: 0, task_size: 1, alignment: None, route: Route::Host };
    let span = lend(&[]);
    let flight =
        InFlight::new(job.source.clone(), span, Plan::new(request), job.direction, None, false, Some(owner));
    flight.abort(name(job, len, error));
    flight
}

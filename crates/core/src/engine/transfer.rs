//! One request in flight: owners kept alive, bytes counted, first error kept, completion signalled once.

use std::any::Any;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::engine::plan::{Plan, Task};
use crate::engine::source::{Direction, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::device::Marker;
use crate::memory::span::Span;
use crate::process;

/// What is in flight. It owns the source and, for asynchronous requests, the buffer, until the last task has ended.
pub(crate) struct InFlight {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) span: Span,
    pub(crate) plan: Plan,
    pub(crate) direction: Direction,
    /// What copies from or to the device must come after.
    pub(crate) marker: Option<Marker>,
    exact: bool,
    process: u32,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    next: usize,
    finished: usize,
    moved: u64,
    /// Every task below this one is done; those in `ahead` are done too.
    prefix: usize,
    ahead: BTreeSet<usize>,
    short_at: Option<u64>,
    failed: Option<(u64, Error)>,
    ended: bool,
    /// Threads in `wait`: without any, the end needs no wake-up, which is a system call.
    waiting: usize,
    abandoned: bool,
    owner: Option<Box<dyn Any + Send>>,
}

/// What a task came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// So many bytes, fewer than the task's only where the source ended.
    Moved(usize),
    /// It failed.
    Failed(Error),
    /// It was not gone on with, since another one had failed.
    Withdrawn,
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        let (verb, count) = (self.direction.verb(), self.plan.count());
        write!(f, "{verb} {}: {} of {count} tasks", self.source.subject(), state.finished)
    }
}

impl InFlight {
    /// `exact`: to reach the end of the source is an error. `owner`: what keeps the buffer, given back at the end.
    pub(crate) fn new(
        source: Arc<dyn Source>,
        span: Span,
        plan: Plan,
        direction: Direction,
        marker: Option<Marker>,
        exact: bool,
        owner: Option<Box<dyn Any + Send>>,
    ) -> Arc<Self> {
        let ended = plan.count() == 0;
        Arc::new(Self {
            source,
            span,
            plan,
            direction,
            marker,
            exact,
            process: process::id(),
            state: Mutex::new(State { ended, owner, ..State::default() }),
            ended: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless a fork came between: then the lock may be held by a thread that does not exist here.
    fn own_state(&self) -> Option<MutexGuard<'_, State>> {
        if self.process == process::id() {
            return Some(self.state());
        }
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The next task that nobody has taken; `None` once all are taken or one has failed.
    pub(crate) fn claim(&self) -> Option<Task> {
        let mut state = self.state();
        if state.failed.is_some() {
            return None;
        }
        let task = self.plan.task(state.next)?;
        state.next += 1;
        Some(task)
    }

    /// Reports the end of a claimed task.
    pub(crate) fn complete(&self, task: Task, outcome: Outcome) {
        let mut state = self.state();
        state.finished += 1;
        match outcome {
            Outcome::Moved(moved) => {
                state.moved += moved as u64;
                if moved < task.len {
                    let end = task.offset + moved as u64;
                    state.short_at = Some(state.short_at.map_or(end, |known| known.min(end)));
                }
                state.ahead.insert(task.index);
                while let Some(first) = state.ahead.first().copied().filter(|first| *first == state.prefix) {
                    state.ahead.remove(&first);
                    state.prefix += 1;
                }
            }
            Outcome::Failed(error) => Self::keep_first(&mut state, task.offset, error),
            Outcome::Withdrawn => {}
        }
        self.end_if_done(state);
    }

    /// Fails the request before or between tasks: what is running ends, nothing new begins.
    pub(crate) fn abort(&self, error: Error) {
        let mut state = self.state();
        Self::keep_first(&mut state, u64::MAX, error);
        self.end_if_done(state);
    }

    /// Fails the request where tasks are left that nobody has taken; else its end is up to those who have.
    pub(crate) fn abandon_rest(&self, why: impl FnOnce() -> Error) {
        let Some(mut state) = self.own_state() else { return };
        if state.failed.is_none() && state.next < self.plan.count() {
            Self::keep_first(&mut state, u64::MAX, why());
            self.end_if_done(state);
        }
    }

    /// As [`InFlight::abandon_rest`]; of a source that runs its tasks itself, also those that are running.
    pub(crate) fn give_up(&self, why: impl FnOnce() -> Error) {
        if self.source.carrier().is_none() {
            return self.abandon_rest(why);
        }
        let Some(mut state) = self.own_state() else { return };
        if state.failed.is_none() && !state.ended {
            Self::keep_first(&mut state, u64::MAX, why());
            self.end_if_done(state);
        }
    }

    /// True while there are tasks that nobody has taken.
    pub(crate) fn has_more(&self) -> bool {
        let state = self.state();
        state.failed.is_none() && state.next < self.plan.count()
    }

    /// False once the request has failed.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state().failed.is_none()
    }

    fn keep_first(state: &mut State, offset: u64, error: Error) {
        if state.failed.as_ref().is_none_or(|(known, _)| offset < *known) {
            state.failed = Some((offset, error));
        }
    }

    fn end_if_done(&self, mut state: MutexGuard<'_, State>) {
        let all_taken = state.failed.is_some() || state.next == self.plan.count();
        if state.ended || !all_taken || state.finished < state.next {
            return;
        }
        state.ended = true;
        let orphan = if state.abandoned { state.owner.take() } else { None };
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.ended.notify_all();
        }
        // Nobody will ask for the buffer: let go of it here, outside the lock (its drop may be anything).
        drop(orphan);
    }

    /// True once the last task has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.own_state().is_some_and(|state| state.ended)
    }

    /// Waits for the last task, at most until `deadline`; true once it has ended.
    ///
    /// In a forked child the parent's tasks never run: there it answers false at once.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        let Some(mut state) = self.own_state() else { return false };
        while !state.ended {
            if self.is_foreign() {
                return false;
            }
            state.waiting += 1;
            state = match deadline.map(|end| end.saturating_duration_since(Instant::now())) {
                None => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
            state.waiting -= 1;
            if !state.ended && deadline.is_some_and(|end| end <= Instant::now()) {
                return false;
            }
        }
        true
    }

    fn is_foreign(&self) -> bool {
        self.process != process::id()
    }

    /// The bytes moved, once the last task has ended; an error before that.
    pub(crate) fn result(&self) -> Result<usize> {
        let verb = self.direction.verb();
        let named = |error: Error| {
            error.during(verb).on(self.source.subject()).at(self.plan.offset(), self.plan.len() as u64)
        };
        let state = match self.own_state() {
            Some(state) if state.ended => state,
            _ if self.is_foreign() => {
                let why = "it was started before a fork; the child has no part in it, start it again";
                return Err(named(Error::new(ErrorKind::Forked, verb, why)));
            }
            _ => return Err(named(Error::new(ErrorKind::Io, verb, "the transfer is still running"))),
        };
        if let Some((offset, error)) = &state.failed {
            return Err(named(error.clone().after(self.done_before(&state, *offset, error))));
        }
        if let Some(end) = state.short_at {
            let reached = end - self.plan.offset();
            if state.moved != reached {
                let why = "the file changed its length while it was read";
                return Err(named(Error::new(ErrorKind::Changed, verb, why)));
            }
            if self.exact {
                let why = match reached {
                    0 => format!("nothing at byte {end} or after it: end of file"),
                    _ => format!("end of file at byte {end}"),
                };
                return Err(named(Error::new(ErrorKind::UnexpectedEof, verb, why).after(reached)));
            }
        }
        // Not more than the span's length, a usize.
        Ok(state.moved as usize)
    }

    /// Bytes from the start of the request that are done without a gap.
    fn done_before(&self, state: &State, failed_at: u64, error: &Error) -> u64 {
        let Some(task) = self.plan.task(state.prefix) else { return self.plan.len() as u64 };
        let within = if task.offset == failed_at { error.done().unwrap_or(0) } else { 0 };
        task.start as u64 + within
    }

    fn take_owner(&self) -> Option<Box<dyn Any + Send>> {
        self.state().owner.take()
    }

    /// The handle is gone: whoever ends the last task lets go of the buffer.
    fn abandon(&self) {
        let Some(mut state) = self.own_state() else { return };
        state.abandoned = true;
        let orphan = if state.ended { state.owner.take() } else { None };
        drop(state);
        drop(orphan);
    }
}

/// A request in flight, and the handle to it.
///
/// Dropping the handle is always safe and never blocks: the transfer goes on, keeps its buffer and its file, and lets
/// go of both when it ends.
///
/// ```
/// # fn main() -> kvikio::Result<()> {
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("data");
/// std::fs::write(&path, b"some bytes").unwrap();
/// let file = kvikio::File::open(&path)?;
/// let transfer = file.read_at(vec![0; 5], 5);
/// let (result, buf) = transfer.wait();
/// assert_eq!(result?, 5);
/// assert_eq!(buf, b"bytes");
/// # Ok(())
/// # }
/// ```
#[must_use = "a transfer's success is known only by its result"]
pub struct Transfer<B> {
    flight: Arc<InFlight>,
    buf: PhantomData<fn() -> B>,
}

impl<B> std::fmt::Debug for Transfer<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.flight.fmt(f)
    }
}

impl<B: Send + 'static> Transfer<B> {
    /// The handle to a request whose owner is a `B`.
    pub(crate) fn new(flight: Arc<InFlight>) -> Self {
        Self { flight, buf: PhantomData }
    }

    /// True once the transfer has ended, well or not.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.flight.has_ended()
    }

    /// Waits for the end of the transfer, at most for `timeout`; true once it has ended.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        // A time beyond the clock's range is for ever.
        self.flight.wait(Instant::now().checked_add(timeout))
    }

    /// Gives the rest up: what is running ends (at once where a server is waited for), nothing new begins, and the
    /// result is [`ErrorKind::Cancelled`]. Does not wait; a transfer whose tasks are all done stays a success.
    pub fn cancel(&self) {
        let verb = self.flight.direction.verb();
        self.flight.give_up(|| Error::new(ErrorKind::Cancelled, verb, "it was cancelled"));
    }

    /// The bytes moved.
    ///
    /// # Errors
    /// What stopped the transfer; also where it is still running.
    pub fn result(&self) -> Result<usize> {
        self.flight.result()
    }

    /// Waits for the end of the transfer; answers the bytes moved, and the buffer whether or not it succeeded.
    ///
    /// # Panics
    /// Where the transfer was started before a `fork` and has not ended: its buffer cannot be given back, since the
    /// parent's threads may still be using it. [`Transfer::wait_for`] and [`Transfer::result`] answer there.
    #[allow(clippy::panic, clippy::expect_used)]
    pub fn wait(self) -> (Result<usize>, B) {
        let ended = self.flight.wait(None);
        let result = self.flight.result();
        assert!(ended, "a transfer started before a fork cannot be waited for in the child");
        let owner = self.flight.take_owner();
        // The owner was put in as a `B` by `Engine::start`, and only `wait`, which consumes the handle, takes it out.
        let buf = owner.and_then(|owner| owner.downcast::<B>().ok()).expect("a transfer holds its buffer");
        (result, *buf)
    }
}

impl<B> Drop for Transfer<B> {
    fn drop(&mut self) {
        self.flight.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::plan::{Request, Route};
    use crate::local::memory::InMemory;
    use crate::memory::buf::lend_mut;

    #[test]
    fn a_child_never_waits_for_a_lock_that_its_parent_held() {
        let mut buf = [0; 8];
        let request = Request { offset: 0, len: 8, task_size: 8, alignment: None, route: Route::Host };
        let source: Arc<dyn Source> = Arc::new(InMemory::default());
        let plan = Plan::new(request);
        let flight = InFlight::new(source, lend_mut(&mut buf), plan, Direction::Read, None, true, None);
        let mut flight = Arc::try_unwrap(flight).unwrap();
        // As a forked child sees it: made by another process, whose threads (and their hold on the lock) are not here.
        flight.process = process::id() + 1;
        let held = flight.state.lock().unwrap();
        assert!(!flight.wait(None));
        assert!(!flight.has_ended());
        assert_eq!(flight.result().unwrap_err().kind(), ErrorKind::Forked);
        flight.abandon();
        drop(held);
    }
}

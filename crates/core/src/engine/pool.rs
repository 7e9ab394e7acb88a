//! Worker threads that take jobs in order and run them. Threads come with the first job and cost nothing while idle.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads named `kvikio-<n>`; its size may change at any time.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    size: usize,
    live: usize,
    idle: usize,
    starting: usize,
    named: usize,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        write!(f, "{} of {} threads, {} jobs waiting", state.live, state.size, state.queue.len())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker's life: run jobs until the pool has shrunk below it or is closed.
    fn work(&self) {
        let mut state = self.state();
        state.starting -= 1;
        loop {
            if state.live > state.size {
                break;
            }
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                // A job reports its own failures; whatever unwinds out of one must not take the worker with it.
                let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
                state = self.state();
            } else if state.closed {
                break;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
        state.live -= 1;
    }
}

impl Pool {
    /// A pool of up to `size` threads, none of which exists yet.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let state = State { size: size.max(1), ..State::default() };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), work: Condvar::new() }) }
    }

    /// Changes the most threads. What runs goes on; what waits is kept.
    ///
    /// # Errors
    /// Where jobs wait and the system refuses the thread that they need.
    pub fn resize(&self, size: usize) -> Result<()> {
        let mut state = self.shared.state();
        state.size = size.max(1);
        self.shared.work.notify_all();
        self.grow(&mut state)
    }

    /// Queues `job`.
    ///
    /// # Errors
    /// Where the pool has no thread and the system refuses one; `job` is not kept then.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut state = self.shared.state();
        state.queue.push_back(Box::new(job));
        let grown = self.grow(&mut state);
        if grown.is_err() {
            state.queue.pop_back();
        }
        drop(state);
        self.shared.work.notify_one();
        grown
    }

    /// Starts the threads that the waiting jobs need; fewer than wished are enough, as long as there is one.
    fn grow(&self, state: &mut State) -> Result<()> {
        let busy = state.live - state.idle - state.starting;
        let wanted = state.size.min(busy + state.queue.len());
        while state.live < wanted {
            let shared = self.shared.clone();
            let name = format!("kvikio-{}", state.named);
            match std::thread::Builder::new().name(name).spawn(move || shared.work()) {
                Ok(_detached) => {
                    state.live += 1;
                    state.starting += 1;
                    state.named += 1;
                }
                Err(why) if state.live > 0 => {
                    tracing::warn!(%why, threads = state.live, "no more worker threads to be had");
                    break;
                }
                Err(why) => {
                    let code = why.raw_os_error().unwrap_or(libc::EAGAIN);
                    return Err(Error::from_os("start a worker thread", code));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    #[test]
    fn as_many_jobs_run_at_once_as_there_are_threads() {
        let pool = Pool::new(4);
        let barrier = Arc::new(Barrier::new(5));
        for _ in 0..4 {
            let barrier = barrier.clone();
            pool.submit(move || {
                barrier.wait();
            })
            .unwrap();
        }
        barrier.wait();
    }

    #[test]
    fn never_more_jobs_at_once_than_threads_also_after_shrinking() {
        let pool = Pool::new(3);
        let running = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = mpsc::channel();
        let submit = |count: usize| {
            for _ in 0..count {
                let (running, most, sender) = (running.clone(), most.clone(), sender.clone());
                pool.submit(move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    running.fetch_sub(1, Ordering::SeqCst);
                    sender.send(()).unwrap();
                })
                .unwrap();
            }
        };
        submit(30);
        (0..30).for_each(|_| receiver.recv().unwrap());
        assert!(most.load(Ordering::SeqCst) <= 3);
        pool.resize(1).unwrap();
        most.store(0, Ordering::SeqCst);
        submit(10);
        (0..10).for_each(|_| receiver.recv().unwrap());
        assert_eq!(most.load(Ordering::SeqCst), 1);
        pool.resize(2).unwrap();
        let barrier = Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let barrier = barrier.clone();
            pool.submit(move || {
                barrier.wait();
            })
            .unwrap();
        }
        barrier.wait();
    }

    #[test]
    fn a_job_that_panics_does_not_cost_a_thread() {
        let pool = Pool::new(1);
        pool.submit(|| panic!("on purpose")).unwrap();
        let (sender, receiver) = mpsc::channel();
        pool.submit(move || sender.send(1).unwrap()).unwrap();
        assert_eq!(receiver.recv().unwrap(), 1);
    }

    #[test]
    fn jobs_waiting_when_the_pool_is_dropped_still_run() {
        let (sender, receiver) = mpsc::channel();
        let pool = Pool::new(1);
        for number in 0..20 {
            let sender = sender.clone();
            pool.submit(move || sender.send(number).unwrap()).unwrap();
        }
        drop(pool);
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    }
}

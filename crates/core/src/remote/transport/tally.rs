//! What the event loops have done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a transport has done since it was made; see [`Remote::statistics`](crate::Remote::statistics).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests sent, each attempt counted.
    pub requests: u64,
    /// Requests that were repeated after a fault, or sent for the rest of a body.
    pub retries: u64,
    /// Redirects followed.
    pub redirects: u64,
    /// Body bytes of objects that have landed.
    pub bytes: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Requests that found a kept connection.
    pub connections_reused: u64,
    /// Time spent waiting before repeated requests, all requests together.
    pub waited: Duration,
    /// The status of the last answer, 0 before the first.
    pub last_status: u16,
}

/// The counters behind [`Statistics`].
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) redirects: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) opened: AtomicU64,
    pub(super) reused: AtomicU64,
    pub(super) waited_us: AtomicU64,
    pub(super) last_status: AtomicU64,
}

impl Tally {
    /// Adds to a counter.
    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    /// The numbers now.
    pub(super) fn read(&self) -> Statistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            requests: get(&self.requests),
            retries: get(&self.retries),
            redirects: get(&self.redirects),
            bytes: get(&self.bytes),
            connections_opened: get(&self.opened),
            connections_reused: get(&self.reused),
            waited: Duration::from_micros(get(&self.waited_us)),
            last_status: u16::try_from(get(&self.last_status)).unwrap_or_default(),
        }
    }
}

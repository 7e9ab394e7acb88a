//! The seam between a service and the wire: how an object of that service is asked for, and what its answers mean.

use std::fmt::Debug;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::remote::request::{Answer, Request};

/// What proves that a body is the range that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// `206` with the `Content-Range`; or `200` where the range is the whole object.
    ContentRange,
    /// `200` with exactly as many bytes as were asked for: the range is part of the address (WebHDFS).
    Length,
}

/// What an endpoint makes of an answer that is not a success.
#[derive(Debug)]
pub enum Refusal {
    /// It is final, in the service's own words.
    Final(Error),
    /// The credentials may have expired: [`Endpoint::renew`] them, then ask once more.
    Stale(Error),
    /// The endpoint has learned something (the bucket's region): ask once more, at once.
    Learned(Error),
}

/// One object of a service.
///
/// No method but [`Endpoint::renew`] blocks or does I/O: they are called on event loops.
pub trait Endpoint: Debug + Send + Sync {
    /// The object's address, without secrets: its name in errors.
    fn subject(&self) -> String;

    /// Requests that may tell the size, each tried only where the one before did not.
    ///
    /// # Errors
    /// Where there are no credentials to sign with.
    fn probes(&self, now: SystemTime) -> Result<Vec<Request>>;

    /// The size, from the answer to a probe; `None` where it does not tell.
    ///
    /// # Errors
    /// Where the answer tells something that cannot be.
    fn size(&self, probe: &Request, answer: &Answer) -> Result<Option<u64>>;

    /// The request for a range (never empty), signed for `now`; called anew for each attempt and each resumption.
    ///
    /// # Errors
    /// Where there are no credentials to sign with.
    fn range(&self, range: Range<u64>, now: SystemTime) -> Result<Request>;

    /// What proves that a body is the range.
    fn proof(&self) -> Proof {
        Proof::ContentRange
    }

    /// What a status of 400 or above means, where it is not one that the retry policy takes care of. `answer.body`
    /// holds up to 64 KiB of the service's explanation.
    fn refused(&self, answer: &Answer) -> Refusal;

    /// Obtains fresh credentials. May block and use the network; called on a thread of its own.
    ///
    /// # Errors
    /// Where none can be had.
    fn renew(&self) -> Result<()> {
        Ok(())
    }
}

/// Whoever can carry a small request, waiting for the answer: what credential chains are given.
pub trait Fetch: Debug + Send + Sync {
    /// Sends `request`; the answer whatever its status, with at most `limit` bytes of body.
    ///
    /// # Errors
    /// Where no answer came within `patience`, or the body is longer than `limit`.
    fn fetch(&self, request: &Request, limit: usize, patience: Duration) -> Result<Answer>;
}

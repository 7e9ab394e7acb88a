//! Borrowed buffers in flight: a scope does not end before its transfers have.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::transfer::InFlight;
use crate::error::Result;

/// A region of code in which borrowed buffers may be in flight; made by [`scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    flights: Mutex<Vec<Arc<InFlight>>>,
    // Invariant in both lifetimes, as in `std::thread::Scope`: a borrow cannot be shortened to end within the scope.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// A transfer of a borrowed buffer.
#[derive(Debug)]
pub struct ScopedTransfer<'scope> {
    flight: Arc<InFlight>,
    scope: PhantomData<&'scope mut &'scope ()>,
}

impl ScopedTransfer<'_> {
    /// True once the transfer has ended, well or not.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.flight.has_ended()
    }

    /// Waits for the end of the transfer; answers the bytes moved.
    ///
    /// # Errors
    /// What stopped the transfer.
    pub fn wait(self) -> Result<usize> {
        self.flight.wait(None);
        self.flight.result()
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Takes a started transfer into the scope.
    pub(crate) fn adopt(&'scope self, flight: Arc<InFlight>) -> ScopedTransfer<'scope> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner).push(flight.clone());
        ScopedTransfer { flight, scope: PhantomData }
    }
}

impl Scope<'_, '_> {
    fn wait_all(&self) {
        let flights = std::mem::take(&mut *self.flights.lock().unwrap_or_else(PoisonError::into_inner));
        for flight in flights {
            flight.wait(None);
        }
    }
}

/// Runs `work`, in which borrowed buffers may be given to transfers, and waits for all of them, also when `work`
/// panics.
///
/// ```
/// # fn main() -> kvikio::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// std::fs::write(&path, b"left right").unwrap();
/// let file = kvikio::File::open(&path)?;
/// let (mut left, mut right) = ([0; 4], [0; 5]);
/// kvikio::scope(|scope| {
///     let first = file.read_scoped(scope, &mut left, 0);
///     let second = file.read_scoped(scope, &mut right, 5);
///     first.wait()?;
///     second.wait()
/// })?;
/// assert_eq!((&left, &right), (b"left", b"right"));
/// # Ok(())
/// # }
/// ```
pub fn scope<'env, F, T>(work: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { flights: Mutex::default(), scope: PhantomData, env: PhantomData };
    let outcome = catch_unwind(AssertUnwindSafe(|| work(&scope)));
    scope.wait_all();
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

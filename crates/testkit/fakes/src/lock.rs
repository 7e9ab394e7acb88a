//! Locks that hold whatever happened to an earlier holder.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, poisoned or not: a panic must not spread through the C interface.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

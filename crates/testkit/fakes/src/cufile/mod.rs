//! The exported functions of cuFile.

mod batch;
mod door;
mod driver;
mod handle;
mod queued;
mod transfer;

/// The names of all of them.
pub(crate) const SYMBOLS: &[&[&str]] =
    &[batch::SYMBOLS, driver::SYMBOLS, handle::SYMBOLS, queued::SYMBOLS, transfer::SYMBOLS];

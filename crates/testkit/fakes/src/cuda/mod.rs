//! The exported functions of the CUDA driver.

mod copy;
mod device;
mod memory;
mod names;
mod pointer;
mod stream;

/// The names of all of them.
pub(crate) const SYMBOLS: &[&[&str]] =
    &[copy::SYMBOLS, device::SYMBOLS, memory::SYMBOLS, names::SYMBOLS, pointer::SYMBOLS, stream::SYMBOLS];

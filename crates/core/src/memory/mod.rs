//! Memory that bytes move to and from: whose it is, what kind it is, and where bounce buffers come from.

pub mod align;
pub mod bounce;
pub mod buf;
#[cfg(feature = "cudarc")]
mod cudarc;
pub mod device;
pub mod span;

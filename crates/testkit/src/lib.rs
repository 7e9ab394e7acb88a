//! What the tests of kvikio-rs share: test doubles and the suite that every source has to pass.
//!
//! Nothing here is published: failing loudly is its purpose, so panics are its errors.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod conformance;
pub mod fakes;
pub mod gate;
pub mod server;
pub mod servers;

//! Test doubles and shared suites of kvikio-rs. Used from tests only, so a fault in it panics instead of returning.

pub mod fakes;

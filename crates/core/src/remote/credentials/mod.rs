//! Credentials: where they come from, and how long they are good.

pub mod keyring;
pub mod keys;

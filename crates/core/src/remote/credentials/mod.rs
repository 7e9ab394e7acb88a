//! Credentials: where they come from, and how long they are good.

pub mod chain;
pub mod courier;
pub mod keyring;
pub mod keyrings;
pub mod keys;
pub mod profiles;
pub mod program;
pub mod variables;

//! From a request to bytes that have moved: `request.rs` checks and plans it and gives it to lanes, which take tasks.

pub mod carrier;
mod claim;
mod lane;
pub mod plan;
pub mod pool;
mod request;
pub(crate) mod resources;
mod scope;
mod shared;
pub mod source;
mod stage;
pub(crate) mod ticket;
pub mod transfer;

pub(crate) use request::Job;
pub use scope::{Scope, ScopedTransfer, scope};
pub use shared::Engine;

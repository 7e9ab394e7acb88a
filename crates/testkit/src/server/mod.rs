//! A scripted, faulty HTTP/1.1 server.

mod tls;

pub use tls::{Authority, Flaw};

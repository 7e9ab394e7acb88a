//! A scripted, faulty HTTP/1.1 server on the loopback interface: threads, blocking sockets, a port of its own.
//!
//! A [`Script`] says which objects there are and how requests for them go wrong; the [`Server`] keeps a log.
//!
//! ```
//! use kvikio_testkit::server::{Fault, Script, Server};
//!
//! let script = Script::new()
//!     .object("/weights", vec![7; 100_000])
//!     .once("/weights", Fault::ResetAfter(1000))
//!     .from(2, "/weights", Fault::IgnoreRange);
//! let server = Server::start(script);
//! assert!(server.url("/weights").starts_with("http://127.0.0.1:"));
//! assert!(server.requests().is_empty());
//! ```

mod body;
mod connection;
mod content;
mod fault;
mod paths;
mod reply;
mod request;
mod script;
mod serve;
mod tls;
mod tunnel;
mod wire;

pub use content::Content;
pub use fault::Fault;
pub use request::Seen;
pub use script::{Object, Script};
pub use serve::Server;
pub use tls::{Authority, Flaw};

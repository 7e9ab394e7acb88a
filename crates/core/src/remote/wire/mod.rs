//! HTTP/1.1 as values and functions: nothing here opens a socket, reads a clock or waits; only `trust` opens files.

pub(crate) mod base64;
pub(crate) mod check;
pub(crate) mod chunked;
pub(crate) mod head;
pub(crate) mod location;
pub(crate) mod proxy;
pub(crate) mod redirect;
pub(crate) mod retry;
pub(crate) mod throttle;
pub(crate) mod trust;

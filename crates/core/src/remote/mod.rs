//! Objects of HTTP servers, of S3 and of WebHDFS, read range by range.

pub(crate) mod endpoint;
pub(crate) mod object;
pub(crate) mod request;
pub(crate) mod transport;
pub(crate) mod wire;

//! Objects of HTTP servers, of S3 and of WebHDFS, read range by range.

pub(crate) mod endpoint;
pub(crate) mod escape;
pub(crate) mod request;
pub(crate) mod secret;
pub(crate) mod url;

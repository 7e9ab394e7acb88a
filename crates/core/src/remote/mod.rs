//! Objects of HTTP servers, of S3 and of WebHDFS, read range by range.

pub(crate) mod classify;
pub(crate) mod credentials;
pub(crate) mod endpoint;
pub(crate) mod escape;
pub(crate) mod http;
pub(crate) mod object;
pub(crate) mod open;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod s3;
pub(crate) mod secret;
pub(crate) mod size;
pub(crate) mod transport;
pub(crate) mod url;
pub(crate) mod webhdfs;
pub(crate) mod wire;

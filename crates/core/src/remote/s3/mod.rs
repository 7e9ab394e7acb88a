//! S3: how its objects are named, how requests are signed, what its refusals mean.

pub mod object;
pub mod place;
pub mod presigned;
pub mod refused;
pub mod settings;
pub mod sign;

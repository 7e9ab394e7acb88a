//! The CUDA driver and cuFile, opened at run time.
//!
//! Nothing here links against a vendor library: [`cuda::Table`] and [`cufile::Table`] are plain structs of function
//! pointers, filled from a shared object that is found when the program runs. One binary therefore serves CUDA 12,
//! CUDA 13 and no CUDA at all, and a test hands in a table of its own.
//!
//! Each call returns its status as a `Result`; a status is an integer with names ([`cuda::CuStatus`],
//! [`cufile::CuFileStatus`]), never an enum, because a newer driver may answer with a value that no header listed.

pub mod cuda;
pub mod cufile;
pub mod dylib;

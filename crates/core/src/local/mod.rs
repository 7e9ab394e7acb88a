//! Files of this machine: descriptors, the system's own way of reading and writing them, and cuFile's.

pub mod cufile;
pub mod fd;
pub mod file;
pub mod gds;
pub mod memory;
pub mod posix;

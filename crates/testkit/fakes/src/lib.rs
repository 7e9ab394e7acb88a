//! One shared object that stands in for both `libcuda.so.1` and `libcufile.so.0` on machines without a GPU.
//!
//! It exports the C functions of both libraries under their own names and keeps "device" memory in a file in memory,
//! behind addresses that the CPU cannot touch. Streams run on threads of their own, so a program that forgets to wait
//! sees wrong data here as it would on a GPU; breaches that real hardware lets pass by luck are recorded as
//! violations. Functions named `kvikio_fake_*` (see `control`) steer it and read its counters.
//!
//! Install it under both names in one folder as hard links to one file: the dynamic loader then maps it once and
//! cuFile's half sees the memory of CUDA's half. A copy in another folder is another instance with its own state.
//!
//! State is global here by nature: a C library has no other place for it. Each module owns its part, behind a lock.

mod cells;
mod context;
mod control;
mod copy;
mod cuda;
mod cufile;
mod entry;
mod host;
mod lock;
mod memory;
mod pages;
mod script;
mod status;
mod stream;
mod violations;

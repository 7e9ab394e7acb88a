//! File I/O straight into GPU or host memory.
//!
//! [`File`] reads and writes at offsets, into and out of any buffer that promises a stable address ([`IoBuf`]): host
//! memory, page-locked memory, memory of a GPU. A request is cut into tasks that run side by side on an [`Engine`];
//! the [`Transfer`] that comes back owns the buffer until the last task has ended.
//!
//! ```
//! # fn main() -> kvikio::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("model.bin");
//! # std::fs::write(&path, vec![7; 100]).unwrap();
//! let file = kvikio::File::open(&path)?;
//! let (result, weights) = file.read_exact_at(vec![0; 100], 0).wait();
//! result?;
//! assert!(weights.iter().all(|byte| *byte == 7));
//! # Ok(())
//! # }
//! ```
//!
//! With a GPU the same call takes device memory: an owner such as [`DeviceBuf`], or any type for which you implement
//! [`IoBuf`] (with the feature `cudarc`: `cudarc::driver::CudaSlice<u8>`). Bytes then travel through page-locked bounce
//! buffers whose copies overlap the reads, or by cuFile where GPUDirect Storage really serves the file;
//! [`File::route_reason`] says which and why. No CUDA library is needed to build, to load, or to move host memory.
//!
//! [`RemoteFile`] reads objects of HTTP servers, of S3 and of WebHDFS in the same way; [`Remote`] opens them:
//!
//! ```no_run
//! # fn main() -> kvikio::Result<()> {
//! use kvikio::{Options, Remote};
//! let remote = Remote::shared();
//! let file = remote.open_http("http://127.0.0.1:8080/model.bin", None, Options::default())?;
//! let mut header = vec![0; 64];
//! file.read_exact_into(&mut header, 0)?;
//! # Ok(())
//! # }
//! ```

mod engine;
mod error;
mod file;
mod local;
mod memory;
mod options;
mod platform;
mod process;
// Not all of it is used yet: the services are being built.
#[allow(dead_code)]
mod remote;
mod remote_file;

pub use engine::plan::Route;
pub use engine::source::{Abilities, Access, DeviceOutcome, Direction, Source};
pub use engine::transfer::Transfer;
pub use engine::{Engine, Scope, ScopedTransfer, scope};
pub use error::{Error, ErrorKind, Result};
pub use file::{File, OpenOptions};
pub use local::memory::InMemory;
pub use memory::buf::{DeviceBuf, IoBuf, IoBufMut, PinnedBuf, Place};
pub use memory::span::{Device, Memory, Span};
pub use options::{Environment, Key, LocalIo, Options, SETTINGS, Setting, Value, find as find_setting};
pub use platform::{CuFileDriver, Platform};
pub use remote::classify::EndpointType;
pub use remote::open::infer_endpoint_type;
pub use remote::s3::settings::S3Settings;
pub use remote::secret::Secret;
pub use remote::transport::Statistics;
pub use remote_file::{Remote, RemoteFile};

/// The foreign functions underneath, for those who bring tables of their own.
pub use kvikio_sys as sys;

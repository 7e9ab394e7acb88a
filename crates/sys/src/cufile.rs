//! cuFile (GPUDirect Storage) as a table of functions, each returning a status as a `Result`.
//!
//! ABI: NVIDIA's `cufile.h`. Calls that came with later versions are optional: an older library lacks a feature
//! instead of being useless.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;

use crate::dylib::{Library, LoadError, table};

/// A status of cuFile: its own code and, where that is "CUDA driver error", the driver's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct CuFileStatus {
    /// `CUfileOpError`: 0, or 5001 and up.
    pub op: i32,
    /// `CUresult`, meaningful where `op` is [`CuFileStatus::CUDA_DRIVER_ERROR`].
    pub driver: i32,
}

impl CuFileStatus {
    /// `CU_FILE_CUDA_DRIVER_ERROR`: the driver's half says what.
    pub const CUDA_DRIVER_ERROR: i32 = 5011;
    /// `CU_FILE_DRIVER_ALREADY_OPEN`
    pub const DRIVER_ALREADY_OPEN: i32 = 5026;

    /// The status that a negative return of a read or write stands for, given the `errno` at that moment.
    #[must_use]
    pub fn from_return(value: isize, errno: i32) -> Self {
        let op = if value == -1 { errno } else { i32::try_from(value.unsigned_abs()).unwrap_or(i32::MAX) };
        Self { op, driver: 0 }
    }

    /// What NVIDIA's manual says the code means, or the system's words where it is an `errno`.
    #[must_use]
    pub fn text(self) -> String {
        match meaning(self.op) {
            Some(text) => text.to_owned(),
            None if self.op < 5000 => std::io::Error::from_raw_os_error(self.op).to_string(),
            None => format!("cuFile error {}", self.op),
        }
    }
}

impl fmt::Debug for CuFileStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUfileError({}, {})", self.op, self.driver)
    }
}

impl fmt::Display for CuFileStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.op == Self::CUDA_DRIVER_ERROR {
            write!(f, "{} (CUDA error {})", self.text(), self.driver)
        } else {
            f.write_str(&self.text())
        }
    }
}

fn meaning(op: i32) -> Option<&'static str> {
    Some(match op - 5000 {
        1 => {
            "nvidia-fs driver is not loaded. Set allow_compat_mode to true in cufile.json file to enable compatible mode"
        }
        2 => "invalid property",
        3 => "property range error",
        4 => "nvidia-fs driver version mismatch",
        5 => "nvidia-fs driver version read error",
        6 => "driver shutdown in progress",
        7 => "GPUDirect Storage not supported on current platform",
        8 => "GPUDirect Storage not supported on current file",
        9 => "GPUDirect Storage not supported on current GPU",
        10 => "nvidia-fs driver ioctl error",
        11 => "CUDA Driver API error",
        12 => "invalid device pointer",
        13 => "invalid pointer memory type",
        14 => "pointer range exceeds allocated address range",
        15 => "cuda context mismatch",
        16 => "access beyond maximum pinned size",
        17 => "access beyond mapped size",
        18 => "unsupported file type",
        19 => "unsupported file open flags",
        20 => "fd direct IO not set",
        22 => "invalid arguments",
        23 => "device pointer already registered",
        24 => "device pointer lookup failure",
        25 => "driver or file access error",
        26 => "driver is already open",
        27 => "file descriptor is not registered",
        28 => "file descriptor is already registered",
        29 => "GPU device not found",
        30 => "internal error",
        31 => "failed to obtain new file descriptor",
        33 => "NVFS driver initialization error",
        34 => "GPUDirect Storage disabled by config on current file",
        35 => "failed to submit batch operation",
        36 => "failed to allocate pinned GPU Memory",
        37 => "queue full for batch operation",
        38 => "cuFile stream operation not supported",
        39 => "GPUDirect Storage max error",
        _ => return None,
    })
}

/// A file registered with cuFile (`CUfileHandle_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(pub usize);

/// `CUfileDescr_t`
#[repr(C)]
struct Descriptor {
    kind: c_int,
    fd: DescriptorFd,
    fs_ops: *const c_void,
}

#[repr(C)]
union DescriptorFd {
    fd: c_int,
    handle: *mut c_void,
}

/// `CUfileDrvProps_t`: what the driver of cuFile can do and how it is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Properties {
    /// Version of the nvidia-fs kernel driver; 0.0 where it is not in use.
    pub nvfs_major: c_uint,
    /// See [`Properties::nvfs_major`].
    pub nvfs_minor: c_uint,
    /// Poll threshold in KiB.
    pub poll_thresh_size_kib: usize,
    /// Largest direct I/O in KiB.
    pub max_direct_io_size_kib: usize,
    /// File systems and devices for which the direct path is supported (`CU_FILE_*_SUPPORTED` bit numbers).
    pub status_flags: c_uint,
    /// Bit 0: poll mode; bit 1: compatibility mode allowed.
    pub control_flags: c_uint,
    /// Features of the library.
    pub feature_flags: c_uint,
    /// GPU memory for bounce buffers per device, in KiB.
    pub max_device_cache_size_kib: c_uint,
    /// The same per buffer, in KiB.
    pub per_buffer_cache_size_kib: c_uint,
    /// Largest pinned GPU memory, in KiB.
    pub max_pinned_memory_size_kib: c_uint,
    /// Largest batch.
    pub max_batch_io_size: c_uint,
    /// Batch time-out in milliseconds.
    pub batch_timeout_ms: c_uint,
}

const _: () = assert!(size_of::<Descriptor>() == 24);
const _: () = assert!(size_of::<Properties>() == 56);
const _: () = assert!(size_of::<CuFileStatus>() == 8);

impl Properties {
    /// `CU_FILE_ALLOW_COMPAT_MODE`
    #[must_use]
    pub fn allows_compat_mode(&self) -> bool {
        self.control_flags & 0b10 != 0
    }

    /// `CU_FILE_USE_POLL_MODE`
    #[must_use]
    pub fn uses_poll_mode(&self) -> bool {
        self.control_flags & 0b01 != 0
    }

    /// True where the nvidia-fs kernel driver is in use.
    #[must_use]
    pub fn has_nvidia_fs(&self) -> bool {
        (self.nvfs_major, self.nvfs_minor) != (0, 0)
    }

    /// True where the driver lists support for `storage`.
    #[must_use]
    pub fn supports(&self, storage: Storage) -> bool {
        self.status_flags & (1 << storage as u32) != 0
    }
}

/// Kinds of storage that the driver may serve directly (`CUfileDriverStatusFlags`; the numbers are bit numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// DDN Lustre.
    Lustre = 0,
    /// WekaFS.
    Weka = 1,
    /// NFS over RDMA.
    Nfs = 2,
    /// IBM Storage Scale.
    Gpfs = 3,
    /// A local NVMe drive.
    Nvme = 4,
    /// NVMe over fabrics.
    NvmeOf = 5,
    /// SCSI.
    Scsi = 6,
    /// ScaleFlux CSD.
    ScaleFlux = 7,
    /// NVMesh.
    NvMesh = 8,
    /// BeeGFS.
    BeeGfs = 9,
    /// A local NVMe drive by PCI peer-to-peer, without nvidia-fs.
    NvmeP2p = 11,
    /// ScateFS.
    ScateFs = 12,
    /// virtio-fs.
    VirtioFs = 13,
    /// PanFS.
    PanFs = 14,
}

table! {
    /// The functions of `libcufile.so.0`.
    pub struct Table;
    required {
        handle_register = c"cuFileHandleRegister": fn(*mut usize, *mut Descriptor) -> CuFileStatus;
        handle_deregister = c"cuFileHandleDeregister": fn(usize) -> ();
        read = c"cuFileRead": fn(usize, *mut c_void, usize, i64, i64) -> isize;
        write = c"cuFileWrite": fn(usize, *const c_void, usize, i64, i64) -> isize;
        buf_register = c"cuFileBufRegister": fn(*const c_void, usize, c_int) -> CuFileStatus;
        buf_deregister = c"cuFileBufDeregister": fn(*const c_void) -> CuFileStatus;
        driver_open = c"cuFileDriverOpen": fn() -> CuFileStatus;
        driver_get_properties = c"cuFileDriverGetProperties": fn(*mut Properties) -> CuFileStatus;
    }
    optional {
        driver_close = c"cuFileDriverClose_v2": fn() -> CuFileStatus;
        get_version = c"cuFileGetVersion": fn(*mut c_int) -> CuFileStatus;
    }
}

/// Where the wheels `nvidia-cufile` (CUDA 13) and `nvidia-cufile-cu12` put the library, below a folder of packages.
pub const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cufile/lib"];

/// The names by which the loader may know cuFile; NVIDIA's own wheels carry the first.
pub const LIBRARY_NAMES: [&str; 3] = ["libcufile.so.0", "libcufile.so.1", "libcufile.so"];

/// Where toolkit installers put cuFile, outside the loader's search path.
pub const TOOLKIT_DIRS: [&str; 3] =
    ["/usr/local/cuda/lib64", "/usr/local/cuda-13/lib64", "/usr/local/cuda-12/lib64"];

fn check(status: CuFileStatus) -> Result<(), CuFileStatus> {
    if status.op == 0 { Ok(()) } else { Err(status) }
}

impl Table {
    /// Opens cuFile from the first of `candidates` that loads. Does not open cuFile's driver.
    ///
    /// # Errors
    /// [`LoadError`] where the library or one of its functions is absent.
    pub fn open<I, P>(candidates: I) -> Result<Self, LoadError>
    where
        I: IntoIterator<Item = P>,
        P: AsRef<Path>,
    {
        Self::from_library(&Library::open(candidates)?)
    }

    /// Opens cuFile's driver; an already open one is success.
    ///
    /// # Errors
    /// The status.
    pub fn open_driver(&self) -> Result<(), CuFileStatus> {
        // SAFETY: no arguments; may be called on any thread.
        match check(unsafe { (self.driver_open)() }) {
            Err(status) if status.op == CuFileStatus::DRIVER_ALREADY_OPEN => Ok(()),
            outcome => outcome,
        }
    }

    /// Closes cuFile's driver; does nothing where the library is too old to have the call.
    ///
    /// # Errors
    /// The status.
    pub fn close_driver(&self) -> Result<(), CuFileStatus> {
        match self.driver_close {
            // SAFETY: no arguments; may be called on any thread.
            Some(close) => check(unsafe { close() }),
            None => Ok(()),
        }
    }

    /// The driver's properties; opens the driver where that has not happened.
    ///
    /// # Errors
    /// The status.
    pub fn properties(&self) -> Result<Properties, CuFileStatus> {
        let mut properties = Properties::default();
        // SAFETY: `properties` has the layout of `CUfileDrvProps_t` (asserted above).
        check(unsafe { (self.driver_get_properties)(&raw mut properties) })?;
        Ok(properties)
    }

    /// The library's version, as in 1140 for 1.14; 1070 where it predates the call.
    ///
    /// # Errors
    /// The status.
    pub fn version(&self) -> Result<i32, CuFileStatus> {
        let Some(get_version) = self.get_version else { return Ok(1070) };
        let mut version = 0;
        // SAFETY: `version` is a valid place for the answer.
        check(unsafe { get_version(&raw mut version) })?;
        Ok(version)
    }

    /// Registers an open descriptor.
    ///
    /// # Errors
    /// The status, for instance 5027 where the file system is not known to udev.
    ///
    /// # Safety
    /// `fd` must stay open until [`Table::deregister`].
    pub unsafe fn register(&self, fd: c_int) -> Result<Handle, CuFileStatus> {
        const OPAQUE_FD: c_int = 1;
        let mut descriptor = Descriptor {
            kind: OPAQUE_FD,
            fd: DescriptorFd { handle: std::ptr::null_mut() },
            fs_ops: std::ptr::null(),
        };
        descriptor.fd.fd = fd;
        let mut handle = 0;
        // SAFETY: both are valid places; the descriptor has the layout of `CUfileDescr_t` (asserted above), and the
        // caller keeps `fd` open.
        check(unsafe { (self.handle_register)(&raw mut handle, &raw mut descriptor) })?;
        Ok(Handle(handle))
    }

    /// Ends a registration.
    ///
    /// # Safety
    /// No read or write on the handle may be running, and none may follow.
    pub unsafe fn deregister(&self, handle: Handle) {
        // SAFETY: passed on to the caller: the handle is unused.
        unsafe { (self.handle_deregister)(handle.0) };
    }

    /// Reads into device memory at `base + device_offset`; answers the bytes read, fewer only at the end of the file.
    ///
    /// # Errors
    /// The status; an `errno` (below 5000) where the system refused.
    ///
    /// # Safety
    /// `base + device_offset` must be writable device memory for `len` bytes.
    pub unsafe fn read(
        &self,
        handle: Handle,
        base: u64,
        len: usize,
        offset: i64,
        device_offset: i64,
    ) -> Result<usize, CuFileStatus> {
        // SAFETY: passed on to the caller: the device memory holds `len` bytes.
        let value = unsafe { (self.read)(handle.0, base as *mut c_void, len, offset, device_offset) };
        usize::try_from(value).map_err(|_| CuFileStatus::from_return(value, errno()))
    }

    /// Writes device memory at `base + device_offset`; answers the bytes written.
    ///
    /// # Errors
    /// The status; an `errno` (below 5000) where the system refused.
    ///
    /// # Safety
    /// `base + device_offset` must be readable device memory for `len` bytes.
    pub unsafe fn write(
        &self,
        handle: Handle,
        base: u64,
        len: usize,
        offset: i64,
        device_offset: i64,
    ) -> Result<usize, CuFileStatus> {
        // SAFETY: passed on to the caller: the device memory holds `len` bytes.
        let value = unsafe { (self.write)(handle.0, base as *const c_void, len, offset, device_offset) };
        usize::try_from(value).map_err(|_| CuFileStatus::from_return(value, errno()))
    }

    /// Registers device memory, so that the direct path need not bounce through cuFile's own buffers.
    ///
    /// # Errors
    /// The status.
    ///
    /// # Safety
    /// The memory must stay allocated until [`Table::deregister_buffer`].
    pub unsafe fn register_buffer(&self, base: u64, len: usize, flags: c_int) -> Result<(), CuFileStatus> {
        // SAFETY: passed on to the caller: the allocation outlives the registration.
        check(unsafe { (self.buf_register)(base as *const c_void, len, flags) })
    }

    /// Ends a registration made by [`Table::register_buffer`].
    ///
    /// # Errors
    /// The status.
    pub fn deregister_buffer(&self, base: u64) -> Result<(), CuFileStatus> {
        // SAFETY: an address that was not registered is answered by a status.
        check(unsafe { (self.buf_deregister)(base as *const c_void) })
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

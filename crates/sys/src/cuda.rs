//! The CUDA driver calls that we use, as a table of functions, each returning a status as a `Result`.
//!
//! ABI: NVIDIA's `cuda.h` (12.x and 13.x agree on every function here; `_v2` names are the ones its macros map to).
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;

use crate::dylib::{Library, LoadError, table};

/// A status of the CUDA driver: an integer with names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CuStatus(pub i32);

impl CuStatus {
    /// `CUDA_SUCCESS`
    pub const SUCCESS: Self = Self(0);
    /// `CUDA_ERROR_INVALID_VALUE`
    pub const INVALID_VALUE: Self = Self(1);
    /// `CUDA_ERROR_OUT_OF_MEMORY`
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// `CUDA_ERROR_NOT_INITIALIZED`
    pub const NOT_INITIALIZED: Self = Self(3);
    /// `CUDA_ERROR_DEINITIALIZED`
    pub const DEINITIALIZED: Self = Self(4);
    /// `CUDA_ERROR_STUB_LIBRARY`
    pub const STUB_LIBRARY: Self = Self(34);
    /// `CUDA_ERROR_NO_DEVICE`
    pub const NO_DEVICE: Self = Self(100);
    /// `CUDA_ERROR_INVALID_CONTEXT`
    pub const INVALID_CONTEXT: Self = Self(201);
    /// `CUDA_ERROR_NOT_READY`
    pub const NOT_READY: Self = Self(600);
}

impl fmt::Debug for CuStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUresult({})", self.0)
    }
}

/// A CUDA context (`CUcontext`); null means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Context(pub usize);

/// A CUDA stream (`CUstream`); null is the legacy default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream(pub usize);

/// A CUDA event (`CUevent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event(pub usize);

/// What kind of memory an address is, as the driver reports it (`CU_MEMORYTYPE_*`; 0 = the driver does not know it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryType(pub u32);

impl MemoryType {
    /// Not known to the driver: ordinary host memory.
    pub const UNREGISTERED: Self = Self(0);
    /// Page-locked host memory.
    pub const HOST: Self = Self(1);
    /// Device memory, managed memory included.
    pub const DEVICE: Self = Self(2);
}

/// What the driver knows about an address, asked in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointerInfo {
    /// The kind of memory.
    pub memory_type: MemoryType,
    /// The context that allocated it; null for memory from a stream-ordered pool.
    pub context: Context,
    /// The device it lives on (an ordinal); meaningless for unregistered host memory.
    pub device: i32,
    /// True for managed (unified) memory, which the CPU may touch too.
    pub is_managed: bool,
}

/// `CU_MEMHOSTALLOC_PORTABLE` and `CU_MEMHOSTREGISTER_PORTABLE`: page-locked for every context.
pub const HOST_PORTABLE: u32 = 1;
/// `CU_STREAM_DEFAULT`: ordered after earlier work on the legacy default stream.
pub const STREAM_DEFAULT: u32 = 0;
/// `CU_EVENT_DISABLE_TIMING`
pub const EVENT_DISABLE_TIMING: u32 = 2;

const POINTER_CONTEXT: c_int = 1;
const POINTER_MEMORY_TYPE: c_int = 2;
const POINTER_IS_MANAGED: c_int = 8;
const POINTER_DEVICE_ORDINAL: c_int = 9;

table! {
    /// The functions of `libcuda.so.1`.
    pub struct Table;
    required {
        cu_init = c"cuInit": fn(c_uint) -> c_int;
        cu_driver_get_version = c"cuDriverGetVersion": fn(*mut c_int) -> c_int;
        cu_get_error_name = c"cuGetErrorName": fn(c_int, *mut *const c_char) -> c_int;
        cu_get_error_string = c"cuGetErrorString": fn(c_int, *mut *const c_char) -> c_int;
        cu_device_get = c"cuDeviceGet": fn(*mut c_int, c_int) -> c_int;
        cu_device_get_count = c"cuDeviceGetCount": fn(*mut c_int) -> c_int;
        cu_device_get_name = c"cuDeviceGetName": fn(*mut c_char, c_int, c_int) -> c_int;
        cu_device_get_attribute = c"cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int) -> c_int;
        cu_device_total_mem = c"cuDeviceTotalMem_v2": fn(*mut usize, c_int) -> c_int;
        cu_device_primary_ctx_retain = c"cuDevicePrimaryCtxRetain": fn(*mut usize, c_int) -> c_int;
        cu_ctx_push_current = c"cuCtxPushCurrent_v2": fn(usize) -> c_int;
        cu_ctx_pop_current = c"cuCtxPopCurrent_v2": fn(*mut usize) -> c_int;
        cu_ctx_get_current = c"cuCtxGetCurrent": fn(*mut usize) -> c_int;
        cu_ctx_get_device = c"cuCtxGetDevice": fn(*mut c_int) -> c_int;
        cu_mem_alloc = c"cuMemAlloc_v2": fn(*mut u64, usize) -> c_int;
        cu_mem_free = c"cuMemFree_v2": fn(u64) -> c_int;
        cu_mem_alloc_managed = c"cuMemAllocManaged": fn(*mut u64, usize, c_uint) -> c_int;
        cu_mem_get_address_range = c"cuMemGetAddressRange_v2": fn(*mut u64, *mut usize, u64) -> c_int;
        cu_mem_host_alloc = c"cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint) -> c_int;
        cu_mem_free_host = c"cuMemFreeHost": fn(*mut c_void) -> c_int;
        cu_mem_host_register = c"cuMemHostRegister_v2": fn(*mut c_void, usize, c_uint) -> c_int;
        cu_mem_host_unregister = c"cuMemHostUnregister": fn(*mut c_void) -> c_int;
        cu_memcpy_htod = c"cuMemcpyHtoD_v2": fn(u64, *const c_void, usize) -> c_int;
        cu_memcpy_dtoh = c"cuMemcpyDtoH_v2": fn(*mut c_void, u64, usize) -> c_int;
        cu_memcpy_htod_async = c"cuMemcpyHtoDAsync_v2": fn(u64, *const c_void, usize, usize) -> c_int;
        cu_memcpy_dtoh_async = c"cuMemcpyDtoHAsync_v2": fn(*mut c_void, u64, usize, usize) -> c_int;
        cu_memset_d8 = c"cuMemsetD8_v2": fn(u64, u8, usize) -> c_int;
        cu_pointer_get_attributes = c"cuPointerGetAttributes": fn(c_uint, *const c_int, *const *mut c_void, u64) -> c_int;
        cu_stream_create = c"cuStreamCreate": fn(*mut usize, c_uint) -> c_int;
        cu_stream_destroy = c"cuStreamDestroy_v2": fn(usize) -> c_int;
        cu_stream_synchronize = c"cuStreamSynchronize": fn(usize) -> c_int;
        cu_stream_wait_event = c"cuStreamWaitEvent": fn(usize, usize, c_uint) -> c_int;
        cu_event_create = c"cuEventCreate": fn(*mut usize, c_uint) -> c_int;
        cu_event_destroy = c"cuEventDestroy_v2": fn(usize) -> c_int;
        cu_event_record = c"cuEventRecord": fn(usize, usize) -> c_int;
        cu_event_query = c"cuEventQuery": fn(usize) -> c_int;
        cu_event_synchronize = c"cuEventSynchronize": fn(usize) -> c_int;
    }
    optional {
        cu_device_get_pci_bus_id = c"cuDeviceGetPCIBusId": fn(*mut c_char, c_int, c_int) -> c_int;
    }
}

/// Why there is no GPU to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The driver library is absent or lacks a function.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// The library is the toolkit's stub, meant for linking only.
    #[error("the CUDA driver loaded ({library}) is a stub library: no NVIDIA driver is installed")]
    Stub {
        /// The library that was opened.
        library: String,
    },
    /// The driver works but there is no device (none present, or all hidden by `CUDA_VISIBLE_DEVICES`).
    #[error("the CUDA driver reports no device")]
    NoDevice,
    /// `cuInit` failed otherwise.
    #[error("cuInit failed: {text}")]
    Init {
        /// The status.
        status: CuStatus,
        /// The driver's words for it.
        text: String,
    },
}

/// The names by which the loader knows the driver.
pub const LIBRARY_NAMES: [&str; 1] = ["libcuda.so.1"];

fn check(status: c_int) -> Result<(), CuStatus> {
    if status == 0 { Ok(()) } else { Err(CuStatus(status)) }
}

impl Table {
    /// Opens the driver library by the loader's search path. Does not initialise the driver.
    ///
    /// # Errors
    /// [`LoadError`] where the library or one of its functions is absent.
    pub fn open() -> Result<Self, LoadError> {
        Self::from_library(&Library::open(LIBRARY_NAMES)?)
    }

    /// Opens the driver library at `path`.
    ///
    /// # Errors
    /// [`LoadError`] where the library or one of its functions is absent.
    pub fn open_at(path: &Path) -> Result<Self, LoadError> {
        Self::from_library(&Library::open([path])?)
    }

    /// Initialises the driver (idempotent) and answers the number of devices, at least 1.
    ///
    /// # Errors
    /// [`Unavailable`]: a stub, no device, or what `cuInit` said.
    pub fn start(&self) -> Result<u32, Unavailable> {
        // SAFETY: `cuInit` takes a flags word that must be 0 and may be called at any time on any thread.
        let outcome = check(unsafe { (self.cu_init)(0) }).and_then(|()| self.device_count());
        match outcome {
            Ok(0) | Err(CuStatus::NO_DEVICE) => Err(Unavailable::NoDevice),
            Ok(count) => Ok(count),
            Err(CuStatus::STUB_LIBRARY) => {
                Err(Unavailable::Stub { library: self.library().display().to_string() })
            }
            Err(status) => Err(Unavailable::Init { status, text: self.describe(status) }),
        }
    }

    /// The driver's words for a status: `NAME(text)`.
    #[must_use]
    pub fn describe(&self, status: CuStatus) -> String {
        let word = |lookup: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: `text` is a valid place for the answer; any integer may be asked about.
            let code = unsafe { lookup(status.0, &raw mut text) };
            if code != 0 || text.is_null() {
                return None;
            }
            // SAFETY: on success the driver answers a NUL-terminated string that lives as long as the library.
            Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        match (word(self.cu_get_error_name), word(self.cu_get_error_string)) {
            (Some(name), Some(text)) => format!("{name}({text})"),
            (Some(name), None) => name,
            // Before cuInit, and for codes newer than the driver, there are no words.
            _ if status == CuStatus::NOT_INITIALIZED => {
                "CUDA_ERROR_NOT_INITIALIZED(initialization error)".to_owned()
            }
            _ => format!("CUDA error {}", status.0),
        }
    }

    /// The driver's version, as in 13000 for CUDA 13.0.
    ///
    /// # Errors
    /// The driver's status.
    pub fn driver_version(&self) -> Result<i32, CuStatus> {
        let mut version = 0;
        // SAFETY: `version` is a valid place for the answer.
        check(unsafe { (self.cu_driver_get_version)(&raw mut version) })?;
        Ok(version)
    }

    /// The number of devices that this process sees.
    ///
    /// # Errors
    /// The driver's status.
    pub fn device_count(&self) -> Result<u32, CuStatus> {
        let mut count = 0;
        // SAFETY: `count` is a valid place for the answer.
        check(unsafe { (self.cu_device_get_count)(&raw mut count) })?;
        Ok(count.max(0).unsigned_abs())
    }

    fn device(&self, ordinal: i32) -> Result<c_int, CuStatus> {
        let mut device = 0;
        // SAFETY: `device` is a valid place for the answer; a bad ordinal is answered by a status.
        check(unsafe { (self.cu_device_get)(&raw mut device, ordinal) })?;
        Ok(device)
    }

    /// The device's marketing name.
    ///
    /// # Errors
    /// The driver's status.
    pub fn device_name(&self, ordinal: i32) -> Result<String, CuStatus> {
        let device = self.device(ordinal)?;
        let mut name = [0u8; 256];
        // SAFETY: the buffer holds 256 bytes, the length that is passed; the driver terminates the string.
        check(unsafe { (self.cu_device_get_name)(name.as_mut_ptr().cast(), 256, device) })?;
        Ok(until_nul(&name))
    }

    /// The device's address on the PCI bus, as in `0000:41:00.0`.
    ///
    /// # Errors
    /// The driver's status; [`CuStatus::INVALID_VALUE`] where the driver lacks the call.
    pub fn device_pci_bus_id(&self, ordinal: i32) -> Result<String, CuStatus> {
        let call = self.cu_device_get_pci_bus_id.ok_or(CuStatus::INVALID_VALUE)?;
        let device = self.device(ordinal)?;
        let mut id = [0u8; 64];
        // SAFETY: the buffer holds 64 bytes, the length that is passed; the driver terminates the string.
        check(unsafe { call(id.as_mut_ptr().cast(), 64, device) })?;
        Ok(until_nul(&id))
    }

    /// The device's memory in bytes.
    ///
    /// # Errors
    /// The driver's status.
    pub fn device_total_memory(&self, ordinal: i32) -> Result<usize, CuStatus> {
        let device = self.device(ordinal)?;
        let mut bytes = 0;
        // SAFETY: `bytes` is a valid place for the answer.
        check(unsafe { (self.cu_device_total_mem)(&raw mut bytes, device) })?;
        Ok(bytes)
    }

    /// One attribute of a device (`CU_DEVICE_ATTRIBUTE_*`).
    ///
    /// # Errors
    /// The driver's status.
    pub fn device_attribute(&self, ordinal: i32, attribute: i32) -> Result<i32, CuStatus> {
        let device = self.device(ordinal)?;
        let mut value = 0;
        // SAFETY: `value` is a valid place for the answer; an unknown attribute is answered by a status.
        check(unsafe { (self.cu_device_get_attribute)(&raw mut value, attribute, device) })?;
        Ok(value)
    }

    /// Retains the primary context of a device. It is never released: doing so while others use it is an error.
    ///
    /// # Errors
    /// The driver's status.
    pub fn primary_context(&self, ordinal: i32) -> Result<Context, CuStatus> {
        let device = self.device(ordinal)?;
        let mut context = 0;
        // SAFETY: `context` is a valid place for the answer.
        check(unsafe { (self.cu_device_primary_ctx_retain)(&raw mut context, device) })?;
        Ok(Context(context))
    }

    /// Makes `context` current on the calling thread, on top of what was current.
    ///
    /// # Errors
    /// The driver's status, for instance for a context that was destroyed.
    pub fn push_context(&self, context: Context) -> Result<(), CuStatus> {
        // SAFETY: the handle came from the driver; a destroyed one is answered by a status.
        check(unsafe { (self.cu_ctx_push_current)(context.0) })
    }

    /// Takes the topmost context off the calling thread's stack.
    ///
    /// # Errors
    /// The driver's status.
    pub fn pop_context(&self) -> Result<Context, CuStatus> {
        let mut context = 0;
        // SAFETY: `context` is a valid place for the answer.
        check(unsafe { (self.cu_ctx_pop_current)(&raw mut context) })?;
        Ok(Context(context))
    }

    /// The calling thread's current context, `None` where there is none.
    ///
    /// # Errors
    /// The driver's status.
    pub fn current_context(&self) -> Result<Option<Context>, CuStatus> {
        let mut context = 0;
        // SAFETY: `context` is a valid place for the answer.
        check(unsafe { (self.cu_ctx_get_current)(&raw mut context) })?;
        Ok((context != 0).then_some(Context(context)))
    }

    /// The device of the calling thread's current context.
    ///
    /// # Errors
    /// The driver's status.
    pub fn current_device(&self) -> Result<i32, CuStatus> {
        let mut device = 0;
        // SAFETY: `device` is a valid place for the answer.
        check(unsafe { (self.cu_ctx_get_device)(&raw mut device) })?;
        Ok(device)
    }

    /// What the driver knows about `address`; any address may be asked about.
    ///
    /// # Errors
    /// The driver's status; [`CuStatus::NOT_INITIALIZED`] before [`Table::start`].
    pub fn pointer_info(&self, address: u64) -> Result<PointerInfo, CuStatus> {
        let mut memory_type: c_uint = 0;
        let mut context: usize = 0;
        let mut device: c_int = -1;
        let mut managed: c_uint = 0;
        let names = [POINTER_MEMORY_TYPE, POINTER_CONTEXT, POINTER_DEVICE_ORDINAL, POINTER_IS_MANAGED];
        let places: [*mut c_void; 4] = [
            (&raw mut memory_type).cast(),
            (&raw mut context).cast(),
            (&raw mut device).cast(),
            (&raw mut managed).cast(),
        ];
        // SAFETY: four attributes and four places, each of the size that the attribute's type has in the header
        // (unsigned, CUcontext, int, and a boolean that the driver writes as at most 4 bytes).
        check(unsafe { (self.cu_pointer_get_attributes)(4, names.as_ptr(), places.as_ptr(), address) })?;
        Ok(PointerInfo {
            memory_type: MemoryType(memory_type),
            context: Context(context),
            device,
            is_managed: managed & 0xff != 0,
        })
    }

    /// The allocation that contains `address`: its base and its length in bytes.
    ///
    /// # Errors
    /// The driver's status, where `address` is in no allocation of the current context.
    pub fn address_range(&self, address: u64) -> Result<(u64, usize), CuStatus> {
        let (mut base, mut len) = (0, 0);
        // SAFETY: both are valid places for the answer; any address may be asked about.
        check(unsafe { (self.cu_mem_get_address_range)(&raw mut base, &raw mut len, address) })?;
        Ok((base, len))
    }

    /// Allocates device memory in the current context; answers its address.
    ///
    /// # Errors
    /// The driver's status.
    pub fn alloc(&self, len: usize) -> Result<u64, CuStatus> {
        let mut address = 0;
        // SAFETY: `address` is a valid place for the answer.
        check(unsafe { (self.cu_mem_alloc)(&raw mut address, len) })?;
        Ok(address)
    }

    /// Allocates managed memory attached to every stream; answers its address.
    ///
    /// # Errors
    /// The driver's status.
    pub fn alloc_managed(&self, len: usize) -> Result<u64, CuStatus> {
        const ATTACH_GLOBAL: c_uint = 1;
        let mut address = 0;
        // SAFETY: `address` is a valid place for the answer.
        check(unsafe { (self.cu_mem_alloc_managed)(&raw mut address, len, ATTACH_GLOBAL) })?;
        Ok(address)
    }

    /// Frees memory from [`Table::alloc`] or [`Table::alloc_managed`].
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// Nothing may use the allocation any more, the device included.
    pub unsafe fn free(&self, address: u64) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: the allocation is unused.
        check(unsafe { (self.cu_mem_free)(address) })
    }

    /// Allocates page-locked host memory.
    ///
    /// # Errors
    /// The driver's status.
    pub fn host_alloc(&self, len: usize, flags: u32) -> Result<*mut u8, CuStatus> {
        let mut address: *mut c_void = std::ptr::null_mut();
        // SAFETY: `address` is a valid place for the answer.
        check(unsafe { (self.cu_mem_host_alloc)(&raw mut address, len, flags) })?;
        Ok(address.cast())
    }

    /// Frees memory from [`Table::host_alloc`].
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// Nothing may use the allocation any more, the device included.
    pub unsafe fn host_free(&self, address: *mut u8) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: the allocation is unused.
        check(unsafe { (self.cu_mem_free_host)(address.cast()) })
    }

    /// Page-locks existing host memory.
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// The memory must stay mapped until [`Table::host_unregister`].
    pub unsafe fn host_register(&self, address: *mut u8, len: usize, flags: u32) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: the memory stays mapped.
        check(unsafe { (self.cu_mem_host_register)(address.cast(), len, flags) })
    }

    /// Ends a registration made by [`Table::host_register`].
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// No copy from or to the memory may be pending.
    pub unsafe fn host_unregister(&self, address: *mut u8) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: no copy is pending.
        check(unsafe { (self.cu_mem_host_unregister)(address.cast()) })
    }

    /// Copies host memory to the device and waits for it.
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// `src` must be readable and `dst` a device allocation, both for `len` bytes.
    pub unsafe fn copy_to_device(&self, dst: u64, src: *const u8, len: usize) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: both sides hold `len` bytes.
        check(unsafe { (self.cu_memcpy_htod)(dst, src.cast(), len) })
    }

    /// Copies device memory to the host and waits for it.
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// `dst` must be writable and `src` a device allocation, both for `len` bytes.
    pub unsafe fn copy_to_host(&self, dst: *mut u8, src: u64, len: usize) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: both sides hold `len` bytes.
        check(unsafe { (self.cu_memcpy_dtoh)(dst.cast(), src, len) })
    }

    /// Starts a copy of host memory to the device on `stream`.
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// As [`Table::copy_to_device`], and both sides must stay as they are until the stream has passed the copy.
    pub unsafe fn copy_to_device_async(
        &self,
        dst: u64,
        src: *const u8,
        len: usize,
        stream: Stream,
    ) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: both sides hold `len` bytes and outlive the copy.
        check(unsafe { (self.cu_memcpy_htod_async)(dst, src.cast(), len, stream.0) })
    }

    /// Starts a copy of device memory to the host on `stream`.
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// As [`Table::copy_to_host`], and both sides must stay as they are until the stream has passed the copy.
    pub unsafe fn copy_to_host_async(
        &self,
        dst: *mut u8,
        src: u64,
        len: usize,
        stream: Stream,
    ) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: both sides hold `len` bytes and outlive the copy.
        check(unsafe { (self.cu_memcpy_dtoh_async)(dst.cast(), src, len, stream.0) })
    }

    /// Fills device memory with one byte value.
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// `dst` must be a device allocation of at least `len` bytes.
    pub unsafe fn fill(&self, dst: u64, value: u8, len: usize) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: the allocation holds `len` bytes.
        check(unsafe { (self.cu_memset_d8)(dst, value, len) })
    }

    /// Creates a stream in the current context.
    ///
    /// # Errors
    /// The driver's status.
    pub fn create_stream(&self, flags: u32) -> Result<Stream, CuStatus> {
        let mut stream = 0;
        // SAFETY: `stream` is a valid place for the answer.
        check(unsafe { (self.cu_stream_create)(&raw mut stream, flags) })?;
        Ok(Stream(stream))
    }

    /// Destroys a stream of ours.
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// Nothing may use the handle afterwards.
    pub unsafe fn destroy_stream(&self, stream: Stream) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: the handle is not used again.
        check(unsafe { (self.cu_stream_destroy)(stream.0) })
    }

    /// Waits until all work on `stream` is done.
    ///
    /// # Errors
    /// The driver's status, which may be that of an earlier asynchronous call.
    pub fn synchronize_stream(&self, stream: Stream) -> Result<(), CuStatus> {
        // SAFETY: a stream handle of the driver (0, 1 and 2 name the default streams).
        check(unsafe { (self.cu_stream_synchronize)(stream.0) })
    }

    /// Makes later work on `stream` wait for what `event` recorded; does not block the caller.
    ///
    /// # Errors
    /// The driver's status.
    pub fn stream_wait_event(&self, stream: Stream, event: Event) -> Result<(), CuStatus> {
        // SAFETY: both handles came from the driver; the flags word must be 0.
        check(unsafe { (self.cu_stream_wait_event)(stream.0, event.0, 0) })
    }

    /// Creates an event in the current context.
    ///
    /// # Errors
    /// The driver's status.
    pub fn create_event(&self, flags: u32) -> Result<Event, CuStatus> {
        let mut event = 0;
        // SAFETY: `event` is a valid place for the answer.
        check(unsafe { (self.cu_event_create)(&raw mut event, flags) })?;
        Ok(Event(event))
    }

    /// Destroys an event of ours.
    ///
    /// # Errors
    /// The driver's status.
    ///
    /// # Safety
    /// Nothing may use the handle afterwards.
    pub unsafe fn destroy_event(&self, event: Event) -> Result<(), CuStatus> {
        // SAFETY: passed on to the caller: the handle is not used again.
        check(unsafe { (self.cu_event_destroy)(event.0) })
    }

    /// Records `event` behind the work that `stream` holds now.
    ///
    /// # Errors
    /// The driver's status.
    pub fn record_event(&self, event: Event, stream: Stream) -> Result<(), CuStatus> {
        // SAFETY: both handles came from the driver.
        check(unsafe { (self.cu_event_record)(event.0, stream.0) })
    }

    /// True once the work recorded by `event` is done.
    ///
    /// # Errors
    /// The driver's status, which may be that of an earlier asynchronous call.
    pub fn is_event_done(&self, event: Event) -> Result<bool, CuStatus> {
        // SAFETY: the handle came from the driver.
        match check(unsafe { (self.cu_event_query)(event.0) }) {
            Ok(()) => Ok(true),
            Err(CuStatus::NOT_READY) => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Waits until the work recorded by `event` is done.
    ///
    /// # Errors
    /// The driver's status, which may be that of an earlier asynchronous call.
    pub fn synchronize_event(&self, event: Event) -> Result<(), CuStatus> {
        // SAFETY: the handle came from the driver.
        check(unsafe { (self.cu_event_synchronize)(event.0) })
    }
}

fn until_nul(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

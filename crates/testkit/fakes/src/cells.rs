//! Named integers that the control interface can see: settings, which tests change, and gauges, which tests read.

use std::sync::atomic::{AtomicI64, Ordering};

/// A named integer.
pub(crate) struct Cell {
    name: &'static str,
    initial: i64,
    value: AtomicI64,
}

impl Cell {
    const fn new(name: &'static str, initial: i64) -> Self {
        Self { name, initial, value: AtomicI64::new(initial) }
    }

    pub(crate) fn get(&self) -> i64 {
        self.value.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, value: i64) {
        self.value.store(value, Ordering::SeqCst);
    }

    /// Adds and answers the new value.
    pub(crate) fn add(&self, change: i64) -> i64 {
        self.value.fetch_add(change, Ordering::SeqCst) + change
    }

    /// Raises the value to at least `value`.
    pub(crate) fn raise(&self, value: i64) {
        self.value.fetch_max(value, Ordering::SeqCst);
    }

    pub(crate) fn restore(&self) {
        self.set(self.initial);
    }
}

macro_rules! cells {
    ($list:ident: $( $(#[$meta:meta])* $cell:ident = $name:literal, $initial:expr; )*) => {
        $( $(#[$meta])* pub(crate) static $cell: Cell = Cell::new($name, $initial); )*
        static $list: &[&Cell] = &[$(&$cell),*];
    };
}

cells! { SETTINGS:
    /// Devices that the driver sees; 0 makes `cuInit` answer "no device".
    DEVICES = "devices", 2;
    /// Every call answers "stub library".
    STUB = "stub", 0;
    /// A stream or event is refused unless a context of its device is current. Drivers of today do not ask for that;
    /// older ones did.
    STRICT_CONTEXT = "strict_context", 1;
    /// `cuDriverGetVersion`.
    DRIVER_VERSION = "driver_version", 13000;
    /// Memory of each device in bytes.
    DEVICE_MEMORY = "device_memory", 16 << 30;
    /// Page-locked bytes that the host gives; 0 is no limit.
    HOST_LIMIT = "host_limit", 0;
    /// Microseconds before each asynchronous copy moves its bytes.
    COPY_DELAY_US = "copy_delay_us", 0;
    /// While not 0, asynchronous copies wait: for tests that look at what is not there yet.
    HOLD_COPIES = "hold_copies", 0;
    /// While not 0, reads and writes of cuFile wait.
    HOLD_TRANSFERS = "hold_transfers", 0;
    /// Microseconds before each cuFile read moves its bytes.
    READ_DELAY_US = "read_delay_us", 0;
    /// Microseconds before each cuFile write moves its bytes.
    WRITE_DELAY_US = "write_delay_us", 0;
    /// Bytes that one cuFile read or write moves at most; 0 is no limit.
    MAX_TRANSFER = "max_transfer", 0;
    /// `cuFileGetVersion`.
    CUFILE_VERSION = "cufile_version", 1150;
    /// Properties of cuFile's driver.
    NVFS_MAJOR = "nvfs_major", 2;
    NVFS_MINOR = "nvfs_minor", 26;
    /// Bit 4: a local NVMe drive.
    STATUS_FLAGS = "status_flags", 1 << 4;
    /// Bit 0: poll mode; bit 1: compatibility mode allowed.
    CONTROL_FLAGS = "control_flags", 2;
    FEATURE_FLAGS = "feature_flags", 15;
    POLL_THRESH_KIB = "poll_thresh_kib", 4;
    MAX_DIRECT_IO_KIB = "max_direct_io_kib", 16384;
    MAX_DEVICE_CACHE_KIB = "max_device_cache_kib", 131_072;
    PER_BUFFER_CACHE_KIB = "per_buffer_cache_kib", 1024;
    MAX_PINNED_KIB = "max_pinned_kib", 33_554_432;
    MAX_BATCH_IO = "max_batch_io", 128;
    BATCH_TIMEOUT_MS = "batch_timeout_ms", 5;
    /// What every `cuFileDriverOpen` answers; 0 lets it work.
    DRIVER_OPEN_STATUS = "driver_open_status", 0;
    /// What every `cuFileHandleRegister` answers; 0 lets it work.
    REGISTER_STATUS = "register_status", 0;
    /// A descriptor without `O_DIRECT` is refused, as old versions of cuFile do.
    REQUIRE_DIRECT = "require_direct", 0;
}

cells! { GAUGES:
    VIOLATIONS = "violations", 0;
    /// Device allocations, managed and pool memory included.
    LIVE_ALLOCATIONS = "live_allocations", 0;
    LIVE_DEVICE_BYTES = "live_device_bytes", 0;
    /// From `cuMemHostAlloc`.
    LIVE_HOST_ALLOCATIONS = "live_host_allocations", 0;
    /// From `cuMemHostRegister`.
    LIVE_HOST_REGISTRATIONS = "live_host_registrations", 0;
    /// Page-locked bytes, allocated or registered.
    LIVE_HOST_BYTES = "live_host_bytes", 0;
    PEAK_HOST_BYTES = "peak_host_bytes", 0;
    LIVE_STREAMS = "live_streams", 0;
    LIVE_EVENTS = "live_events", 0;
    /// Asynchronous copies from or to memory that is not page-locked.
    PAGEABLE_COPIES = "pageable_copies", 0;
    /// Contexts pushed and not yet popped, over all threads.
    CONTEXTS_PUSHED = "contexts_pushed", 0;
    REGISTERED_HANDLES = "registered_handles", 0;
    REGISTERED_BUFFERS = "registered_buffers", 0;
    CUFILE_USE_COUNT = "cufile_use_count", 0;
}

/// The setting called `name`.
pub(crate) fn setting(name: &str) -> Option<&'static Cell> {
    SETTINGS.iter().copied().find(|cell| cell.name == name)
}

/// The gauge called `name`.
pub(crate) fn gauge(name: &str) -> Option<&'static Cell> {
    GAUGES.iter().copied().find(|cell| cell.name == name)
}

/// All settings as at load, and the gauges that only count events back to 0. Gauges of live things stay.
pub(crate) fn restore() {
    SETTINGS.iter().for_each(|cell| cell.restore());
    [&VIOLATIONS, &PAGEABLE_COPIES].iter().for_each(|cell| cell.restore());
    PEAK_HOST_BYTES.set(LIVE_HOST_BYTES.get());
}

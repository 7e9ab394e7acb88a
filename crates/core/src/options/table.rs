//! The settings: one row each, from which the environment, Rust, Python and the command line are read.

/// Which route local files may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LocalIo {
    /// cuFile where the direct path between storage and GPU is really in use for the file, else our own route.
    Auto,
    /// cuFile always; opening fails where it cannot be had.
    CuFile,
    /// Our own route always; cuFile is not even loaded.
    Posix,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A switch.
    Bool(bool),
    /// A count, a number of bytes or of seconds.
    Int(u64),
    /// The route of local files.
    LocalIo(LocalIo),
    /// A list of HTTP status codes.
    Codes(Vec<i64>),
    /// One of a setting's [`Setting::choices`].
    Choice(&'static str),
}

/// The settings, in the order of [`SETTINGS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Key {
    /// See [`SETTINGS`].
    CompatMode,
    /// See [`SETTINGS`].
    NumThreads,
    /// See [`SETTINGS`].
    TaskSize,
    /// See [`SETTINGS`].
    GdsThreshold,
    /// See [`SETTINGS`].
    BounceBufferSize,
    /// See [`SETTINGS`].
    AutoDirectIoRead,
    /// See [`SETTINGS`].
    AutoDirectIoWrite,
    /// See [`SETTINGS`].
    AutoDirectIoReadOverread,
    /// See [`SETTINGS`].
    ThreadPoolPerBlockDevice,
    /// See [`SETTINGS`].
    HttpMaxAttempts,
    /// See [`SETTINGS`].
    HttpTimeout,
    /// See [`SETTINGS`].
    HttpStatusCodes,
    /// See [`SETTINGS`].
    HttpRetryNotice,
    /// See [`SETTINGS`].
    RemoteIoBackend,
    /// See [`SETTINGS`].
    RemoteIoNumReactors,
    /// See [`SETTINGS`].
    RemoteIoReactorDispatch,
    /// See [`SETTINGS`].
    RemoteIoMaxConcurrentRequests,
}

/// One setting: everything that the environment, Rust, Python and the command line need to know about it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Which one.
    pub key: Key,
    /// Its name in Python and in messages.
    pub name: &'static str,
    /// Another name for it, if any.
    pub alias: Option<&'static str>,
    /// Its environment variables; where both are set they must agree.
    pub env: &'static [&'static str],
    /// The least value of a number.
    pub min: u64,
    /// The words for a number below `min`.
    pub too_small: &'static str,
    /// The words that a [`Value::Choice`] may take.
    pub choices: &'static [&'static str],
    /// What it means, with its unit.
    pub doc: &'static str,
}

const fn setting(key: Key, name: &'static str, env: &'static [&'static str], doc: &'static str) -> Setting {
    Setting { key, name, alias: None, env, min: 0, too_small: "", choices: &[], doc }
}

const fn positive(setting: Setting, too_small: &'static str) -> Setting {
    Setting { min: 1, too_small, ..setting }
}

/// All settings.
pub static SETTINGS: [Setting; 17] = [
    setting(
        Key::CompatMode,
        "compat_mode",
        &["KVIKIO_COMPAT_MODE"],
        "route of local files: OFF = cuFile always, ON = never, AUTO = where it is the fast one",
    ),
    Setting {
        alias: Some("thread_pool_nthreads"),
        ..positive(
            setting(
                Key::NumThreads,
                "num_threads",
                &["KVIKIO_NTHREADS", "KVIKIO_NUM_THREADS"],
                "worker threads; unset: the number of CPUs this process may use, from 2 to 10",
            ),
            "number of threads must be a positive integer",
        )
    },
    positive(
        setting(Key::TaskSize, "task_size", &["KVIKIO_TASK_SIZE"], "bytes that one task moves; unset: 4 MiB"),
        "task size must be a positive integer",
    ),
    setting(
        Key::GdsThreshold,
        "gds_threshold",
        &["KVIKIO_GDS_THRESHOLD"],
        "device transfers below so many bytes run on the calling thread; unset: 16 KiB",
    ),
    positive(
        setting(
            Key::BounceBufferSize,
            "bounce_buffer_size",
            &["KVIKIO_BOUNCE_BUFFER_SIZE"],
            "bytes of one bounce buffer; unset: 4 MiB",
        ),
        "size of the bounce buffer must be a positive integer",
    ),
    setting(
        Key::AutoDirectIoRead,
        "auto_direct_io_read",
        &["KVIKIO_AUTO_DIRECT_IO_READ"],
        "read the page-aligned parts around the page cache; unset: off",
    ),
    setting(
        Key::AutoDirectIoWrite,
        "auto_direct_io_write",
        &["KVIKIO_AUTO_DIRECT_IO_WRITE"],
        "write the page-aligned parts around the page cache; unset: on",
    ),
    setting(
        Key::AutoDirectIoReadOverread,
        "auto_direct_io_read_overread",
        &["KVIKIO_AUTO_DIRECT_IO_READ_OVERREAD"],
        "widen direct reads into device memory to whole pages; unset: off",
    ),
    setting(
        Key::ThreadPoolPerBlockDevice,
        "thread_pool_per_block_device",
        &["KVIKIO_THREAD_POOL_PER_BLOCK_DEVICE"],
        "a thread pool of its own for each block device; unset: off",
    ),
    positive(
        setting(
            Key::HttpMaxAttempts,
            "http_max_attempts",
            &["KVIKIO_HTTP_MAX_ATTEMPTS"],
            "attempts at one request; unset: 3",
        ),
        "attempts must be a positive integer",
    ),
    positive(
        setting(
            Key::HttpTimeout,
            "http_timeout",
            &["KVIKIO_HTTP_TIMEOUT"],
            "seconds that one attempt may take in all; unset: no limit while bytes come, 30 s without any",
        ),
        "timeout_seconds must be a positive integer",
    ),
    setting(
        Key::HttpStatusCodes,
        "http_status_codes",
        &["KVIKIO_HTTP_STATUS_CODES"],
        "HTTP statuses that are tried again; unset: 408, 425, 429, 500, 502, 503, 504",
    ),
    setting(
        Key::HttpRetryNotice,
        "http_retry_notice",
        &["KVIKIO_HTTP_RETRY_NOTICE"],
        "Python prints a line on standard output before a request is tried again; unset: on",
    ),
    Setting {
        choices: &["EASY_THREADPOOL", "MULTI_POLL"],
        ..setting(
            Key::RemoteIoBackend,
            "remote_io_backend",
            &["KVIKIO_REMOTE_IO_BACKEND"],
            "MULTI_POLL: as many event loops as remote_io_num_reactors says; unset: one for each CPU",
        )
    },
    positive(
        setting(
            Key::RemoteIoNumReactors,
            "remote_io_num_reactors",
            &["KVIKIO_REMOTE_IO_NUM_REACTORS"],
            "event loops where remote_io_backend is MULTI_POLL; unset: 1",
        ),
        "remote_io_num_reactors must be a positive integer",
    ),
    Setting {
        choices: &["PER_CHUNK", "PER_PREAD"],
        ..setting(
            Key::RemoteIoReactorDispatch,
            "remote_io_reactor_dispatch",
            &["KVIKIO_REMOTE_IO_REACTOR_DISPATCH"],
            "accepted, without effect: each event loop takes what it has room for",
        )
    },
    setting(
        Key::RemoteIoMaxConcurrentRequests,
        "remote_io_max_concurrent_requests",
        &["KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS"],
        "remote requests in flight, 0 = no limit; unset: 64",
    ),
];

/// The setting of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name || setting.alias == Some(name))
}

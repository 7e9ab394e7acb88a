//! An opened file as one or two descriptors (buffered, direct), with what the system says about it.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::align::page_size;
use crate::memory::span::Span;

/// The most bytes that Linux moves in one call (`man 2 read`).
const MOST_PER_CALL: usize = 0x7fff_f000;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Made where absent.
    pub create: bool,
    /// To be emptied, by [`OpenFile::empty`], once nothing can go wrong with the opening any more.
    pub truncate: bool,
    /// Permissions of a new file, before the process's mask.
    pub mode: u32,
}

/// An opened file.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    buffered: OwnedFd,
    direct: OnceLock<std::result::Result<OwnedFd, String>>,
    opening: Opening,
    facts: Facts,
}

/// What the system said about the file when it was opened.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Its length in bytes; 0 for files of `/proc` and devices.
    pub len: u64,
    /// True for a regular file.
    pub is_regular: bool,
    /// The number of the device it is on.
    pub device: (u32, u32),
    /// The unit of direct I/O on it, `None` where the system says that it has none.
    pub direct_alignment: Option<usize>,
}

fn failed(operation: &'static str, path: &Path, errno: rustix::io::Errno) -> Error {
    Error::from_os(operation, errno.raw_os_error()).on(path.display())
}

impl OpenFile {
    /// Opens `path`. Never blocks, whatever the path names.
    ///
    /// # Errors
    /// What the system said; [`ErrorKind::IsADirectory`] and [`ErrorKind::NotSeekable`] for what has no offsets.
    pub fn open(path: &Path, opening: Opening) -> Result<Self> {
        let access = match (opening.read, opening.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let mut flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags.set(OFlags::CREATE, opening.create);
        let open = |flags| retry(|| rustix::fs::open(path, flags, Mode::from_raw_mode(opening.mode)));
        let fd = match open(flags) {
            // Another program holds a lease on the file, and is being asked to let go: that is worth the wait.
            Err(Errno::AGAIN) if std::fs::metadata(path).is_ok_and(|facts| facts.is_file()) => {
                open(flags - OFlags::NONBLOCK)
            }
            answer => answer,
        }
        .map_err(|errno| failed("open", path, errno))?;
        let stat = examine(&fd).map_err(|errno| failed("open", path, errno))?;
        match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::Directory => {
                return Err(Error::from_os("open", libc::EISDIR).on(path.display()));
            }
            FileType::Fifo | FileType::Socket => {
                let why = "a FIFO or socket has no offsets to read or write at";
                return Err(Error::new(ErrorKind::NotSeekable, "open", why).on(path.display()));
            }
            _ => {}
        }
        // O_NONBLOCK was for the open only; of the flags that this call can change it is the only one that we set.
        rustix::fs::fcntl_setfl(&fd, OFlags::empty()).map_err(|errno| failed("open", path, errno))?;
        Ok(Self {
            path: path.to_owned(),
            buffered: fd,
            direct: OnceLock::new(),
            opening,
            facts: Facts::from(&stat),
        })
    }

    /// Empties a file that was opened to be emptied; what is no regular file has no length to change.
    ///
    /// # Errors
    /// What the system said.
    pub fn empty(&mut self) -> Result<()> {
        if self.opening.truncate && self.facts.is_regular {
            retry(|| rustix::fs::ftruncate(&self.buffered, 0))
                .map_err(|errno| failed("open", &self.path, errno))?;
            self.facts.len = 0;
        }
        Ok(())
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it was opened.
    #[must_use]
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// What the system said about it when it was opened.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Its length now, in bytes.
    ///
    /// # Errors
    /// What the system said.
    pub fn len(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.buffered).map_err(|errno| failed("query", &self.path, errno))?;
        Ok(stat.st_size.unsigned_abs())
    }

    /// The descriptor that goes through the page cache.
    #[must_use]
    pub fn buffered(&self) -> BorrowedFd<'_> {
        self.buffered.as_fd()
    }

    /// The flags of that descriptor (`fcntl(F_GETFL)`).
    ///
    /// # Errors
    /// What the system said.
    pub fn flags(&self) -> Result<i32> {
        let flags =
            rustix::fs::fcntl_getfl(&self.buffered).map_err(|errno| failed("query", &self.path, errno))?;
        // Linux's flags fit an int: that is fcntl's type.
        Ok(flags.bits().cast_signed())
    }

    /// A second descriptor of the same file, with `O_DIRECT`; opened at the first call.
    ///
    /// # Errors
    /// Why the file has none, in words.
    pub fn direct(&self) -> std::result::Result<BorrowedFd<'_>, &str> {
        self.direct.get_or_init(|| self.open_direct()).as_ref().map(AsFd::as_fd).map_err(String::as_str)
    }

    fn open_direct(&self) -> std::result::Result<OwnedFd, String> {
        if !self.facts.is_regular {
            return Err("not a regular file".to_owned());
        }
        if self.facts.direct_alignment.is_none() {
            return Err("the file system has no direct I/O for it".to_owned());
        }
        let access = match (self.opening.read, self.opening.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        // By way of the open descriptor, so that it is the same file whatever its path names by now.
        let again = format!("/proc/self/fd/{}", self.buffered.as_raw_fd());
        let open =
            |path: &Path| rustix::fs::open(path, access | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty());
        retry(|| open(Path::new(&again))).map_err(|errno| {
            format!(
                "the file system refused O_DIRECT: {}",
                Error::from_os("open", errno.raw_os_error()).message()
            )
        })
    }

    /// The unit of direct I/O on the file.
    #[must_use]
    pub fn alignment(&self) -> usize {
        self.facts.direct_alignment.unwrap_or_else(page_size)
    }

    /// Asks the system to write what it holds of the file to the disk.
    ///
    /// # Errors
    /// What the system said.
    pub fn sync(&self) -> Result<()> {
        retry(|| rustix::fs::fsync(&self.buffered)).map_err(|errno| failed("sync", &self.path, errno))
    }
}

impl Facts {
    fn from(stat: &Statx) -> Self {
        let told = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
        let unit = (stat.stx_dio_offset_align as usize).max(stat.stx_dio_mem_align as usize);
        let direct_alignment = match (told, unit) {
            (false, _) => Some(page_size()),
            (true, 0) => None,
            (true, unit) => Some(unit.next_power_of_two().max(page_size())),
        };
        Self {
            len: stat.stx_size,
            is_regular: FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile,
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            direct_alignment,
        }
    }
}

fn examine(fd: &OwnedFd) -> rustix::io::Result<Statx> {
    let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::SIZE | StatxFlags::DIOALIGN;
    retry(|| rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, wanted))
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// One `pread` of at most `span` at `offset`; 0 at the end of the file. Tried again when a signal interrupts it.
///
/// # Errors
/// The `errno`.
pub fn read_once(fd: BorrowedFd<'_>, span: Span, offset: u64) -> std::result::Result<usize, i32> {
    let (len, offset) = call_arguments(span, offset)?;
    let fd: RawFd = fd.as_raw_fd();
    once(|| {
        // SAFETY: the span is host memory, writable for its length, by the promise made to `Span::new`.
        unsafe { libc::pread(fd, span.as_ptr().cast(), len, offset) }
    })
}

/// One `pwrite` of at most `span` at `offset`. Tried again when a signal interrupts it.
///
/// # Errors
/// The `errno`.
pub fn write_once(fd: BorrowedFd<'_>, span: Span, offset: u64) -> std::result::Result<usize, i32> {
    let (len, offset) = call_arguments(span, offset)?;
    let fd: RawFd = fd.as_raw_fd();
    once(|| {
        // SAFETY: the span is host memory, readable for its length, by the promise made to `Span::new`.
        unsafe { libc::pwrite(fd, span.as_ptr().cast(), len, offset) }
    })
}

fn call_arguments(span: Span, offset: u64) -> std::result::Result<(usize, i64), i32> {
    let offset = i64::try_from(offset).map_err(|_| libc::EOVERFLOW)?;
    Ok((span.len().min(MOST_PER_CALL), offset))
}

fn once(mut call: impl FnMut() -> isize) -> std::result::Result<usize, i32> {
    loop {
        if let Ok(moved) = usize::try_from(call()) {
            return Ok(moved);
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            code => return Err(code.unwrap_or(libc::EIO)),
        }
    }
}

//! An open file: its source, its engine and its options, with reads and writes handed to the doorway.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::plan::Route;
use crate::engine::source::{Direction, Source};
use crate::engine::transfer::Transfer;
use crate::engine::{Engine, Job, Scope, ScopedTransfer};
use crate::error::{Error, ErrorKind, Result};
use crate::local::fd::{OpenFile, Opening};
use crate::local::file::LocalFile;
use crate::memory::buf::{IoBuf, IoBufMut};
use crate::options::Options;

/// How to open a file; see [`File::options`].
#[derive(Debug, Clone)]
pub struct OpenOptions {
    opening: Opening,
    append: bool,
    options: Options,
    engine: Option<Engine>,
}

impl OpenOptions {
    /// For reading.
    #[must_use]
    pub fn read(mut self, read: bool) -> Self {
        self.opening.read = read;
        self
    }

    /// For writing.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.opening.write = write;
        self
    }

    /// For writing at the end, by [`File::append`] only.
    #[must_use]
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self.opening.write |= append;
        self
    }

    /// The file is made where it is absent.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.opening.create = create;
        self
    }

    /// The file is emptied.
    #[must_use]
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.opening.truncate = truncate;
        self
    }

    /// Permissions of a new file before the process's mask; 0o644 where not said.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.opening.mode = mode;
        self
    }

    /// The settings that hold for the file.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The engine that serves the file; [`Engine::shared`] where not said.
    #[must_use]
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Opens the file at `path`. Never blocks, whatever the path names.
    ///
    /// # Errors
    /// What the system said, by kind: [`ErrorKind::NotFound`], [`ErrorKind::PermissionDenied`],
    /// [`ErrorKind::IsADirectory`], [`ErrorKind::NotSeekable`] for a FIFO, …; with
    /// [`LocalIo::CuFile`](crate::LocalIo::CuFile) also what keeps cuFile from serving it.
    pub fn open(self, path: impl AsRef<Path>) -> Result<File> {
        let engine = self.engine.unwrap_or_else(|| Engine::shared().clone());
        let file = OpenFile::open(path.as_ref(), self.opening)?;
        let local = Arc::new(LocalFile::new(file, self.options.local_io(), engine.platform().clone())?);
        let end = self.append.then(|| AtomicU64::new(local.file().facts().len));
        let options = Arc::new(self.options);
        Ok(File { source: local.clone(), local: Some(local), end: end.map(Arc::new), engine, options })
    }
}

/// A file, open for positional reads and writes into and out of host and device memory.
///
/// Every call names its own offset, so calls on one file may run side by side. What is in flight owns the file:
/// dropping a [`File`] is always safe, and its descriptors close when the last transfer ends.
///
/// ```
/// # fn main() -> kvikio::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let file = kvikio::File::create(&path)?;
/// file.write_all_from(b"to be read again", 0)?;
///
/// let file = kvikio::File::open(&path)?;
/// let (result, buf) = file.read_at(vec![0; 4], 6).wait();
/// assert_eq!((result?, &buf[..]), (4, &b"read"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct File {
    source: Arc<dyn Source>,
    local: Option<Arc<LocalFile>>,
    end: Option<Arc<AtomicU64>>,
    engine: Engine,
    options: Arc<Options>,
}

impl File {
    /// How to open a file otherwise than for reading.
    ///
    /// ```
    /// # fn main() -> kvikio::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let file = kvikio::File::options().read(true).write(true).create(true).open(dir.path().join("data"))?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions {
            opening: Opening { read: false, write: false, create: false, truncate: false, mode: 0o644 },
            append: false,
            options: Options::default(),
            engine: None,
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    #[doc(alias = "cuFileHandleRegister")]
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().read(true).open(path)
    }

    /// Opens a file for writing; it is made where absent and emptied where not.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().write(true).create(true).truncate(true).open(path)
    }

    /// A file made of any source, for instance [`InMemory`](crate::InMemory).
    #[must_use]
    pub fn of(source: Arc<dyn Source>, engine: Engine, options: Options) -> Self {
        Self { source, local: None, end: None, engine, options: Arc::new(options) }
    }

    /// The settings that hold for the file.
    #[must_use]
    pub fn settings(&self) -> &Options {
        &self.options
    }

    /// The same open file with other settings; the route of device transfers stays as it was decided.
    #[must_use]
    pub fn with(&self, options: Arc<Options>) -> Self {
        Self { options, ..self.clone() }
    }

    fn job(&self, direction: Direction, offset: u64, exact: bool) -> Job<'_> {
        Job { source: &self.source, offset, direction, options: &self.options, exact }
    }

    /// Starts a read of `buf`'s length at `offset`. Fewer bytes are read only where the file ends.
    #[doc(alias = "cuFileRead")]
    #[doc(alias = "pread")]
    pub fn read_at<B: IoBufMut>(&self, buf: B, offset: u64) -> Transfer<B> {
        self.engine.read(self.job(Direction::Read, offset, false), buf)
    }

    /// As [`File::read_at`], but a file that ends before the buffer is full is [`ErrorKind::UnexpectedEof`].
    pub fn read_exact_at<B: IoBufMut>(&self, buf: B, offset: u64) -> Transfer<B> {
        self.engine.read(self.job(Direction::Read, offset, true), buf)
    }

    /// Starts a write of all of `buf` at `offset`.
    #[doc(alias = "cuFileWrite")]
    #[doc(alias = "pwrite")]
    pub fn write_at<B: IoBuf>(&self, buf: B, offset: u64) -> Transfer<B> {
        match self.refuse_offset() {
            None => self.engine.write(self.job(Direction::Write, offset, true), buf),
            Some(error) => self.engine.refuse(self.job(Direction::Write, offset, true), error, buf),
        }
    }

    /// Starts a write of all of `buf` at the end of a file opened by [`OpenOptions::append`].
    ///
    /// The end is where the file ends now, or where what this handle and its clones have still in flight will end. The
    /// place is reserved by this call: appends that overlap in time land one after the other, in the order of the calls.
    /// Of an append that fails on the way a gap remains. Unlike with `O_APPEND`, two handles (or processes) that append
    /// at the same moment may take the same place: writing in parallel needs offsets.
    pub fn append<B: IoBuf>(&self, buf: B) -> Transfer<B> {
        let len = buf.byte_len() as u64;
        match &self.end {
            Some(end) => {
                // What others have appended is found, and a request that is refused takes no room.
                let first = self.job(Direction::Write, end.load(Ordering::Relaxed), true);
                let found = match self.engine.check(first, &buf).and_then(|()| self.len()) {
                    Ok(found) => found,
                    Err(error) => return self.engine.refuse(first, error, buf),
                };
                end.fetch_max(found, Ordering::Relaxed);
                let offset = end.fetch_add(len, Ordering::Relaxed);
                self.engine.write(self.job(Direction::Write, offset, true), buf)
            }
            None => {
                let why = "the file is not open for appending";
                let error = Error::new(ErrorKind::WrongMode, "append", why);
                self.engine.refuse(self.job(Direction::Write, 0, true), error, buf)
            }
        }
    }

    fn refuse_offset(&self) -> Option<Error> {
        let why = "the file is open for appending: use `append`, which has no offset";
        self.end.is_some().then(|| Error::new(ErrorKind::WrongMode, "write", why))
    }

    /// Reads into borrowed memory and waits; answers the bytes read, fewer only where the file ends.
    ///
    /// # Errors
    /// What stopped the read.
    pub fn read_into(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.engine.read_slice(self.job(Direction::Read, offset, false), buf)
    }

    /// Fills borrowed memory and waits.
    ///
    /// # Errors
    /// What stopped the read; [`ErrorKind::UnexpectedEof`] where the file ends before `buf` is full.
    pub fn read_exact_into(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.engine.read_slice(self.job(Direction::Read, offset, true), buf).map(|_all| ())
    }

    /// Writes all of a borrowed slice and waits.
    ///
    /// # Errors
    /// What stopped the write, with the bytes done.
    pub fn write_all_from(&self, buf: &[u8], offset: u64) -> Result<()> {
        if let Some(error) = self.refuse_offset() {
            return Err(error.on(self.source.subject()).at(offset, buf.len() as u64));
        }
        self.engine.write_slice(self.job(Direction::Write, offset, true), buf).map(|_all| ())
    }

    /// As [`File::read_at`] (or, where `exact`, [`File::read_exact_at`]) into a borrowed owner, waiting.
    ///
    /// # Errors
    /// What stopped the read.
    pub fn read_blocking<B: IoBufMut>(&self, buf: &mut B, offset: u64, exact: bool) -> Result<usize> {
        self.engine.move_owned(self.job(Direction::Read, offset, exact), buf)
    }

    /// As [`File::write_at`], from a borrowed owner, waiting.
    ///
    /// # Errors
    /// What stopped the write.
    pub fn write_blocking<B: IoBuf>(&self, buf: &B, offset: u64) -> Result<usize> {
        if let Some(error) = self.refuse_offset() {
            return Err(error.on(self.source.subject()).at(offset, buf.byte_len() as u64));
        }
        self.engine.move_owned(self.job(Direction::Write, offset, true), buf)
    }

    /// Starts a read into borrowed memory; the scope waits for it. See [`scope`](crate::scope).
    pub fn read_scoped<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        buf: &'scope mut [u8],
        offset: u64,
    ) -> ScopedTransfer<'scope> {
        self.engine.read_scoped(self.job(Direction::Read, offset, false), scope, buf)
    }

    /// Starts a write of borrowed memory; the scope waits for it. See [`scope`](crate::scope).
    pub fn write_scoped<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        buf: &'scope [u8],
        offset: u64,
    ) -> ScopedTransfer<'scope> {
        self.engine.write_scoped(self.job(Direction::Write, offset, true), scope, buf)
    }

    fn local(&self) -> Result<&LocalFile> {
        self.local.as_deref().ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "query", "not a file of this machine")
                .on(self.source.subject())
        })
    }

    /// The length now, in bytes.
    ///
    /// # Errors
    /// What the system said; [`ErrorKind::InvalidInput`] where this is no local file.
    pub fn len(&self) -> Result<u64> {
        self.local()?.file().len()
    }

    /// True where the file holds no byte.
    ///
    /// # Errors
    /// As [`File::len`].
    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Asks the system to write what it holds of the file to the disk, and waits.
    ///
    /// # Errors
    /// What the system said.
    pub fn sync(&self) -> Result<()> {
        self.local()?.file().sync()
    }

    /// The descriptor that goes through the page cache; `None` where this is no local file.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.local.as_ref().map(|local| local.file().buffered())
    }

    /// The flags of that descriptor (`fcntl(F_GETFL)`).
    ///
    /// # Errors
    /// As [`File::len`].
    pub fn open_flags(&self) -> Result<i32> {
        self.local()?.file().flags()
    }

    /// True where the file system grants direct I/O on the file.
    #[must_use]
    pub fn has_direct_io(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.file().direct().is_ok())
    }

    /// The route that transfers of device memory take: [`Route::Direct`] by cuFile, else [`Route::Staged`].
    #[must_use]
    pub fn route(&self) -> Route {
        match &self.local {
            Some(local) if local.uses_cufile() => Route::Direct,
            _ => Route::Staged,
        }
    }

    /// Why they take it.
    #[must_use]
    pub fn route_reason(&self) -> &str {
        self.local.as_ref().map_or("the source is not a file", |local| local.reason())
    }
}

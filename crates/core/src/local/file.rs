//! A file of this machine as a source: descriptors, the system's reads and writes, and cuFile where it serves.
#![allow(unsafe_code)]

use std::sync::{Arc, OnceLock};

use crate::engine::source::{Abilities, Access, DeviceOutcome, Direction, Source};
use crate::error::{Error, Result};
use crate::local::fd::OpenFile;
use crate::local::gds::{self, Decision};
use crate::local::posix::Posix;
use crate::memory::span::{Device, Span};
use crate::options::LocalIo;
use crate::platform::Platform;

/// A local file.
#[derive(Debug)]
pub struct LocalFile {
    // Before `file`: the registration must end before its descriptor is closed.
    decision: OnceLock<Decision>,
    broken: OnceLock<String>,
    posix: Posix,
    platform: Arc<Platform>,
    local_io: LocalIo,
    file: OpenFile,
}

impl LocalFile {
    /// Makes a source of an opened file.
    ///
    /// # Errors
    /// Only with [`LocalIo::CuFile`]: what keeps cuFile from serving the file.
    pub fn new(mut file: OpenFile, local_io: LocalIo, platform: Arc<Platform>) -> Result<Self> {
        let decision = match local_io {
            LocalIo::CuFile => OnceLock::from(gds::decide(&platform, &file, local_io)?),
            LocalIo::Auto | LocalIo::Posix => OnceLock::new(),
        };
        // Not before now: a file that cannot be served keeps its bytes.
        file.empty()?;
        Ok(Self { decision, broken: OnceLock::new(), posix: Posix::default(), platform, local_io, file })
    }

    /// The opened file.
    #[must_use]
    pub fn file(&self) -> &OpenFile {
        &self.file
    }

    /// Decided at the first device transfer (or question), so that a file which only meets host memory never wakes
    /// cuFile or the driver.
    fn decision(&self) -> &Decision {
        self.decision.get_or_init(|| {
            gds::decide(&self.platform, &self.file, self.local_io)
                .unwrap_or_else(|error| Decision::Ours(error.message().to_owned()))
        })
    }

    /// True where cuFile moves the bytes of device transfers.
    #[must_use]
    pub fn uses_cufile(&self) -> bool {
        self.broken.get().is_none() && matches!(self.decision(), Decision::CuFile(..))
    }

    /// Why it does or does not.
    #[must_use]
    pub fn reason(&self) -> &str {
        match (self.broken.get(), self.decision()) {
            (Some(why), _) | (None, Decision::Ours(why) | Decision::CuFile(_, why)) => why,
        }
    }

    /// The part of `span` that a read at `offset` can fill. cuFile writes to all the memory that it is given, also
    /// beyond what the file has (seen with cuFile 1.15): it must be given no more than that.
    fn within_file(&self, direction: Direction, offset: u64, span: Span) -> Result<Span> {
        if direction == Direction::Write || !self.file.facts().is_regular {
            return Ok(span);
        }
        let left = self.file.len()?.saturating_sub(offset);
        Ok(span.slice(0, usize::try_from(left).unwrap_or(usize::MAX)))
    }

    fn by_cufile(&self, direction: Direction, offset: u64, span: Span) -> Result<DeviceOutcome> {
        let (None, Decision::CuFile(registration, _)) = (self.broken.get(), self.decision()) else {
            return Ok(DeviceOutcome::NotTaken);
        };
        let span = self.within_file(direction, offset, span)?;
        match registration.transfer(direction, offset, span) {
            Ok(moved) => Ok(DeviceOutcome::Moved(moved)),
            Err((status, done)) if self.local_io == LocalIo::CuFile || is_of_the_storage(status.op) => {
                Err(Error::from_cufile(direction.verb(), status).after(done as u64))
            }
            Err((status, _)) => {
                let why = format!("cuFile failed ({status}); the file has taken the staged route since");
                tracing::warn!(path = %self.file.path().display(), %why, "cuFile is given up for a file");
                let _ = self.broken.set(why);
                Ok(DeviceOutcome::NotTaken)
            }
        }
    }
}

/// True for what the storage says to whoever asks, cuFile or us: no reason to give cuFile up.
fn is_of_the_storage(code: i32) -> bool {
    matches!(code, libc::ENOSPC | libc::EDQUOT | libc::EROFS | libc::EBADF | libc::EFBIG)
}

// SAFETY: every span goes to a system or cuFile call that is over when it returns; only reads fill.
unsafe impl Source for LocalFile {
    fn subject(&self) -> String {
        self.file.path().display().to_string()
    }

    fn abilities(&self) -> Abilities {
        let opening = self.file.opening();
        Abilities { read: opening.read, write: opening.write, alignment: self.file.alignment() }
    }

    fn fill(&self, offset: u64, span: Span, access: Access<'_>) -> Result<usize> {
        self.posix.transfer(&self.file, Direction::Read, offset, span, access)
    }

    fn take(&self, offset: u64, span: Span, access: Access<'_>) -> Result<()> {
        self.posix.transfer(&self.file, Direction::Write, offset, span, access).map(|_whole| ())
    }

    fn reaches(&self, _device: Device) -> bool {
        self.uses_cufile()
    }

    fn fill_device(&self, offset: u64, span: Span) -> Result<DeviceOutcome> {
        self.by_cufile(Direction::Read, offset, span)
    }

    fn take_device(&self, offset: u64, span: Span) -> Result<DeviceOutcome> {
        self.by_cufile(Direction::Write, offset, span)
    }
}

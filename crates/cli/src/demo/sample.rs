//! The file that the demo reads: the user's, or a temporary one of random bytes.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::output::{Failure, failed};
use crate::progress::Progress;

/// A file to read.
#[derive(Debug)]
pub struct Sample {
    path: PathBuf,
    len: u64,
    /// The temporary file. It has no name, so the system removes it however this process ends.
    temporary: Option<std::fs::File>,
}

impl Sample {
    /// The user's file.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let facts = std::fs::metadata(path).map_err(|error| failed("open", path, &error))?;
        if !facts.is_file() {
            return Err(Failure(format!("open {}: not a regular file", path.display())));
        }
        Ok(Self { path: path.to_owned(), len: facts.len(), temporary: None })
    }

    /// A temporary file of `len` random bytes.
    pub fn make(len: u64) -> Result<Self, Failure> {
        let folder = std::env::temp_dir();
        let trouble = |error: &std::io::Error| {
            let Failure(text) = failed("make a temporary file in", &folder, error);
            Failure(format!("{text} (choose another folder with TMPDIR, or a smaller --size)"))
        };
        let mut file = tempfile::tempfile_in(&folder).map_err(|error| trouble(&error))?;
        // The system says at once whether there is room; a file system that cannot say is written to as it is.
        if let Err(errno @ (Errno::NOSPC | Errno::FBIG)) =
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len)
        {
            return Err(trouble(&errno.into()));
        }
        let progress = Progress::new(len);
        let mut random = Random::new();
        let mut block = vec![0; 4 << 20];
        let mut done = 0;
        while done < len {
            let part = block.len().min(usize::try_from(len - done).unwrap_or(usize::MAX));
            random.fill(&mut block[..part]);
            file.write_all(&block[..part]).map_err(|error| trouble(&error))?;
            done += part as u64;
            progress.set(done);
        }
        // Opened anew through the descriptor, which works for a file without a name.
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok(Self { path, len, temporary: Some(file) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// For people.
    pub fn name(&self) -> String {
        match &self.temporary {
            Some(_) => format!("random bytes in a temporary file in {}", std::env::temp_dir().display()),
            None => self.path.display().to_string(),
        }
    }

    /// The file as the standard library opens it.
    pub fn reader(&self) -> Result<std::fs::File, Failure> {
        std::fs::File::open(&self.path).map_err(|error| failed("open", &self.path, &error))
    }
}

/// A fast stream of bytes that do not repeat: `SplitMix64`, a counter stirred by multiplications.
struct Random(u64);

impl Random {
    fn new() -> Self {
        // The standard library's hasher is seeded anew in each process.
        Self(RandomState::new().hash_one(0))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_ne_bytes()[..word.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_is_whole_and_has_no_name() {
        let sample = Sample::make(100_001).unwrap();
        assert_eq!(sample.reader().unwrap().metadata().unwrap().len(), 100_001);
        let bytes = std::fs::read(sample.path()).unwrap();
        assert!(bytes.chunks(8).collect::<std::collections::HashSet<_>>().len() > 12_000, "not random");
    }

    #[test]
    fn one_that_does_not_fit_is_refused_before_it_is_written() {
        let Failure(text) = Sample::make(1 << 60).unwrap_err();
        assert!(text.contains("smaller --size"), "{text}");
    }

    #[test]
    fn an_empty_one_can_be_made() {
        assert_eq!(Sample::make(0).unwrap().len(), 0);
    }
}

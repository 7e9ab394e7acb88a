//! Stand-ins for `libcuda.so.1` and `libcufile.so.0`, installed into a folder of their own.
//!
//! ```
//! use kvikio_testkit::fakes::Fakes;
//!
//! let fakes = Fakes::install();
//! let cuda = fakes.cuda();
//! assert_eq!(cuda.start(), Ok(2));
//! let context = cuda.primary_context(0)?;
//! cuda.push_context(context)?;
//! let address = cuda.alloc(16)?;
//! fakes.control().poke(address, b"on the device");
//! assert_eq!(fakes.control().counter("live_allocations"), 1);
//! # Ok::<(), kvikio_sys::cuda::CuStatus>(())
//! ```
#![allow(clippy::expect_used)] // Test support: a fault in it must stop the test.

mod control;
mod locate;
mod without_symbol;

use std::path::{Path, PathBuf};
use std::{fs, io};

use kvikio_sys::{cuda, cufile};
use tempfile::TempDir;

pub use self::control::Control;

const CUDA: &str = "libcuda.so.1";
const CUFILE: &str = "libcufile.so.0";

/// The doubles in a temporary folder: an instance with state of its own, apart from all other instances.
#[derive(Debug)]
pub struct Fakes {
    dir: TempDir,
}

impl Fakes {
    /// Installs both libraries.
    ///
    /// # Panics
    /// Where the doubles cannot be built or copied.
    #[must_use]
    pub fn install() -> Self {
        Self::install_only(true, true)
    }

    /// Installs the named ones of the two libraries, as on a machine that lacks the other.
    ///
    /// # Panics
    /// Where the doubles cannot be built or copied.
    #[must_use]
    pub fn install_only(cuda: bool, cufile: bool) -> Self {
        let dir = TempDir::new().expect("a temporary folder");
        lay(dir.path(), cuda, cufile).expect("the doubles, copied");
        Self { dir }
    }

    /// Makes `symbol` absent, as in a version of the library that does not have it yet. To be called before the
    /// libraries are opened.
    ///
    /// # Panics
    /// Where the doubles have no such function.
    #[must_use]
    pub fn without_symbol(self, symbol: &str) -> Self {
        without_symbol::remove(&self.any_library(), symbol).expect("a symbol to remove");
        self
    }

    /// The folder, for `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the CUDA driver's double is, or would be.
    #[must_use]
    pub fn cuda_path(&self) -> PathBuf {
        self.dir().join(CUDA)
    }

    /// Where cuFile's double is, or would be.
    #[must_use]
    pub fn cufile_path(&self) -> PathBuf {
        self.dir().join(CUFILE)
    }

    /// Opens the CUDA driver's double.
    ///
    /// # Panics
    /// Where it is not installed or lacks a required function.
    #[must_use]
    pub fn cuda(&self) -> cuda::Table {
        cuda::Table::open_at(&self.cuda_path()).expect("the CUDA double")
    }

    /// Opens cuFile's double.
    ///
    /// # Panics
    /// Where it is not installed or lacks a required function.
    #[must_use]
    pub fn cufile(&self) -> cufile::Table {
        cufile::Table::open([self.cufile_path()]).expect("the cuFile double")
    }

    /// What steers this instance and reads its counters.
    ///
    /// # Panics
    /// Where neither library is installed.
    #[must_use]
    pub fn control(&self) -> Control {
        Control::open(&self.any_library())
    }

    fn any_library(&self) -> PathBuf {
        let cuda = self.cuda_path();
        if cuda.exists() { cuda } else { self.cufile_path() }
    }
}

/// Puts the doubles into `dir`: one file under two names, so that the loader maps it once.
///
/// # Errors
/// What the file system or the build said.
pub fn lay(dir: &Path, cuda: bool, cufile: bool) -> io::Result<()> {
    let built = locate::shared_object()?;
    let names: Vec<PathBuf> = [(cuda, CUDA), (cufile, CUFILE)]
        .iter()
        .filter(|(is_wanted, _)| *is_wanted)
        .map(|(_, name)| dir.join(name))
        .collect();
    let Some((first, others)) = names.split_first() else { return Ok(()) };
    for name in &names {
        match fs::remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::copy(built, first)?;
    others.iter().try_for_each(|name| fs::hard_link(first, name))
}

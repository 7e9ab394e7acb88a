//! What this machine offers: the vendor libraries, opened at first need, and the facts of the system around them.
//!
//! A [`Platform`] is a value. The shared engine makes one from the process's environment; a test makes one from fake
//! libraries and a folder that stands for `/`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use kvikio_sys::dylib::LoadError;
use kvikio_sys::{cuda, cufile};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::device::Cuda;
use crate::options::Environment;

type Slot<T> = OnceLock<std::result::Result<Arc<T>, LoadError>>;

/// The vendor libraries and the system, as this process finds them.
#[derive(Debug)]
pub struct Platform {
    cuda: Slot<Cuda>,
    cufile: Slot<cufile::Table>,
    cufile_driver: OnceLock<Result<CuFileDriver>>,
    cufile_candidates: Vec<PathBuf>,
    root: PathBuf,
}

/// cuFile with its driver opened.
#[derive(Debug)]
pub struct CuFileDriver {
    /// The functions.
    pub table: Arc<cufile::Table>,
    /// What the driver said of itself when it was opened.
    pub properties: cufile::Properties,
}

impl Platform {
    /// The platform of this process. cuFile is looked for at `KVIKIO_CUFILE_PATH`, by the loader's search path, in
    /// `dirs` (where Python's packages put it), and where toolkit installers put it.
    pub fn detect<I: IntoIterator<Item = PathBuf>>(dirs: I) -> Arc<Self> {
        let chosen = Environment::process().get("KVIKIO_CUFILE_PATH").map(PathBuf::from);
        let by_loader = cufile::LIBRARY_NAMES.iter().map(PathBuf::from);
        let toolkits = cufile::TOOLKIT_DIRS.iter().map(PathBuf::from);
        let in_dirs = dirs.into_iter().chain(toolkits).map(|dir| dir.join(cufile::LIBRARY_NAMES[0]));
        Arc::new(Self {
            cuda: OnceLock::new(),
            cufile: OnceLock::new(),
            cufile_driver: OnceLock::new(),
            cufile_candidates: chosen.into_iter().chain(by_loader).chain(in_dirs).collect(),
            root: PathBuf::from("/"),
        })
    }

    /// A platform of given libraries; `None` means absent. `root` stands for `/` when the system is asked.
    #[must_use]
    pub fn of(cuda: Option<cuda::Table>, cufile: Option<cufile::Table>, root: &Path) -> Arc<Self> {
        fn slot<T>(value: Option<T>) -> Slot<T> {
            let absent = || LoadError::NotFound { tried: Vec::new() };
            OnceLock::from(value.map(Arc::new).ok_or_else(absent))
        }
        Arc::new(Self {
            cuda: slot(cuda.map(Cuda::new)),
            cufile: slot(cufile),
            cufile_driver: OnceLock::new(),
            cufile_candidates: Vec::new(),
            root: root.to_owned(),
        })
    }

    /// The CUDA driver. Opening it does not initialise it.
    ///
    /// # Errors
    /// [`LoadError`]: what the loader said.
    pub fn cuda(&self) -> std::result::Result<&Arc<Cuda>, LoadError> {
        self.cuda
            .get_or_init(|| cuda::Table::open().map(Cuda::new).map(Arc::new))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// cuFile. Opening the library does not open its driver.
    ///
    /// # Errors
    /// [`LoadError`]: what the loader said.
    pub fn cufile(&self) -> std::result::Result<&Arc<cufile::Table>, LoadError> {
        self.cufile
            .get_or_init(|| cufile::Table::open(&self.cufile_candidates).map(Arc::new))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// cuFile with its driver opened, once for the process.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] without the library, [`ErrorKind::CuFile`] where its driver does not open.
    pub fn cufile_driver(&self) -> Result<&CuFileDriver> {
        let open = || {
            let table = self.cufile().map_err(|why| {
                Error::new(ErrorKind::Unavailable, "open cuFile", format!("cuFile is not there: {why}"))
                    .because(why)
            })?;
            let failed = |status| Error::from_cufile("open cuFile's driver", status);
            table.open_driver().map_err(failed)?;
            let properties = table.properties().map_err(failed)?;
            Ok(CuFileDriver { table: table.clone(), properties })
        };
        self.cufile_driver.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// `path` (absolute) below the folder that stands for `/`.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// True where udev's database is there, without which cuFile does not know any disk.
    #[must_use]
    pub fn has_udev(&self) -> bool {
        self.at("/run/udev").is_dir()
    }

    /// True under the Windows Subsystem for Linux, where cuFile does not work.
    #[must_use]
    pub fn is_wsl(&self) -> bool {
        std::fs::read_to_string(self.at("/proc/sys/kernel/osrelease"))
            .is_ok_and(|text| text.contains("icrosoft"))
    }

    /// True where the nvidia-fs kernel driver is loaded.
    #[must_use]
    pub fn has_nvidia_fs(&self) -> bool {
        self.at("/proc/driver/nvidia-fs").exists() || self.at("/sys/module/nvidia_fs").exists()
    }
}

//! Paths, modes and whole numbers out of Python objects, with the errors that KvikIO's users know.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use kvikio::{File, Options};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

/// A number of bytes, or a place in a file: an `int`, or anything with `__index__`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // `__index__` is asked once, and what it raises stays.
        let py = obj.py();
        let index = match obj.cast::<PyInt>() {
            Ok(int) => int.as_any().to_owned(),
            Err(_) => py.import("operator")?.call_method1("index", (obj,)).map_err(|error| match error
                .is_instance_of::<PyTypeError>(
                py,
            ) {
                true => PyTypeError::new_err(format!("an integer is required, not {}", type_name(&obj))),
                false => error,
            })?,
        };
        index.extract::<u64>().map(Count).map_err(|_too_large| {
            PyOverflowError::new_err(match index.lt(0).unwrap_or(false) {
                true => "can't convert negative value to size_t",
                false => "Python int too large to convert to C unsigned long",
            })
        })
    }
}

/// The name of an object's class, for messages.
pub(crate) fn type_name(obj: &Bound<'_, PyAny>) -> String {
    obj.get_type().name().map_or_else(|_| "object".to_owned(), |name| format!("'{name}'"))
}

/// What `str()` makes of the argument `flags`.
pub(crate) struct Flags(pub(crate) String);

impl Default for Flags {
    fn default() -> Self {
        Self("r".to_owned())
    }
}

impl<'py> FromPyObject<'_, 'py> for Flags {
    type Error = PyErr;

    fn extract(flags: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        flags.str()?.extract().map(Self)
    }
}

/// The modes of `open()`.
pub(crate) struct Mode {
    read: bool,
    write: bool,
    pub(crate) append: bool,
    truncate: bool,
}

impl Mode {
    /// The mode that `flags` name, `None` where they name none.
    pub(crate) fn parse(flags: &str) -> Option<Self> {
        let mut letters = flags.chars();
        let first = letters.next()?;
        let both = letters.any(|letter| letter == '+');
        match first {
            'r' => Some(Self { read: true, write: both, append: false, truncate: false }),
            'w' => Some(Self { read: both, write: true, append: false, truncate: true }),
            'a' => Some(Self { read: both, write: true, append: true, truncate: false }),
            _ => None,
        }
    }

    /// Opens a file in this mode.
    pub(crate) fn open(
        &self,
        path: &Path,
        engine: &kvikio::Engine,
        options: Options,
    ) -> kvikio::Result<File> {
        let opening = File::options().read(self.read).write(self.write).append(self.append);
        let opening = opening.create(self.append || self.truncate).truncate(self.truncate);
        opening.options(options).engine(engine).open(path)
    }
}

/// The bytes of a path, as Python's `os` module makes them.
pub(crate) fn path_of(file: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let bytes = file.py().import("os")?.call_method1("fsencode", (file,))?.cast_into::<PyBytes>()?;
    Ok(PathBuf::from(OsString::from_vec(bytes.as_bytes().to_vec())))
}

//! The native half of the Python package `kvikio`: the names that it exports.

mod arguments;
mod buffer;
mod defaults;
mod dlpack;
mod engine;
mod errors;
mod file;
mod future;
mod gil;

use pyo3::prelude::*;

#[pymodule(name = "_kvikio", gil_used = false)]
mod native {
    use std::ffi::OsString;

    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::defaults::{ConfigContextManager, describe, get, is_compat_mode_preferred, is_set, set};
    #[pymodule_export]
    use crate::engine::bounce_buffer_free;
    #[pymodule_export]
    use crate::file::CuFile;
    #[pymodule_export]
    use crate::future::IOFuture;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// The git commit that the package was built from, empty where it is not known.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __git_commit__: &str = match option_env!("KVIKIO_GIT_COMMIT") {
        Some(commit) => commit,
        None => "",
    };

    /// Runs the command line `argv` (with the program's name first); returns the exit status.
    #[pyfunction]
    fn run_cli(py: Python<'_>, argv: Vec<OsString>) -> i32 {
        crate::gil::detached(py, || command(argv))
    }

    /// The command line itself.
    fn command(_argv: Vec<OsString>) -> i32 {
        // Becomes `kvikio_cli::run(argv)` when that is there.
        2
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::buffer::watch_exit(module.py())
    }
}

//! The native half of the Python package `kvikio`: the names that it exports.

mod arguments;
mod buffer;
mod defaults;
mod dlpack;
mod engine;
mod errors;
mod extent;
mod file;
mod future;
mod gil;
mod interface;
mod means;
mod remote;

use pyo3::prelude::*;

#[pymodule(name = "_kvikio", gil_used = false)]
mod native {
    use std::ffi::OsString;
    use std::path::PathBuf;

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
    use crate::remote::{RemoteFile, infer_remote_endpoint_type, is_remote_file_available};

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

    /// Runs the command line `argv` (with the program's name first); returns the exit status. `python_paths` are the
    /// folders that this interpreter imports from.
    #[pyfunction]
    #[pyo3(signature = (argv, python_paths=Vec::new()), text_signature = "(argv, python_paths=())")]
    fn run_cli(py: Python<'_>, argv: Vec<OsString>, python_paths: Vec<PathBuf>) -> i32 {
        let context = kvikio_cli::Context { python_paths };
        crate::gil::detached(py, || kvikio_cli::run_with(argv, &context))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::buffer::watch_exit(module.py())
    }
}

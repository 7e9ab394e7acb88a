//! The engine that all files of this process share, built at its first use.

use std::path::PathBuf;
use std::sync::OnceLock;

use kvikio::sys::cufile::WHEEL_FOLDERS;
use kvikio::{Engine, Options, Platform};
use pyo3::prelude::*;

use crate::gil;

static ENGINE: OnceLock<Engine> = OnceLock::new();

/// The engine; made with the threads that `options` ask for where there is none yet.
pub(crate) fn engine(py: Python<'_>, options: &Options) -> PyResult<&'static Engine> {
    if let Some(engine) = ENGINE.get() {
        return Ok(engine);
    }
    let dirs = wheel_dirs(py)?;
    Ok(ENGINE.get_or_init(|| Engine::new(Platform::detect(dirs), options.num_threads())))
}

/// Tells the engine, where there is one, how many threads it may have.
pub(crate) fn resize(threads: usize) -> kvikio::Result<()> {
    ENGINE.get().map_or(Ok(()), |engine| engine.set_threads(threads))
}

fn wheel_dirs(py: Python<'_>) -> PyResult<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    for entry in py.import("sys")?.getattr("path")?.try_iter()? {
        // Whatever is not a path (an importer's own entry) holds no wheels.
        let Ok(packages) = entry?.extract::<PathBuf>() else { continue };
        dirs.extend(WHEEL_FOLDERS.iter().map(|wheel| packages.join(wheel)).filter(|dir| dir.is_dir()));
    }
    Ok(dirs)
}

/// Frees the bounce buffers that are idle.
///
/// Returns the number of bytes freed.
#[pyfunction]
pub(crate) fn bounce_buffer_free(py: Python<'_>) -> usize {
    gil::detached(py, || ENGINE.get().map_or(0, Engine::free_bounce_buffers))
}

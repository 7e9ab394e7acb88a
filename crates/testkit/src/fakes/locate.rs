//! Finds the shared object that Cargo built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, io};

const NAME: &str = "libkvikio_fakes.so";

/// The shared object of the doubles. Cargo builds it with this crate, beside the test that runs; where it is not there
/// (as from a documentation test), Cargo is asked, once.
pub(crate) fn shared_object() -> io::Result<PathBuf> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| beside_executable().map_or_else(build, Ok)).clone().map_err(io::Error::other)
}

/// A test lies in `<profile>/deps`, a program in `<profile>`, an example in `<profile>/examples`. The object in `deps`
/// comes first: it is never an older one.
fn beside_executable() -> Option<PathBuf> {
    let executable = env::current_exe().ok()?;
    let folders = executable.ancestors().skip(1).take(2);
    let places = folders.flat_map(|folder| [folder.join("deps").join(NAME), folder.join(NAME)]);
    places.into_iter().find(|place| place.is_file())
}

fn build() -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--package", "kvikio-fakes", "--message-format", "json"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .map_err(|error| format!("cargo build: {error}"))?;
    // Cargo names each file that it made; the path ends where the string does.
    let text = String::from_utf8_lossy(&output.stdout);
    let built = text.split('"').rfind(|word| word.ends_with(NAME)).map(PathBuf::from);
    built.ok_or_else(|| format!("cargo build made no {NAME}: {}", String::from_utf8_lossy(&output.stderr)))
}

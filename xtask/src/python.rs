//! The Python half: the environment in `.venv`, the wheel, and what is run in there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{Outcome, Trouble, cargo, program, run, succeeds};

/// Everything that is installed into `.venv`, with its version.
const REQUIREMENTS: &str = "requirements-dev.txt";

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Trouble {
    Trouble(format!("{what} {}: {error}", path.display()))
}

/// A program of `.venv`.
fn tool(root: &Path, name: &str, args: &[&str]) -> Command {
    program(root, root.join(".venv/bin").join(name), args)
}

/// Makes `.venv` and installs into it what is not there yet.
fn environment(root: &Path) -> Outcome {
    let venv = root.join(".venv");
    if !succeeds(&mut tool(root, "python", &["-m", "pip", "--version"])) {
        let python = interpreter(root)?;
        run(&mut program(root, &python, &["-m", "venv", "--clear", ".venv"]))?;
    }
    let wanted = root.join(REQUIREMENTS);
    let wanted = fs::read_to_string(&wanted).map_err(|error| failed("read", &wanted, &error))?;
    let stamp = venv.join("requirements-installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS];
    run(&mut tool(root, "python", &pip))?;
    fs::write(&stamp, wanted).map_err(|error| failed("write", &stamp, &error))
}

/// A Python that is new enough and can make environments.
fn interpreter(root: &Path) -> Outcome<String> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let can = |code: &str| succeeds(&mut program(root, &python, &["-c", code]));
    if !can("import sys; sys.exit(sys.version_info < (3, 11))") {
        return Err(Trouble(format!(
            "`{python}` is not Python 3.11 or newer: install one, or name it in the variable PYTHON"
        )));
    }
    if !can("import ensurepip, venv") {
        return Err(Trouble(format!(
            "`{python}` cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv)"
        )));
    }
    Ok(python)
}

/// Builds the wheel into `dist`.
pub fn wheel(root: &Path) -> Outcome<PathBuf> {
    environment(root)?;
    let dist = root.join("dist");
    for old in wheels(&dist) {
        fs::remove_file(&old).map_err(|error| failed("remove", &old, &error))?;
    }
    let mut maturin =
        tool(root, "maturin", &["build", "--release", "--locked", "--auditwheel", "check", "--out", "dist"]);
    let commit = program(root, "git", &["rev-parse", "HEAD"]).output();
    if let Ok(commit) = commit
        && commit.status.success()
    {
        maturin.env("KVIKIO_GIT_COMMIT", String::from_utf8_lossy(&commit.stdout).trim());
    }
    run(maturin.env("PYO3_PYTHON", root.join(".venv/bin/python")))?;
    wheels(&dist).pop().ok_or_else(|| Trouble("maturin left no wheel in dist".to_owned()))
}

fn wheels(dist: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dist).map_or_else(|_| Vec::new(), |entries| entries.flatten().collect());
    let paths = entries.into_iter().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).collect()
}

/// Builds the wheel and installs it into `.venv`, so that what is tested is what is shipped.
pub fn install(root: &Path) -> Outcome {
    let wheel = wheel(root)?;
    let pip =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"];
    run(tool(root, "python", &pip).arg(wheel))
}

/// Rules and formatting of the Python files.
pub fn ruff(root: &Path) -> Outcome {
    environment(root)?;
    run(&mut tool(root, "ruff", &["check", "crates/python", "benchmarks"]))?;
    run(&mut tool(root, "ruff", &["format", "--check", "crates/python", "benchmarks"]))
}

/// Types of the Python package.
pub fn mypy(root: &Path) -> Outcome {
    environment(root)?;
    run(&mut tool(root, "mypy", &[]))
}

/// Builds the server that the tests of remote files ask, and answers where it is.
fn faulty_server(root: &Path) -> Outcome<PathBuf> {
    const NAME: &str = "kvikio-faulty-server";
    run(&mut cargo(root, &["build", "--quiet", "--package", "kvikio-testkit", "--bin", NAME]))?;
    Ok(root.join("target/debug").join(NAME))
}

/// The tests on this machine as it is.
pub fn tests_without_gpu(root: &Path) -> Outcome {
    let server = faulty_server(root)?;
    run(tool(root, "python", &["-m", "pytest"])
        .env("KVIKIO_TEST_FAULTY_SERVER", server)
        .env_remove("KVIKIO_TEST_FAKES"))
}

/// The tests with doubles of the vendor libraries in the loader's search path.
pub fn tests_with_doubles(root: &Path) -> Outcome {
    let folder = root.join("target/fakes");
    let lay = ["run", "--quiet", "--package", "kvikio-testkit", "--bin", "lay-fakes", "--"];
    run(cargo(root, &lay).arg(&folder))?;
    let mut paths = vec![folder.clone()];
    paths.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    let paths = std::env::join_paths(paths).map_err(|error| Trouble(format!("LD_LIBRARY_PATH: {error}")))?;
    run(tool(root, "python", &["-m", "pytest"])
        .env("KVIKIO_TEST_FAULTY_SERVER", faulty_server(root)?)
        .env("LD_LIBRARY_PATH", paths)
        .env("KVIKIO_TEST_FAKES", folder))
}

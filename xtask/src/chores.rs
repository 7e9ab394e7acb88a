//! The chores, as lists of steps.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::shell::{Outcome, Trouble, cargo, program, run, succeeds};
use crate::{house, python};

/// One thing that a change has to pass.
struct Step {
    name: &'static str,
    /// Left out by `--fast`.
    is_slow: bool,
    act: fn(&Path) -> Outcome,
}

const fn quick(name: &'static str, act: fn(&Path) -> Outcome) -> Step {
    Step { name, is_slow: false, act }
}

const fn slow(name: &'static str, act: fn(&Path) -> Outcome) -> Step {
    Step { name, is_slow: true, act }
}

const FORMAT: Step = quick("format", format);
const HOUSE: Step = quick("house rules", house::check);
const CLIPPY: Step = quick("clippy", clippy);
const RUFF: Step = slow("ruff", python::ruff);
const MYPY: Step = slow("mypy", python::mypy);

const TEST: [Step; 11] = [
    FORMAT,
    HOUSE,
    CLIPPY,
    quick("Rust tests", rust_tests),
    slow("Rust features", features),
    slow("Rust documentation", documentation),
    slow("wheel", python::install),
    RUFF,
    MYPY,
    slow("Python tests without a GPU", python::tests_without_gpu),
    slow("Python tests with a GPU's test double", python::tests_with_doubles),
];

/// Everything that a change has to pass.
pub fn test(root: &Path, is_fast: bool) -> Outcome {
    all(root, &TEST, is_fast)
}

/// What needs no test to run.
pub fn lint(root: &Path) -> Outcome {
    all(root, &[FORMAT, HOUSE, CLIPPY, RUFF, MYPY], false)
}

/// Builds the command for real use and lets it show itself.
pub fn demo(root: &Path, args: &[String]) -> Outcome {
    let mut command =
        cargo(root, &["run", "--release", "--package", "kvikio-cli", "--bin", "kvikio", "--", "demo"]);
    run(command.args(args))
}

/// Runs the steps in turn up to the first that fails, and closes with a line that counts them.
fn all(root: &Path, steps: &[Step], is_fast: bool) -> Outcome {
    let (mut passed, mut skipped) = (0, 0);
    for step in steps {
        if is_fast && step.is_slow {
            skipped += 1;
            continue;
        }
        println!("\n== {}", step.name);
        let start = Instant::now();
        if let Err(Trouble(text)) = (step.act)(root) {
            println!("\nxtask: {passed} passed, 1 failed, {} skipped", steps.len() - passed - 1);
            return Err(Trouble(format!("step \"{}\" failed: {text}", step.name)));
        }
        println!("-- {}: passed in {:.1} s", step.name, start.elapsed().as_secs_f64());
        passed += 1;
    }
    println!("\nxtask: {passed} passed, 0 failed, {skipped} skipped");
    Ok(())
}

fn format(root: &Path) -> Outcome {
    run(&mut cargo(root, &["fmt", "--all", "--check"]))
}

fn clippy(root: &Path) -> Outcome {
    run(&mut cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// The Python package has tests in Python.
fn rust_tests(root: &Path) -> Outcome {
    let mut command = cargo(root, &["test", "--workspace", "--exclude", "kvikio-python"]);
    if let Some(archives) = hadoop(root) {
        command.env("KVIKIO_TEST_HADOOP", archives);
    }
    run(&mut command)
}

/// The folder with Hadoop's archives, fetched once by Maven. A machine without Java passes without these tests, and
/// says so.
fn hadoop(root: &Path) -> Option<PathBuf> {
    let archives = root.join("target/hadoop");
    let complete = archives.join("complete");
    if complete.exists() {
        return Some(archives);
    }
    let file = root.join("crates/testkit/hadoop/pom.xml");
    let output = format!("-DoutputDirectory={}", archives.display());
    let mut maven = program(root, "mvn", &["-q", "-B", "-f"]);
    maven.arg(file).args(["dependency:copy-dependencies", &output]);
    if !succeeds(&mut program(root, "java", &["-version"])) || !succeeds(&mut maven) {
        println!(
            "skipped: the tests on a real Hadoop (they need Java, Maven and a registry of its archives)"
        );
        return None;
    }
    std::fs::write(complete, "").ok()?;
    Some(archives)
}

fn features(root: &Path) -> Outcome {
    run(&mut cargo(
        root,
        &["clippy", "--package", "kvikio", "--all-features", "--all-targets", "--", "-D", "warnings"],
    ))
}

fn documentation(root: &Path) -> Outcome {
    let mut command = cargo(root, &["doc", "--workspace", "--no-deps", "--document-private-items"]);
    run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

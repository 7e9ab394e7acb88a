//! `kvikio doctor`: what this machine offers, which route a file would take, what is missing, and what to do about it.

mod cufile;
mod gpu;
mod path;
mod report;
mod settings;
mod storage;
mod system;

use std::sync::mpsc;
use std::time::Duration;

use kvikio::{LocalIo, Options};

use crate::Context;
use crate::args::Doctor;
use crate::doctor::report::{Report, Section};
use crate::output::{Failure, print};

/// How long a library or file system may take to answer before it is reported as hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// Examines the machine; 1 where something is wrong.
///
/// # Errors
/// Only where the report cannot be printed.
pub fn run(args: &Doctor, context: &Context) -> Result<i32, Failure> {
    // With a malformed setting the rest is judged by what we would choose.
    let options = Options::from_env().unwrap_or_default();
    let engine = context.engine(&options);
    let platform = engine.platform().clone();
    let posix_only = options.local_io() == LocalIo::Posix;

    let (asked, driver) = (platform.clone(), gpu::NAMES[0]);
    let (driver, devices, has_gpu) = within(PATIENCE, move || gpu::examine(&asked))
        .unwrap_or_else(|| (hanging(driver, "the CUDA driver"), Section::new(gpu::NAMES[1]), false));
    let asked = platform.clone();
    let cufile = within(PATIENCE, move || cufile::examine(&asked, has_gpu, posix_only))
        .unwrap_or_else(|| hanging(cufile::NAME, "cuFile"));
    let mut sections =
        vec![driver, devices, cufile, system::examine(&platform, &options), settings::examine()];
    if !context.python_paths.is_empty() {
        sections.push(system::python(&context.python_paths));
    }
    if let Some(path) = args.path.clone() {
        let examine = move || path::examine(&path, &engine, &options, has_gpu);
        sections.push(within(PATIENCE, examine).unwrap_or_else(|| hanging(path::NAME, "the file system")));
    }
    let report = Report { sections, has_gpu };
    print(&if args.json { report.to_json() } else { report.to_text() })?;
    Ok(i32::from(report.problems() > 0))
}

/// The answer of `work`, unless it takes too long. Its thread is then left to itself: nothing can end it.
fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = mpsc::channel();
    // Where no thread can be had the answer is the same: none.
    std::thread::Builder::new().spawn(move || tell.send(work())).ok()?;
    told.recv_timeout(limit).ok()
}

fn hanging(name: &'static str, what: &str) -> Section {
    let mut section = Section::new(name);
    section.problem(
        format!("{what} gave no answer within {} seconds", PATIENCE.as_secs()),
        "it hangs or fails inside; look at the system's log (`dmesg`)",
    );
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_not_waited_for() {
        let (_keep, never) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(20), move || never.recv().is_ok()), None);
        assert_eq!(within(PATIENCE, || 7), Some(7));
    }
}

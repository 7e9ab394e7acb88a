//! The `kvikio` command as a library, so that the binary and the Python package share one command line.
//!
//! ```
//! let code = kvikio_cli::run(["kvikio", "doctor"].map(Into::into).to_vec());
//! assert!(code == 0 || code == 1);
//! assert_eq!(kvikio_cli::run(["kvikio", "no-such-command"].map(Into::into).to_vec()), 2);
//! ```

mod args;
mod copy;
mod demo;
mod destination;
mod doctor;
mod download;
mod info;
mod output;
mod part;
mod progress;
mod remote;
mod units;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use kvikio::{Engine, Options, Platform};

use crate::args::{Args, Command};

/// What the caller knows and the command cannot find out.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The folders from which a Python interpreter imports, in its order (`sys.path`); empty outside Python. cuFile is
    /// looked for where NVIDIA's packages put it below them, and `doctor` looks there for another KvikIO.
    pub python_paths: Vec<PathBuf>,
}

impl Context {
    /// An engine that finds cuFile in the Python folders too.
    fn engine(&self, options: &Options) -> Engine {
        let below = |path: &PathBuf| kvikio::sys::cufile::WHEEL_FOLDERS.map(|folder| path.join(folder));
        Engine::new(Platform::detect(self.python_paths.iter().flat_map(below)), options.num_threads())
    }
}

/// Runs the command line `args`, of which the first is the name of the program; answers the exit code: 0 where all is
/// well, 1 where something failed or is wrong, 2 where the command line makes no sense.
///
/// Results go to standard output and errors to standard error. Never ends the process.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    run_with(args, &Context::default())
}

/// As [`run`], with what the caller knows.
#[must_use]
pub fn run_with(args: Vec<OsString>, context: &Context) -> i32 {
    let outcome = match Args::try_parse_from(args) {
        Ok(Args { command: Command::Doctor(args) }) => doctor::run(&args, context),
        Ok(Args { command: Command::Demo(args) }) => demo::run(&args, context),
        Ok(Args { command: Command::Copy(args) }) if destination::is_address(&args.from) => {
            download::run(&args, context)
        }
        Ok(Args { command: Command::Copy(args) }) => copy::run(&args, context),
        Ok(Args { command: Command::Info(args) }) => info::run(&args, context),
        Err(error) => {
            // Where nobody reads, nothing is to be said.
            let _ = error.print();
            return error.exit_code();
        }
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            output::complain(&failure);
            1
        }
    }
}

/// The examples of the front page are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;

//! Programs that are run, and what is said when one fails.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Why a chore stopped, in one line.
#[derive(Debug)]
pub struct Trouble(pub String);

/// How a chore ends.
pub type Outcome<T = ()> = Result<T, Trouble>;

/// A program that is run in `root`.
pub fn program<S: AsRef<OsStr>>(root: &Path, name: S, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(root);
    command
}

/// Cargo, the one that runs us.
pub fn cargo(root: &Path, args: &[&str]) -> Command {
    program(root, std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args)
}

/// Shows the command line, runs it, and wants success.
pub fn run(command: &mut Command) -> Outcome {
    let line = line(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Trouble(format!("`{line}` failed ({status})"))),
        Err(error) => Err(Trouble(format!("`{line}` could not be started: {error}"))),
    }
}

/// True where the command can be run and succeeds; it is run quietly.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn line(command: &Command) -> String {
    // Without its folder, which says nothing and differs from machine to machine.
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = [name].into_iter().chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

//! Puts the doubles of `libcuda.so.1` and `libcufile.so.0` into a folder, for programs that are started with
//! `LD_LIBRARY_PATH` set to it. Usage: `lay-fakes DIR`

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: lay-fakes DIR");
        return ExitCode::from(2);
    };
    let dir = Path::new(&dir);
    match std::fs::create_dir_all(dir).and_then(|()| kvikio_testkit::fakes::lay(dir, true, true)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lay-fakes: {}: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}

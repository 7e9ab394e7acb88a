//! The `kvikio` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = kvikio_cli::run(std::env::args_os().collect());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

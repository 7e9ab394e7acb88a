//! Runs the built command and looks at what it said.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Each test file uses its part.

use std::path::Path;
use std::process::{Command, Output};

/// The built command, with no setting in its environment and no library to be found by it.
pub fn kvikio() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvikio"));
    for setting in &kvikio::SETTINGS {
        for name in setting.env {
            command.env_remove(name);
        }
    }
    command
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("KVIKIO_FAKE")
        .env("KVIKIO_CUFILE_PATH", "/no/such/libcufile");
    command
}

/// The built command with doubles of the vendor libraries in `dir`, set as `fake` says.
pub fn with_fakes(dir: &Path, fake: &str) -> Command {
    let mut command = kvikio();
    command.env("LD_LIBRARY_PATH", dir).env("KVIKIO_FAKE", fake).env_remove("KVIKIO_CUFILE_PATH");
    command
}

/// Exit code, standard output and standard error.
pub fn outcome(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().expect("ended by a signal"), text(stdout), text(stderr))
}

/// The JSON object on standard output, and the exit code.
pub fn json(command: &mut Command) -> (i32, serde_json::Value) {
    let (code, out, err) = outcome(command);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

/// Bytes in which neighbouring pages and pieces differ: a stretch of an odd length, over and over.
pub fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let stretch: Vec<u8> = (0..65_537).map(|_| next()).collect();
    let mut bytes = stretch.repeat(len / stretch.len() + 1);
    bytes.truncate(len);
    bytes
}

//! Keys from a program that the user has set up: `credential_process`.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use reqsign_core::time::Timestamp;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::credentials::keys::Keys;

/// A program that has not answered by then never will. Some ask a person for a code meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);
const LONGEST: u64 = 1 << 16;

fn failed(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Credentials, "obtain credentials", words)
}

/// Runs `command` as the shell would, and reads the keys that it prints.
///
/// # Errors
/// [`ErrorKind::Credentials`] where it fails, or prints something else. What it prints is never part of the message.
pub fn run(command: &str) -> Result<Keys> {
    run_within(command, PATIENCE)
}

fn run_within(command: &str, patience: Duration) -> Result<Keys> {
    let started =
        Command::new("/bin/sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| failed(format!("credential_process did not start: {error}")))?;
    let (done, output) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut text = Vec::new();
            let read = stdout.take(LONGEST).read_to_end(&mut text).map(|_| text);
            // Nobody listens any more where it took too long.
            drop(done.send(read));
        });
    }
    let read = output.recv_timeout(patience);
    if read.is_err() {
        // It may have ended by itself meanwhile.
        drop(child.kill());
    }
    let status = child.wait().map_err(|error| failed(format!("credential_process was lost: {error}")))?;
    let Ok(text) = read else {
        return Err(failed(format!("credential_process gave no answer within {patience:?}")));
    };
    if !status.success() {
        return Err(failed(format!("credential_process failed ({status}): run it by hand to see why")));
    }
    let text = text.map_err(|error| failed(format!("credential_process: {error}")))?;
    keys(&text).ok_or_else(|| {
        failed("credential_process has to print JSON with Version 1, AccessKeyId and SecretAccessKey")
    })
}

fn keys(text: &[u8]) -> Option<Keys> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    if value.get("Version").and_then(Value::as_u64) != Some(1) {
        return None;
    }
    let mut keys =
        Keys::new(field("AccessKeyId")?, field("SecretAccessKey")?).with_token(field("SessionToken"));
    if let Some(end) = field("Expiration") {
        let end: Timestamp = end.parse().ok()?;
        keys.expires = Some(end.as_system_time());
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_prints_becomes_keys() {
        let keys = run(
            "echo '{\"Version\": 1, \"AccessKeyId\": \"A B\",' \
             '\"SecretAccessKey\": \"s\", \"SessionToken\": \"t\", \"Expiration\": \"2030-01-01T00:00:00+00:00\"}'",
        )
        .unwrap();
        assert_eq!((keys.access_key.reveal(), keys.secret_key.reveal()), ("A B", "s"));
        assert_eq!(keys.session_token.unwrap().reveal(), "t");
        let end = keys.expires.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(end.as_secs(), 1_893_456_000);
    }

    #[test]
    fn a_program_that_fails_hangs_or_babbles_is_an_error_without_its_words() {
        for (command, words) in [
            ("echo planted; exit 3", "exit status: 3"),
            ("exec sleep 30", "no answer within"),
            ("echo planted", "has to print JSON"),
            ("echo '{\"Version\":2,\"AccessKeyId\":\"planted\",\"SecretAccessKey\":\"s\"}'", "Version 1"),
            ("/no/such/program", "failed"),
        ] {
            let error = run_within(command, Duration::from_millis(500)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Credentials);
            assert!(error.message().contains(words), "{command}: {error}");
            assert!(!error.to_string().contains("planted"));
        }
    }
}

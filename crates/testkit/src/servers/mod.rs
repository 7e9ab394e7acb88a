//! Real servers on loopback, started for a test and ended with it.

pub mod hadoop;
pub mod http;
pub mod nginx;
pub mod python;
pub mod s3;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server process; it ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts `command` and waits until `address` accepts connections.
    ///
    /// # Errors
    /// Why not, in words for the person who reads the test's output.
    pub fn start(command: &mut Command, address: SocketAddr) -> Result<Self, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let mut running = Self { child };
        let end = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Ok(Some(status)) = running.child.try_wait() {
                return Err(format!("{name} ended at once: {status}"));
            }
            assert!(Instant::now() < end, "{name} does not listen at {address} after 30 s");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of loopback that nobody listens on.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The server, or nothing and a line that says why. Where `KVIKIO_TEST_SERVERS` lists it (names with commas between),
/// its absence fails the test instead.
pub fn or_skip<T>(name: &str, server: Result<T, String>) -> Option<T> {
    match server {
        Ok(server) => Some(server),
        Err(why) => {
            let required = std::env::var("KVIKIO_TEST_SERVERS").unwrap_or_default();
            assert!(!required.split(',').any(|word| word == name), "{name} has to be there: {why}");
            eprintln!("skipped: {name}: {why}");
            None
        }
    }
}

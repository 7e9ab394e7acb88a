//! Python's own `http.server`: HTTP/1.0, no ranges, no keep-alive.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::servers::{Running, free_port};

/// A running `http.server`.
#[derive(Debug)]
pub struct HttpServer {
    /// Its port.
    pub port: u16,
    _running: Running,
}

impl HttpServer {
    /// Serves `root`.
    ///
    /// # Errors
    /// Where there is no Python.
    pub fn start(root: &Path) -> Result<Self, String> {
        let port = free_port();
        let mut command = Command::new("python3");
        command.args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"]).arg(root);
        command.arg(port.to_string()).stderr(Stdio::null());
        let running = Running::start(&mut command, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        Ok(Self { port, _running: running })
    }
}

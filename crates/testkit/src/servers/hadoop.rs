//! A real Hadoop: a namenode and a datanode in one process, spoken to by WebHDFS.
//!
//! `KVIKIO_TEST_HADOOP` names the folder with Hadoop's archives, which `cargo xtask test` fetches by Maven.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::servers::http;

/// A running Hadoop.
#[derive(Debug)]
pub struct Hadoop {
    /// The namenode's HTTP port.
    pub port: u16,
    child: Child,
    _dir: TempDir,
}

impl Hadoop {
    /// Starts one with files of up to 1 MiB a block.
    ///
    /// # Errors
    /// Where there is no Java, or Hadoop's archives are not there.
    pub fn start() -> Result<Self, String> {
        let jars =
            std::env::var("KVIKIO_TEST_HADOOP").map_err(|_| "KVIKIO_TEST_HADOOP is not set".to_owned())?;
        let dir = tempfile::tempdir().expect("a folder");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("hadoop/WebHdfs.java");
        let mut child = Command::new("java")
            .args(["-Xmx400m", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp"])
            .arg(format!("{jars}/*"))
            .arg(program)
            .arg(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("java: {error}"))?;
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("port ").and_then(|port| port.parse().ok()));
        match port {
            Some(port) => Ok(Self { port, child, _dir: dir }),
            None => Err(format!("Hadoop did not start: {:?}", child.wait())),
        }
    }

    /// Stores a file; `path` begins with `/` and is percent-encoded as in a URL.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let host = format!("127.0.0.1:{}", self.port);
        let asked =
            http::send(&host, "PUT", &format!("/webhdfs/v1{path}?op=CREATE&overwrite=true"), &[], &[]);
        let location = asked.header("location").expect("a datanode").to_owned();
        let rest = location.strip_prefix("http://").expect("plain HTTP");
        let (host, target) = rest.split_once('/').expect("a path");
        let stored = http::send(host, "PUT", &format!("/{target}"), &[], bytes);
        assert_eq!(stored.status, 201, "{}", String::from_utf8_lossy(&stored.body));
    }
}

impl Drop for Hadoop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

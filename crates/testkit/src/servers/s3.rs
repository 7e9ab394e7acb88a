//! Servers that speak S3: one that verifies signatures, one that keeps keys to the letter.
//!
//! `s3s` (the feature `real-s3`, because it is large) recomputes every signature, and stores objects as files. `moto`
//! (a Python package) takes any signature, and any key. Both know [`ACCESS_KEY`] and [`SECRET_KEY`].

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::servers::{Running, free_port, http};

/// The one access key.
pub const ACCESS_KEY: &str = "AKIAKVIKIOTESTKEY";
/// Its secret.
pub const SECRET_KEY: &str = "kvikio/test+secret";
/// Where both servers say they are.
pub const REGION: &str = "us-east-1";

/// A running server.
#[derive(Debug)]
pub struct S3Server {
    /// Whom tests ask: `127.0.0.1:<port>`.
    pub host: String,
    /// The same objects for whoever puts them there, without signatures.
    back_door: String,
    _running: Box<dyn Held>,
}

/// Whatever ends the server when it is dropped.
trait Held: std::fmt::Debug + Send + Sync {}

impl Held for Running {}

impl S3Server {
    /// The server as an endpoint: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.host)
    }

    /// Makes a bucket.
    pub fn make_bucket(&self, bucket: &str) {
        let reply = http::send(&self.back_door, "PUT", &format!("/{bucket}"), &[], &[]);
        assert!(matches!(reply.status, 200 | 409), "{bucket}: {}", reply.status);
    }

    /// Puts an object there; the key is encoded as a path is. The status, for a server may refuse a key.
    #[must_use]
    pub fn put(&self, bucket: &str, path: &str, body: &[u8]) -> u16 {
        http::send(&self.back_door, "PUT", &format!("/{bucket}/{path}"), &[], body).status
    }
}

/// The server that verifies signatures, its objects in a folder of its own.
///
/// # Errors
/// Where the tests were built without it.
pub fn verifying() -> Result<S3Server, String> {
    #[cfg(feature = "real-s3")]
    return Ok(in_process::start());
    #[cfg(not(feature = "real-s3"))]
    Err("needs `--features kvikio-testkit/real-s3`".to_owned())
}

/// The server that takes any key.
///
/// # Errors
/// Where there is no Python with `moto[server]`.
pub fn moto() -> Result<S3Server, String> {
    let python = python();
    let find = Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
    if !find.is_ok_and(|status| status.success()) {
        return Err(format!("{} has no moto: pip install 'moto[server]'", python.display()));
    }
    let port = free_port();
    let mut command = Command::new(python);
    command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]).stderr(Stdio::null());
    let running = Running::start(&mut command, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let host = format!("127.0.0.1:{port}");
    Ok(S3Server { back_door: host.clone(), host, _running: Box::new(running) })
}

/// The workspace's own Python where there is one.
fn python() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    if own.exists() { own } else { PathBuf::from("python3") }
}

#[cfg(feature = "real-s3")]
mod in_process {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto::Builder;
    use s3s::auth::SimpleAuth;
    use s3s::service::{S3Service, S3ServiceBuilder};
    use s3s_fs::FileSystem;
    use tempfile::TempDir;
    use tokio::net::TcpListener;
    use tokio::runtime::Runtime;

    use super::{ACCESS_KEY, Held, S3Server, SECRET_KEY};

    #[derive(Debug)]
    struct Threads {
        runtime: Option<Runtime>,
        _folder: TempDir,
    }

    impl Held for Threads {}

    impl Drop for Threads {
        fn drop(&mut self) {
            if let Some(runtime) = self.runtime.take() {
                runtime.shutdown_background();
            }
        }
    }

    pub(super) fn start() -> S3Server {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("threads");
        let files = || FileSystem::new(folder.path()).expect("a folder that is there");
        let mut front = S3ServiceBuilder::new(files());
        front.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let host = listen(&runtime, front.build());
        let back_door = listen(&runtime, S3ServiceBuilder::new(files()).build());
        S3Server { host, back_door, _running: Box::new(Threads { runtime: Some(runtime), _folder: folder }) }
    }

    fn listen(runtime: &Runtime, service: S3Service) -> String {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    // A client that goes away is no trouble of the server's.
                    drop(builder.serve_connection(TokioIo::new(socket), service).await);
                });
            }
        });
        host
    }
}

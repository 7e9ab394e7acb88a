//! nginx, serving a folder: ranges, keep-alive, passwords, a slow place, and TLS where it is given a certificate.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::servers::{Running, free_port};

/// The user who may read below `/private/`.
pub const USER: &str = "reader";
/// That user's password. No colon: nginx ends a password there.
pub const PASSWORD: &str = "p@ss/w%rd";

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    /// For `http`.
    pub port: u16,
    /// For `https`; nobody listens where there is no certificate.
    pub tls_port: u16,
    log: PathBuf,
    _running: Running,
    _dir: TempDir,
}

impl Nginx {
    /// Serves `root`. Below `/private/` a password is asked for, below `/slow/` a connection gets 1 MiB a second.
    ///
    /// # Errors
    /// Where there is no nginx.
    pub fn start(root: &Path, certificate: Option<(&str, &str)>) -> Result<Self, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let (port, tls_port) = (free_port(), free_port());
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("users"), format!("{USER}:{{PLAIN}}{PASSWORD}\n")).expect("a writable folder");
        let mut tls = String::new();
        if let Some((chain, key)) = certificate {
            std::fs::write(at("chain.pem"), chain).expect("a writable folder");
            std::fs::write(at("key.pem"), key).expect("a writable folder");
            tls = format!(
                "listen 127.0.0.1:{tls_port} ssl; ssl_certificate {}; ssl_certificate_key {};",
                at("chain.pem").display(),
                at("key.pem").display()
            );
        }
        let log = at("access.log");
        let config = format!(
            "daemon off; worker_processes 2; pid {pid}; error_log {errors};
             events {{ worker_connections 512; }}
             http {{
               log_format plain '$request_method $uri $status $http_range $connection';
               access_log {log} plain; sendfile on; keepalive_requests 1000000;
               client_body_temp_path {scratch}; proxy_temp_path {scratch}; fastcgi_temp_path {scratch};
               uwsgi_temp_path {scratch}; scgi_temp_path {scratch};
               server {{
                 listen 127.0.0.1:{port}; {tls} root {root};
                 location /private/ {{ auth_basic 'yours only'; auth_basic_user_file {users}; }}
                 location /slow/ {{ limit_rate 1m; }}
                 location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
               }}
             }}",
            pid = at("pid").display(),
            errors = at("errors.log").display(),
            log = log.display(),
            scratch = at("scratch").display(),
            root = root.display(),
            users = at("users").display(),
        );
        std::fs::write(at("nginx.conf"), config).expect("a writable folder");
        let mut command = Command::new("nginx");
        command.arg("-c").arg(at("nginx.conf")).arg("-p").arg(dir.path());
        let running = Running::start(&mut command, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        Ok(Self { port, tls_port, log, _running: running, _dir: dir })
    }

    /// The lines of its log: method, path, status, range, connection number.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

//! The running server: its threads, its log, its end.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::server::connection;
use crate::server::fault::Fault;
use crate::server::request::Seen;
use crate::server::script::{Rule, Script};

/// What the threads of a server share.
pub(super) struct Shared {
    pub script: Script,
    address: SocketAddr,
    log: Mutex<Vec<Seen>>,
    /// Requests that each rule has seen, by what tells rules apart.
    counts: Mutex<HashMap<(&'static str, String, usize), usize>>,
    /// The open connections.
    open: Mutex<HashMap<usize, TcpStream>>,
    connections: AtomicUsize,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn log(&self, seen: Seen) {
        lock(&self.log).push(seen);
    }

    /// The requests so far, a line each: method, target, range.
    pub fn log_lines(&self) -> String {
        let line = |seen: &Seen| {
            format!("{} {} {}\n", seen.method, seen.target, seen.header("range").unwrap_or("-"))
        };
        lock(&self.log).iter().map(line).collect()
    }

    /// The faults of `rules` (of one kind) that strike this request; each rule that it concerns counts it.
    pub fn strikes(&self, kind: &'static str, rules: &[Rule], seen: &Seen) -> Vec<Fault> {
        let mut counts = lock(&self.counts);
        let mut faults = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            if seen.target.starts_with(&rule.prefix) && rule.fault.concerns(&seen.method) {
                let count = counts.entry((kind, rule.prefix.clone(), index)).or_default();
                if rule.strikes(*count) {
                    faults.push(rule.fault.clone());
                }
                *count += 1;
            }
        }
        faults
    }

    /// `text` with the server's own names in it.
    pub fn with_names(&self, text: &str) -> String {
        let port = self.address.port();
        let scheme = if self.script.tls.is_some() { "https" } else { "http" };
        let text = text.replace("{scheme}", scheme);
        text.replace("{origin}", &self.address.to_string())
            .replace("{localhost}", &format!("localhost:{port}"))
    }

    /// Sleeps, unless the server stops.
    pub fn sleep(&self, time: Duration) {
        if !time.is_zero() {
            let is_stopped = lock(&self.is_stopped);
            let _ = self.stopped.wait_timeout_while(is_stopped, time, |is_stopped| !*is_stopped);
        }
    }

    pub fn is_stopped(&self) -> bool {
        *lock(&self.is_stopped)
    }

    /// Lets go of a connection, so that its end is in its thread's hand.
    pub fn forget(&self, number: usize) {
        lock(&self.open).remove(&number);
    }
}

/// A server: it runs until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server at {}", self.shared.address)
    }
}

impl Server {
    /// Starts one on a free port of 127.0.0.1.
    #[must_use]
    pub fn start(script: Script) -> Self {
        Self::listen(script, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// Starts one at `address`.
    #[must_use]
    pub fn listen(script: Script, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let shared = Arc::new(Shared {
            script,
            address: listener.local_addr().expect("a bound socket"),
            log: Mutex::default(),
            counts: Mutex::default(),
            open: Mutex::default(),
            connections: AtomicUsize::new(0),
            is_stopped: Mutex::new(false),
            stopped: Condvar::new(),
        });
        let acceptor = {
            let shared = shared.clone();
            std::thread::spawn(move || accept(&listener, &shared))
        };
        Self { shared, acceptor: Some(acceptor) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The URL of `path`, with the server's address as the host.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme(), self.shared.address)
    }

    /// The URL of `path`, with `localhost` as the host.
    #[must_use]
    pub fn named_url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme(), self.shared.address.port())
    }

    fn scheme(&self) -> &'static str {
        if self.shared.script.tls.is_some() { "https" } else { "http" }
    }

    /// The requests so far, in the order in which they came.
    #[must_use]
    pub fn requests(&self) -> Vec<Seen> {
        lock(&self.shared.log).clone()
    }

    /// The connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until `count` requests have come; false where that takes longer than `patience`.
    #[must_use]
    pub fn wait_for(&self, count: usize, patience: Duration) -> bool {
        let start = Instant::now();
        while lock(&self.shared.log).len() < count {
            if start.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Shuts all open connections, as a server does that is restarted, or is tired of idle ones.
    pub fn hang_up(&self) {
        for socket in lock(&self.shared.open).values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *lock(&self.shared.is_stopped) = true;
        self.shared.stopped.notify_all();
        // Wakes whoever accepts.
        let _ = TcpStream::connect(self.shared.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.hang_up();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((socket, _)) = listener.accept() {
        if shared.is_stopped() {
            return;
        }
        let number = shared.connections.fetch_add(1, Ordering::SeqCst);
        if let Ok(copy) = socket.try_clone() {
            lock(&shared.open).insert(number, copy);
        }
        let shared = shared.clone();
        std::thread::spawn(move || {
            connection::serve(socket, number, &shared);
            shared.forget(number);
        });
    }
}

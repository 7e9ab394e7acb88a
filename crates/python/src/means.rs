//! The event loops that all remote files of this process share, built anew where the settings for them have changed.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kvikio::{Environment, Key, Options, Remote, Value};
use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::engine;

/// What decides about the loops.
const KEYS: [Key; 4] =
    [Key::NumThreads, Key::RemoteIoBackend, Key::RemoteIoNumReactors, Key::RemoteIoMaxConcurrentRequests];

type Settings = [Option<Value>; KEYS.len()];

/// The variables that say whom TLS trusts and which proxies there are.
const WAYS: [&str; 10] = [
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];

type Ways = [Option<String>; WAYS.len()];

/// The loops, and what they were made for.
struct Means {
    settings: Settings,
    ways: Ways,
    remote: Remote,
}

static MEANS: ArcSwapOption<Means> = ArcSwapOption::const_empty();

fn settings(options: &Options) -> Settings {
    KEYS.map(|key| options.is_set(key).then(|| options.get(key)))
}

/// The loops for these options. What is in flight on other ones comes to its end there.
pub(crate) fn remote(py: Python<'_>, options: &Options) -> PyResult<Remote> {
    let settings = settings(options);
    let known = MEANS.load_full().filter(|means| means.settings == settings);
    match known {
        Some(means) => Ok(told(means.remote.clone(), options)),
        None => fresh(py, options, settings, ways()),
    }
}

/// As [`remote`], to open an object: credentials, proxies and whom to trust are those of the environment as it is now.
pub(crate) fn opener(py: Python<'_>, options: &Options) -> PyResult<Remote> {
    // The interpreter is held: nobody changes `os.environ` meanwhile.
    let (settings, ways) = (settings(options), ways());
    let known = MEANS.load_full().filter(|means| means.settings == settings && means.ways == ways);
    match known {
        Some(means) => Ok(told(means.remote.in_environment(&Environment::process()), options)),
        None => fresh(py, options, settings, ways),
    }
}

fn ways() -> Ways {
    let environment = Environment::process();
    WAYS.map(|name| environment.get(name))
}

fn fresh(py: Python<'_>, options: &Options, settings: Settings, ways: Ways) -> PyResult<Remote> {
    let remote = Remote::new(engine::engine(py, options)?, options, &Environment::process());
    MEANS.store(Some(Arc::new(Means { settings, ways, remote: remote.clone() })));
    Ok(told(remote, options))
}

fn told(remote: Remote, options: &Options) -> Remote {
    let is_told = options.get(Key::HttpRetryNotice) == Value::Bool(true);
    if is_told { remote.telling(tell) } else { remote }
}

/// Prints the line about a retry on standard output, by the descriptor: Python's own object is not asked, which would
/// need the interpreter. An event loop calls this, so where a pipe is full the line is left out.
fn tell(line: &str) {
    let out = rustix::stdio::stdout();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut room = [PollFd::new(&out, PollFlags::OUT)];
    if matches!(poll(&mut room, Some(&at_once)), Ok(1..)) {
        // Where nobody listens, nothing is to be said.
        let _ = rustix::io::write(out, format!("{line}\n").as_bytes());
    }
}

//! Names to addresses: the system's resolver on a thread for each name that is asked, and a short memory.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};

/// How long an answer is believed: long enough for a burst of connections, short enough that a service which moves
/// its name (as S3 does every few seconds, to spread load) is followed.
const MEMORY: Duration = Duration::from_secs(10);

/// The addresses of a name, in the resolver's order.
pub(super) type Addresses = Arc<[SocketAddr]>;
type Name = (String, u16);
type Waiting = Box<dyn FnOnce(&Result<Addresses>) + Send>;

/// The names known and asked for.
#[derive(Default)]
pub(super) struct Lookup {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<Name, (Instant, Addresses)>,
    asked: HashMap<Name, Vec<Waiting>>,
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

impl Lookup {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses, where they are known now: the host is an address itself, or was asked for a moment ago.
    pub(super) fn known(&self, host: &str, port: u16) -> Option<Addresses> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some([SocketAddr::new(address, port)].into());
        }
        let state = self.state();
        let (asked, addresses) = state.known.get(&(host.to_owned(), port))?;
        (asked.elapsed() < MEMORY).then(|| addresses.clone())
    }

    /// Asks the resolver; `then` is called on another thread, or at once where no thread can be had.
    pub(super) fn ask(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        then: impl FnOnce(&Result<Addresses>) + Send + 'static,
    ) {
        let name = (host.to_owned(), port);
        let mut state = self.state();
        if let Some(waiting) = state.asked.get_mut(&name) {
            waiting.push(Box::new(then));
            return;
        }
        state.asked.insert(name.clone(), vec![Box::new(then)]);
        drop(state);
        let (this, asked) = (self.clone(), name.clone());
        let thread = std::thread::Builder::new().name("kvikio-dns".to_owned());
        let spawned = thread.spawn(move || this.tell(&asked, &resolve(&asked.0, asked.1)));
        if let Err(why) = spawned {
            self.tell(&name, &Err(unresolved(host).because(why)));
        }
    }

    fn tell(&self, name: &Name, answer: &Result<Addresses>) {
        let mut state = self.state();
        if let Ok(addresses) = answer {
            state.known.retain(|_, (asked, _)| asked.elapsed() < MEMORY);
            state.known.insert(name.clone(), (Instant::now(), addresses.clone()));
        }
        let waiting = state.asked.remove(name).unwrap_or_default();
        drop(state);
        waiting.into_iter().for_each(|then| then(answer));
    }
}

fn resolve(host: &str, port: u16) -> Result<Addresses> {
    let addresses: Vec<SocketAddr> = match (host, port).to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(why) => return Err(unresolved(host).because(why)),
    };
    if addresses.is_empty() { Err(unresolved(host)) } else { Ok(addresses.into()) }
}

fn unresolved(host: &str) -> Error {
    Error::new(ErrorKind::Connection, "connect", format!("Could not resolve host: {host}")).retryable()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn ask(lookup: &Arc<Lookup>, host: &str) -> mpsc::Receiver<Result<Addresses>> {
        let (sender, receiver) = mpsc::channel();
        lookup.ask(host, 80, move |answer| sender.send(answer.clone()).unwrap());
        receiver
    }

    #[test]
    fn addresses_need_no_asking_and_names_are_remembered() {
        let lookup = Arc::new(Lookup::default());
        assert_eq!(lookup.known("127.0.0.1", 8).unwrap()[..], ["127.0.0.1:8".parse().unwrap()]);
        assert_eq!(lookup.known("::1", 8).unwrap()[..], ["[::1]:8".parse().unwrap()]);
        assert!(lookup.known("localhost", 80).is_none());
        let (first, second) = (ask(&lookup, "localhost"), ask(&lookup, "localhost"));
        let answer = first.recv().unwrap().unwrap();
        assert!(answer.iter().all(|address| address.ip().is_loopback()), "{answer:?}");
        assert_eq!(second.recv().unwrap().unwrap(), answer);
        assert_eq!(lookup.known("localhost", 80), Some(answer));
    }

    #[test]
    fn a_name_that_does_not_exist_is_an_error_with_the_name() {
        let lookup = Arc::new(Lookup::default());
        let error = ask(&lookup, "no-such-name.invalid").recv().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connection);
        assert_eq!(error.message(), "Could not resolve host: no-such-name.invalid");
        assert!(lookup.known("no-such-name.invalid", 80).is_none());
    }
}

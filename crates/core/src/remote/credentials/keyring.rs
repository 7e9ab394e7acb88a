//! Keeps keys, and has fresh ones before the old ones end.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwapOption;

use crate::error::{Error, ErrorKind, Result};
use crate::process;
use crate::remote::credentials::keys::Keys;

/// Keys are renewed so long before they end. Services hand out new ones about so early.
const AHEAD: Duration = Duration::from_secs(300);
/// Keys younger than this are what another thread has just obtained: no need to ask again.
const YOUNG: Duration = Duration::from_secs(1);
/// A service that gives the same keys until they end is not asked more often than this.
const REST: Duration = Duration::from_secs(15);
/// Whoever waits for another thread's renewal gives up after so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Keys that end soon and could not be renewed are tried again after so long.
const PAUSE: Duration = Duration::from_secs(2);
/// How often that waiting thread looks.
const LOOK: Duration = Duration::from_millis(5);
const NOBODY: u32 = 0;

/// What a search for keys found.
#[derive(Debug)]
pub enum Found {
    /// Keys.
    Keys(Keys),
    /// Nothing, in the places that the text names.
    Nothing(String),
}

/// Where keys come from. May block: read files, run programs, use the network.
pub trait Supply: Debug + Send + Sync {
    /// Obtains keys.
    ///
    /// # Errors
    /// [`ErrorKind::Credentials`] where a source is set up, and fails.
    fn obtain(&self) -> Result<Found>;
}

/// Keys, shared by all objects that are opened with the same settings.
#[derive(Debug)]
pub struct Keyring {
    held: ArcSwapOption<Keys>,
    supply: Option<Arc<dyn Supply>>,
    /// The process whose thread is renewing, else [`NOBODY`]. A child of a fork sees its parent's number, and knows that
    /// nobody will end that renewal: hence no lock.
    renewing: AtomicU32,
}

impl Keyring {
    /// Keys that were given, and stay.
    #[must_use]
    pub fn fixed(keys: Keys) -> Arc<Self> {
        Arc::new(Self {
            held: ArcSwapOption::from_pointee(keys),
            supply: None,
            renewing: AtomicU32::new(NOBODY),
        })
    }

    /// Keys that `supply` obtains, when they are first needed.
    #[must_use]
    pub fn supplied(supply: Arc<dyn Supply>) -> Arc<Self> {
        Arc::new(Self {
            held: ArcSwapOption::empty(),
            supply: Some(supply),
            renewing: AtomicU32::new(NOBODY),
        })
    }

    /// Whether [`Keyring::renew`] can change anything.
    #[must_use]
    pub fn can_renew(&self) -> bool {
        self.supply.is_some()
    }

    /// The keys that are held. Never blocks: keys that end soon are renewed on a thread of its own meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Credentials`] before [`Keyring::ensure`] has succeeded.
    pub fn current(self: &Arc<Self>, now: SystemTime) -> Result<Arc<Keys>> {
        let Some(keys) = self.held.load_full() else {
            return Err(Error::new(ErrorKind::Credentials, "read", "no credentials have been obtained yet"));
        };
        if keys.end_within(AHEAD, now) && self.can_renew() && keys.since.elapsed() > REST {
            self.renew_aside();
        }
        Ok(keys)
    }

    /// Sees to it that keys are held that are good for now. May block. Where there are none, the places that were searched.
    ///
    /// # Errors
    /// As [`Supply::obtain`].
    pub fn ensure(&self, now: SystemTime) -> Result<Option<String>> {
        let held = self.held.load();
        let is_good = held.as_ref().is_some_and(|keys| !keys.end_within(Duration::ZERO, now));
        drop(held);
        if is_good { Ok(None) } else { self.search() }
    }

    /// Obtains fresh keys, or waits for the thread that already does. May block.
    ///
    /// # Errors
    /// As [`Supply::obtain`]; and where there are none.
    pub fn renew(&self) -> Result<()> {
        match self.search()? {
            None => Ok(()),
            Some(places) => {
                let words = format!("there are no credentials any more: {places}");
                Err(Error::new(ErrorKind::Credentials, "renew credentials", words))
            }
        }
    }

    fn search(&self) -> Result<Option<String>> {
        if self.supply.is_none() || self.is_young() {
            return Ok(None);
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(turn) = self.turn() {
                return if self.is_young() { Ok(None) } else { self.obtain(&turn) };
            }
            thread::sleep(LOOK);
            if self.is_young() {
                return Ok(None);
            }
        }
        Err(Error::new(ErrorKind::Credentials, "renew credentials", "no answer within a minute").retryable())
    }

    fn is_young(&self) -> bool {
        self.held.load().as_ref().is_some_and(|keys| keys.since.elapsed() < YOUNG)
    }

    fn obtain(&self, _turn: &Turn<'_>) -> Result<Option<String>> {
        let Some(supply) = &self.supply else { return Ok(None) };
        match supply.obtain()? {
            Found::Keys(keys) => self.held.store(Some(Arc::new(keys))),
            Found::Nothing(places) => return Ok(Some(places)),
        }
        Ok(None)
    }

    fn turn(&self) -> Option<Turn<'_>> {
        let own = process::id();
        let holder = self.renewing.load(Ordering::Acquire);
        if holder == own {
            return None;
        }
        let taken = self.renewing.compare_exchange(holder, own, Ordering::AcqRel, Ordering::Acquire);
        taken.ok().map(|_| Turn(&self.renewing))
    }

    fn renew_aside(self: &Arc<Self>) {
        if self.renewing.load(Ordering::Acquire) == process::id() {
            return;
        }
        let keyring = Arc::clone(self);
        let work = move || {
            let Some(turn) = keyring.turn() else { return };
            if keyring.is_young() {
                return;
            }
            let words = match keyring.obtain(&turn) {
                Ok(None) => return,
                Ok(Some(places)) => places,
                Err(error) => error.to_string(),
            };
            tracing::warn!("credentials that end soon could not be renewed: {words}");
            // The next request asks again; not at once, or a dead service would be asked all the time: the turn is kept.
            thread::sleep(PAUSE);
        };
        if thread::Builder::new().name("kvikio-keys".to_owned()).spawn(work).is_err() {
            tracing::warn!("no thread to renew credentials on");
        }
    }
}

/// The right to renew; given back by dropping it.
#[derive(Debug)]
struct Turn<'a>(&'a AtomicU32);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(NOBODY, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// Hands out `key-1`, `key-2`, …, each good for `lasts`.
    #[derive(Debug, Default)]
    struct Counter {
        count: AtomicUsize,
        lasts: Option<Duration>,
        gate: Mutex<bool>,
        opened: Condvar,
    }

    impl Counter {
        fn lasting(lasts: Duration) -> Arc<Self> {
            Arc::new(Self { lasts: Some(lasts), gate: Mutex::new(true), ..Self::default() })
        }

        fn set_gate(&self, open: bool) {
            *self.gate.lock().unwrap() = open;
            self.opened.notify_all();
        }
    }

    impl Supply for Counter {
        fn obtain(&self) -> Result<Found> {
            let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
            drop(self.opened.wait_while(self.gate.lock().unwrap(), |open| !*open).unwrap());
            let mut keys = Keys::new(format!("key-{number}"), "secret");
            keys.expires = self.lasts.map(|lasts| SystemTime::now() + lasts);
            Ok(Found::Keys(keys))
        }
    }

    fn name(keyring: &Arc<Keyring>) -> String {
        keyring.current(SystemTime::now()).unwrap().access_key.reveal().to_owned()
    }

    /// As if the keys had been obtained a while ago.
    fn age(keyring: &Keyring) {
        let mut keys = Keys::clone(&keyring.held.load_full().unwrap());
        keys.since = Instant::now().checked_sub(REST * 2).unwrap();
        keyring.held.store(Some(Arc::new(keys)));
    }

    #[test]
    fn keys_are_obtained_once_for_many_objects() {
        let supply = Counter::lasting(Duration::from_secs(3600));
        let keyring = Keyring::supplied(supply.clone());
        assert_eq!(keyring.current(SystemTime::now()).unwrap_err().kind(), ErrorKind::Credentials);
        for _ in 0..3 {
            assert_eq!(keyring.ensure(SystemTime::now()).unwrap(), None);
            assert_eq!(name(&keyring), "key-1");
        }
        assert_eq!(supply.count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn keys_that_end_soon_are_renewed_aside_without_blocking() {
        let supply = Counter::lasting(Duration::from_secs(100));
        let keyring = Keyring::supplied(supply.clone());
        keyring.ensure(SystemTime::now()).unwrap();
        age(&keyring);
        supply.set_gate(false);
        // The supply does not answer, and the old keys are still given out.
        for _ in 0..5 {
            assert_eq!(name(&keyring), "key-1");
        }
        supply.set_gate(true);
        let began = Instant::now();
        while name(&keyring) != "key-2" {
            assert!(began.elapsed() < Duration::from_secs(10), "nobody renewed them");
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn many_that_renew_at_once_ask_once() {
        let supply = Counter::lasting(Duration::from_secs(3600));
        let keyring = Keyring::supplied(supply.clone());
        keyring.ensure(SystemTime::now()).unwrap();
        age(&keyring);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| keyring.renew().unwrap());
            }
        });
        assert_eq!((name(&keyring).as_str(), supply.count.load(Ordering::SeqCst)), ("key-2", 2));
    }

    #[test]
    fn a_renewal_that_a_fork_cut_off_does_not_stop_the_child() {
        let keyring = Keyring::supplied(Counter::lasting(Duration::from_secs(3600)));
        // What a child sees: its parent was renewing.
        keyring.renewing.store(process::id() + 1, Ordering::SeqCst);
        keyring.renew().unwrap();
        assert_eq!(name(&keyring), "key-1");
    }

    #[test]
    fn fixed_keys_stay() {
        let keyring = Keyring::fixed(Keys::new("planted", "planted").with_token(Some("planted".to_owned())));
        assert!(!keyring.can_renew());
        keyring.renew().unwrap();
        assert_eq!(name(&keyring), "planted");
        assert!(!format!("{keyring:?}").contains("planted"));
    }
}

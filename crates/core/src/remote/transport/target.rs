//! What all requests for one object share: whom to ask, how big it is, which version of it we read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

use crate::error::{Error, ErrorKind, Result};
use crate::remote::endpoint::Endpoint;
use crate::remote::wire::check::Version;
use crate::remote::wire::retry::Policy;

/// One object, as the event loops see it.
pub(crate) struct Target {
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) size: u64,
    pub(crate) policy: Arc<Policy>,
    version: ArcSwapOption<Version>,
    /// Renewals of the credentials that have ended well.
    renewals: AtomicU64,
    /// Who waits for the renewal that is under way.
    waiting: Mutex<Vec<Waiting>>,
}

type Waiting = Box<dyn FnOnce(Result<()>) + Send>;

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} bytes", self.endpoint.subject(), self.size)
    }
}

impl Target {
    /// An object of `size` bytes; `version` where a probe told it.
    pub(crate) fn new(
        endpoint: Arc<dyn Endpoint>,
        size: u64,
        version: Option<Version>,
        policy: Arc<Policy>,
    ) -> Self {
        let version = ArcSwapOption::from_pointee(version);
        Self { endpoint, size, policy, version, renewals: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// The version that has been read so far.
    pub(crate) fn version(&self) -> Option<Arc<Version>> {
        self.version.load_full()
    }

    /// An answer tells its version: the first one is the one that all others must agree with.
    pub(crate) fn learn(&self, version: &Version) -> Result<()> {
        let known = match self.version() {
            Some(known) => known,
            None => {
                let version = Arc::new(version.clone());
                match &*self.version.compare_and_swap(&None::<Arc<Version>>, Some(version)) {
                    None => return Ok(()),
                    Some(known) => known.clone(),
                }
            }
        };
        if known.agrees(version) {
            return Ok(());
        }
        let why = "the object was replaced while it was read (another ETag or date): open it again";
        Err(Error::new(ErrorKind::Changed, "read", why))
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often credentials have been renewed so far: to be remembered with each request.
    pub(crate) fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Acquire)
    }

    /// Renews the credentials on a thread of its own, once for all who found that those after `seen` renewals are
    /// refused; `then` is called when that is over, at once where it already has been done.
    pub(crate) fn renew(self: &Arc<Self>, seen: u64, then: impl FnOnce(Result<()>) + Send + 'static) {
        let mut waiting = self.waiting();
        if self.renewals() > seen {
            drop(waiting);
            return then(Ok(()));
        }
        waiting.push(Box::new(then));
        if waiting.len() > 1 {
            return;
        }
        drop(waiting);
        let this = self.clone();
        let thread = std::thread::Builder::new().name("kvikio-renew".to_owned());
        if let Err(why) = thread.spawn(move || this.renewed(&this.endpoint.renew())) {
            let error = Error::new(ErrorKind::Credentials, "renew credentials", "no thread is to be had");
            self.renewed(&Err(error.because(why)));
        }
    }

    fn renewed(&self, outcome: &Result<()>) {
        let mut waiting = self.waiting();
        self.renewals.fetch_add(u64::from(outcome.is_ok()), Ordering::Release);
        let waiting = std::mem::take(&mut *waiting);
        waiting.into_iter().for_each(|then| then(outcome.clone()));
    }
}

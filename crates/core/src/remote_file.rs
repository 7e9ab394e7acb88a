//! An open remote object: its source, its engine and its options, with reads handed to the doorway.

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use crate::engine::source::{Direction, Source};
use crate::engine::transfer::Transfer;
use crate::engine::{Engine, Job, Scope, ScopedTransfer};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::buf::IoBufMut;
use crate::options::{Environment, Options};
use crate::remote::endpoint::{Endpoint, Refusal};
use crate::remote::http::HttpEndpoint;
use crate::remote::object::Object;
use crate::remote::transport::{Statistics, Target, Transport};
use crate::remote::wire::check::Version;
use crate::remote::wire::retry::Policy;

/// The most bytes of a probe's answer that are read: the range of one byte, or a refusal's explanation.
const MOST_PROBE: usize = 64 << 10;

static SHARED: LazyLock<Remote> =
    LazyLock::new(|| Remote::new(Engine::shared(), &Options::default(), &Environment::process()));

/// The means by which remote objects are read: event loops, whom TLS trusts, the proxies on the way, and an engine.
///
/// Cloning is cheap and shares them. A forked child gets loops of its own at its first request.
#[derive(Debug, Clone)]
pub struct Remote {
    transport: Arc<Transport>,
    engine: Engine,
}

impl Remote {
    /// New loops, as many as `options` say, on the ways that `environment` describes. No thread is started yet.
    #[must_use]
    pub fn new(engine: &Engine, options: &Options, environment: &Environment<'_>) -> Self {
        Self { transport: Arc::new(Transport::new(options, environment)), engine: engine.clone() }
    }

    /// The means that are used where none are given.
    #[must_use]
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// What the loops have done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.transport().statistics()
    }

    /// The loops, also as the way for small requests of credential chains.
    #[allow(dead_code)] // The openings of services are being built.
    pub(crate) fn transport(&self) -> &Arc<Transport> {
        &self.transport
    }
}

impl Remote {
    /// Opens the object at an http or https URL. With `size` nothing is asked; without, the server is, once as a rule.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`]; what the server said; or that it does not tell the size.
    pub fn open_http(&self, url: &str, size: Option<u64>, options: Options) -> Result<RemoteFile> {
        RemoteFile::new(self, Arc::new(HttpEndpoint::open(url)?), size, options)
    }
}

/// A remote object, open for positional reads into host and device memory.
///
/// Every call names its own offset, so calls on one object may run side by side. What is in flight owns the object:
/// dropping a [`RemoteFile`] is always safe.
///
/// All bytes belong to one version of the object, as far as the server tells versions: where it is replaced between
/// two reads, the second fails with [`ErrorKind::Changed`].
#[derive(Debug, Clone)]
pub struct RemoteFile {
    object: Object,
    source: Arc<dyn Source>,
    engine: Engine,
    options: Arc<Options>,
}

impl RemoteFile {
    /// Opens the object of `endpoint`. With `size` nothing is asked; without, the server is, once as a rule.
    ///
    /// # Errors
    /// What the server said, or that it does not tell the size.
    pub(crate) fn new(
        remote: &Remote,
        endpoint: Arc<dyn Endpoint>,
        size: Option<u64>,
        options: Options,
    ) -> Result<Self> {
        let policy = Arc::new(Policy::from(&options));
        let (size, version) = match size {
            Some(size) => (size, None),
            None => probe(remote, &*endpoint, &policy).map_err(|error| error.during("open"))?,
        };
        let target = Arc::new(Target::new(endpoint, size, version, policy));
        let object = Object::new(target, remote.transport.clone());
        let source = Arc::new(object.clone());
        Ok(Self { object, source, engine: remote.engine.clone(), options: Arc::new(options) })
    }

    /// The object's length in bytes, as it was told when it was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.object.target().size
    }

    /// The object's address, without secrets.
    #[must_use]
    pub fn address(&self) -> String {
        self.object.target().endpoint.subject()
    }

    /// The settings that hold for the object.
    #[must_use]
    pub fn settings(&self) -> &Options {
        &self.options
    }

    /// The object as a source, for [`File::of`](crate::File::of).
    #[must_use]
    pub fn source(&self) -> Arc<dyn Source> {
        self.source.clone()
    }

    fn job(&self, offset: u64, exact: bool) -> Job<'_> {
        Job { source: &self.source, offset, direction: Direction::Read, options: &self.options, exact }
    }

    /// An exact read must end within the object: said before anything is asked.
    fn outside(&self, offset: u64, len: usize) -> Option<Error> {
        let end = offset.checked_add(len as u64);
        if len == 0 || end.is_some_and(|end| end <= self.size()) {
            return None;
        }
        let (size, address) = (self.size(), self.address());
        let why = format!("cannot read {offset}+{len} bytes into a {size} bytes file ({address})");
        Some(Error::new(ErrorKind::OutOfRange, "read", why).on(address).at(offset, len as u64))
    }

    /// Starts a read of `buf`'s length at `offset`. Fewer bytes are read only where the object ends.
    #[doc(alias = "pread")]
    pub fn read_at<B: IoBufMut>(&self, buf: B, offset: u64) -> Transfer<B> {
        self.engine.read(self.job(offset, false), buf)
    }

    /// As [`RemoteFile::read_at`], but a range that ends beyond the object is [`ErrorKind::OutOfRange`].
    pub fn read_exact_at<B: IoBufMut>(&self, buf: B, offset: u64) -> Transfer<B> {
        match self.outside(offset, buf.byte_len()) {
            None => self.engine.read(self.job(offset, true), buf),
            Some(error) => self.engine.refuse(self.job(offset, true), error, buf),
        }
    }

    /// Reads into borrowed memory and waits; answers the bytes read, fewer only where the object ends.
    ///
    /// # Errors
    /// What stopped the read.
    pub fn read_into(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.engine.read_slice(self.job(offset, false), buf)
    }

    /// Fills borrowed memory and waits.
    ///
    /// # Errors
    /// What stopped the read; [`ErrorKind::OutOfRange`] where the object ends before `buf` is full.
    pub fn read_exact_into(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        match self.outside(offset, buf.len()) {
            None => self.engine.read_slice(self.job(offset, true), buf).map(|_all| ()),
            Some(error) => Err(error),
        }
    }

    /// As [`RemoteFile::read_at`] (or, where `exact`, [`RemoteFile::read_exact_at`]) into a borrowed owner, waiting.
    ///
    /// # Errors
    /// What stopped the read.
    pub fn read_blocking<B: IoBufMut>(&self, buf: &mut B, offset: u64, exact: bool) -> Result<usize> {
        match self.outside(offset, buf.byte_len()).filter(|_| exact) {
            None => self.engine.move_owned(self.job(offset, exact), buf),
            Some(error) => Err(error),
        }
    }

    /// Starts a read into borrowed memory; the scope waits for it. See [`scope`](crate::scope).
    pub fn read_scoped<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        buf: &'scope mut [u8],
        offset: u64,
    ) -> ScopedTransfer<'scope> {
        self.engine.read_scoped(self.job(offset, false), scope, buf)
    }
}

/// Asks for the size by one request after the other, until one tells it.
fn probe(remote: &Remote, endpoint: &dyn Endpoint, policy: &Arc<Policy>) -> Result<(u64, Option<Version>)> {
    let (mut has_renewed, mut has_learned) = (false, false);
    let mut first_refusal = None;
    'anew: loop {
        for request in endpoint.probes(SystemTime::now()).map_err(|error| error.on(endpoint.subject()))? {
            let answer = remote.transport.ask(&request, MOST_PROBE, policy);
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => return Err(first_refusal.unwrap_or(error)),
            };
            if let Some(size) = endpoint.size(&request, &answer)? {
                return Ok((size, Version::of_answer(&answer)));
            }
            if answer.status < 300 {
                continue;
            }
            let status = answer.status;
            let error = match endpoint.refused(&answer) {
                Refusal::Stale(_) if !has_renewed => {
                    has_renewed = true;
                    endpoint.renew()?;
                    continue 'anew;
                }
                Refusal::Learned(_) if !has_learned => {
                    has_learned = true;
                    continue 'anew;
                }
                Refusal::Final(error) | Refusal::Stale(error) | Refusal::Learned(error) => error,
            };
            first_refusal.get_or_insert(error.on(endpoint.subject()).with_status(status));
        }
        let subject = endpoint.subject();
        return Err(first_refusal.unwrap_or_else(|| {
            let why = format!("cannot get size of {subject}, content-length not provided by the server");
            Error::new(ErrorKind::Unverified, "open", why).on(subject)
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Key, Value};
    use crate::platform::Platform;
    use crate::remote::http::range_header;
    use crate::remote::request::{Answer, Header, Method, Origin, Request, Scheme};
    use kvikio_testkit::conformance::pattern;
    use kvikio_testkit::server::{Fault, Script, Server};
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// An object whose service is asked with a password that may be renewed, at an address that may be learned.
    #[derive(Debug)]
    struct Moody {
        port: u16,
        passwords: Vec<&'static str>,
        renewed: AtomicUsize,
        learned: AtomicUsize,
    }

    impl Moody {
        fn new(server: &Server, passwords: &[&'static str]) -> Arc<Self> {
            let url = server.url("");
            let port = url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
            Arc::new(Self {
                port,
                passwords: passwords.to_vec(),
                renewed: AtomicUsize::new(0),
                learned: AtomicUsize::new(0),
            })
        }

        fn request(&self) -> Request {
            let origin = Origin { scheme: Scheme::Http, host: "127.0.0.1".to_owned(), port: self.port };
            let path = if self.learned.load(Ordering::SeqCst) > 0 { "/right" } else { "/o" };
            let known = self.renewed.load(Ordering::SeqCst).min(self.passwords.len() - 1);
            Request::new(Method::Get, origin, path)
                .with(Header::secret("authorization", self.passwords[known]))
        }
    }

    impl Endpoint for Moody {
        fn subject(&self) -> String {
            "moody".to_owned()
        }
        fn probes(&self, _now: SystemTime) -> Result<Vec<Request>> {
            Ok(vec![self.request().with(range_header(&(0..1)))])
        }
        fn size(&self, _probe: &Request, answer: &Answer) -> Result<Option<u64>> {
            let total = answer.header("content-range").and_then(|text| text.rsplit('/').next());
            Ok(total.and_then(|total| total.parse().ok()))
        }
        fn range(&self, range: Range<u64>, _now: SystemTime) -> Result<Request> {
            Ok(self.request().with(range_header(&range)))
        }
        fn refused(&self, answer: &Answer) -> Refusal {
            let error = Error::new(ErrorKind::Credentials, "read", format!("refused: {}", answer.status));
            match answer.status {
                401 => Refusal::Stale(error),
                400 => {
                    self.learned.fetch_add(1, Ordering::SeqCst);
                    Refusal::Learned(error)
                }
                _ => Refusal::Final(error),
            }
        }
        fn renew(&self) -> Result<()> {
            std::thread::sleep(Duration::from_millis(30));
            self.renewed.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }

    const LEN: usize = 100_000;
    /// `me:new`, as the server expects it.
    const NEW: &str = "Basic bWU6bmV3";

    fn open(endpoint: Arc<Moody>, size: Option<u64>) -> Result<RemoteFile> {
        let engine = Engine::new(Platform::of(None, None, "/".as_ref()), 2);
        let options = Options::default().with(Key::TaskSize, Value::Int(5000)).unwrap();
        let remote = Remote::new(&engine, &options, &Environment::of(|_| None));
        RemoteFile::new(&remote, endpoint, size, options)
    }

    fn script() -> Script {
        Script::new().object("/o", pattern(LEN, 1)).object("/right", pattern(LEN, 2))
    }

    #[test]
    fn credentials_that_expire_are_renewed_once_for_all_that_are_under_way() {
        let server = Server::start(script().always("/o", Fault::Private("me:new".into())));
        let endpoint = Moody::new(&server, &["Basic PLANTED", NEW]);
        let file = open(endpoint.clone(), Some(LEN as u64)).unwrap();
        let (result, buf) = file.read_exact_at(vec![0; LEN], 0).wait();
        result.unwrap();
        assert!(buf == pattern(LEN, 1));
        assert_eq!(endpoint.renewed.load(Ordering::SeqCst), 1);
        assert!(!format!("{file:?}").contains("PLANTED"));
    }

    #[test]
    fn credentials_that_stay_refused_are_an_error_after_one_renewal() {
        let server = Server::start(script().always("/o", Fault::Private("me:new".into())));
        let endpoint = Moody::new(&server, &["Basic PLANTED"]);
        let error = open(endpoint.clone(), None).unwrap_err();
        assert_eq!(
            (error.kind(), error.status(), error.operation()),
            (ErrorKind::Credentials, Some(401), "open")
        );
        assert_eq!(endpoint.renewed.load(Ordering::SeqCst), 1);
        let file = open(endpoint, Some(LEN as u64)).unwrap();
        let error = file.read_exact_into(&mut [0; 10], 0).unwrap_err();
        assert_eq!(
            (error.kind(), error.status(), error.attempts()),
            (ErrorKind::Credentials, Some(401), Some(2))
        );
        assert_eq!(error.subject(), Some("moody"));
        assert!(!format!("{error:?} {error}").contains("PLANTED"));
    }

    #[test]
    fn what_a_refusal_teaches_is_tried_at_once() {
        let server = Server::start(script().always("/o", Fault::Status(400)));
        let file = open(Moody::new(&server, &[NEW]), None).unwrap();
        let (result, buf) = file.read_exact_at(vec![0; LEN], 0).wait();
        result.unwrap();
        assert!(buf == pattern(LEN, 2));
        assert_eq!(server.requests().iter().filter(|seen| seen.path() == "/o").count(), 1);
    }

    #[test]
    fn a_source_can_be_filled_by_whoever_wraps_it() {
        let server = Server::start(script());
        let file = open(Moody::new(&server, &[NEW]), None).unwrap();
        let pool = crate::memory::bounce::BouncePool::new(crate::memory::bounce::Backing::Plain);
        let access =
            crate::engine::source::Access { direct: false, bounce: &pool, block_size: 4096, limit: 1 };
        let mut buf = vec![0; LEN];
        let span = crate::memory::buf::lend_mut(&mut buf);
        assert_eq!(file.source().fill(0, span, access).unwrap(), LEN);
        assert!(buf == pattern(LEN, 1));
        let span = crate::memory::buf::lend_mut(&mut buf);
        assert_eq!(file.source().fill(LEN as u64 - 10, span, access).unwrap(), 10);
    }
}

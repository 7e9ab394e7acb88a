//! An open remote object: its source, its engine and its options, with reads handed to the doorway.

mod open;
mod probe;

use std::sync::{Arc, LazyLock};

use crate::engine::source::{Direction, Source};
use crate::engine::transfer::Transfer;
use crate::engine::{Engine, Job, Scope, ScopedTransfer};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::buf::IoBufMut;
use crate::options::{Environment, Options};
use crate::remote::classify::EndpointType;
use crate::remote::credentials::keyrings::Keyrings;
use crate::remote::credentials::variables::Variables;
use crate::remote::endpoint::Endpoint;
use crate::remote::object::Object;
use crate::remote::transport::{Statistics, Target, Transport};
use crate::remote::wire::retry::Policy;
use crate::remote_file::probe::{Probed, Server, probe};

static SHARED: LazyLock<Remote> =
    LazyLock::new(|| Remote::new(Engine::shared(), &Options::default(), &Environment::process()));

/// The means by which remote objects are read: event loops, whom TLS trusts, the proxies on the way, the credentials
/// found so far, and an engine.
///
/// Cloning is cheap and shares them. A forked child gets loops of its own at its first request.
#[derive(Debug, Clone)]
pub struct Remote {
    transport: Arc<Transport>,
    engine: Engine,
    /// Who we are, as the environment says.
    variables: Arc<Variables>,
    keyrings: Arc<Keyrings>,
    /// Who hears of retries.
    listener: Option<fn(&str)>,
}

impl Remote {
    /// New loops, as many as `options` say, on the ways that `environment` describes. No thread is started yet.
    #[must_use]
    pub fn new(engine: &Engine, options: &Options, environment: &Environment<'_>) -> Self {
        Self {
            transport: Arc::new(Transport::new(options, environment)),
            engine: engine.clone(),
            variables: Arc::new(Variables::read(environment)),
            keyrings: Arc::default(),
            listener: None,
        }
    }

    /// The same means, but objects opened from now on take credentials, region and endpoint from `environment`.
    #[must_use]
    pub fn in_environment(&self, environment: &Environment<'_>) -> Self {
        Self { variables: Arc::new(Variables::read(environment)), ..self.clone() }
    }

    /// The same means, but `listener` is also called with the line about each retry that is waited for, on an event
    /// loop: it must not block. Without one, retries are only logged (`tracing`, as warnings).
    #[must_use]
    pub fn telling(&self, listener: fn(&str)) -> Self {
        Self { listener: Some(listener), ..self.clone() }
    }

    /// The means that are used where none are given.
    #[must_use]
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// What the loops have done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.transport.statistics()
    }

    fn policy(&self, options: &Options) -> Arc<Policy> {
        let mut policy = Policy::from(options);
        policy.listener = self.listener;
        Arc::new(policy)
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
    kind: EndpointType,
    /// `None` where nothing was asked.
    server: Option<Arc<Server>>,
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
        kind: EndpointType,
        endpoint: Arc<dyn Endpoint>,
        size: Option<u64>,
        options: Options,
    ) -> Result<Self> {
        let policy = remote.policy(&options);
        let (target, server) = match size {
            Some(size) => (Target::new(endpoint, size, None, policy).unsure(), None),
            None => {
                let probed = probe(&remote.transport, &*endpoint, &policy);
                let Probed { size, version, server } = probed.map_err(|error| error.during("open"))?;
                (Target::new(endpoint, size, version, policy), Some(Arc::new(server)))
            }
        };
        let object = Object::new(Arc::new(target), remote.transport.clone());
        let source = Arc::new(object.clone());
        let (engine, options) = (remote.engine.clone(), Arc::new(options));
        Ok(Self { object, kind, server, source, engine, options })
    }

    /// The same object, whose reads from now on go by `remote` and by `options`. It costs no request, and all that are
    /// made of one object go on to read the same version of it.
    #[must_use]
    pub fn with(&self, remote: &Remote, options: Arc<Options>) -> Self {
        let target = self.object.target().with(remote.policy(&options));
        let object = Object::new(Arc::new(target), remote.transport.clone());
        let source = Arc::new(object.clone());
        Self { object, source, engine: remote.engine.clone(), options, ..self.clone() }
    }

    /// The same object, whose reads from now on go by `options`; see [`RemoteFile::with`].
    #[must_use]
    pub fn with_options(&self, options: Options) -> Self {
        let known = self.object.target();
        let mut policy = Policy::from(&options);
        policy.listener = known.policy.listener;
        let object = self.object.of(known.with(Arc::new(policy)));
        let source = Arc::new(object.clone());
        Self { object, source, engine: self.engine.clone(), options: Arc::new(options), ..self.clone() }
    }

    /// The same object, of which only the first `size` bytes count (or more than there are: reading those fails).
    fn of_size(self, size: u64) -> Self {
        let known = self.object.target();
        let object = self.object.of(known.with(known.policy.clone()).of_size(size));
        Self { source: Arc::new(object.clone()), object, ..self }
    }

    /// What the object's address was taken for; never [`EndpointType::Auto`].
    #[must_use]
    pub fn endpoint_type(&self) -> EndpointType {
        self.kind
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

    /// The version of the object, as the server names it (by its `ETag`, else its date): equal texts for one address
    /// mean the same bytes. `None` where the server names none, or nothing was asked yet.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        self.object.target().version().map(|version| version.to_string())
    }

    /// Whether the server sends parts of the object, as its answer showed when the object was opened. From one that does
    /// not, every request fetches the whole object. `None` where nothing was asked.
    #[must_use]
    pub fn has_ranges(&self) -> Option<bool> {
        self.server.as_ref().map(|server| server.has_ranges)
    }

    /// The host (and port, where it is not the usual one) that answered when the object was opened: where redirects led.
    /// `None` where nothing was asked.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.server.as_ref().map(|server| server.host.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Key, Value};
    use crate::platform::Platform;
    use crate::remote::endpoint::Refusal;
    use crate::remote::http::range_header;
    use crate::remote::request::{Answer, Header, Method, Origin, Request, Scheme};
    use kvikio_testkit::conformance::pattern;
    use kvikio_testkit::server::{Fault, Script, Server};
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, SystemTime};

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
        RemoteFile::new(&remote, EndpointType::Http, endpoint, size, options)
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

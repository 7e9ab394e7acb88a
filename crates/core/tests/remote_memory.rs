//! Remote objects into every kind of memory: the shared suite, and what a device landing owes the driver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Mutex;
use std::time::Duration;

use kvikio::{Engine, Environment, File, Key, Options, Platform, Remote, Value};
use kvikio_testkit::conformance::{Host, Kind, OnDevice, Subject, check, pattern};
use kvikio_testkit::fakes::Fakes;
use kvikio_testkit::server::{Fault, Script, Server};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// An object of a server of its own.
struct OnServer {
    engine: Engine,
    remote: Remote,
    server: Mutex<Option<(Server, Vec<u8>)>>,
    cases: u32,
}

impl OnServer {
    fn new(engine: &Engine, cases: u32) -> Self {
        let remote = Remote::new(engine, &Options::default(), &Environment::of(|_| None));
        Self { engine: engine.clone(), remote, server: Mutex::default(), cases }
    }
}

impl Subject for OnServer {
    fn make(&self, bytes: &[u8], options: &Options) -> File {
        let server = Server::start(Script::new().object("/o", bytes.to_vec()));
        let file = self.remote.open_http(&server.url("/o"), None, options.clone()).unwrap();
        assert_eq!(file.size(), bytes.len() as u64);
        *self.server.lock().unwrap() = Some((server, bytes.to_vec()));
        File::of(file.source(), self.engine.clone(), options.clone())
    }

    fn bytes(&self, _file: &File) -> Vec<u8> {
        self.server.lock().unwrap().as_ref().map(|(_, bytes)| bytes.clone()).unwrap()
    }

    fn is_writable(&self) -> bool {
        false
    }

    fn cases(&self) -> u32 {
        self.cases
    }
}

fn host_engine() -> Engine {
    Engine::new(Platform::of(None, None, "/".as_ref()), 2)
}

fn faked(fakes: &Fakes) -> Engine {
    Engine::new(Platform::of(Some(fakes.cuda()), None, "/".as_ref()), 2)
}

fn keeps_the_rules(fakes: &Fakes) {
    let control = fakes.control();
    assert_eq!(control.counter("violations"), 0, "{:?}", control.violation());
    assert_eq!(control.counter("pageable_copies"), 0, "every asynchronous copy is of page-locked memory");
    comes_to_nothing(fakes, "contexts_pushed");
}

/// A loop lets go of things a moment after the transfer has ended.
fn comes_to_nothing(fakes: &Fakes, counter: &str) {
    for _ in 0..5000 {
        if fakes.control().counter(counter) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{counter} is {} after 5 s", fakes.control().counter(counter));
}

#[test]
fn a_remote_object_is_a_file() {
    check(&OnServer::new(&host_engine(), 32), &Host, &Options::default());
}

#[test]
fn a_remote_object_lands_on_a_device() {
    let fakes = Fakes::install();
    for delay in [0, 100, 2000] {
        fakes.control().set("copy_delay_us", delay);
        let engine = faked(&fakes);
        let kind = OnDevice { engine: engine.clone(), device: 1 };
        check(&OnServer::new(&engine, if delay > 100 { 4 } else { 16 }), &kind, &Options::default());
        keeps_the_rules(&fakes);
    }
    for counter in ["live_allocations", "live_host_allocations", "live_streams", "live_events"] {
        comes_to_nothing(&fakes, counter);
    }
}

#[test]
fn a_fault_of_the_wire_does_not_spoil_what_lands_on_a_device() {
    let len = 3 << 20;
    let bytes = pattern(len, 5);
    for (fault, times) in [
        (Fault::ResetAfter(700_001), 3),
        (Fault::HalfRange, 4),
        (Fault::Chunked(5000), 9),
        (Fault::Status(503), 1),
    ] {
        let fakes = Fakes::install();
        fakes.control().set("copy_delay_us", 200);
        let shown = format!("{fault:?}");
        let engine = faked(&fakes);
        let server = Server::start(Script::new().object("/o", bytes.clone()).times(times, "/o", fault));
        for block in [None, Some(101_u64), Some(65_536)] {
            let mut options = Options::default();
            if let Some(block) = block {
                options.set(Key::BounceBufferSize, Value::Int(block)).unwrap();
            }
            let len = if block == Some(101) { 100_000 } else { len };
            let remote = Remote::new(&engine, &options, &Environment::of(|_| None));
            let file = remote.open_http(&server.url("/o"), Some(bytes.len() as u64), options).unwrap();
            let (result, buf) = file.read_exact_at(engine.device_buf(0, len).unwrap(), 0).wait();
            result.unwrap_or_else(|error| panic!("{shown}: {error:?}"));
            assert!(buf.to_vec().unwrap() == bytes[..len], "{shown} {block:?}");
        }
        keeps_the_rules(&fakes);
    }
}

#[test]
fn a_device_that_is_busy_holds_up_only_its_own_reads() {
    let fakes = Fakes::install();
    let engine = faked(&fakes);
    let bytes = pattern(6 << 20, 5);
    let server = Server::start(Script::new().object("/o", bytes.clone()));
    let options = Options::default().with(Key::NumThreads, Value::Int(1)).unwrap();
    let remote = Remote::new(&engine, &options, &Environment::of(|_| None));
    let file = remote.open_http(&server.url("/o"), None, options).unwrap();
    let buf = engine.device_buf(0, bytes.len()).unwrap();
    fakes.control().set("hold_copies", 1);
    let transfer = file.read_exact_at(buf, 0);
    for _ in 0..20 {
        let mut host = vec![0; 100_000];
        file.read_exact_into(&mut host, 77).unwrap();
        assert!(host == bytes[77..100_077]);
    }
    assert!(!transfer.wait_for(Duration::from_millis(50)), "its bytes cannot have arrived");
    assert!(engine.bounce_bytes() <= 12 << 20, "two blocks for each of six tasks: {}", engine.bounce_bytes());
    fakes.control().set("hold_copies", 0);
    let (result, buf) = transfer.wait();
    result.unwrap();
    assert!(buf.to_vec().unwrap() == bytes);
    keeps_the_rules(&fakes);
}

#[test]
fn any_mix_of_passing_faults_leaves_every_byte_right() {
    let faults = || {
        prop_oneof![
            (0..60_000_u64).prop_map(Fault::ResetAfter),
            (0..60_000_u64).prop_map(Fault::CloseAfter),
            Just(Fault::HalfRange),
            (1..9000_usize).prop_map(Fault::Chunked),
            Just(Fault::UntilClose),
            Just(Fault::CloseSilently),
            Just(Fault::Close),
            Just(Fault::NoAnswer),
            Just(Fault::Reset),
            Just(Fault::Http10),
            Just(Fault::Interim),
            Just(Fault::IgnoreRange),
            Just(Fault::Redirect(307, "/p".into())),
        ]
    };
    let fakes = Fakes::install();
    fakes.control().set("copy_delay_us", 50);
    let engine = faked(&fakes);
    let bytes = pattern(400_000, 3);
    let cases = (
        prop::collection::vec((1..14_usize, faults()), 0..9),
        0..300_000_usize,
        1..100_000_usize,
        5000..90_000_u64,
    );
    let config = Config { cases: 40, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&cases, |(faults, offset, len, task_size)| {
        let script = Script::new().object("/o", bytes.clone()).object("/p", bytes.clone());
        let script =
            faults.into_iter().fold(script, |script, (number, fault)| script.at(number, "/o", fault));
        let server = Server::start(script);
        let mut options = Options::default();
        options.set(Key::TaskSize, Value::Int(task_size)).unwrap();
        options.set(Key::BounceBufferSize, Value::Int(7000)).unwrap();
        options.set(Key::HttpMaxAttempts, Value::Int(20)).unwrap();
        let remote = Remote::new(&engine, &options, &Environment::of(|_| None));
        let file = remote.open_http(&server.url("/o"), Some(bytes.len() as u64), options).unwrap();
        let host = file.read_exact_at(vec![0; len], offset as u64);
        let device = file.read_exact_at(engine.device_buf(0, len).unwrap(), offset as u64);
        let (result, host) = host.wait();
        prop_assert!(result.is_ok(), "host: {result:?}");
        prop_assert!(host == bytes[offset..offset + len], "host: wrong bytes");
        let (result, device) = device.wait();
        prop_assert!(result.is_ok(), "device: {result:?}");
        prop_assert!(device.to_vec().unwrap() == bytes[offset..offset + len], "device: wrong bytes");
        Ok(())
    });
    outcome.unwrap_or_else(|why| panic!("{why}"));
    keeps_the_rules(&fakes);
}

#[test]
fn a_driver_that_fails_fails_the_read_and_blocks_come_back() {
    let bytes = pattern(5 << 20, 5);
    let server = Server::start(Script::new().object("/o", bytes.clone()));
    for call in ["cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuEventQuery", "cuStreamCreate", "cuMemHostAlloc"]
    {
        let fakes = Fakes::install();
        let engine = faked(&fakes);
        let remote = Remote::new(&engine, &Options::default(), &Environment::of(|_| None));
        let file = remote.open_http(&server.url("/o"), Some(bytes.len() as u64), Options::default()).unwrap();
        let buf = engine.device_buf(0, bytes.len()).unwrap();
        fakes.control().fail(call, 1, 700);
        let (result, buf) = file.read_exact_at(buf, 0).wait();
        if call != "cuMemHostAlloc" {
            assert_eq!(result.unwrap_err().kind(), kvikio::ErrorKind::Cuda, "{call}");
        }
        let (result, buf) = file.read_exact_at(buf, 0).wait();
        result.unwrap_or_else(|error| panic!("{call}, the second time: {error:?}"));
        assert!(buf.to_vec().unwrap() == bytes, "{call}");
        drop((buf, file, remote, engine));
        keeps_the_rules(&fakes);
        for counter in ["live_allocations", "live_host_allocations", "live_streams", "live_events"] {
            comes_to_nothing(&fakes, counter);
        }
    }
}

#[test]
fn without_page_locked_memory_the_read_fails_and_does_not_wait_for_ever() {
    let fakes = Fakes::install();
    let engine = faked(&fakes);
    let server = Server::start(Script::new().object("/o", vec![1; 100]));
    let remote = Remote::new(&engine, &Options::default(), &Environment::of(|_| None));
    let file = remote.open_http(&server.url("/o"), None, Options::default()).unwrap();
    let buf = engine.device_buf(0, 100).unwrap();
    (1..100).for_each(|nth| fakes.control().fail("cuMemHostAlloc", nth, 2));
    let (result, _) = file.read_at(buf, 0).wait();
    assert_eq!(result.unwrap_err().kind(), kvikio::ErrorKind::Cuda);
}

#[test]
fn device_memory_without_a_driver_is_refused() {
    let fakes = Fakes::install();
    let engine = faked(&fakes);
    let server = Server::start(Script::new().object("/o", vec![1; 100]));
    let remote = Remote::new(&host_engine(), &Options::default(), &Environment::of(|_| None));
    let file = remote.open_http(&server.url("/o"), None, Options::default()).unwrap();
    let (result, _) = file.read_at(engine.device_buf(0, 100).unwrap(), 0).wait();
    assert_eq!(result.unwrap_err().kind(), kvikio::ErrorKind::Unavailable);
}

#[test]
fn a_page_locked_buffer_is_host_memory() {
    let fakes = Fakes::install();
    let engine = faked(&fakes);
    check(&OnServer::new(&engine, 8), &Pinned(engine.clone()), &Options::default());
    keeps_the_rules(&fakes);
    assert_eq!(fakes.control().calls("cuMemcpyHtoDAsync_v2"), 0);
}

struct Pinned(Engine);

impl Kind for Pinned {
    type Buf = kvikio::PinnedBuf;
    fn buf(&self, bytes: &[u8]) -> kvikio::PinnedBuf {
        let mut buf = self.0.pinned(0, bytes.len()).unwrap();
        buf.copy_from_slice(bytes);
        buf
    }
    fn bytes(&self, buf: &kvikio::PinnedBuf) -> Vec<u8> {
        buf.to_vec()
    }
}

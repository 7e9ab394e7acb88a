//! Remote objects read over the wire: what is asked, what lands, and what happens when servers go wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use kvikio::{Engine, Environment, Error, ErrorKind, Key, Options, Platform, Remote, RemoteFile, Value};
use kvikio_testkit::conformance::pattern;
use kvikio_testkit::server::{Fault, Script, Server};

const LEN: usize = 300_000;

fn content() -> Vec<u8> {
    pattern(LEN, 9)
}

fn script() -> Script {
    Script::new().object("/o", content())
}

/// Means of their own, so that one test's connections are not another's.
fn remote() -> Remote {
    let engine = Engine::new(Platform::of(None, None, "/".as_ref()), 2);
    Remote::new(&engine, &Options::default(), &Environment::of(|_| None))
}

fn set(pairs: &[(Key, u64)]) -> Options {
    let with = |options: Options, (key, value): &(Key, u64)| options.with(*key, Value::Int(*value)).unwrap();
    pairs.iter().fold(Options::default(), with)
}

/// The file, whose size is given so that opening asks nothing.
fn open(server: &Server, options: &Options) -> RemoteFile {
    remote().open_http(&server.url("/o"), Some(LEN as u64), options.clone()).unwrap()
}

fn read_all(file: &RemoteFile) -> Result<Vec<u8>, Error> {
    let (result, buf) = file.read_exact_at(vec![0xEE; LEN], 0).wait();
    result.map(|_| buf)
}

/// Every byte is right in spite of `script`.
fn survives(script: Script) -> Server {
    let server = Server::start(script);
    let file = open(&server, &Options::default());
    let (result, buf) = file.read_exact_at(vec![0; 70_000], 100_001).wait();
    result.unwrap_or_else(|error| panic!("{error:?}"));
    assert!(buf == content()[100_001..170_001], "wrong bytes");
    server
}

/// The read fails, and says how.
fn fails(script: Script, kind: ErrorKind) -> Error {
    let server = Server::start(script);
    let file = open(&server, &set(&[(Key::HttpMaxAttempts, 1)]));
    let (result, _) = file.read_exact_at(vec![0; 70_000], 100_001).wait();
    let error = result.expect_err("a fault that was not noticed");
    assert_eq!(error.kind(), kind, "{error:?}");
    assert_eq!(error.range(), Some(100_001..170_001), "{error:?}");
    assert!(error.subject().is_some_and(|subject| subject.ends_with("/o")), "{error:?}");
    error
}

#[test]
fn open_and_read_are_two_requests_and_one_where_the_size_is_given() {
    let server = Server::start(script());
    let file = remote().open_http(&server.url("/o"), None, Options::default()).unwrap();
    assert_eq!(file.size(), LEN as u64);
    assert!(read_all(&file).unwrap() == content());
    assert_eq!(server.requests().len(), 2);
    assert_eq!(server.requests()[0].connection, server.requests()[1].connection, "the connection is kept");

    let server = Server::start(script());
    let file = open(&server, &Options::default());
    assert!(read_all(&file).unwrap() == content());
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn no_byte_is_no_request_and_what_lies_outside_is_refused_before_any() {
    let server = Server::start(script());
    let file = open(&server, &Options::default());
    assert_eq!(file.read_into(&mut [], u64::MAX).unwrap(), 0);
    file.read_exact_into(&mut [], 7).unwrap();
    let error = file.read_exact_into(&mut [0; 10], LEN as u64 - 9).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    let words = format!("cannot read {}+10 bytes into a {LEN} bytes file ({})", LEN - 9, server.url("/o"));
    assert_eq!(error.message(), words);
    let (result, buf) = file.read_exact_at(vec![1; 2], u64::MAX).wait();
    assert_eq!((result.unwrap_err().kind(), buf), (ErrorKind::OutOfRange, vec![1; 2]));
    assert!(server.requests().is_empty());
    assert_eq!(
        file.read_into(&mut [0; 10], LEN as u64 - 9).unwrap(),
        9,
        "short at the end where that is asked for"
    );
}

#[test]
fn tasks_and_requests_in_flight_are_as_the_user_set_them() {
    let server = Server::start(script().always("/o", Fault::Delay(Duration::from_millis(3))));
    let options = set(&[(Key::TaskSize, 10_000), (Key::RemoteIoMaxConcurrentRequests, 3)]);
    let engine = Engine::new(Platform::of(None, None, "/".as_ref()), 2);
    let remote = Remote::new(&engine, &options, &Environment::of(|_| None));
    let file = remote.open_http(&server.url("/o"), Some(LEN as u64), options).unwrap();
    assert!(read_all(&file).unwrap() == content());
    let requests = server.requests();
    assert_eq!(requests.len(), 30);
    let connections: BTreeSet<_> = requests.iter().map(|seen| seen.connection).collect();
    // Each of up to two loops takes its share of three, rounded up.
    assert!((1..=4).contains(&connections.len()), "{connections:?}");
    let told = remote.statistics();
    assert_eq!((told.requests, told.bytes, told.retries), (30, LEN as u64, 0));
    assert_eq!(told.connections_opened, connections.len() as u64);
    assert_eq!(told.connections_reused, 30 - connections.len() as u64);
    assert_eq!(told.last_status, 206);
}

#[test]
fn redirects_are_followed_with_the_range() {
    for status in [301, 302, 303, 307, 308] {
        let server = survives(
            script()
                .object("/from", vec![0; LEN])
                .once("/o", Fault::Redirect(status, "/moved".into()))
                .object("/moved", content()),
        );
        let ranges: Vec<_> =
            server.requests().iter().map(|seen| seen.header("range").map(str::to_owned)).collect();
        assert_eq!(ranges, [Some("bytes=100001-170000".to_owned()), Some("bytes=100001-170000".to_owned())]);
    }
}

#[test]
fn redirects_to_another_host_go_without_credentials() {
    let server = Server::start(
        script()
            .object("/there", content())
            .always("/o", Fault::Redirect(302, "{scheme}://{localhost}/there".into())),
    );
    let url = server.url("/o").replace("http://", "http://me:PLANTED@");
    let file = remote().open_http(&url, Some(LEN as u64), Options::default()).unwrap();
    assert!(read_all(&file).unwrap() == content());
    let seen = server.requests();
    assert!(seen[0].header("authorization").is_some());
    assert!(seen[1].path() == "/there" && seen[1].header("authorization").is_none(), "{:?}", seen[1]);
    assert!(!format!("{file:?}").contains("PLANTED"));
}

#[test]
fn redirects_in_a_circle_end() {
    let error = fails(script().always("/", Fault::Redirect(302, "/o".into())), ErrorKind::Refused);
    assert_eq!(error.status(), Some(302));
}

#[test]
fn a_server_that_ignores_ranges_is_read_all_the_same() {
    survives(script().always("/o", Fault::IgnoreRange));
    let server = Server::start(script().always("/o", Fault::IgnoreRange));
    assert!(read_all(&open(&server, &set(&[(Key::TaskSize, 50_000)]))).unwrap() == content());
}

#[test]
fn a_part_of_the_range_is_completed() {
    let server = survives(script().always("/o", Fault::HalfRange));
    assert!(server.requests().len() > 3, "each answer is a half of what is missing");
}

#[test]
fn a_body_that_cannot_be_the_range_is_refused() {
    for fault in [
        Fault::ShortBody(1),
        Fault::LongBody(1),
        Fault::Shifted(1),
        Fault::ContentRange(String::new()),
        Fault::ContentRange("bytes 0-69999/300000".into()),
        Fault::ContentRange("lines 100001-170000/300000".into()),
        Fault::Gzip,
    ] {
        let shown = format!("{fault:?}");
        let error = fails(script().always("/o", fault), ErrorKind::Unverified);
        assert_eq!(error.status(), Some(206), "{shown}: {error:?}");
    }
}

#[test]
fn another_size_is_a_change_where_the_server_told_it_and_no_matter_where_the_caller_said_it() {
    let other = Fault::ContentRange("bytes 100001-170000/300001".into());
    let server = Server::start(script().from(2, "/o", other.clone()));
    let file = remote().open_http(&server.url("/o"), None, Options::default()).unwrap();
    let (result, _) = file.read_exact_at(vec![0; 70_000], 100_001).wait();
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Changed);
    // Who wants but the beginning of an object gives a smaller size; a larger one is found out at the end.
    survives(script().always("/o", other));
    let server = Server::start(script());
    let file = remote().open_http(&server.url("/o"), Some(LEN as u64 + 1), Options::default()).unwrap();
    let (result, _) = file.read_exact_at(vec![0; 10], LEN as u64 - 9).wait();
    assert!(result.is_err());
}

#[test]
fn an_error_document_is_no_object() {
    let server = Server::start(script().always("/o", Fault::ErrorDocument));
    for (offset, len) in [(0, 20), (0, LEN), (5, 3), (100_000, 50)] {
        let file = open(&server, &set(&[(Key::HttpMaxAttempts, 1)]));
        let (result, _) = file.read_exact_at(vec![0; len], offset).wait();
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unverified, "{offset}+{len}");
    }
}

#[test]
fn a_body_that_is_cut_is_resumed_where_it_broke() {
    for fault in [Fault::ResetAfter(30_000), Fault::CloseAfter(30_000)] {
        let server = survives(script().times(2, "/o", fault));
        let ranges: Vec<_> =
            server.requests().iter().filter_map(|seen| seen.header("range").map(str::to_owned)).collect();
        assert_eq!(ranges.len(), 3);
        assert_eq!(ranges[0], "bytes=100001-170000");
        assert!(
            ranges[1..].iter().all(|range| range != &ranges[0]),
            "asked anew from the last good byte: {ranges:?}"
        );
    }
}

#[test]
fn a_body_that_is_always_cut_without_a_byte_fails_after_so_many_attempts() {
    let server = Server::start(script().always("/o", Fault::CloseAfter(0)));
    let file = open(&server, &Options::default());
    let error = read_all(&file).unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Connection, Some(3)));
    assert!(error.is_retryable(), "{error:?}");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn statuses_that_pass_are_tried_again() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        survives(script().once("/o", Fault::Status(status)));
    }
}

#[test]
fn a_status_that_stays_is_an_error_that_names_it() {
    let server = Server::start(script().always("/o", Fault::Status(503)));
    let file = open(&server, &set(&[(Key::HttpMaxAttempts, 2)]));
    let error = read_all(&file).unwrap_err();
    assert_eq!((error.status(), error.attempts(), server.requests().len()), (Some(503), Some(2), 2));
    assert!(
        error.message().contains("The requested URL returned error: 503") && error.is_retryable(),
        "{error:?}"
    );
    for (status, kind) in
        [(404, ErrorKind::NotFound), (403, ErrorKind::PermissionDenied), (418, ErrorKind::Refused)]
    {
        let server = Server::start(script().always("/o", Fault::Status(status)));
        let error = read_all(&open(&server, &Options::default())).unwrap_err();
        assert_eq!(
            (error.kind(), error.status(), error.attempts()),
            (kind, Some(status), Some(1)),
            "{error:?}"
        );
        assert_eq!(server.requests().len(), 1, "{status} is not tried again");
    }
}

#[test]
fn a_server_that_asks_to_wait_is_obeyed() {
    let began = Instant::now();
    survives(script().once("/o", Fault::Busy(503, "1".into())));
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn a_stall_ends_at_the_limit_and_a_trickle_does_not() {
    let options = set(&[(Key::HttpTimeout, 1)]);
    let server = Server::start(script().once("/o", Fault::StallAfter(10_000, Duration::from_secs(60))));
    let began = Instant::now();
    assert!(read_all(&open(&server, &options)).unwrap() == content());
    assert!((1..10).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(server.requests().len(), 2);

    let server = Server::start(script().always("/o", Fault::Trickle(20_000, Duration::from_millis(100))));
    assert!(read_all(&open(&server, &Options::default())).unwrap() == content());
    assert_eq!(server.requests().len(), 1);

    let server = Server::start(script().always("/o", Fault::Delay(Duration::from_secs(60))));
    let options = set(&[(Key::HttpTimeout, 1), (Key::HttpMaxAttempts, 1)]);
    let error = read_all(&open(&server, &options)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error:?}");
}

#[test]
fn an_object_that_is_replaced_between_ranges_is_an_error() {
    let other = pattern(LEN, 77);
    for extra in [None, Some(Fault::IgnoreIfMatch)] {
        let mut script = script().from(2, "/o", Fault::Replaced(other.clone().into()));
        script = extra.into_iter().fold(script, |script, fault| script.always("/o", fault));
        let server = Server::start(script);
        let file = open(&server, &set(&[(Key::TaskSize, 100_000), (Key::NumThreads, 1)]));
        file.read_exact_into(&mut [0; 1000], 0).unwrap();
        let error = file.read_exact_into(&mut [0; 1000], 5000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{error:?}");
    }
}

#[test]
fn sizes_are_found_where_head_is_of_no_use() {
    for fault in [
        Fault::HeadStatus(403),
        Fault::HeadStatus(405),
        Fault::HeadWithoutLength,
        Fault::IgnoreRange,
        Fault::Http10,
        Fault::Interim,
        Fault::Redirect(302, "/p".into()),
    ] {
        let shown = format!("{fault:?}");
        let server = Server::start(script().object("/p", content()).always("/o", fault));
        let file = remote().open_http(&server.url("/o"), None, Options::default());
        let file = file.unwrap_or_else(|error| panic!("{shown}: {error:?}"));
        assert_eq!(file.size(), LEN as u64, "{shown}");
        assert!(read_all(&file).unwrap() == content(), "{shown}");
    }
    let server = Server::start(Script::new().object("/empty", Vec::new()));
    assert_eq!(remote().open_http(&server.url("/empty"), None, Options::default()).unwrap().size(), 0);
    let error = remote().open_http(&server.url("/none"), None, Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.status(), error.operation()), (ErrorKind::NotFound, Some(404), "open"));
}

#[test]
fn bodies_of_any_framing_land() {
    for fault in [
        Fault::Chunked(7000),
        Fault::Chunked(1),
        Fault::UntilClose,
        Fault::Http10,
        Fault::Interim,
        Fault::SlowHead(3, Duration::from_micros(10)),
        Fault::Close,
    ] {
        let shown = format!("{fault:?}");
        let server = Server::start(script().always("/o", fault));
        let file = open(&server, &set(&[(Key::TaskSize, 100_000)]));
        assert!(read_all(&file).unwrap() == content(), "{shown}");
    }
}

#[test]
fn what_is_no_http_is_an_error_at_once() {
    for fault in [Fault::Garbage(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()), Fault::HugeHead(100_000)] {
        fails(script().always("/o", fault), ErrorKind::Unverified);
    }
}

#[test]
fn a_kept_connection_that_the_server_closed_is_replaced_without_an_attempt() {
    let server = Server::start(script().always("/o", Fault::CloseSilently));
    let file = open(&server, &set(&[(Key::HttpMaxAttempts, 1)]));
    for _ in 0..20 {
        file.read_exact_into(&mut [0; 1000], 5).unwrap();
    }
    let server = Server::start(script().requests_per_connection(3));
    let file = open(&server, &set(&[(Key::HttpMaxAttempts, 1), (Key::TaskSize, 7000)]));
    assert!(read_all(&file).unwrap() == content());
    for fault in [Fault::NoAnswer, Fault::Reset] {
        survives(script().once("/o", fault));
    }
}

#[test]
fn a_name_is_reached_at_any_of_its_addresses() {
    let server = Server::start(script());
    let url = server.url("/o").replace("127.0.0.1", "localhost");
    let file = remote().open_http(&url, None, Options::default()).unwrap();
    assert!(read_all(&file).unwrap() == content());
    let options = set(&[(Key::HttpMaxAttempts, 1)]);
    let error = remote().open_http("http://no-such-host.invalid/o", None, options.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.message().contains("Could not resolve host: no-such-host.invalid"), "{error}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = remote().open_http(&format!("http://{free}/o"), None, options).unwrap_err();
    assert!(error.message().starts_with("Failed to connect to 127.0.0.1 port"), "{error}");
    assert!(error.message().contains("Could not connect to server"), "{error}");
}

#[test]
fn a_proxy_carries_requests() {
    let server = Server::start(script());
    let proxy = Server::start(Script::new().private_proxy("me:secret"));
    let address = proxy.url("").replace("http://", "http://me:secret@");
    let engine = Engine::new(Platform::of(None, None, "/".as_ref()), 2);
    let environment = Environment::of(|name| (name == "http_proxy").then(|| OsString::from(&address)));
    let remote = Remote::new(&engine, &Options::default(), &environment);
    let file = remote.open_http(&server.url("/o"), None, Options::default()).unwrap();
    assert!(read_all(&file).unwrap() == content());
    assert_eq!(proxy.requests().len(), 2);
    assert!(server.requests().iter().all(|seen| seen.header("proxy-authorization").is_none()));
}

#[test]
fn a_failed_task_ends_the_others_soon() {
    let stall = Fault::StallAfter(10, Duration::from_secs(60));
    let server = Server::start(
        script().at(2, "/o", Fault::Status(404)).from(3, "/o", stall.clone()).at(1, "/o", stall),
    );
    let file = open(&server, &set(&[(Key::TaskSize, 50_000)]));
    let began = Instant::now();
    assert_eq!(read_all(&file).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_cancelled_read_does_not_wait_for_the_server() {
    let server = Server::start(script().always("/o", Fault::Delay(Duration::from_secs(60))));
    let file = open(&server, &Options::default());
    let transfer = file.read_exact_at(vec![0; 10], 0);
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let began = Instant::now();
    transfer.cancel();
    assert_eq!(transfer.wait().0.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn handles_may_be_dropped_while_bytes_are_under_way() {
    let server = Server::start(script().always("/o", Fault::Trickle(50_000, Duration::from_millis(20))));
    for _ in 0..5 {
        let file = open(&server, &set(&[(Key::TaskSize, 60_000)]));
        let transfer = file.read_exact_at(vec![0; LEN], 0);
        drop(file);
        drop(transfer);
    }
    let file = open(&server, &Options::default());
    let transfer = file.read_exact_at(vec![0; LEN], 0);
    drop(file);
    let (result, buf) = transfer.wait();
    assert!(result.is_ok() && buf == content());
}

#[test]
fn many_threads_share_one_object() {
    let server = Server::start(script());
    let file = open(&server, &set(&[(Key::TaskSize, 9000)]));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..5).for_each(|_| assert!(read_all(&file).unwrap() == content())));
        }
    });
}

#[test]
fn a_forked_child_reads_by_loops_of_its_own() {
    let server = Server::start(script());
    let file = open(&server, &set(&[(Key::TaskSize, 50_000)]));
    assert!(read_all(&file).unwrap() == content());
    // SAFETY: the child only reads and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_right = read_all(&file).is_ok_and(|bytes| bytes == content());
        // SAFETY: ends the child without running the parent's handlers.
        unsafe { libc::_exit(if is_right { 0 } else { 1 }) };
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut status = 0;
    loop {
        // SAFETY: `child` is ours, `status` is a valid place.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            break;
        }
        assert!(Instant::now() < deadline, "the child hangs");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(status, 0, "the child read something else");
    assert!(read_all(&file).unwrap() == content(), "the parent goes on");
}

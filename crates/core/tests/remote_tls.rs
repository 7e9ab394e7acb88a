//! Remote objects over TLS: whom we trust, what a cut stream means, tunnels through proxies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::OsString;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;

use kvikio::{Engine, Environment, Error, ErrorKind, Key, Options, Platform, Remote, Value};
use kvikio_testkit::conformance::pattern;
use kvikio_testkit::server::{Authority, Fault, Flaw, Script, Server};

const LEN: usize = 3_000_000;

fn content() -> Vec<u8> {
    pattern(LEN, 4)
}

/// Means that trust `authority` and know the variables in `pairs`.
fn remote(authority: &Authority, dir: &Path, pairs: &[(&str, String)]) -> Remote {
    let file = authority.write_to(dir);
    let engine = Engine::new(Platform::of(None, None, "/".as_ref()), 2);
    let environment = Environment::of(|name| match name {
        "SSL_CERT_FILE" => Some(OsString::from(&file)),
        _ => pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)),
    });
    Remote::new(&engine, &Options::default(), &environment)
}

fn read(remote: &Remote, url: &str, options: &Options) -> Result<Vec<u8>, Error> {
    let file = remote.open_http(url, None, options.clone())?;
    let (result, buf) = file.read_exact_at(vec![0; LEN], 0).wait();
    result.map(|_| buf)
}

fn small_tasks() -> Options {
    Options::default().with(Key::TaskSize, Value::Int(500_000)).unwrap()
}

#[test]
fn bytes_come_right_through_tls_and_faults() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let script = Script::new().tls(&authority, Flaw::None).object("/o", content());
    for fault in [
        None,
        Some(Fault::ResetAfter(100_000)),
        Some(Fault::CloseAfter(100_000)),
        Some(Fault::TruncateAfter(100_000)),
        Some(Fault::Chunked(10_000)),
        Some(Fault::HalfRange),
        Some(Fault::CloseSilently),
    ] {
        let shown = format!("{fault:?}");
        let script = fault.into_iter().fold(script.clone(), |script, fault| script.at(3, "/o", fault));
        let server = Server::start(script);
        let remote = remote(&authority, dir.path(), &[]);
        let bytes = read(&remote, &server.url("/o"), &small_tasks());
        assert!(bytes.unwrap_or_else(|error| panic!("{shown}: {error:?}")) == content(), "{shown}");
        let by_name = server.url("/o").replace("127.0.0.1", "localhost");
        assert!(read(&remote, &by_name, &Options::default()).unwrap() == content(), "{shown}");
    }
}

#[test]
fn a_stream_that_ends_without_a_farewell_is_not_the_end_of_a_body_without_length() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let server = Server::start(
        Script::new()
            .tls(&authority, Flaw::None)
            .object("/o", content())
            .from(2, "/o", Fault::UntilClose)
            .at(2, "/o", Fault::TruncateAfter(1_000_000)),
    );
    assert!(
        read(&remote(&authority, dir.path(), &[]), &server.url("/o"), &Options::default()).unwrap()
            == content()
    );
}

#[test]
fn certificates_that_prove_nothing_are_refused_in_plain_words() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    for (flaw, words) in [
        (Flaw::WrongHost, "was issued for another host"),
        (Flaw::Expired, "has expired"),
        (Flaw::NotYet, "is not valid yet"),
    ] {
        let server = Server::start(Script::new().tls(&authority, flaw).object("/o", content()));
        let error =
            read(&remote(&authority, dir.path(), &[]), &server.url("/o"), &Options::default()).unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Connection, Some(1)), "{error:?}");
        assert!(error.message().contains(words), "{error:?}");
    }
    let server = Server::start(Script::new().tls(&Authority::new(), Flaw::None).object("/o", content()));
    let error =
        read(&remote(&authority, dir.path(), &[]), &server.url("/o"), &Options::default()).unwrap_err();
    assert!(error.message().contains("SSL_CERT_FILE"), "{error:?}");
}

#[test]
fn http_and_https_taken_for_each_other_are_told_apart() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let options = Options::default().with(Key::HttpMaxAttempts, Value::Int(1)).unwrap();
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/o", plain.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        let (mut peer, _) = plain.accept().unwrap();
        peer.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").unwrap();
        peer
    });
    let error = read(&remote(&authority, dir.path(), &[]), &url, &options).unwrap_err();
    assert!(error.message().contains("does not speak TLS on this port"), "{error:?}");
    drop(answers.join());
    let secure = Server::start(Script::new().tls(&authority, Flaw::None).object("/o", content()));
    let url = secure.url("/o").replace("https:", "http:");
    assert!(read(&remote(&authority, dir.path(), &[]), &url, &options).is_err());
}

#[test]
fn without_certificates_only_https_fails() {
    let server = Server::start(Script::new().object("/o", content()));
    let engine = Engine::new(Platform::of(None, None, "/".as_ref()), 1);
    let environment =
        Environment::of(|name| (name == "SSL_CERT_FILE").then(|| OsString::from("/no/such/bundle")));
    let remote = Remote::new(&engine, &Options::default(), &environment);
    assert!(read(&remote, &server.url("/o"), &Options::default()).unwrap() == content());
    let error = read(&remote, "https://127.0.0.1:1/o", &Options::default()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Connection), "{error:?}");
}

#[test]
fn https_goes_through_a_tunnel_and_the_proxy_sees_no_request() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let server = Server::start(Script::new().tls(&authority, Flaw::None).object("/o", content()));
    let proxy = Server::start(Script::new().private_proxy("me:PLANTED"));
    let right = proxy.url("").replace("http://", "http://me:PLANTED@");
    let remote_by = |address: &str| remote(&authority, dir.path(), &[("https_proxy", address.to_owned())]);
    assert!(read(&remote_by(&right), &server.url("/o"), &small_tasks()).unwrap() == content());
    assert!(proxy.requests().iter().all(|seen| seen.method == "CONNECT"));
    assert!(server.requests().iter().all(|seen| seen.header("proxy-authorization").is_none()));

    let wrong = remote_by(&proxy.url("").replace("http://", "http://me:PLANTED2@"));
    let error = read(&wrong, &server.url("/o"), &Options::default()).unwrap_err();
    assert_eq!(error.status(), Some(407), "{error:?}");
    assert!(!format!("{error:?} {wrong:?}").contains("PLANTED"), "{error:?}");
}

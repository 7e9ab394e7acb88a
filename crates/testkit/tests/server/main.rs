//! The faulty server does what its script says.

mod client;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Wire, ask, get, part};
use kvikio_testkit::conformance::pattern;
use kvikio_testkit::server::{Authority, Content, Fault, Flaw, Script, Server};
use rustls::pki_types::pem::PemObject;

fn server(fault: Fault) -> Server {
    Server::start(Script::new().object("/a", pattern(1000, 0)).always("/a", fault))
}

#[test]
fn a_good_server_serves_ranges_and_keeps_connections() {
    let server = Server::start(Script::new().object("/a", pattern(100_000, 0)));
    let whole = get(server.address(), "/a");
    assert!(whole.status() == 200 && whole.has("content-length: 100000"));
    assert!(whole.body() == pattern(100_000, 0));
    let part = part(server.address(), "/a?x");
    assert!(part.status() == 206 && part.has("content-range: bytes 100-199/100000"));
    assert!(part.body() == &pattern(100_000, 0)[100..200]);
    assert_eq!(ask(server.address(), "GET", "/a", "range: bytes=100000-\r\n").status(), 416);
    assert_eq!(get(server.address(), "/b").status(), 404);
    assert!(ask(server.address(), "HEAD", "/a", "").body().is_empty());
    let before = server.connections();
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.write_all(b"GET /a HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(Wire::read(socket).text.windows(8).filter(|word| *word == b"HTTP/1.1").count(), 2);
    assert_eq!(server.connections(), before + 1);
    let seen = server.requests();
    assert_eq!((seen.len(), seen[1].target.as_str(), seen[1].path()), (7, "/a?x", "/a"));
    assert_eq!(seen[1].header("range"), Some("bytes=100-199"));
}

#[test]
fn if_match_is_honoured_unless_the_script_says_otherwise() {
    let script = Script::new().object("/a", vec![1]).object("/deaf", vec![1]);
    let server = Server::start(script.always("/deaf", Fault::IgnoreIfMatch));
    assert_eq!(ask(server.address(), "GET", "/a", "if-match: \"no\"\r\n").status(), 412);
    assert_eq!(ask(server.address(), "GET", "/deaf", "if-match: \"no\"\r\n").status(), 200);
}

#[test]
fn rules_count_their_requests() {
    let script = Script::new().object("/a", vec![1]);
    let script = script.once("/a", Fault::Status(500)).at(3, "/a", Fault::Status(503));
    let server = Server::start(script.from(5, "/a", Fault::Status(403)));
    let statuses: Vec<u16> = (0..6).map(|_| get(server.address(), "/a").status()).collect();
    assert_eq!(statuses, [500, 200, 503, 200, 403, 403]);
}

#[test]
fn ranges_go_wrong_as_told() {
    for (fault, status, range, len, first) in [
        (Fault::IgnoreRange, 200, None, 1000, 0),
        (Fault::HalfRange, 206, Some("bytes 100-149/1000"), 50, 100),
        (Fault::ShortBody(30), 206, Some("bytes 100-199/1000"), 70, 100),
        (Fault::LongBody(5), 206, Some("bytes 100-199/1000"), 105, 100),
        (Fault::Shifted(1), 206, Some("bytes 101-200/1000"), 100, 101),
        (Fault::Lying(1), 206, Some("bytes 100-199/1000"), 100, 101),
        (Fault::ContentRange("bytes x".to_owned()), 206, Some("bytes x"), 100, 100),
        (Fault::ContentRange(String::new()), 206, None, 100, 100),
    ] {
        let server = server(fault.clone());
        let wire = part(server.address(), "/a");
        assert_eq!(wire.status(), status, "{fault:?}");
        assert_eq!(wire.head().contains("content-range"), range.is_some(), "{fault:?}");
        assert!(range.is_none_or(|range| wire.has(&format!("content-range: {range}"))), "{fault:?}");
        assert!(wire.has(&format!("content-length: {len}")) && wire.body().len() == len, "{fault:?}");
        assert_eq!(wire.body()[0], pattern(1000, 0)[first], "{fault:?}");
    }
}

#[test]
fn connections_end_as_told() {
    for (fault, end) in [
        (Fault::ResetAfter(300), Some(ErrorKind::ConnectionReset)),
        (Fault::CloseAfter(300), None),
        (Fault::TruncateAfter(300), None),
    ] {
        let server = server(fault.clone());
        let wire = get(server.address(), "/a");
        assert_eq!((wire.end, wire.body().len()), (end, 300), "{fault:?}");
        assert!(wire.has("content-length: 1000"));
    }
    assert_eq!(get(server(Fault::Reset).address(), "/a").end, Some(ErrorKind::ConnectionReset));
    assert!(get(server(Fault::NoAnswer).address(), "/a").text.is_empty());
    let silent = server(Fault::CloseSilently);
    let mut socket = TcpStream::connect(silent.address()).unwrap();
    socket.write_all(b"GET /a HTTP/1.1\r\n\r\n").unwrap();
    let wire = Wire::read(socket);
    assert!(wire.body().len() == 1000 && !wire.head().contains("connection: close"));
    let server = Server::start(Script::new().object("/a", vec![1]).requests_per_connection(2));
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.write_all(b"GET /a HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n").unwrap();
    assert!(String::from_utf8_lossy(&Wire::read(socket).text).contains("connection: close"));
}

#[test]
fn time_passes_as_told() {
    for (fault, least) in [
        (Fault::Delay(Duration::from_millis(60)), 60),
        (Fault::StallAfter(10, Duration::from_millis(60)), 60),
        (Fault::Trickle(250, Duration::from_millis(20)), 80),
        (Fault::SlowHead(20, Duration::from_millis(15)), 60),
    ] {
        let server = server(fault.clone());
        let start = Instant::now();
        let wire = get(server.address(), "/a");
        assert!(start.elapsed() >= Duration::from_millis(least), "{fault:?}: {:?}", start.elapsed());
        assert!(wire.body() == pattern(1000, 0), "{fault:?}");
    }
    let server = server(Fault::Delay(Duration::from_secs(60)));
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.write_all(b"GET /a HTTP/1.1\r\n\r\n").unwrap();
    assert!(server.wait_for(1, Duration::from_secs(10)));
    drop(server);
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let _ = Wire::read(&mut socket);
    assert!(socket.read(&mut [0]).is_ok_and(|len| len == 0), "a server that is gone holds nobody up");
}

#[test]
fn bodies_are_framed_as_told() {
    let wire = get(server(Fault::Chunked(400)).address(), "/a");
    assert!(wire.has("transfer-encoding: chunked") && !wire.head().contains("content-length"));
    assert!(wire.body().starts_with(b"190\r\n") && wire.body().ends_with(b"\r\n0\r\nx-trailer: yes\r\n\r\n"));
    let wire = get(server(Fault::UntilClose).address(), "/a");
    assert!(!wire.head().contains("content-length") && wire.body().len() == 1000);
    let wire = get(server(Fault::Http10).address(), "/a");
    assert!(wire.head().starts_with("HTTP/1.0 200") && wire.body().len() == 1000);
}

#[test]
fn heads_are_odd_as_told() {
    let wire = get(server(Fault::Interim).address(), "/a");
    let text = String::from_utf8_lossy(&wire.text).into_owned();
    assert!(
        text.starts_with("HTTP/1.1 100 ") && text.contains("HTTP/1.1 103 ") && text.contains("HTTP/1.1 200 ")
    );
    assert_eq!(get(server(Fault::Garbage(b"SSH".to_vec())).address(), "/a").text, b"SSH");
    assert!(get(server(Fault::HugeHead(100_000)).address(), "/a").head().len() > 100_000);
    assert!(get(server(Fault::Gzip).address(), "/a").has("content-encoding: gzip"));
    assert!(get(server(Fault::ETag("\"x\"".to_owned())).address(), "/a").has("etag: \"x\""));
    assert!(!get(server(Fault::ETag(String::new())).address(), "/a").head().contains("etag"));
    let wire = get(server(Fault::Busy(503, "7".to_owned())).address(), "/a");
    assert!(wire.status() == 503 && wire.has("retry-after: 7"));
    let redirects = server(Fault::Redirect(307, "http://{localhost}/b".to_owned()));
    let wire = get(redirects.address(), "/a");
    let expected = format!("location: http://localhost:{}/b", redirects.address().port());
    assert!(wire.status() == 307 && wire.has(&expected), "{}", wire.head());
    let wire = get(server(Fault::ErrorDocument).address(), "/a");
    assert!(wire.status() == 200 && String::from_utf8_lossy(wire.body()).contains("<Error>"));
}

#[test]
fn heads_without_bodies_are_told_apart() {
    let head = |fault| ask(server(fault).address(), "HEAD", "/a", "");
    assert_eq!(head(Fault::HeadStatus(403)).status(), 403);
    assert!(!head(Fault::HeadWithoutLength).head().contains("content-length"));
    assert_eq!(get(server(Fault::HeadStatus(403)).address(), "/a").status(), 200);
    assert!(head(Fault::Chunked(9)).has("transfer-encoding: chunked"));
}

#[test]
fn an_object_can_be_replaced_and_be_private() {
    let script = Script::new().object("/a", pattern(100, 0));
    let server = Server::start(script.from(2, "/a", Fault::Replaced(Content::from(pattern(100, 1)))));
    let (one, two) = (get(server.address(), "/a"), get(server.address(), "/a"));
    assert!(one.body() == pattern(100, 0) && two.body() == pattern(100, 1));
    let etag = |wire: &Wire| wire.head().lines().find(|line| line.starts_with("etag")).unwrap().to_owned();
    assert_ne!(etag(&one), etag(&two));
    let server = self::server(Fault::Private("user:password".to_owned()));
    assert_eq!(get(server.address(), "/a").status(), 401);
    let good = "authorization: Basic dXNlcjpwYXNzd29yZA==\r\n";
    assert_eq!(ask(server.address(), "GET", "/a", good).status(), 200);
}

#[test]
fn a_proxy_forwards_and_tunnels_for_those_it_knows() {
    let far = Server::start(Script::new().object("/a", pattern(300_000, 0)));
    let proxy = Server::start(Script::new().private_proxy("user:password"));
    assert_eq!(get(proxy.address(), &far.url("/a")).status(), 407);
    let good = "proxy-authorization: Basic dXNlcjpwYXNzd29yZA==\r\n";
    let wire = ask(proxy.address(), "GET", &far.url("/a"), good);
    assert!(wire.status() == 200 && wire.body() == pattern(300_000, 0));
    let seen = far.requests().pop().unwrap();
    assert!(
        seen.target == "/a" && seen.header("proxy-authorization").is_none() && seen.header("via").is_some()
    );
    let mut socket = TcpStream::connect(proxy.address()).unwrap();
    let connect = format!("CONNECT {} HTTP/1.1\r\n{good}\r\n", far.address());
    socket.write_all(connect.as_bytes()).unwrap();
    let mut answer = [0; 26];
    socket.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    socket.write_all(b"GET /a HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
    let wire = Wire::read(socket);
    assert!(wire.body() == pattern(300_000, 0));
    assert_eq!(get(Server::start(Script::new().proxy()).address(), "http://127.0.0.1:1/").status(), 502);
}

#[test]
fn tls_ends_with_a_farewell_or_without() {
    let authority = Authority::new();
    let mut roots = rustls::RootCertStore::empty();
    let pem = authority.pem();
    let certificates = rustls::pki_types::CertificateDer::pem_slice_iter(pem.as_bytes());
    roots.add_parsable_certificates(certificates.flatten());
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    let config = Arc::new(config);
    for (fault, end, len) in [
        (Fault::Interim, None, 1000),
        (Fault::CloseAfter(300), None, 300),
        (Fault::TruncateAfter(300), Some(ErrorKind::UnexpectedEof), 300),
    ] {
        let script = Script::new().object("/a", pattern(1000, 0)).always("/a", fault.clone());
        let server = Server::start(script.tls(&authority, Flaw::None));
        assert!(server.url("/").starts_with("https://127.0.0.1:"));
        let name = "localhost".try_into().unwrap();
        let session = rustls::ClientConnection::new(config.clone(), name).unwrap();
        let mut tls = rustls::StreamOwned::new(session, TcpStream::connect(server.address()).unwrap());
        tls.write_all(b"GET /a HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
        let wire = Wire::read(tls);
        assert_eq!(wire.end, end, "{fault:?}");
        assert!(wire.text.ends_with(&pattern(1000, 0)[..len]), "{fault:?}");
    }
}

#[test]
fn files_below_the_root_are_served_and_nothing_above() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("root")).unwrap();
    std::fs::write(dir.path().join("secret"), "no").unwrap();
    std::fs::write(dir.path().join("root/f"), pattern(300_000, 0)).unwrap();
    let server = Server::start(Script::new().root(dir.path().join("root")));
    assert!(get(server.address(), "/f").body() == pattern(300_000, 0));
    assert!(part(server.address(), "/f").body() == &pattern(300_000, 0)[100..200]);
    assert_eq!(get(server.address(), "/../secret").status(), 404);
    assert_eq!(get(server.address(), "/").status(), 404);
}

#[test]
fn the_program_prints_its_address_and_reads_faults_from_paths() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kvikio-faulty-server"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address: std::net::SocketAddr = line.trim().strip_prefix("http://").unwrap().parse().unwrap();
    let wire = get(address, "/ok/2000000");
    assert!(wire.status() == 200 && wire.body() == pattern(2_000_000, 0));
    let statuses = |path: &str| [0; 3].map(|_| part(address, path).status());
    assert_eq!(statuses("/503x1/1000/a"), [503, 206, 206]);
    assert_eq!(statuses("/503x1/1000/b"), [503, 206, 206], "each path counts for itself");
    assert_eq!(statuses("/404/1000"), [404; 3]);
    assert_eq!(get(address, "/reset1/3000").end, Some(ErrorKind::ConnectionReset));
    assert_eq!(get(address, "/reset1/3000").body().len(), 3000);
    let etag = [0; 3].map(|_| part(address, "/etag/1000").body()[0]);
    assert!(etag[0] == etag[1] && etag[1] != etag[2]);
    assert_eq!([0; 3].map(|_| get(address, "/closex2/3000").body().len()), [1000, 1000, 3000]);
    assert!(get(address, "/cross/10").has(&format!("location: http://localhost:{}/ok/10", address.port())));
    assert!(get(address, "/redirect/10/x").has("location: /ok/10/x"));
    assert_eq!(get(address, "/unknown/10").status(), 404);
    let log = String::from_utf8(get(address, "/log").body().to_vec()).unwrap();
    assert_eq!(log.matches("GET /503x1/1000/a bytes=100-199\n").count(), 3, "{log}");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success(), "it ends with its input");
}

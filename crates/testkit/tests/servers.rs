//! The real servers do what the tests that use them rely on.
#![allow(clippy::unwrap_used)]

use kvikio_testkit::servers::hadoop::Hadoop;
use kvikio_testkit::servers::nginx::Nginx;
use kvikio_testkit::servers::python::HttpServer;
use kvikio_testkit::servers::{http, or_skip};

#[test]
fn nginx_answers_ranges_and_asks_for_passwords() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("private")).unwrap();
    std::fs::write(dir.path().join("a"), b"0123456789").unwrap();
    std::fs::write(dir.path().join("private/a"), b"0123456789").unwrap();
    let Some(nginx) = or_skip("nginx", Nginx::start(dir.path(), None)) else { return };
    let host = format!("127.0.0.1:{}", nginx.port);
    let reply = http::send(&host, "GET", "/a", &[("range", "bytes=2-4")], &[]);
    assert_eq!((reply.status, &reply.body[..]), (206, &b"234"[..]));
    assert_eq!(http::send(&host, "GET", "/private/a", &[], &[]).status, 401);
    assert!(nginx.log()[0].starts_with("GET /a 206 bytes=2-4"));
}

#[test]
fn pythons_server_knows_no_ranges() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), b"0123456789").unwrap();
    let Some(server) = or_skip("python", HttpServer::start(dir.path())) else { return };
    let host = format!("127.0.0.1:{}", server.port);
    let reply = http::send(&host, "GET", "/a", &[("range", "bytes=2-4")], &[]);
    assert_eq!((reply.status, &reply.body[..]), (200, &b"0123456789"[..]));
}

#[test]
fn hadoop_keeps_a_file() {
    let Some(hadoop) = or_skip("hadoop", Hadoop::start()) else { return };
    hadoop.put("/a%20b", b"0123456789");
    let host = format!("127.0.0.1:{}", hadoop.port);
    let status = http::send(&host, "GET", "/webhdfs/v1/a%20b?op=GETFILESTATUS", &[], &[]);
    assert!(String::from_utf8(status.body).unwrap().contains("\"length\":10"));
}

//! `kvikio info URL` and `kvikio copy URL FILE`, on the scripted server.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kvikio_testkit::server::{Content, Fault, Script, Server};
use support::{bytes, json, kvikio, outcome};

const PIECE: usize = 16 << 20;
const LEN: usize = 3 * PIECE + 12_345;

/// One request after the other, so that the server's count of them is the order of the pieces.
fn in_turn() -> Command {
    let mut command = kvikio();
    command
        .env("KVIKIO_TASK_SIZE", PIECE.to_string())
        .env("KVIKIO_NTHREADS", "1")
        .env("KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS", "1")
        .env("KVIKIO_HTTP_MAX_ATTEMPTS", "1");
    command
}

fn copy(url: &str, to: &Path) -> (i32, String, String) {
    outcome(in_turn().arg("copy").arg(url).arg(to))
}

fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn info_says_what_the_server_has() {
    let script = Script::new()
        .object("/dir/weights", bytes(12_345))
        .always("/moved", Fault::Redirect(302, "http://{localhost}/dir/weights".to_owned()))
        .object("/moved", bytes(12_345))
        .object("/whole", bytes(10))
        .always("/whole", Fault::IgnoreRange);
    let server = Server::start(script);
    let (code, object) = json(kvikio().args(["info", "--json", &server.url("/moved")]));
    assert_eq!(code, 0);
    assert_eq!(object["type"], "HTTP");
    assert_eq!(object["bytes"], 12_345);
    assert_eq!(object["ranges"], true);
    assert!(object["server"].as_str().unwrap().starts_with("localhost:"), "{object}");
    assert_eq!((&object["requests"], &object["redirects"]), (&2.into(), &1.into()));
    assert!(object["version"].as_str().unwrap().starts_with("ETag "), "{object}");
    let (code, out, err) = outcome(kvikio().args(["info", &server.url("/whole")]));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("size      10 bytes (10 B)\n"), "{out}");
    assert!(out.contains("ranges    no: every request"), "{out}");
    let (code, out, err) = outcome(kvikio().args(["info", &server.url("/nothing")]));
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("The requested URL returned error: 404") && err.lines().count() == 1, "{err}");
    assert_eq!(outcome(kvikio().args(["info", "no address"])).0, 1);
}

#[test]
fn bytes_arrive_at_every_size_under_the_name_or_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    for len in [0, 1, 4097, PIECE, LEN] {
        let server = Server::start(Script::new().object("/dir/a%20b", bytes(len)));
        let url = server.url("/dir/a%20b");
        for command in [&mut kvikio(), &mut in_turn()] {
            let (code, out, err) = outcome(command.args(["copy", "--sync", &url]).arg(folder.path()));
            assert_eq!((code, err.as_str()), (0, ""));
            assert!(out.starts_with("copied ") && out.lines().count() == 1, "{out}");
            assert!(fs::read(folder.path().join("a b")).unwrap() == bytes(len), "{len} bytes differ");
            assert_eq!(entries(folder.path()), ["a b"]);
        }
    }
}

#[test]
fn a_copy_that_was_interrupted_goes_on_and_replaces_the_old_file_only_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (real, to) = (folder.path().join("real"), folder.path().join("to"));
    fs::write(&real, b"old").unwrap();
    symlink("real", &to).unwrap();
    // The probe is the first request; the third piece is refused.
    let server = Server::start(Script::new().object("/x", bytes(LEN)).at(4, "/x", Fault::Status(404)));
    let (code, out, err) = copy(&server.url("/x"), &to);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("error: 404") && err.contains("32 MiB are kept in "), "{err}");
    assert_eq!(entries(folder.path()), ["real", "real.kvikio-part", "real.kvikio-record", "to"]);
    assert_eq!(fs::read(&to).unwrap(), b"old");
    let (code, out, err) = copy(&server.url("/x"), &to);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains(", 32 MiB of them by an earlier run"), "{out}");
    assert!(fs::read(&real).unwrap() == bytes(LEN), "bytes differ");
    assert_eq!(entries(folder.path()), ["real", "to"]);
    assert!(to.is_symlink());
    let requests = server.requests();
    let last = requests.iter().rev().take(2).map(|seen| seen.header("range").unwrap());
    let first = format!("bytes={}-", 2 * PIECE);
    assert!(last.clone().any(|range| range.starts_with(&first)), "{:?}", last.collect::<Vec<_>>());
}

#[test]
fn a_copy_that_was_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (to, record) = (folder.path().join("to"), folder.path().join("to.kvikio-record"));
    let stall = Fault::StallAfter(1000, Duration::from_secs(30));
    let server = Server::start(Script::new().object("/x", bytes(LEN)).at(4, "/x", stall));
    let mut child = in_turn().arg("copy").arg(server.url("/x")).arg(&to).spawn().unwrap();
    let began = Instant::now();
    while !record.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "what has come is not made sure of");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, out, err) = copy(&server.url("/x"), &to);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains(" of them by an earlier run"), "{out}");
    assert!(fs::read(&to).unwrap() == bytes(LEN), "bytes differ");
    assert_eq!(entries(folder.path()), ["to"]);
}

#[test]
fn another_version_is_fetched_anew_and_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let fresh: Vec<u8> = bytes(LEN).into_iter().rev().collect();
    let script = Script::new().object("/x", bytes(LEN)).at(4, "/x", Fault::Status(404)).from(
        5,
        "/x",
        Fault::Replaced(Content::from(fresh.clone())),
    );
    let server = Server::start(script);
    assert_eq!(copy(&server.url("/x"), &to).0, 1);
    let (code, out, err) = copy(&server.url("/x"), &to);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("starting anew: "), "{out}");
    assert!(fs::read(&to).unwrap() == fresh, "bytes differ");
    assert_eq!(entries(folder.path()), ["to"]);
}

#[test]
fn an_object_that_is_replaced_while_it_is_copied_is_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        Script::new().object("/x", bytes(LEN)).from(3, "/x", Fault::Replaced(Content::from(bytes(LEN - 1))));
    let server = Server::start(script);
    let (code, _, err) = copy(&server.url("/x"), &folder.path().join("to"));
    assert_eq!(code, 1);
    assert!(err.contains("412") || err.contains("replaced"), "{err}");
    assert!(!folder.path().join("to").exists());
}

#[test]
fn what_cannot_go_on_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    // Without a version nothing can be continued; without ranges neither, but the object arrives.
    let script = Script::new()
        .object("/whole", bytes(LEN))
        .always("/whole", Fault::IgnoreRange)
        .object("/gone", bytes(LEN))
        .from(2, "/gone", Fault::Status(404));
    let server = Server::start(script);
    let (code, _, err) = copy(&server.url("/gone"), &to);
    assert!(code == 1 && !err.contains("kept"), "{err}");
    assert_eq!(entries(folder.path()), Vec::<String>::new());
    let (code, _, err) = copy(&server.url("/whole"), &to);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(fs::read(&to).unwrap() == bytes(LEN), "bytes differ");
    let asked = server.requests().into_iter().filter(|seen| seen.path() == "/whole").count();
    assert_eq!(asked, 2, "each request fetches the whole object");
}

#[test]
fn retries_are_told_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Script::new().object("/x", bytes(10)).at(2, "/x", Fault::Status(503)));
    let mut command = kvikio();
    let (code, out, err) = outcome(command.args(["copy", &server.url("/x")]).arg(folder.path()));
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("copied 10 B"), "{out}");
    assert!(err.starts_with("KvikIO: Got HTTP code 503. Retrying after "), "{err}");
}

#[test]
fn no_secret_is_told_or_kept() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        Script::new().object("/x", bytes(LEN)).at(6, "/x", Fault::Status(404)).object("/y", bytes(1));
    let server = Server::start(script);
    let url = server.url("/x?X-Amz-Signature=planted&token=planted").replace("://", "://user:planted@");
    let mut seen = String::new();
    for command in
        [vec!["info", &url], vec!["info", "--json", &url], vec!["copy", &url, "to"], vec!["copy", "x", &url]]
    {
        let (_, out, err) = outcome(in_turn().args(command).current_dir(folder.path()));
        seen = format!("{seen}{out}{err}");
    }
    assert!(seen.contains("error: 404"), "{seen}");
    let record = fs::read_to_string(folder.path().join("to.kvikio-record")).unwrap();
    assert!(!seen.contains("planted") && !record.contains("planted"), "{seen}{record}");
}

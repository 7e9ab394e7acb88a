//! `kvikio copy`: whole or not at all.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use support::{bytes, kvikio, outcome};

fn copy(from: &Path, to: &Path) -> (i32, String, String) {
    outcome(kvikio().arg("copy").arg(from).arg(to))
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn bytes_and_permissions_arrive_at_every_size() {
    const PIECE: usize = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    for (len, mode) in [(0, 0o600), (1, 0o640), (4097, 0o755), (PIECE, 0o444), (2 * PIECE + 12_345, 0o644)] {
        let content = bytes(len);
        let _ = fs::remove_file(&from);
        fs::write(&from, &content).unwrap();
        fs::set_permissions(&from, Permissions::from_mode(mode)).unwrap();
        let (code, out, err) = copy(&from, &to);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.starts_with("copied "), "{out}");
        assert!(fs::read(&to).unwrap() == content, "{len} bytes differ");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o7777, mode);
        assert_eq!(entries(folder.path()), ["from", "to"]);
    }
}

#[test]
fn a_directory_takes_the_copy_under_its_own_name_and_sync_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    fs::write(&from, b"content").unwrap();
    fs::create_dir(folder.path().join("dir")).unwrap();
    let mut command = kvikio();
    let (code, _, err) = outcome(command.args(["copy", "--sync", "from", "dir"]).current_dir(folder.path()));
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(fs::read(folder.path().join("dir/from")).unwrap(), b"content");
    let mut command = kvikio();
    assert_eq!(outcome(command.args(["copy", "--sync", "from", "to"]).current_dir(folder.path())).0, 0);
}

#[test]
fn a_link_stays_a_link_to_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("from"), b"new").unwrap();
    fs::write(at("real"), b"old").unwrap();
    symlink("real", at("link")).unwrap();
    assert_eq!(copy(&at("from"), &at("link")).0, 0);
    assert!(at("link").is_symlink());
    assert_eq!(fs::read(at("real")).unwrap(), b"new");
}

#[test]
fn what_cannot_be_copied_is_refused_in_one_line_and_nothing_appears() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("from"), b"content").unwrap();
    fs::hard_link(at("from"), at("same")).unwrap();
    symlink("nothing", at("dangling")).unwrap();
    let before = entries(folder.path());
    for (from, to, words) in [
        (at("from"), at("from"), "is the source itself"),
        (at("from"), at("same"), "is the source itself"),
        (at("from"), folder.path().to_owned(), "is the source itself"),
        (at("missing"), at("to"), "No such file or directory"),
        (folder.path().to_owned(), at("to"), "Is a directory"),
        (at("from"), at("no/such/to"), "No such file or directory"),
        (at("from"), at("newdir/"), "no such directory"),
        (at("from"), at("dangling"), "a symbolic link to nothing"),
        (at("from"), "/dev/full".into(), "not a regular file"),
        ("/dev/zero".into(), at("to"), "not a regular file"),
        ("/proc/self/status".into(), at("to"), "changed its length"),
        (at("from"), "s3://bucket/key".into(), "remote objects are only read"),
        ("http://:x/".into(), at("to"), "cannot be used"),
    ] {
        let (code, out, err) = copy(&from, &to);
        assert_eq!((code, out.as_str()), (1, ""), "{from:?} {to:?}");
        assert!(err.starts_with("kvikio: ") && err.contains(words) && err.lines().count() == 1, "{err}");
        assert_eq!(entries(folder.path()), before, "{from:?} {to:?}");
    }
}

#[test]
fn a_copy_that_does_not_fit_leaves_nothing_behind_and_the_old_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, bytes(3 << 20)).unwrap();
    fs::write(&to, b"old").unwrap();
    // A limit on the size of files stands for a full disk; ignoring its signal makes it an error of the write.
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" copy from to";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_kvikio")]).current_dir(folder.path());
    let (code, out, err) = outcome(&mut command);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("/to bytes 0..3145728: File too large"), "{err}");
    assert_eq!(fs::read(&to).unwrap(), b"old");
    assert_eq!(entries(folder.path()), ["from", "to"]);
}
